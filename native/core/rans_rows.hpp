// What the decoders of one chunk share: the careful row, for the last rows and for machines without AVX2.
#pragma once

#include "rans.hpp"

namespace s4 {
// Every file has copies of its own: the linker must not take one that was compiled for AVX2 to serve the others.
namespace {

// Decode up to 32 symbols, checking every refill.
inline PlaneError decode_row(const RansDecodeTable& table, RansChunk& state, std::uint8_t* symbols,
                             std::size_t count) noexcept {
  for (std::size_t lane = 0; lane < count; ++lane) {
    std::uint32_t x = state.states[lane];
    const std::uint32_t entry = table[x & (kScale - 1)];
    symbols[lane] = static_cast<std::uint8_t>(entry);
    x = ((entry >> 8 & 0xFFF) + 1) * (x >> kScaleBits) + (entry >> 20);
    if (x < kLowest) {
      if (state.end - state.words < 2) return PlaneError::kTruncated;
      x = x << 16 | load16(state.words);
      state.words += 2;
    }
    state.states[lane] = x;
  }
  return PlaneError::kNone;
}

}  // namespace
}  // namespace s4
