#include "bits.hpp"

#include <algorithm>

#include "simd.hpp"
#if defined(__x86_64__)
#include "bits_avx2.hpp"
#include "bits_avx512.hpp"
#endif

namespace s4 {

BitsCode make_bits_code(const Counts& counts) noexcept {
  // How often each bit is set: the upper half of the table, then the table folded over the next lower bit.
  std::array<std::uint32_t, 256> folded = counts;
  std::array<std::uint64_t, 8> set{};
  for (std::size_t bit = 8; bit-- > 0;) {
    const std::size_t half = std::size_t{1} << bit;
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < half; ++s) {
      sum += folded[half + s];
      folded[s] += folded[half + s];
    }
    set[bit] = sum;
  }
  const std::uint64_t total = folded[0];
  BitsCode code;
  for (std::size_t bit = 0; bit < 8; ++bit) {
    const std::uint64_t rarer = std::min(set[bit], total - set[bit]);
    if (rarer > total / 32) {
      code.mask = static_cast<std::uint8_t>(code.mask | 1U << bit);
    } else if (set[bit] > total - set[bit]) {
      code.value = static_cast<std::uint8_t>(code.value | 1U << bit);
    }
  }
  return code;
}

void encode_bits_block(BitsCode code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                       BlockExceptions& exceptions) noexcept {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (simd() == Simd::kAvx512) {
    done = encode_bits_avx512(code, symbols, out, exceptions);
  } else if (simd() == Simd::kAvx2) {
    done = encode_bits_avx2(code, symbols, out, exceptions);
  }
#endif
  const std::size_t column = (symbols.size() + 7) / 8;
  std::uint8_t* to = out;
  for (std::size_t bit = 0; bit < 8; ++bit) {
    if ((code.mask >> bit & 1) == 0) continue;
    for (std::size_t i = done; i < symbols.size(); i += 8) {
      std::size_t byte = 0;
      for (std::size_t k = i; k < std::min(i + 8, symbols.size()); ++k) byte |= (symbols[k] >> bit & 1U) << (k - i);
      to[i / 8] = static_cast<std::uint8_t>(byte);
    }
    to += column;
  }
  for (std::size_t i = done; i < symbols.size(); ++i) {
    if ((symbols[i] & ~code.mask & 0xFF) != code.value) exceptions.add(i, symbols[i]);
  }
}

void decode_bits_block(BitsCode code, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept {
  std::size_t done = 0;
#if defined(__x86_64__)
  if (simd() == Simd::kAvx512) {
    done = decode_bits_avx512(code, stored, symbols);
  } else if (simd() == Simd::kAvx2) {
    done = decode_bits_avx2(code, stored, symbols);
  }
#endif
  const std::size_t column = (symbols.size() + 7) / 8;
  for (std::size_t i = done; i < symbols.size(); ++i) symbols[i] = code.value;
  const std::uint8_t* from = stored;
  for (std::size_t bit = 0; bit < 8; ++bit) {
    if ((code.mask >> bit & 1) == 0) continue;
    for (std::size_t i = done; i < symbols.size(); ++i) {
      symbols[i] = static_cast<std::uint8_t>(symbols[i] | (from[i / 8] >> i % 8 & 1U) << bit);
    }
    from += column;
  }
}

}  // namespace s4
