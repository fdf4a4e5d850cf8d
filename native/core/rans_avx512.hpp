#pragma once

#include "rans.hpp"

namespace s4 {

// The twin of encode_rans_rows_avx2, for windowed tables only. Decoding gains nothing from wider registers: its time
// goes into looking up entries one by one.
std::uint8_t* encode_rans_rows_avx512(const RansEncodeTable& table, const std::uint8_t* symbols, std::size_t rows,
                                      std::uint8_t* words, std::array<std::uint32_t, kLanes>& states) noexcept;

}  // namespace s4
