// Elements to byte planes and back, with their rotation and prediction. Source: docs/format.md, sections 2.2 and 2.3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "bases.hpp"
#include "levels.hpp"

namespace s4 {

inline constexpr std::size_t kMaxPlanes = 8;

// width: 1, 2, 4 or 8 bytes an element. rotation: bits, to the left; at least 1 where levels are predicted.
struct PlaneLayout {
  std::size_t width;
  std::size_t rotation;
  const Prediction* levels = nullptr;  // not together with a base
  BasePrediction base{};
};

using PlanePointers = std::array<std::uint8_t*, kMaxPlanes>;
using ConstPlanePointers = std::array<const std::uint8_t*, kMaxPlanes>;

// words: elements first to first + n of a frame. planes: n bytes each.
void split_planes(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
                  const PlanePointers& planes) noexcept;

// The exact inverse of split_planes.
void join_planes(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                 std::uint8_t* words) noexcept;

// Whether join_planes would give just these words.
bool planes_equal(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                  const std::uint8_t* words) noexcept;

// narrow() of n elements of four bytes.
void narrow_words(const std::uint8_t* wide, std::size_t n, std::uint8_t* out) noexcept;

}  // namespace s4
