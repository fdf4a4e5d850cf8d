#pragma once

#include <cstddef>
#include <cstdint>

namespace s4 {

void split_planes_avx2(const std::uint8_t* words, std::size_t n, std::size_t width, bool rotated,
                       std::uint8_t* planes) noexcept;

void join_planes_avx2(const std::uint8_t* planes, std::size_t n, std::size_t width, bool rotated,
                      std::uint8_t* words) noexcept;

}  // namespace s4
