// Planes of few bits, with exceptions. Source: docs/format.md, sections 3.2 and 5.3.
#pragma once

#include <bit>

#include "blocks.hpp"

namespace s4 {

// value: the bits that do not vary; value & mask is 0.
struct BitsCode {
  std::uint8_t mask = 0;
  std::uint8_t value = 0;

  std::size_t block_bytes(std::size_t m) const noexcept {
    return static_cast<std::size_t>(std::popcount(mask)) * ((m + 7) / 8);
  }
};

// The bits that vary in more than a 32nd of the histogram.
BitsCode make_bits_code(const Counts& counts) noexcept;

// out: code.block_bytes(symbols.size()). exceptions gets the symbols that have other bits.
void encode_bits_block(BitsCode code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                       BlockExceptions& exceptions) noexcept;

// stored: code.block_bytes(symbols.size()) bytes.
void decode_bits_block(BitsCode code, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
