#include <algorithm>

#include "rans_rows.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "rans_avx2.hpp"
#endif

namespace s4 {

PlaneError read_rans_table(std::span<const std::uint8_t> stored, RansDecodeTable& table, std::size_t& used) noexcept {
  if (stored.size() < kPresentBytes) return PlaneError::kTruncated;
  std::size_t at = kPresentBytes;
  std::uint32_t start = 0;
  std::size_t symbols = 0;
  for (std::uint32_t s = 0; s < 256; ++s) {
    if ((stored[s / 8] >> s % 8 & 1) == 0) continue;
    if (stored.size() - at < 2) return PlaneError::kTruncated;
    const std::uint32_t f = stored[at] | static_cast<std::uint32_t>(stored[at + 1]) << 8;
    at += 2;
    if (f == 0 || f >= kScale || start + f > kScale) return PlaneError::kTable;
    for (std::uint32_t k = 0; k < f; ++k) table[start + k] = s | (f - 1) << 8 | k << 20;
    start += f;
    ++symbols;
  }
  used = at;
  return symbols >= 2 && start == kScale ? PlaneError::kNone : PlaneError::kTable;
}

PlaneError decode_rans_block(const RansDecodeTable& table, std::span<const std::uint8_t> stored,
                             std::span<std::uint8_t> symbols) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return decode_rans_block_avx2(table, stored, symbols);
#endif
  RansChunk state;
  if (const PlaneError error = open_chunk(stored, state); error != PlaneError::kNone) return error;
  for (std::size_t start = 0; start < symbols.size(); start += kLanes) {
    const std::size_t count = std::min(kLanes, symbols.size() - start);
    const PlaneError error = decode_row(table, state, symbols.data() + start, count);
    if (error != PlaneError::kNone) return error;
  }
  return close_chunk(state);
}

}  // namespace s4
