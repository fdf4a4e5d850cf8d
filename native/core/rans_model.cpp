// Frequencies and the size estimate: integers only, so that every engine agrees to the bit.
#include <bit>
#include <cstring>

#include "rans.hpp"

namespace s4 {
namespace {

// log2(x) in 1/256 bits, rounded down: the fraction by squaring, bit by bit. With 32 bits instead of 64, one x in 2^24
// (14,812,507) would be rounded wrongly.
std::uint32_t log2_q8(std::uint32_t x) noexcept {
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(x)) - 1;
  __extension__ using Wide = unsigned __int128;
  Wide mantissa = Wide{x} << (63 - exponent);  // in [2^63, 2^64)
  std::uint32_t fraction = 0;
  for (int bit = 0; bit < 8; ++bit) {
    mantissa = mantissa * mantissa >> 63;
    fraction <<= 1;
    if (mantissa >> 64) {
      fraction |= 1;
      mantissa >>= 1;
    }
  }
  return exponent << 8 | fraction;
}

// Of 0 to 16,384, which every usual sample stays below; 0 for 0.
constexpr std::uint32_t kLogs = 1U << 14;
using Log2Table = std::array<std::uint16_t, kLogs + 1>;

const Log2Table kLog2 = [] {
  Log2Table made{};
  for (std::uint32_t i = 1; i <= kLogs; ++i) made[i] = static_cast<std::uint16_t>(log2_q8(i));
  return made;
}();

std::uint32_t log2_of(std::uint32_t x) noexcept { return x <= kLogs ? kLog2[x] : log2_q8(x); }

std::size_t greatest(const Frequencies& frequencies) noexcept {
  std::size_t best = 0;
  for (std::size_t s = 1; s < 256; ++s) {
    if (frequencies[s] > frequencies[best]) best = s;
  }
  return best;
}

}  // namespace

void normalise(const Counts& counts, std::size_t total, Frequencies& frequencies) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t s = 0; s < 256; ++s) {
    std::uint64_t f = 0;
    if (counts[s] != 0) {
      f = (std::uint64_t{counts[s]} * kScale + total / 2) / total;
      if (f == 0) f = 1;
    }
    frequencies[s] = static_cast<std::uint16_t>(f);
    sum += frequencies[s];
  }
  for (; sum > kScale; --sum) --frequencies[greatest(frequencies)];
  for (; sum < kScale; ++sum) ++frequencies[greatest(frequencies)];
}

std::uint64_t sample_penalty_bytes(std::size_t symbols, std::size_t n, std::size_t total) noexcept {
  return total == n ? 0 : (symbols - 1) * n * 92 / (1024 * total);
}

std::uint64_t rans_estimate_bytes(const Counts& counts, std::size_t n) noexcept {
  std::uint64_t total = 0;
  std::uint64_t symbols = 0;
  for (const std::uint32_t count : counts) {
    total += count;
    symbols += count != 0;
  }
  if (symbols < 2) return n;
  const std::uint32_t log2_total = log2_of(static_cast<std::uint32_t>(total));
  std::uint64_t bits_q8 = 0;
  for (const std::uint32_t count : counts) bits_q8 += std::uint64_t{count} * (log2_total - log2_of(count));
  return bits_q8 * n / total / 2048 + rans_table_bytes(symbols) + count_chunks(n) * (4 + kStatesBytes) +
         sample_penalty_bytes(symbols, n, total);
}

}  // namespace s4
