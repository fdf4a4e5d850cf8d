// The columns of a plane of few bits, for its vector loops: each is unrolled for its number of columns.
#pragma once

#include "bits.hpp"

namespace s4 {
// Every file has copies of its own: the linker must not take one that was compiled for AVX-512 to serve the others.
namespace {

struct BitColumn {
  std::uint8_t bit = 0;   // its value in a symbol
  std::size_t start = 0;  // of its run in the block's stored bytes
};

// The set bits of a mask, lowest first.
template <std::size_t kCount>
std::array<BitColumn, kCount> bit_columns(std::uint8_t mask, std::size_t m) noexcept {
  std::array<BitColumn, kCount> columns;
  std::size_t count = 0;
  for (std::size_t bit = 0; bit < 8 && count < kCount; ++bit) {
    if ((mask >> bit & 1) == 0) continue;
    columns[count] = {static_cast<std::uint8_t>(1U << bit), count * ((m + 7) / 8)};
    ++count;
  }
  return columns;
}

// A column's lines are asked for so many bytes before they are needed: a block's columns are too many, and too short,
// for the machine to see them coming.
template <std::size_t kCount>
void prefetch_columns(const std::array<BitColumn, kCount>& columns, const std::uint8_t* at) noexcept {
  constexpr std::size_t kAhead = 512;
  for (const BitColumn& column : columns) __builtin_prefetch(at + column.start + kAhead);
}

// Calls work<columns>() for a mask.
template <typename Work>
std::size_t for_columns(std::uint8_t mask, const Work& work) noexcept {
  switch (std::popcount(mask)) {
    case 0: return work.template operator()<0>();
    case 1: return work.template operator()<1>();
    case 2: return work.template operator()<2>();
    case 3: return work.template operator()<3>();
    case 4: return work.template operator()<4>();
    case 5: return work.template operator()<5>();
    case 6: return work.template operator()<6>();
    case 7: return work.template operator()<7>();
    default: return work.template operator()<8>();
  }
}

}  // namespace
}  // namespace s4
