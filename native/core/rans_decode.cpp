#include <algorithm>
#include <cstring>

#include "rans_rows.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "rans_avx2.hpp"
#endif

namespace s4 {
namespace {

// Reads the frequency table at the front of stored and fills the decode table. used: bytes read.
RansError read_table(std::span<const std::uint8_t> stored, DecodeTable& table, std::size_t& used) noexcept {
  if (stored.size() < kPresentBytes) return RansError::kTruncated;
  std::size_t at = kPresentBytes;
  std::uint32_t start = 0;
  std::size_t symbols = 0;
  for (std::uint32_t s = 0; s < 256; ++s) {
    if ((stored[s / 8] >> s % 8 & 1) == 0) continue;
    if (stored.size() - at < 2) return RansError::kTruncated;
    const std::uint32_t f = stored[at] | static_cast<std::uint32_t>(stored[at + 1]) << 8;
    at += 2;
    if (f == 0 || f >= kScale || start + f > kScale) return RansError::kTable;
    for (std::uint32_t k = 0; k < f; ++k) table[start + k] = s | (f - 1) << 8 | k << 20;
    start += f;
    ++symbols;
  }
  used = at;
  return symbols >= 2 && start == kScale ? RansError::kNone : RansError::kTable;
}

RansError decode_chunk(const DecodeTable& table, std::span<const std::uint8_t> chunk,
                       std::span<std::uint8_t> symbols) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return rans_decode_chunk_avx2(table, chunk, symbols);
#endif
  return rans_decode_chunk(table, chunk, symbols);
}

}  // namespace

RansError rans_decode_chunk(const DecodeTable& table, std::span<const std::uint8_t> chunk,
                            std::span<std::uint8_t> symbols) noexcept {
  RansChunk state;
  if (const RansError error = open_chunk(chunk, state); error != RansError::kNone) return error;
  for (std::size_t start = 0; start < symbols.size(); start += kLanes) {
    const std::size_t count = std::min(kLanes, symbols.size() - start);
    const RansError error = decode_row(table, state, symbols.data() + start, count);
    if (error != RansError::kNone) return error;
  }
  return close_chunk(state);
}

RansError rans_decode(std::span<const std::uint8_t> stored, std::span<std::uint8_t> plane) noexcept {
  DecodeTable table;
  std::size_t at = 0;
  if (const RansError error = read_table(stored, table, at); error != RansError::kNone) return error;
  const std::size_t chunks = (plane.size() + kChunkSymbols - 1) / kChunkSymbols;
  if ((stored.size() - at) / 4 < chunks) return RansError::kTruncated;
  std::size_t next = at + 4 * chunks;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    std::uint32_t length;
    std::memcpy(&length, stored.data() + at + 4 * chunk, 4);
    if (length < kStatesBytes || length % 2 != 0 || length > stored.size() - next) return RansError::kLengths;
    const std::size_t start = chunk * kChunkSymbols;
    const RansError error = decode_chunk(table, stored.subspan(next, length),
                                         plane.subspan(start, std::min(kChunkSymbols, plane.size() - start)));
    if (error != RansError::kNone) return error;
    next += length;
  }
  return next == stored.size() ? RansError::kNone : RansError::kLengths;
}

}  // namespace s4
