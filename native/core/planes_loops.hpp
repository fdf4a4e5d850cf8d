// The loops of planes.cpp, compiled once for each instruction set: the compiler vectorises them.
#pragma once

#include <bit>
#include <cstring>

#include "base_loops.hpp"
#include "planes.hpp"

#ifndef S4_PLANES_NAMESPACE
#error "define S4_PLANES_NAMESPACE: each instruction set needs a namespace of its own"
#endif

static_assert(std::endian::native == std::endian::little, "words are loaded as they lie in the format");

namespace s4::S4_PLANES_NAMESPACE {

template <typename Word>
constexpr Word rotated_left(Word word, unsigned bits) noexcept {
  constexpr unsigned kBits = 8 * sizeof(Word);
  return static_cast<Word>(static_cast<Word>(word << bits) | static_cast<Word>(word >> (-bits & (kBits - 1))));
}

template <typename Word>
constexpr Word lifted(std::uint16_t top) noexcept {
  return static_cast<Word>(Word{top} << (8 * sizeof(Word) - 16));
}

template <typename Word>
void split(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
           const PlanePointers& planes) noexcept {
  alignas(64) Word tile[kTile];
  alignas(64) std::uint16_t predicted[kTile];
  for (std::size_t start = 0; start < n; start += kTile) {
    const std::size_t count = n - start < kTile ? n - start : kTile;
    std::memcpy(tile, words + start * sizeof(Word), count * sizeof(Word));
    auto rotation = static_cast<unsigned>(layout.rotation);
    if (needs_base(layout.base.predictor)) take_base(layout.base, first + start, count, tile);
    if constexpr (sizeof(Word) > 1) {
      if (layout.levels != nullptr) {
        layout.levels->get(first + start, count, predicted);
        for (std::size_t i = 0; i < count; ++i) {
          tile[i] = static_cast<Word>(rotated_left(tile[i], 1) - lifted<Word>(predicted[i]));
        }
        --rotation;
      }
    }
    if (rotation != 0) {
      for (std::size_t i = 0; i < count; ++i) tile[i] = rotated_left(tile[i], rotation);
    }
    for (std::size_t k = 0; k < sizeof(Word); ++k) {
      std::uint8_t* __restrict plane = planes[k] + start;
      for (std::size_t i = 0; i < count; ++i) plane[i] = static_cast<std::uint8_t>(tile[i] >> (8 * k));
    }
  }
}

// One tile: planes from start on, to words.
template <typename Word>
void join_tile(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t start,
               std::size_t count, Word* tile) noexcept {
  for (std::size_t i = 0; i < count; ++i) tile[i] = planes[0][start + i];
  for (std::size_t k = 1; k < sizeof(Word); ++k) {
    const std::uint8_t* __restrict plane = planes[k] + start;
    for (std::size_t i = 0; i < count; ++i) {
      tile[i] = static_cast<Word>(tile[i] | static_cast<Word>(Word{plane[i]} << (8 * k)));
    }
  }
  auto rotation = static_cast<unsigned>(layout.rotation);
  if constexpr (sizeof(Word) > 1) {
    if (layout.levels != nullptr) {
      alignas(64) std::uint16_t predicted[kTile];
      layout.levels->get(first + start, count, predicted);
      const unsigned back = 8 * sizeof(Word) - (rotation - 1);
      if (rotation > 1) {
        for (std::size_t i = 0; i < count; ++i) tile[i] = rotated_left(tile[i], back);
      }
      for (std::size_t i = 0; i < count; ++i) tile[i] = static_cast<Word>(tile[i] + lifted<Word>(predicted[i]));
      rotation = 1;
    }
  }
  if (rotation != 0) {
    const unsigned back = 8 * sizeof(Word) - rotation;
    for (std::size_t i = 0; i < count; ++i) tile[i] = rotated_left(tile[i], back);
  }
  if (needs_base(layout.base.predictor)) give_base(layout.base, first + start, count, tile);
}

template <typename Word>
void join(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
          std::uint8_t* words) noexcept {
  alignas(64) Word tile[kTile];
  for (std::size_t start = 0; start < n; start += kTile) {
    const std::size_t count = n - start < kTile ? n - start : kTile;
    join_tile<Word>(layout, planes, first, start, count, tile);
    std::memcpy(words + start * sizeof(Word), tile, count * sizeof(Word));
  }
}

template <typename Word>
bool equal(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
           const std::uint8_t* words) noexcept {
  alignas(64) Word tile[kTile];
  for (std::size_t start = 0; start < n; start += kTile) {
    const std::size_t count = n - start < kTile ? n - start : kTile;
    join_tile<Word>(layout, planes, first, start, count, tile);
    if (std::memcmp(words + start * sizeof(Word), tile, count * sizeof(Word)) != 0) return false;
  }
  return true;
}

inline void split_any(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
                      const PlanePointers& planes) noexcept {
  switch (layout.width) {
    case 2: return split<std::uint16_t>(layout, words, first, n, planes);
    case 4: return split<std::uint32_t>(layout, words, first, n, planes);
    case 8: return split<std::uint64_t>(layout, words, first, n, planes);
    default: return split<std::uint8_t>(layout, words, first, n, planes);
  }
}

inline void join_any(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                     std::uint8_t* words) noexcept {
  switch (layout.width) {
    case 2: return join<std::uint16_t>(layout, planes, first, n, words);
    case 4: return join<std::uint32_t>(layout, planes, first, n, words);
    case 8: return join<std::uint64_t>(layout, planes, first, n, words);
    default: return join<std::uint8_t>(layout, planes, first, n, words);
  }
}

inline bool equal_any(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                      const std::uint8_t* words) noexcept {
  switch (layout.width) {
    case 2: return equal<std::uint16_t>(layout, planes, first, n, words);
    case 4: return equal<std::uint32_t>(layout, planes, first, n, words);
    case 8: return equal<std::uint64_t>(layout, planes, first, n, words);
    default: return equal<std::uint8_t>(layout, planes, first, n, words);
  }
}

}  // namespace s4::S4_PLANES_NAMESPACE
