// Histogram, frequencies and the size estimate: integers only, so that every engine agrees to the bit.
#include <bit>
#include <cstring>

#include "rans.hpp"

namespace s4 {
namespace {

// log2(f) in 1/256 bits, rounded down: the fraction by squaring, bit by bit.
std::uint32_t log2_q8(std::uint32_t f) noexcept {
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(f)) - 1;
  std::uint64_t mantissa = std::uint64_t{f} << (31 - exponent);  // in [2^31, 2^32)
  std::uint32_t fraction = 0;
  for (int bit = 0; bit < 8; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    fraction <<= 1;
    if (mantissa >> 32) {
      fraction |= 1;
      mantissa >>= 1;
    }
  }
  return exponent << 8 | fraction;
}

std::size_t greatest(const Frequencies& frequencies) noexcept {
  std::size_t best = 0;
  for (std::size_t s = 1; s < 256; ++s) {
    if (frequencies[s] > frequencies[best]) best = s;
  }
  return best;
}

}  // namespace

void histogram(std::span<const std::uint8_t> plane, Counts& counts) noexcept {
  // Four tables, so that a run of equal bytes does not wait for its own last increment.
  std::array<Counts, 4> parts{};
  const std::uint8_t* at = plane.data();
  std::size_t left = plane.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    for (int k = 0; k < 8; ++k) ++parts[static_cast<std::size_t>(k & 3)][word >> (8 * k) & 0xFF];
  }
  for (; left > 0; ++at, --left) ++parts[0][*at];
  for (std::size_t s = 0; s < 256; ++s) counts[s] = parts[0][s] + parts[1][s] + parts[2][s] + parts[3][s];
}

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
  // A plane of nearly one value only: its frequency must stay below the scale, for another symbol occurs too.
}

std::uint64_t rans_estimate_bytes(const Counts& counts, const Frequencies& frequencies, std::size_t total) noexcept {
  std::uint64_t bits_q8 = 0;
  std::uint64_t present = 0;
  for (std::size_t s = 0; s < 256; ++s) {
    if (counts[s] == 0) continue;
    ++present;
    bits_q8 += std::uint64_t{counts[s]} * ((kScaleBits << 8) - log2_q8(frequencies[s]));
  }
  const std::uint64_t chunks = (total + kChunkSymbols - 1) / kChunkSymbols;
  return bits_q8 / 2048 + kPresentBytes + 2 * present + chunks * (4 + kStatesBytes);
}

}  // namespace s4
