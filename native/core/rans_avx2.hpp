#pragma once

#include "rans.hpp"

namespace s4 {

// The twin of decode_rans_block.
PlaneError decode_rans_block_avx2(const RansDecodeTable& table, std::span<const std::uint8_t> stored,
                                  std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
