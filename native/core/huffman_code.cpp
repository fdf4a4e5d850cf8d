// Code lengths, canonical codes, and their stored form.
#include <algorithm>
#include <bit>

#include "huffman.hpp"
#include "windows.hpp"

namespace s4 {
namespace {

constexpr std::uint32_t kComplete = 1U << kMaxCodeBits;

struct Leaf {
  std::uint32_t weight;
  std::uint8_t place;
};

// Package-merge (Larmore and Hirschberg, 1990): lengths of at most 11 bits with the least sum of weight * length.
void package_merge(std::span<const Leaf> leaves, std::array<std::uint8_t, 256>& lengths) noexcept {
  const std::size_t k = leaves.size();
  // Of each list: how many of its first elements are leaves, and the weights of the one before.
  std::array<std::array<std::uint16_t, 513>, kMaxCodeBits> leaves_before;
  std::array<std::uint64_t, 512> weights;
  std::array<std::uint64_t, 512> merged;
  std::size_t size = k;
  for (std::size_t i = 0; i < k; ++i) {
    weights[i] = leaves[i].weight;
    leaves_before[0][i] = static_cast<std::uint16_t>(i);
  }
  leaves_before[0][k] = static_cast<std::uint16_t>(k);
  for (std::size_t list = 1; list < kMaxCodeBits; ++list) {
    const std::size_t packages = size / 2;
    std::size_t leaf = 0;
    std::size_t package = 0;
    for (std::size_t at = 0; at < k + packages; ++at) {
      leaves_before[list][at] = static_cast<std::uint16_t>(leaf);
      const std::uint64_t packed = package < packages ? weights[2 * package] + weights[2 * package + 1] : UINT64_MAX;
      if (leaf < k && leaves[leaf].weight <= packed) {
        merged[at] = leaves[leaf++].weight;
      } else {
        merged[at] = packed;
        ++package;
      }
    }
    size = k + packages;
    leaves_before[list][size] = static_cast<std::uint16_t>(leaf);
    weights = merged;
  }
  std::size_t taken = 2 * (k - 1);
  for (std::size_t list = kMaxCodeBits; list-- > 0 && taken > 0;) {
    const std::size_t here = leaves_before[list][taken];
    for (std::size_t i = 0; i < here; ++i) ++lengths[leaves[i].place];
    taken = 2 * (taken - here);
  }
}

struct Span {
  std::size_t start;
  std::size_t width;
};

// The fewest successive values, mod 256, that hold all that were counted; the smallest start of equals.
Span span_of(const Counts& counts) noexcept {
  Span best{0, 257};
  for (std::size_t start = 0; start < 256; ++start) {
    if (counts[start] == 0) continue;
    std::size_t width = 256;
    while (counts[(start + width - 1) & 255] == 0) --width;
    if (width < best.width) best = {start, width};
  }
  return best;
}

std::uint16_t reversed(std::uint32_t code, std::size_t bits) noexcept {
  std::uint32_t result = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) result |= (code >> bit & 1) << (bits - 1 - bit);
  return static_cast<std::uint16_t>(result);
}

void assign_codes(HuffmanCode& code) noexcept {
  std::array<std::uint32_t, kMaxCodeBits + 2> next{};
  std::array<std::uint32_t, kMaxCodeBits + 1> used{};
  for (std::size_t place = 0; place < code.count; ++place) ++used[code.lengths[place]];
  std::uint32_t value = 0;
  for (std::size_t bits = 1; bits <= kMaxCodeBits; ++bits) {
    next[bits] = value;
    value = (value + used[bits]) << 1;
  }
  std::size_t least = kMaxCodeBits + 1;
  for (std::size_t place = 0; place < code.count; ++place) {
    const std::size_t bits = code.lengths[place];
    if (bits == 0) continue;
    code.codes[place] = reversed(next[bits]++, bits);
    if (bits < least) {
      least = bits;
      code.shortest = place;
    }
  }
}

}  // namespace

bool make_huffman_code(const Counts& counts, HuffmanCode& code) noexcept {
  const Window window = best_window(counts, kWindow);
  const bool narrow = (window.total - window.mass) * 512 <= window.total;
  const Span span = narrow ? Span{window.start, kWindow} : span_of(counts);
  code.first = static_cast<std::uint8_t>(span.start);
  code.count = span.width;
  code.lengths.fill(0);
  code.codes.fill(0);
  std::array<Leaf, 256> leaves;
  std::size_t k = 0;
  for (std::size_t place = 0; place < code.count; ++place) {
    const std::uint32_t weight = counts[(code.first + place) & 255];
    if (weight != 0) leaves[k++] = {weight, static_cast<std::uint8_t>(place)};
  }
  if (k < 2) return false;
  std::sort(leaves.begin(), leaves.begin() + static_cast<std::ptrdiff_t>(k), [](const Leaf& a, const Leaf& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.place < b.place;
  });
  package_merge({leaves.data(), k}, code.lengths);
  assign_codes(code);
  return true;
}

void write_huffman_code(const HuffmanCode& code, std::uint8_t* out) noexcept {
  out[0] = code.first;
  out[1] = static_cast<std::uint8_t>(code.count - 1);
  std::memset(out + 2, 0, (code.count + 1) / 2);
  for (std::size_t place = 0; place < code.count; ++place) {
    out[2 + place / 2] = static_cast<std::uint8_t>(out[2 + place / 2] | code.lengths[place] << (place % 2 * 4));
  }
}

PlaneError read_huffman_code(std::span<const std::uint8_t> stored, HuffmanCode& code) noexcept {
  if (stored.size() < 2) return PlaneError::kTruncated;
  code.first = stored[0];
  code.count = std::size_t{stored[1]} + 1;
  if (stored.size() < code.stored_bytes()) return PlaneError::kTruncated;
  code.lengths.fill(0);
  code.codes.fill(0);
  std::uint32_t sum = 0;
  std::size_t symbols = 0;
  for (std::size_t place = 0; place < code.count; ++place) {
    const std::size_t bits = stored[2 + place / 2] >> (place % 2 * 4) & 15;
    if (bits > kMaxCodeBits) return PlaneError::kTable;
    if (bits == 0) continue;
    code.lengths[place] = static_cast<std::uint8_t>(bits);
    sum += kComplete >> bits;
    ++symbols;
  }
  if (symbols < 2 || sum != kComplete) return PlaneError::kTable;
  assign_codes(code);
  return PlaneError::kNone;
}

}  // namespace s4
