#include "simd.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>

namespace s4 {
namespace {

#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows it.
bool has_lzcnt() noexcept {
  unsigned eax;
  unsigned ebx;
  unsigned ecx;
  unsigned edx;
  return __get_cpuid(0x80000001U, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_LZCNT) != 0;
}
#endif

Simd best() noexcept {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2") || !has_lzcnt()) return Simd::kScalar;
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
