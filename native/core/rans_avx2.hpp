#pragma once

#include "rans.hpp"

namespace s4 {

// The twin of rans_decode_chunk.
RansError rans_decode_chunk_avx2(const DecodeTable& table, std::span<const std::uint8_t> chunk,
                                 std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
