#include "nibbles_avx2.hpp"

#include <immintrin.h>

#include <bit>

namespace s4 {
namespace {

// Stored bytes that are asked for before they are needed.
constexpr std::size_t kAhead = 1024;

}  // namespace

std::size_t encode_nibbles_avx2(std::uint8_t first, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                                BlockExceptions& exceptions) noexcept {
  const __m256i base = _mm256_set1_epi8(static_cast<char>(first));
  const __m256i low_half = _mm256_set1_epi8(15);
  std::size_t i = 0;
  for (; i + kNibbleGroup <= symbols.size(); i += kNibbleGroup, out += 32) {
    const auto* from = reinterpret_cast<const __m256i*>(symbols.data() + i);
    __m256i low = _mm256_sub_epi8(_mm256_loadu_si256(from), base);
    __m256i high = _mm256_sub_epi8(_mm256_loadu_si256(from + 1), base);
    const __m256i all = _mm256_max_epu8(low, high);
    const __m256i inside = _mm256_cmpeq_epi8(_mm256_min_epu8(all, low_half), all);
    if (_mm256_movemask_epi8(inside) != -1) [[unlikely]] {
      for (std::size_t half = 0; half < 2; ++half) {
        __m256i& codes = half == 0 ? low : high;
        const __m256i fits = _mm256_cmpeq_epi8(_mm256_min_epu8(codes, low_half), codes);
        auto outside = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(fits));
        for (; outside != 0; outside &= outside - 1) {
          const auto at = i + 32 * half + static_cast<std::size_t>(std::countr_zero(outside));
          exceptions.add(at, symbols[at]);
        }
        codes = _mm256_and_si256(codes, low_half);
      }
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_or_si256(low, _mm256_slli_epi16(high, 4)));
  }
  return i;
}

std::size_t decode_nibbles_avx2(std::uint8_t first, const std::uint8_t* stored,
                                std::span<std::uint8_t> symbols) noexcept {
  const __m256i base = _mm256_set1_epi8(static_cast<char>(first));
  const __m256i low_half = _mm256_set1_epi8(15);
  std::size_t i = 0;
  for (; i + kNibbleGroup <= symbols.size(); i += kNibbleGroup, stored += 32) {
    if (i % 128 == 0) __builtin_prefetch(stored + kAhead);
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(stored));
    const __m256i low = _mm256_and_si256(codes, low_half);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(codes, 4), low_half);
    auto* to = reinterpret_cast<__m256i*>(symbols.data() + i);
    _mm256_storeu_si256(to, _mm256_add_epi8(low, base));
    _mm256_storeu_si256(to + 1, _mm256_add_epi8(high, base));
  }
  return i;
}

}  // namespace s4
