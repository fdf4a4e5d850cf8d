#include "planes_avx2.hpp"

#define S4_PLANES_NAMESPACE avx2
#include "planes_loops.hpp"

namespace s4 {

void split_planes_avx2(const std::uint8_t* words, std::size_t n, std::size_t width, bool rotated,
                       std::uint8_t* planes) noexcept {
  rotated ? avx2::split_any<true>(words, n, width, planes) : avx2::split_any<false>(words, n, width, planes);
}

void join_planes_avx2(const std::uint8_t* planes, std::size_t n, std::size_t width, bool rotated,
                      std::uint8_t* words) noexcept {
  rotated ? avx2::join_any<true>(planes, n, width, words) : avx2::join_any<false>(planes, n, width, words);
}

}  // namespace s4
