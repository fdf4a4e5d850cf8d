#include <algorithm>

#include "rans_rows.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "rans_avx2.hpp"
#endif

namespace s4 {

PlaneError read_rans_table(std::span<const std::uint8_t> stored, RansDecodeTable& table, std::size_t& used) noexcept {
  if (stored.size() < kPresentBytes) return PlaneError::kTruncated;
  std::uint32_t start = 0;
  std::size_t symbols = 0;
  for (std::uint32_t s = 0; s < 256; ++s) {
    if ((stored[s / 8] >> s % 8 & 1) == 0) continue;
    if (stored.size() < rans_table_bytes(symbols + 1)) return PlaneError::kTruncated;
    // The low or the high 12 bits of two that take three bytes.
    const std::uint32_t pair = load16(stored.data() + kPresentBytes + 3 * symbols / 2);
    const std::uint32_t f = symbols % 2 == 0 ? pair & (kScale - 1) : pair >> 4;
    if (f == 0 || start + f > kScale) return PlaneError::kTable;
    for (std::uint32_t k = 0; k < f; ++k) table[start + k] = s | (f - 1) << 8 | k << 20;
    start += f;
    ++symbols;
  }
  used = rans_table_bytes(symbols);
  return symbols >= 2 && start == kScale ? PlaneError::kNone : PlaneError::kTable;
}

PlaneError open_rans_chunk(std::span<const std::uint8_t> stored, RansChunk& chunk) noexcept {
  if (stored.size() < kStatesBytes) return PlaneError::kTruncated;
  std::memcpy(chunk.states.data(), stored.data(), kStatesBytes);
  for (const std::uint32_t x : chunk.states) {
    if (x < kLowest) return PlaneError::kState;
  }
  chunk.words = stored.data() + kStatesBytes;
  chunk.end = stored.data() + stored.size();
  return PlaneError::kNone;
}

PlaneError decode_rans_rows(const RansDecodeTable& table, RansChunk& chunk, std::span<std::uint8_t> symbols) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return decode_rans_rows_avx2(table, chunk, symbols);
#endif
  for (std::size_t start = 0; start < symbols.size(); start += kLanes) {
    const std::size_t count = std::min(kLanes, symbols.size() - start);
    const PlaneError error = decode_row(table, chunk, symbols.data() + start, count);
    if (error != PlaneError::kNone) return error;
  }
  return PlaneError::kNone;
}

PlaneError close_rans_chunk(const RansChunk& chunk) noexcept {
  if (chunk.words != chunk.end) return PlaneError::kWords;
  for (const std::uint32_t x : chunk.states) {
    if (x != kLowest) return PlaneError::kWords;
  }
  return PlaneError::kNone;
}

}  // namespace s4
