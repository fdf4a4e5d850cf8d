#pragma once

#include "rans.hpp"

namespace s4 {

// The twin of decode_rans_rows.
PlaneError decode_rans_rows_avx2(const RansDecodeTable& table, RansChunk& chunk,
                                 std::span<std::uint8_t> symbols) noexcept;

// Puts the words of whole rows in front of `words`, from the last row on; the twin of the loop in rans_encode.cpp.
std::uint8_t* encode_rans_rows_avx2(const RansEncodeTable& table, const std::uint8_t* symbols, std::size_t rows,
                                    std::uint8_t* words, std::array<std::uint32_t, kLanes>& states) noexcept;

}  // namespace s4
