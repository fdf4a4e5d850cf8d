#include <algorithm>

#include "huffman.hpp"

namespace s4 {
namespace {

constexpr std::size_t kEntries = 1U << kMaxCodeBits;
constexpr std::uint64_t kSymbolBytes = 0x0000FFFFFFFFFFFF;
constexpr std::size_t kMaxSymbols = 6;
// Lookups of 11 bits that a load of 64 bits at any bit of its first byte is enough for.
constexpr std::size_t kLookups = 5;

constexpr std::uint64_t make_entry(std::uint64_t symbols, std::uint64_t count, std::uint64_t bits) noexcept {
  return symbols | bits << 48 | count << 56;
}

inline std::size_t bits_of(std::uint64_t entry) noexcept { return entry >> 48 & 0xFF; }
inline std::size_t count_of(std::uint64_t entry) noexcept { return entry >> 56; }

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
      const std::uint64_t entry = table.entries[bits[j] & (kEntries - 1)];
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

constexpr std::ptrdiff_t kStepRoom = kLookups * kMaxSymbols + 2;

inline bool may_step(const Stream& stream, const std::uint8_t* last_load) noexcept {
  return stream.end - stream.out >= kStepRoom && stream.at <= last_load;
}

// The last symbols, one by one; limit: the first byte that must not be read.
void finish(const HuffmanDecodeTable& table, Stream& stream, const std::uint8_t* limit) noexcept {
  while (stream.out < stream.end) {
    std::uint64_t bits = 0;
    const auto left = static_cast<std::size_t>(std::max<std::ptrdiff_t>(limit - stream.at, 0));
    std::memcpy(&bits, stream.at, std::min<std::size_t>(left, 8));
    const std::uint64_t entry = table.entries[bits >> stream.bit & (kEntries - 1)];
    const auto symbol = static_cast<std::uint8_t>(entry);
    *stream.out++ = symbol;
    stream.bit += table.lengths[symbol];
    stream.at += stream.bit >> 3;
    stream.bit &= 7;
    if (left == 0) return;
  }
}

}  // namespace

void make_huffman_table(const HuffmanCode& code, HuffmanDecodeTable& table) noexcept {
  // parts[b][i]: what can be decoded of the b bits i. The one of all 11 bits is the table.
  std::array<std::uint64_t, kEntries> parts;
  std::array<std::uint8_t, kEntries> symbols;
  std::array<std::uint8_t, kEntries> lengths;
  table.lengths.fill(0);
  for (std::size_t place = 0; place < code.count; ++place) {
    const std::size_t bits = code.lengths[place];
    if (bits == 0) continue;
    const auto symbol = static_cast<std::uint8_t>(code.first + place);
    table.lengths[symbol] = static_cast<std::uint8_t>(bits);
    for (std::size_t i = code.codes[place]; i < kEntries; i += std::size_t{1} << bits) {
      symbols[i] = symbol;
      lengths[i] = static_cast<std::uint8_t>(bits);
    }
  }
  // The parts of b bits lie at 2^b.
  parts[1] = 0;
  for (std::size_t b = 1; b <= kMaxCodeBits; ++b) {
    const std::size_t size = std::size_t{1} << b;
    std::uint64_t* to = b == kMaxCodeBits ? table.entries.data() : parts.data() + size;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t bits = lengths[i];
      if (bits > b) {
        to[i] = 0;
        continue;
      }
      const std::uint64_t rest = parts[(std::size_t{1} << (b - bits)) + (i >> bits)];
      std::uint64_t entry = symbols[i] | (rest & kSymbolBytes) << 8;
      std::size_t count = count_of(rest) + 1;
      std::size_t used = bits_of(rest) + bits;
      if (count > kMaxSymbols) {
        used -= table.lengths[rest >> (8 * (kMaxSymbols - 1)) & 0xFF];
        count = kMaxSymbols;
      }
      to[i] = make_entry(entry & kSymbolBytes, count, used);
    }
  }
}

PlaneError decode_huffman_block(const HuffmanDecodeTable& table, std::span<const std::uint8_t> streams,
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

}  // namespace s4
