#include "simd.hpp"

#include <atomic>

namespace s4 {
namespace {

Simd best() noexcept {
#if defined(__x86_64__)
  const bool vectors =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
  if (!vectors) return Simd::kScalar;
  const bool wide =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return wide ? Simd::kAvx512 : Simd::kAvx2;
#else
  return Simd::kScalar;
#endif
}

std::atomic<Simd>& chosen() noexcept {
  static std::atomic<Simd> value{best()};
  return value;
}

}  // namespace

Simd simd() noexcept { return chosen().load(std::memory_order_relaxed); }

Simd set_simd(Simd wanted) noexcept {
  chosen().store(wanted <= best() ? wanted : best(), std::memory_order_relaxed);
  return simd();
}

}  // namespace s4
