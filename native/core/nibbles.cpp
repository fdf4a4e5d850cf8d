#include "nibbles.hpp"

#include <algorithm>

#include "simd.hpp"
#include "windows.hpp"
#if defined(__x86_64__)
#include "nibbles_avx2.hpp"
#endif

namespace s4 {

std::uint8_t make_nibble_code(const Counts& counts, std::uint64_t& outside) noexcept {
  const Window window = best_window(counts, kNibbleWindow);
  outside = window.total - window.mass;
  return static_cast<std::uint8_t>(window.start);
}

void encode_nibble_block(std::uint8_t first, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                         BlockExceptions& exceptions) noexcept {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) done = encode_nibbles_avx2(first, symbols, out, exceptions);
#endif
  for (std::size_t group = done; group < symbols.size(); group += kNibbleGroup) {
    std::uint8_t* to = out + group / 2;
    std::memset(to, 0, 32);
    for (std::size_t i = group; i < std::min(group + kNibbleGroup, symbols.size()); ++i) {
      const auto code = static_cast<std::uint8_t>(symbols[i] - first);
      if (code >= kNibbleWindow) exceptions.add(i, symbols[i]);
      const std::size_t k = i - group;
      to[k % 32] = static_cast<std::uint8_t>(to[k % 32] | (code & 15U) << (k / 32 * 4));
    }
  }
}

void decode_nibble_block(std::uint8_t first, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) done = decode_nibbles_avx2(first, stored, symbols);
#endif
  for (std::size_t i = done; i < symbols.size(); ++i) {
    const std::size_t k = i % kNibbleGroup;
    symbols[i] = static_cast<std::uint8_t>(first + (stored[i / kNibbleGroup * 32 + k % 32] >> (k / 32 * 4) & 15));
  }
}

}  // namespace s4
