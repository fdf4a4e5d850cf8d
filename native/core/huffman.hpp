// Huffman codes of at most 11 bits, four streams a block. Source: docs/format.md, sections 3.3 and 5.4.
#pragma once

#include "blocks.hpp"

namespace s4 {

inline constexpr std::size_t kMaxCodeBits = 11;
inline constexpr std::size_t kWindow = 32;  // symbols that the vector encoder looks up
inline constexpr std::size_t kStreams = 4;
inline constexpr std::size_t kHuffmanBlockEntry = 2 * kStreams + 2;

struct HuffmanCode {
  std::uint8_t first = 0;
  std::size_t count = 0;                    // places in the table
  std::array<std::uint8_t, 256> lengths{};  // by place; 0: no code
  std::array<std::uint16_t, 256> codes{};   // by place; the first bit of the code is bit 0
  std::size_t shortest = 0;                 // the place that stands for exceptions

  std::size_t stored_bytes() const noexcept { return 2 + (count + 1) / 2; }
};

// Lengths and codes for a histogram; false where it has fewer than two symbols for a code.
bool make_huffman_code(const Counts& counts, HuffmanCode& code) noexcept;

// The code's parameters as stored; code.stored_bytes() bytes.
void write_huffman_code(const HuffmanCode& code, std::uint8_t* out) noexcept;

// The code from untrusted parameters; kNone only where it is complete.
PlaneError read_huffman_code(std::span<const std::uint8_t> stored, HuffmanCode& code) noexcept;

// Symbols of the streams of a block of m.
constexpr std::size_t stream_symbols(std::size_t m) noexcept { return (m + 127) / 128 * 32; }

// Room that a block of m symbols needs at most.
constexpr std::size_t huffman_bound_bytes(std::size_t m) noexcept { return m * kMaxCodeBits / 8 + kStreams + kSlack; }

// By symbol: its code in the low bits, the code's length in the top byte; of one without a code those that stand for
// exceptions.
using HuffmanEncodeTable = std::array<std::uint32_t, 256>;
inline constexpr std::uint32_t kCodeMask = (1U << kMaxCodeBits) - 1;
inline constexpr unsigned kLengthShift = 24;
inline constexpr std::uint32_t kNoCode = 1U << 15;

// Code one block; exceptions gets what has no code. lengths: stored bytes of the streams. Returns their sum.
std::size_t encode_huffman_block(const HuffmanCode& code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                                 std::array<std::size_t, kStreams>& lengths, BlockExceptions& exceptions) noexcept;

inline constexpr std::size_t kMaxLookupSymbols = 6;

// An entry for each 11 bits to come: in the lowest byte, which a shift takes as it is, the bits of up to six symbols;
// then they themselves; in the top byte their number.
struct HuffmanDecodeTable {
  std::array<std::uint64_t, 1U << kMaxCodeBits> entries;
  std::array<std::uint8_t, 256> lengths;  // by symbol
};

void make_huffman_table(const HuffmanCode& code, HuffmanDecodeTable& table) noexcept;

// streams: the stored bytes of the four streams, one after another. readable: bytes from streams' start that may be
// read (not less than streams.size()).
PlaneError decode_huffman_block(const HuffmanDecodeTable& table, std::span<const std::uint8_t> streams,
                                const std::array<std::size_t, kStreams>& lengths, std::size_t readable,
                                std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
