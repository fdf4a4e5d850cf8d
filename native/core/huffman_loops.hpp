// Decoding a Huffman block, compiled once for each instruction set: shifts by a register are cheaper with BMI2.
#pragma once

#include <algorithm>

#include "huffman.hpp"

#ifndef S4_HUFFMAN_NAMESPACE
#error "define S4_HUFFMAN_NAMESPACE: each instruction set needs a namespace of its own"
#endif

namespace s4::S4_HUFFMAN_NAMESPACE {

// Lookups of 11 bits that a load of 64 bits at any bit of its first byte is enough for.
inline constexpr std::size_t kLookups = 5;
inline constexpr std::size_t kIndexMask = (std::size_t{1} << kMaxCodeBits) - 1;

struct Stream {
  const std::uint8_t* at;  // the byte that holds the next bit
  std::size_t bit;         // in that byte
  std::uint8_t* out;
  std::uint8_t* end;
};

// Streams that go on together, lookup by lookup: each lookup of one has to wait for its last one.
template <std::size_t kTogether>
inline void step(const HuffmanDecodeTable& table, std::array<Stream, kTogether>& streams) noexcept {
  std::array<std::uint64_t, kTogether> bits;
  std::array<std::uint64_t, kTogether> used;
  std::array<std::uint8_t*, kTogether> out;
  for (std::size_t j = 0; j < kTogether; ++j) {
    bits[j] = load64(streams[j].at) >> streams[j].bit;
    used[j] = streams[j].bit;
    out[j] = streams[j].out;
  }
#pragma GCC unroll 5
  for (std::size_t k = 0; k < kLookups; ++k) {
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kTogether; ++j) {
      const std::uint64_t entry = table.entries[bits[j] & (kIndexMask)];
      store64(out[j], entry);
      // The shift takes the low six bits: those of byte 6. Sums of five fit that byte.
      bits[j] >>= entry >> 48 & 63;
      used[j] += entry >> 48;
      out[j] += entry >> 56;
    }
  }
  for (std::size_t j = 0; j < kTogether; ++j) {
    streams[j].at += used[j] >> 3 & 31;
    streams[j].bit = used[j] & 7;
    streams[j].out = out[j];
  }
}

inline constexpr std::ptrdiff_t kStepRoom = kLookups * kMaxLookupSymbols + 2;

inline bool may_step(const Stream& stream, const std::uint8_t* last_load) noexcept {
  return stream.end - stream.out >= kStepRoom && stream.at <= last_load;
}

// The last symbols, one by one; limit: the first byte that must not be read.
inline void finish(const HuffmanDecodeTable& table, Stream& stream, const std::uint8_t* limit) noexcept {
  while (stream.out < stream.end) {
    std::uint64_t bits = 0;
    const auto left = static_cast<std::size_t>(std::max<std::ptrdiff_t>(limit - stream.at, 0));
    std::memcpy(&bits, stream.at, std::min<std::size_t>(left, 8));
    const std::uint64_t entry = table.entries[bits >> stream.bit & (kIndexMask)];
    const auto symbol = static_cast<std::uint8_t>(entry);
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
  if (last_load != nullptr) {
    while (may_step(all[0], last_load) && may_step(all[1], last_load) && may_step(all[2], last_load) &&
           may_step(all[3], last_load)) {
      step(table, all);
    }
  }
  for (std::size_t j = 0; j < kStreams; ++j) {
    std::array<Stream, 1> alone{all[j]};
    Stream& stream = alone[0];
    if (last_load != nullptr) {
      while (may_step(stream, last_load)) step(table, alone);
    }
    finish(table, stream, limit);
    const auto used = (stream.at - starts[j]) * 8 + static_cast<std::ptrdiff_t>(stream.bit);
    if (stream.out != stream.end || (used + 7) / 8 != static_cast<std::ptrdiff_t>(lengths[j])) {
      return PlaneError::kStream;
    }
  }
  return PlaneError::kNone;
}

}  // namespace s4::S4_HUFFMAN_NAMESPACE
