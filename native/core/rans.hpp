// rANS over bytes: 32 lanes, 32-bit states, 16-bit refill, 12-bit probabilities. Source: docs/format.md, sections 4
// and 5.5.
#pragma once

#include "blocks.hpp"

namespace s4 {

inline constexpr std::size_t kLanes = 32;
inline constexpr std::uint32_t kScaleBits = 12;
inline constexpr std::uint32_t kScale = 1U << kScaleBits;
inline constexpr std::uint32_t kLowest = 1U << 16;  // states are at least this between symbols
inline constexpr std::size_t kStatesBytes = kLanes * 4;
inline constexpr std::size_t kPresentBytes = 32;
// States are stored once a chunk.
inline constexpr std::size_t kChunkBlocks = 2;
inline constexpr std::size_t kChunkSymbols = kChunkBlocks * kBlockSymbols;

using Frequencies = std::array<std::uint16_t, 256>;

// Frequencies that sum to kScale; symbols that occur have at least one. At least two symbols must occur.
void normalise(const Counts& counts, std::size_t total, Frequencies& frequencies) noexcept;

// The stored bytes that a plane of n needs, from the histogram of a sample of it; the same integers in every engine.
// n where only one symbol occurs.
std::uint64_t rans_estimate_bytes(const Counts& counts, std::size_t n) noexcept;

// What makes up for the promises of a small sample. Source: docs/format.md, section 5.5.
std::uint64_t sample_penalty_bytes(std::size_t symbols, std::size_t n, std::size_t total) noexcept;

constexpr std::size_t count_chunks(std::size_t n) noexcept { return (n + kChunkSymbols - 1) / kChunkSymbols; }

// What one chunk may need at most.
constexpr std::size_t rans_bound_bytes(std::size_t m) noexcept {
  // A symbol of frequency 1 costs 12 bits: at most one word, and two bytes that are written but not kept.
  return kStatesBytes + 2 * m + kSlack;
}

// x / f by a multiplication: exact for every 32-bit x (Lemire, Kaser, Kurz 2019, arXiv:1902.01961). For f = 1 the
// multiplier would be 2^64: one less gives x - 1, and bias makes up for it.
struct RansEncodeEntry {
  std::uint64_t multiplier;
  std::uint32_t frequency;
  std::uint32_t complement;  // kScale - frequency
  std::uint32_t bias;
};

struct RansEncodeTable {
  std::array<RansEncodeEntry, 256> entries;
  // What the vector encoder looks up: f | start << 16, and 2^32 div f. windowed: all symbols lie in the 32 places from
  // first on, so that registers can hold them.
  std::array<std::uint32_t, 256> shares;
  std::array<std::uint32_t, 256> multipliers;
  bool windowed;
  std::uint8_t first;
};

void make_rans_encode_table(const Frequencies& frequencies, RansEncodeTable& table) noexcept;

// Of the table of so many symbols that occur.
constexpr std::size_t rans_table_bytes(std::size_t symbols) noexcept { return kPresentBytes + (3 * symbols + 1) / 2; }

// Present bits and frequencies of 12 bits; returns their bytes.
std::size_t write_rans_table(const Frequencies& frequencies, std::uint8_t* out) noexcept;

// States and words of one chunk, given as its blocks: all but the last are whole. out: rans_bound_bytes of all symbols.
// Returns the bytes used.
std::size_t encode_rans_chunk(const RansEncodeTable& table, std::span<const std::span<const std::uint8_t>> blocks,
                              std::uint8_t* out) noexcept;

// One entry a slot: symbol | (frequency - 1) << 8 | (slot - start) << 20.
using RansDecodeTable = std::array<std::uint32_t, kScale>;

// From untrusted bytes. used: the bytes of the table.
PlaneError read_rans_table(std::span<const std::uint8_t> stored, RansDecodeTable& table, std::size_t& used) noexcept;

// Where a decoder stands in a chunk.
struct RansChunk {
  std::array<std::uint32_t, kLanes> states;
  const std::uint8_t* words;
  const std::uint8_t* end;
};

// stored: of untrusted bytes, the whole chunk.
PlaneError open_rans_chunk(std::span<const std::uint8_t> stored, RansChunk& chunk) noexcept;

// Its next symbols: whole rows, but at its end.
PlaneError decode_rans_rows(const RansDecodeTable& table, RansChunk& chunk, std::span<std::uint8_t> symbols) noexcept;

// Whether it ends where the encoder began.
PlaneError close_rans_chunk(const RansChunk& chunk) noexcept;

}  // namespace s4
