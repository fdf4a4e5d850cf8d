#include <algorithm>

#include "rans.hpp"
#include "simd.hpp"
#include "windows.hpp"
#if defined(__x86_64__)
#include "rans_avx2.hpp"
#include "rans_avx512.hpp"
#endif

namespace s4 {
namespace {

std::uint32_t quotient(std::uint64_t multiplier, std::uint32_t x) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint32_t>(Wide{multiplier} * x >> 64);
}

// Goes on from the states that what follows ended with. Words are put in front of `words`; returns the first one.
std::uint8_t* encode_words(const RansEncodeTable& table, std::span<const std::uint8_t> symbols, std::uint8_t* words,
                           std::array<std::uint32_t, kLanes>& states) noexcept {
  // A local copy: a store through `words` could alias the caller's array, and every state would be loaded again.
  std::array<std::uint32_t, kLanes> lanes = states;
  const std::size_t rows = (symbols.size() + kLanes - 1) / kLanes;
  const auto encode_row = [&](std::size_t row, std::size_t count) {
    const std::uint8_t* at = symbols.data() + row * kLanes;
    for (std::size_t lane = count; lane-- > 0;) {
      const RansEncodeEntry& entry = table.entries[at[lane]];
      std::uint32_t x = lanes[lane];
      const auto word = static_cast<std::uint16_t>(x);
      std::memcpy(words - 2, &word, 2);
      // x >= f << 20 would overflow for f = 4096.
      const auto emit = static_cast<std::uint32_t>(x >> 20 >= entry.frequency);
      words -= 2 * emit;
      x >>= 16 * emit;
      lanes[lane] = x + entry.bias + quotient(entry.multiplier, x) * entry.complement;
    }
  };
  encode_row(rows - 1, symbols.size() - (rows - 1) * kLanes);
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) {
    states = lanes;
    if (simd() >= Simd::kAvx512 && table.windowed) {
      return encode_rans_rows_avx512(table, symbols.data(), rows - 1, words, states);
    }
    return encode_rans_rows_avx2(table, symbols.data(), rows - 1, words, states);
  }
#endif
  for (std::size_t row = rows - 1; row-- > 0;) encode_row(row, kLanes);
  states = lanes;
  return words;
}

}  // namespace

void make_rans_encode_table(const Frequencies& frequencies, RansEncodeTable& table) noexcept {
  Counts counts;
  std::uint32_t start = 0;
  for (std::size_t s = 0; s < 256; ++s) {
    const std::uint32_t f = frequencies[s];
    counts[s] = f;
    RansEncodeEntry& entry = table.entries[s];
    entry = {0, f, kScale - f, start};
    table.shares[s] = f | start << 16;
    table.multipliers[s] = 0;
    if (f == 1) {
      entry.multiplier = UINT64_MAX;
      entry.bias = start + kScale - 1;
      // One less as well, and the quotient too: the vector encoder adds one wherever a rest is not below f.
      table.multipliers[s] = UINT32_MAX;
    } else if (f > 1) {
      entry.multiplier = UINT64_MAX / f + 1;
      table.multipliers[s] = static_cast<std::uint32_t>((std::uint64_t{1} << 32) / f);
    }
    start += f;
  }
  const Window window = best_window(counts, 32);
  table.windowed = window.mass == window.total;
  table.first = static_cast<std::uint8_t>(window.start);
}

std::size_t write_rans_table(const Frequencies& frequencies, std::uint8_t* out) noexcept {
  std::memset(out, 0, kPresentBytes);
  std::uint8_t* at = out + kPresentBytes;
  std::size_t symbols = 0;
  for (std::size_t s = 0; s < 256; ++s) {
    const std::uint32_t f = frequencies[s];
    if (f == 0) continue;
    out[s / 8] = static_cast<std::uint8_t>(out[s / 8] | 1U << s % 8);
    // Two take three bytes.
    if (symbols++ % 2 == 0) {
      store16(at, f);
      ++at;
    } else {
      store16(at, at[0] | f << 4);
      at += 2;
    }
  }
  return rans_table_bytes(symbols);
}

std::size_t encode_rans_chunk(const RansEncodeTable& table, std::span<const std::span<const std::uint8_t>> blocks,
                              std::uint8_t* out) noexcept {
  // Words grow downwards from the end of the room; then they are moved behind the states.
  std::size_t symbols = 0;
  for (const auto& block : blocks) symbols += block.size();
  std::uint8_t* end = out + rans_bound_bytes(symbols);
  std::array<std::uint32_t, kLanes> states;
  states.fill(kLowest);
  std::uint8_t* words = end;
  for (std::size_t k = blocks.size(); k-- > 0;) words = encode_words(table, blocks[k], words, states);
  const auto words_bytes = static_cast<std::size_t>(end - words);
  std::memcpy(out, states.data(), kStatesBytes);
  std::memmove(out + kStatesBytes, words, words_bytes);
  return kStatesBytes + words_bytes;
}

}  // namespace s4
