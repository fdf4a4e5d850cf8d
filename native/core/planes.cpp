#include "planes.hpp"

#define S4_PLANES_NAMESPACE scalar
#include "planes_loops.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "planes_avx2.hpp"
#endif

namespace s4 {

void split_planes(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
                  const PlanePointers& planes) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return split_planes_avx2(layout, words, first, n, planes);
#endif
  scalar::split_any(layout, words, first, n, planes);
}

void join_planes(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                 std::uint8_t* words) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return join_planes_avx2(layout, planes, first, n, words);
#endif
  scalar::join_any(layout, planes, first, n, words);
}

bool planes_equal(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                  const std::uint8_t* words) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return planes_equal_avx2(layout, planes, first, n, words);
#endif
  return scalar::equal_any(layout, planes, first, n, words);
}

void narrow_words(const std::uint8_t* wide, std::size_t n, std::uint8_t* out) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return narrow_words_avx2(wide, n, out);
#endif
  scalar::narrow_all(wide, n, out);
}

}  // namespace s4
