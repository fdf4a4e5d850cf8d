#pragma once

#include "huffman.hpp"

namespace s4 {

// One stream; start: its position in its block. Returns the first byte behind it.
std::uint8_t* encode_huffman_stream_avx2(const HuffmanCode& code, const HuffmanEncodeTable& table,
                                         std::span<const std::uint8_t> symbols, std::size_t start, std::uint8_t* out,
                                         BlockExceptions& exceptions) noexcept;

// The twin of scalar::decode_block.
PlaneError decode_huffman_block_avx2(const HuffmanDecodeTable& table, std::span<const std::uint8_t> streams,
                                     const std::array<std::size_t, kStreams>& lengths, std::size_t readable,
                                     std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
