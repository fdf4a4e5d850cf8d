#include <algorithm>
#include <cstring>

#include "rans.hpp"

namespace s4 {
namespace {

// x / f by a multiplication: exact for every 32-bit x (Lemire, Kaser, Kurz 2019, arXiv:1902.01961). For f = 1 the
// multiplier would be 2^64: one less gives x - 1, and bias makes up for it.
struct EncodeEntry {
  std::uint64_t multiplier;
  std::uint32_t frequency;
  std::uint32_t complement;  // kScale - frequency
  std::uint32_t bias;
};

std::uint32_t quotient(std::uint64_t multiplier, std::uint32_t x) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint32_t>(Wide{multiplier} * x >> 64);
}

using EncodeTable = std::array<EncodeEntry, 256>;

void make_table(const Frequencies& frequencies, EncodeTable& table) noexcept {
  std::uint32_t start = 0;
  for (std::size_t s = 0; s < 256; ++s) {
    const std::uint32_t f = frequencies[s];
    EncodeEntry& entry = table[s];
    entry = {0, f, kScale - f, start};
    if (f == 1) {
      entry.multiplier = UINT64_MAX;
      entry.bias = start + kScale - 1;
    } else if (f > 1) {
      entry.multiplier = UINT64_MAX / f + 1;
    }
    start += f;
  }
}

// Words are put in front of `words`; returns the first one.
std::uint8_t* encode_chunk(const EncodeTable& table, std::span<const std::uint8_t> symbols, std::uint8_t* words,
                           std::array<std::uint32_t, kLanes>& states) noexcept {
  // A local copy: a store through `words` could alias the caller's array, and every state would be loaded again.
  std::array<std::uint32_t, kLanes> lanes;
  lanes.fill(kLowest);
  const std::size_t rows = (symbols.size() + kLanes - 1) / kLanes;
  const auto encode_row = [&](std::size_t row, std::size_t count) {
    const std::uint8_t* at = symbols.data() + row * kLanes;
    for (std::size_t lane = count; lane-- > 0;) {
      const EncodeEntry& entry = table[at[lane]];
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
  for (std::size_t row = rows - 1; row-- > 0;) encode_row(row, kLanes);
  states = lanes;
  return words;
}

}  // namespace

std::size_t rans_bound_bytes(std::size_t n) noexcept {
  // A symbol of frequency 1 costs 12 bits: at most one word, and two bytes that are written but not kept.
  const std::size_t chunks = (n + kChunkSymbols - 1) / kChunkSymbols;
  return kPresentBytes + 2 * 256 + chunks * (4 + kStatesBytes) + 2 * n + 2;
}

std::size_t rans_encode(std::span<const std::uint8_t> plane, const Frequencies& frequencies,
                        std::span<std::uint8_t> out) noexcept {
  EncodeTable table;
  make_table(frequencies, table);
  std::uint8_t* at = out.data();
  std::memset(at, 0, kPresentBytes);
  std::uint8_t* present = at;
  at += kPresentBytes;
  for (std::size_t s = 0; s < 256; ++s) {
    if (frequencies[s] == 0) continue;
    present[s / 8] = static_cast<std::uint8_t>(present[s / 8] | 1U << s % 8);
    std::memcpy(at, &frequencies[s], 2);
    at += 2;
  }
  const std::size_t chunks = (plane.size() + kChunkSymbols - 1) / kChunkSymbols;
  std::uint8_t* lengths = at;
  at += 4 * chunks;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t start = chunk * kChunkSymbols;
    const auto symbols = plane.subspan(start, std::min(kChunkSymbols, plane.size() - start));
    // Words grow downwards from the end of the room that is left; then they are moved behind the states.
    std::uint8_t* end = at + kStatesBytes + 2 * symbols.size() + 2;
    std::array<std::uint32_t, kLanes> states;
    const std::uint8_t* words = encode_chunk(table, symbols, end, states);
    const auto words_bytes = static_cast<std::size_t>(end - words);
    std::memcpy(at, states.data(), kStatesBytes);
    std::memmove(at + kStatesBytes, words, words_bytes);
    const auto length = static_cast<std::uint32_t>(kStatesBytes + words_bytes);
    std::memcpy(lengths + 4 * chunk, &length, 4);
    at += length;
  }
  return static_cast<std::size_t>(at - out.data());
}

}  // namespace s4
