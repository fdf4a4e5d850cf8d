#pragma once

#include "nibbles.hpp"

namespace s4 {

// Whole groups of 64; returns how many symbols it did.
std::size_t encode_nibbles_avx2(std::uint8_t first, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                                BlockExceptions& exceptions) noexcept;
std::size_t decode_nibbles_avx2(std::uint8_t first, const std::uint8_t* stored,
                                std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
