#pragma once

#include "planes.hpp"

namespace s4 {

// The twins of split_planes, join_planes, planes_equal and narrow_words.
void split_planes_avx2(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
                       const PlanePointers& planes) noexcept;
void join_planes_avx2(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                      std::uint8_t* words) noexcept;
bool planes_equal_avx2(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                       const std::uint8_t* words) noexcept;
void narrow_words_avx2(const std::uint8_t* wide, std::size_t n, std::uint8_t* out) noexcept;

}  // namespace s4
