#pragma once

#include "huffman.hpp"

namespace s4 {

// The twin of encode_huffman_stream_avx2. Decoding gains nothing from wider registers.
std::uint8_t* encode_huffman_stream_avx512(const HuffmanCode& code, const HuffmanEncodeTable& table,
                                           std::span<const std::uint8_t> symbols, std::size_t start, std::uint8_t* out,
                                           BlockExceptions& exceptions) noexcept;

}  // namespace s4
