#include "planes.hpp"

#define S4_PLANES_NAMESPACE scalar
#include "planes_loops.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "planes_avx2.hpp"
#endif

namespace s4 {

void split_planes(std::span<const std::uint8_t> words, std::size_t width, bool rotated,
                  std::span<std::uint8_t> planes) noexcept {
  const std::size_t n = words.size() / width;
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return split_planes_avx2(words.data(), n, width, rotated, planes.data());
#endif
  rotated ? scalar::split_any<true>(words.data(), n, width, planes.data())
          : scalar::split_any<false>(words.data(), n, width, planes.data());
}

void join_planes(std::span<const std::uint8_t> planes, std::size_t width, bool rotated,
                 std::span<std::uint8_t> words) noexcept {
  const std::size_t n = words.size() / width;
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return join_planes_avx2(planes.data(), n, width, rotated, words.data());
#endif
  rotated ? scalar::join_any<true>(planes.data(), n, width, words.data())
          : scalar::join_any<false>(planes.data(), n, width, words.data());
}

}  // namespace s4
