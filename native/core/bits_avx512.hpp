#pragma once

#include "bits.hpp"

namespace s4 {

// The first multiple of 64 symbols of a block; returns how many it did.
std::size_t encode_bits_avx512(BitsCode code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                               BlockExceptions& exceptions) noexcept;
std::size_t decode_bits_avx512(BitsCode code, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
