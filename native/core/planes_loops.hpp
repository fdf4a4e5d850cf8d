// The loops of planes.cpp, compiled once for each instruction set: the compiler vectorises them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifndef S4_PLANES_NAMESPACE
#error "define S4_PLANES_NAMESPACE: each instruction set needs a namespace of its own"
#endif

static_assert(std::endian::native == std::endian::little, "words are loaded as they lie in the format");

namespace s4::S4_PLANES_NAMESPACE {

// Words of one block stay in the first-level cache while every plane is taken from them.
inline constexpr std::size_t kBlock = 1024;

template <typename Word, bool kRotated>
void split(const std::uint8_t* words, std::size_t n, std::uint8_t* planes) noexcept {
  alignas(64) Word block[kBlock];
  for (std::size_t start = 0; start < n; start += kBlock) {
    const std::size_t count = n - start < kBlock ? n - start : kBlock;
    std::memcpy(block, words + start * sizeof(Word), count * sizeof(Word));
    if constexpr (kRotated) {
      for (std::size_t i = 0; i < count; ++i) block[i] = std::rotl(block[i], 1);
    }
    for (std::size_t k = 0; k < sizeof(Word); ++k) {
      std::uint8_t* __restrict plane = planes + k * n + start;
      for (std::size_t i = 0; i < count; ++i) plane[i] = static_cast<std::uint8_t>(block[i] >> (8 * k));
    }
  }
}

template <typename Word, bool kRotated>
void join(const std::uint8_t* planes, std::size_t n, std::uint8_t* words) noexcept {
  alignas(64) Word block[kBlock];
  for (std::size_t start = 0; start < n; start += kBlock) {
    const std::size_t count = n - start < kBlock ? n - start : kBlock;
    for (std::size_t i = 0; i < count; ++i) block[i] = planes[start + i];
    for (std::size_t k = 1; k < sizeof(Word); ++k) {
      const std::uint8_t* __restrict plane = planes + k * n + start;
      for (std::size_t i = 0; i < count; ++i) {
        block[i] = static_cast<Word>(block[i] | static_cast<Word>(Word{plane[i]} << (8 * k)));
      }
    }
    if constexpr (kRotated) {
      for (std::size_t i = 0; i < count; ++i) block[i] = std::rotr(block[i], 1);
    }
    std::memcpy(words + start * sizeof(Word), block, count * sizeof(Word));
  }
}

template <bool kRotated>
void split_any(const std::uint8_t* words, std::size_t n, std::size_t width, std::uint8_t* planes) noexcept {
  switch (width) {
    case 2: return split<std::uint16_t, kRotated>(words, n, planes);
    case 4: return split<std::uint32_t, kRotated>(words, n, planes);
    case 8: return split<std::uint64_t, kRotated>(words, n, planes);
    default: return split<std::uint8_t, kRotated>(words, n, planes);
  }
}

template <bool kRotated>
void join_any(const std::uint8_t* planes, std::size_t n, std::size_t width, std::uint8_t* words) noexcept {
  switch (width) {
    case 2: return join<std::uint16_t, kRotated>(planes, n, words);
    case 4: return join<std::uint32_t, kRotated>(planes, n, words);
    case 8: return join<std::uint64_t, kRotated>(planes, n, words);
    default: return join<std::uint8_t, kRotated>(planes, n, words);
  }
}

}  // namespace s4::S4_PLANES_NAMESPACE
