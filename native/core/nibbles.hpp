// Codes of four bits over a window of sixteen values, with exceptions. Source: docs/format.md, sections 3.4 and 5.3.
#pragma once

#include "blocks.hpp"

namespace s4 {

inline constexpr std::size_t kNibbleWindow = 16;
inline constexpr std::size_t kNibbleGroup = 64;

constexpr std::size_t nibble_block_bytes(std::size_t m) noexcept { return (m + kNibbleGroup - 1) / kNibbleGroup * 32; }

// The start of the window of sixteen values with the greatest mass. outside: the mass of all others.
std::uint8_t make_nibble_code(const Counts& counts, std::uint64_t& outside) noexcept;

// out: nibble_block_bytes(symbols.size()).
void encode_nibble_block(std::uint8_t first, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                         BlockExceptions& exceptions) noexcept;

void decode_nibble_block(std::uint8_t first, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
