#include "plane_codes.hpp"

namespace s4 {
namespace {

struct Sample {
  const Counts& counts;
  std::uint64_t total = 0;
  std::size_t symbols = 0;
  std::uint64_t n;

  Sample(const Counts& histogram, std::size_t plane) noexcept : counts(histogram), n(plane) {
    for (const std::uint32_t count : counts) {
      total += count;
      symbols += count != 0;
    }
  }

  std::uint64_t scaled(std::uint64_t x) const noexcept { return x * n / total; }
};

std::uint64_t bits_estimate(const Sample& sample, BitsCode code) noexcept {
  std::uint64_t exceptions = 0;
  for (std::size_t s = 0; s < 256; ++s) {
    if ((s & ~std::size_t{code.mask}) != code.value) exceptions += sample.counts[s];
  }
  return 2 + 2 * count_blocks(sample.n) + static_cast<std::uint64_t>(std::popcount(code.mask)) * (sample.n / 8) +
         3 * sample.scaled(exceptions);
}

std::uint64_t nibbles_estimate(const Sample& sample, std::uint8_t& first) noexcept {
  std::uint64_t outside = 0;
  first = make_nibble_code(sample.counts, outside);
  return 1 + 2 * count_blocks(sample.n) + sample.n / 2 + 3 * sample.scaled(outside);
}

std::uint64_t huffman_estimate(const Sample& sample, const HuffmanCode& code) noexcept {
  std::uint64_t bits = 0;
  std::uint64_t coded = 0;
  for (std::size_t place = 0; place < code.count; ++place) {
    if (code.lengths[place] == 0) continue;
    const std::uint64_t count = sample.counts[(code.first + place) & 255];
    bits += count * code.lengths[place];
    coded += count;
  }
  return code.stored_bytes() + kHuffmanBlockEntry * count_blocks(sample.n) + sample.scaled(bits) / 8 +
         3 * sample.scaled(sample.total - coded) + sample_penalty_bytes(sample.symbols, sample.n, sample.total);
}

void take(PlaneCode& code, Mode mode, std::uint64_t estimate) noexcept {
  code.mode = mode;
  code.estimate = estimate;
}

}  // namespace

void choose_plane_code(const Counts& counts, std::size_t n, Effort effort, PlaneCode& code) noexcept {
  const Sample sample(counts, n);
  take(code, Mode::kRaw, n);
  code.exact = sample.total == n;
  code.bits = make_bits_code(counts);
  if (const std::uint64_t bits = bits_estimate(sample, code.bits); bits < n) take(code, Mode::kBits, bits);
  const std::uint64_t best = code.estimate;
  if (effort.level == Level::kFast) {
    const std::uint64_t nibbles = nibbles_estimate(sample, code.nibble_first);
    if (nibbles + n / 64 < best) take(code, Mode::kNibbles, nibbles);
    return;
  }
  const std::uint64_t rans = rans_estimate_bytes(counts, n);
  if (rans + n / (effort.level == Level::kSmall ? 512 : 128) >= best) return;
  if (effort.level == Level::kBalanced && effort.huffman && make_huffman_code(counts, code.huffman)) {
    const std::uint64_t huffman = huffman_estimate(sample, code.huffman);
    if (huffman + n / 128 < best && huffman <= rans + n / 32) return take(code, Mode::kHuffman, huffman);
  }
  take(code, Mode::kRans, rans);
}

}  // namespace s4
