#define S4_HUFFMAN_NAMESPACE scalar
#include "huffman_loops.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "huffman_avx2.hpp"
#endif

namespace s4 {
namespace {

constexpr std::size_t kEntries = 1U << kMaxCodeBits;
constexpr std::uint64_t kSymbolBytes = 0x00FFFFFFFFFFFF00;

constexpr std::uint64_t make_entry(std::uint64_t symbols, std::uint64_t count, std::uint64_t bits) noexcept {
  return symbols | bits | count << 56;
}

inline std::size_t bits_of(std::uint64_t entry) noexcept { return entry & 0xFF; }
inline std::size_t count_of(std::uint64_t entry) noexcept { return entry >> 56; }

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
      const std::uint64_t rest_symbols = rest & kSymbolBytes;
      std::size_t count = count_of(rest) + 1;
      std::size_t used = bits_of(rest) + bits;
      if (count > kMaxLookupSymbols) {
        used -= table.lengths[rest >> (8 * kMaxLookupSymbols) & 0xFF];
        count = kMaxLookupSymbols;
      }
      to[i] = make_entry((rest_symbols << 8 & kSymbolBytes) | std::uint64_t{symbols[i]} << 8, count, used);
    }
  }
}

PlaneError decode_huffman_block(const HuffmanDecodeTable& table, std::span<const std::uint8_t> streams,
                                const std::array<std::size_t, kStreams>& lengths, std::size_t readable,
                                std::span<std::uint8_t> symbols) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return decode_huffman_block_avx2(table, streams, lengths, readable, symbols);
#endif
  return scalar::decode_block(table, streams, lengths, readable, symbols);
}

}  // namespace s4
