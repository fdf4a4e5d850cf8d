// Elements and those of their base: a part of planes_loops.hpp, which says how it is compiled.
#pragma once

#include <cstring>

#include "bases.hpp"

#ifndef S4_PLANES_NAMESPACE
#error "define S4_PLANES_NAMESPACE: each instruction set needs a namespace of its own"
#endif

namespace s4::S4_PLANES_NAMESPACE {

// Words of one tile stay in the first-level cache while every plane is taken from them.
inline constexpr std::size_t kTile = 1024;

// fp32 to bf16: to the nearest, ties to even; of what is no number the bits are rounded all the same.
constexpr std::uint16_t narrow(std::uint32_t b) noexcept {
  return static_cast<std::uint16_t>((b + 32767 + (b >> 16 & 1)) >> 16);
}

// What an fp32 element is subtracted from: the least that rounds to this bf16.
constexpr std::uint32_t widen(std::uint16_t b) noexcept { return (std::uint32_t{b} << 16) - 32768; }

template <typename Word>
inline constexpr Word kTopBit = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));

// Bits of a float as an integer that ascends as the values do, and back.
template <typename Word>
constexpr Word order(Word x) noexcept {
  return static_cast<Word>(x ^ (x >> (8 * sizeof(Word) - 1) != 0 ? static_cast<Word>(~Word{0}) : kTopBit<Word>));
}

template <typename Word>
constexpr Word unorder(Word y) noexcept {
  return static_cast<Word>(y ^ (y >> (8 * sizeof(Word) - 1) != 0 ? kTopBit<Word> : static_cast<Word>(~Word{0})));
}

// Small differences, of both signs, as small numbers, and back.
template <typename Word>
constexpr Word zigzag(Word d) noexcept {
  return static_cast<Word>(static_cast<Word>(d << 1) ^ static_cast<Word>(0U - (d >> (8 * sizeof(Word) - 1))));
}

template <typename Word>
constexpr Word unzigzag(Word z) noexcept {
  return static_cast<Word>(static_cast<Word>(z >> 1) ^ static_cast<Word>(0U - (z & 1U)));
}

// n elements of a base of another width.
inline void narrow_all(const std::uint8_t* wide, std::size_t n, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t word;
    std::memcpy(&word, wide + 4 * i, 4);
    const std::uint16_t narrowed = narrow(word);
    std::memcpy(out + 2 * i, &narrowed, 2);
  }
}

inline void widen_all(const std::uint8_t* words, std::size_t n, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t word;
    std::memcpy(&word, words + 2 * i, 2);
    const std::uint32_t widened = widen(word);
    std::memcpy(out + 4 * i, &widened, 4);
  }
}

// What the base has for elements first to first + count: themselves, or rounded to the frame's width.
template <typename Word>
void load_base(const BasePrediction& base, std::size_t first, std::size_t count, Word* out) noexcept {
  const std::uint8_t* from = base.elements + first * base_width(base.predictor, sizeof(Word));
  auto* to = reinterpret_cast<std::uint8_t*>(out);
  if constexpr (sizeof(Word) == 2) {
    if (base.predictor == Predictor::kNarrowed) return narrow_all(from, count, to);
  }
  if constexpr (sizeof(Word) == 4) {
    if (base.predictor == Predictor::kWidened) return widen_all(from, count, to);
  }
  std::memcpy(to, from, count * sizeof(Word));
}

// What is left of a tile's elements, given those of the base.
template <typename Word>
void take_base(const BasePrediction& base, std::size_t first, std::size_t count, Word* tile) noexcept {
  alignas(64) Word predicted[kTile];
  load_base(base, first, count, predicted);
  if (base.predictor == Predictor::kWidened) {
    for (std::size_t i = 0; i < count; ++i) tile[i] = static_cast<Word>(tile[i] - predicted[i]);
  } else if (base.predictor != Predictor::kDifference) {
    for (std::size_t i = 0; i < count; ++i) tile[i] = static_cast<Word>(tile[i] ^ predicted[i]);
  } else if (base.floats) {
    for (std::size_t i = 0; i < count; ++i) {
      tile[i] = zigzag(static_cast<Word>(order(tile[i]) - order(predicted[i])));
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) tile[i] = zigzag(static_cast<Word>(tile[i] - predicted[i]));
  }
}

// The exact inverse of take_base.
template <typename Word>
void give_base(const BasePrediction& base, std::size_t first, std::size_t count, Word* tile) noexcept {
  alignas(64) Word predicted[kTile];
  load_base(base, first, count, predicted);
  if (base.predictor == Predictor::kWidened) {
    for (std::size_t i = 0; i < count; ++i) tile[i] = static_cast<Word>(tile[i] + predicted[i]);
  } else if (base.predictor != Predictor::kDifference) {
    for (std::size_t i = 0; i < count; ++i) tile[i] = static_cast<Word>(tile[i] ^ predicted[i]);
  } else if (base.floats) {
    for (std::size_t i = 0; i < count; ++i) {
      tile[i] = unorder(static_cast<Word>(unzigzag(tile[i]) + order(predicted[i])));
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) tile[i] = static_cast<Word>(unzigzag(tile[i]) + predicted[i]);
  }
}

}  // namespace s4::S4_PLANES_NAMESPACE
