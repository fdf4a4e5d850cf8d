// Canonical codes of GDeflate: from lengths to a table.
#include <algorithm>

#include "gdeflate.hpp"

namespace s4 {

bool GDeflateCode::make(std::span<const std::uint8_t> lengths) noexcept {
  counts_.fill(0);
  direct_.fill(0);
  for (const std::uint8_t bits : lengths) ++counts_[bits];
  counts_[0] = 0;
  std::array<std::uint32_t, kMaxBits + 1> next{};
  std::array<std::uint16_t, kMaxBits + 1> place{};
  std::uint32_t code = 0;
  std::uint16_t before = 0;
  for (std::size_t bits = 1; bits <= kMaxBits; ++bits) {
    code <<= 1;
    next[bits] = code;
    place[bits] = before;
    code += counts_[bits];
    before = static_cast<std::uint16_t>(before + counts_[bits]);
    if (code > 1U << bits) return false;
  }
  for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
    const std::size_t bits = lengths[symbol];
    if (bits == 0) continue;
    symbols_[place[bits]++] = static_cast<std::uint16_t>(symbol);
    const std::uint32_t mine = next[bits]++;
    if (bits > kDirectBits) continue;
    std::size_t pattern = 0;
    for (std::size_t bit = 0; bit < bits; ++bit) pattern |= std::size_t{mine >> bit & 1} << (bits - 1 - bit);
    for (; pattern < direct_.size(); pattern += std::size_t{1} << bits) {
      direct_[pattern] = static_cast<std::uint16_t>(symbol << 4 | bits);
    }
  }
  return true;
}

GDeflateCode::Found GDeflateCode::find(std::uint64_t pattern) const noexcept {
  const std::uint16_t entry = direct_[pattern & (direct_.size() - 1)];
  if (entry != 0) return {std::size_t{entry} >> 4, std::size_t{entry} & 15};
  return find_long(pattern);
}

GDeflateCode::Found GDeflateCode::find_long(std::uint64_t pattern) const noexcept {
  std::size_t code = 0;
  std::size_t first = 0;  // the first code of so many bits
  std::size_t place = 0;  // and its symbol's
  for (std::size_t bits = 1; bits <= kMaxBits; ++bits) {
    code = code << 1 | (pattern >> (bits - 1) & 1);
    first <<= 1;
    if (code - first < counts_[bits]) return {symbols_[place + code - first], bits};
    first += counts_[bits];
    place += counts_[bits];
  }
  return {0, 0};
}

}  // namespace s4
