// Decoding a Huffman block, compiled once for each instruction set: shifts by a register are cheaper with BMI2.
#pragma once

#include <algorithm>
#include <bit>

#include "huffman.hpp"

#ifndef S4_HUFFMAN_NAMESPACE
#error "define S4_HUFFMAN_NAMESPACE: each instruction set needs a namespace of its own"
#endif

namespace s4::S4_HUFFMAN_NAMESPACE {

// Lookups of 11 bits that a load of 64 bits at any bit of its first byte is enough for.
inline constexpr std::ptrdiff_t kLookups = 5;
inline constexpr std::size_t kIndexMask = (std::size_t{1} << kMaxCodeBits) - 1;
// What a step of so many lookups takes and gives at most.
inline constexpr std::ptrdiff_t kStepBytes = 7;
inline constexpr std::ptrdiff_t kStepSymbols = kLookups * kMaxLookupSymbols;
// How far a lookup's store reaches behind its symbols.
inline constexpr std::ptrdiff_t kStoreOver = 8 - kMaxLookupSymbols;

// Stored bytes of a stream that are asked for before they are needed.
inline constexpr std::size_t kAhead = 512;

struct Stream {
  const std::uint8_t* at;  // the byte that holds the next bit
  std::size_t bit;         // in that byte
  std::uint8_t* out;
  std::uint8_t* end;
};

// Steps that surely stay within the stream's symbols and before last_load, where the last load of 8 bytes may begin.
inline std::ptrdiff_t safe_steps(const Stream& stream, const std::uint8_t* last_load) noexcept {
  return std::min((stream.end - stream.out - kStoreOver) / kStepSymbols, (last_load - stream.at) / kStepBytes);
}

// The bits to come, lowest first, below a one that moves down with every bit that is taken: the zeros above it are the
// bits taken since the byte at.
inline std::uint64_t refill(const std::uint8_t* at, std::size_t bit) noexcept {
  return (load64(at) | std::uint64_t{1} << 63) >> bit;
}

// Streams that go on together, lookup by lookup: each lookup of one has to wait for its last one.
template <std::size_t kTogether>
inline void run_steps(const HuffmanDecodeTable& table, Stream* streams, std::ptrdiff_t steps) noexcept {
  std::array<const std::uint8_t*, kTogether> at;
  std::array<std::uint64_t, kTogether> bits;
  std::array<std::uint8_t*, kTogether> out;
  for (std::size_t j = 0; j < kTogether; ++j) {
    at[j] = streams[j].at;
    bits[j] = refill(at[j], streams[j].bit);
    out[j] = streams[j].out;
  }
  for (; steps > 0; --steps) {
#pragma GCC unroll 5
    for (std::ptrdiff_t k = 0; k < kLookups; ++k) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kTogether; ++j) {
        const std::uint64_t entry = table.entries[bits[j] & kIndexMask];
        bits[j] >>= entry & 63;
        store64(out[j], entry >> 8);
        out[j] += entry >> 56;
      }
    }
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kTogether; ++j) {
      const auto taken = static_cast<std::size_t>(std::countl_zero(bits[j]));
      at[j] += taken >> 3;
      bits[j] = refill(at[j], taken & 7);
      __builtin_prefetch(at[j] + kAhead);
    }
  }
  for (std::size_t j = 0; j < kTogether; ++j) {
    streams[j].at = at[j];
    streams[j].bit = static_cast<std::size_t>(std::countl_zero(bits[j]));
    streams[j].out = out[j];
  }
}

// All steps that are safe: after those that surely are, most of the rest are too.
template <std::size_t kTogether>
inline void run_safe(const HuffmanDecodeTable& table, Stream* streams, const std::uint8_t* last_load) noexcept {
  for (;;) {
    std::ptrdiff_t steps = safe_steps(streams[0], last_load);
    for (std::size_t j = 1; j < kTogether; ++j) steps = std::min(steps, safe_steps(streams[j], last_load));
    if (steps <= 0) return;
    run_steps<kTogether>(table, streams, steps);
  }
}

// The last symbols, one by one; limit: the first byte that must not be read.
inline void finish(const HuffmanDecodeTable& table, Stream& stream, const std::uint8_t* limit) noexcept {
  while (stream.out < stream.end) {
    std::uint64_t bits = 0;
    const auto left = static_cast<std::size_t>(std::max<std::ptrdiff_t>(limit - stream.at, 0));
    if (left >= 8) {
      bits = load64(stream.at);
    } else {
      std::memcpy(&bits, stream.at, left);
    }
    const auto symbol = static_cast<std::uint8_t>(table.entries[bits >> stream.bit & kIndexMask] >> 8);
    *stream.out++ = symbol;
    stream.bit += table.lengths[symbol];
    stream.at += stream.bit >> 3;
    stream.bit &= 7;
    if (left == 0) return;
  }
}

inline PlaneError decode_block(const HuffmanDecodeTable& table, std::span<const std::uint8_t> streams,
                               const std::array<std::size_t, kStreams>& lengths, std::size_t readable,
                               std::span<std::uint8_t> symbols) noexcept {
  const std::size_t q = stream_symbols(symbols.size());
  const std::uint8_t* limit = streams.data() + readable;
  const std::uint8_t* last_load = readable >= 8 ? limit - 8 : nullptr;
  std::array<Stream, kStreams> all;
  std::array<const std::uint8_t*, kStreams + 1> starts;
  starts[0] = streams.data();
  for (std::size_t j = 0; j < kStreams; ++j) {
    starts[j + 1] = starts[j] + lengths[j];
    all[j] = {starts[j], 0, symbols.data() + std::min(j * q, symbols.size()),
              symbols.data() + std::min((j + 1) * q, symbols.size())};
  }
  if (last_load != nullptr) run_safe<kStreams>(table, all.data(), last_load);
  for (std::size_t j = 0; j < kStreams; ++j) {
    Stream& stream = all[j];
    if (last_load != nullptr) run_safe<1>(table, &stream, last_load);
    finish(table, stream, limit);
    const auto used = (stream.at - starts[j]) * 8 + static_cast<std::ptrdiff_t>(stream.bit);
    if (stream.out != stream.end || (used + 7) / 8 != static_cast<std::ptrdiff_t>(lengths[j])) {
      return PlaneError::kStream;
    }
  }
  return PlaneError::kNone;
}

}  // namespace s4::S4_HUFFMAN_NAMESPACE
