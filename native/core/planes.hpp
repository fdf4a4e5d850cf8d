// Byte planes of fixed-width words. Source: docs/format.md, section 2.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace s4 {

// words: n * width bytes, width 1, 2, 4 or 8. planes: as many bytes; plane k at k * n. rotated: each word is
// first rotated left by one bit.
void split_planes(std::span<const std::uint8_t> words, std::size_t width, bool rotated,
                  std::span<std::uint8_t> planes) noexcept;

// The exact inverse of split_planes.
void join_planes(std::span<const std::uint8_t> planes, std::size_t width, bool rotated,
                 std::span<std::uint8_t> words) noexcept;

}  // namespace s4
