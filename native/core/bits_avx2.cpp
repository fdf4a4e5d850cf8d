#include "bits_avx2.hpp"

#include <immintrin.h>

#include "bits_columns.hpp"

namespace s4 {
namespace {

template <std::size_t kCount>
std::size_t encode(BitsCode code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                   BlockExceptions& exceptions) noexcept {
  const auto columns = bit_columns<kCount>(code.mask, symbols.size());
  __m128i to_top[kCount == 0 ? 1 : kCount];
  for (std::size_t k = 0; k < kCount; ++k) to_top[k] = _mm_cvtsi32_si128(std::countl_zero(columns[k].bit));
  const __m256i fixed = _mm256_set1_epi8(static_cast<char>(~code.mask));
  const __m256i value = _mm256_set1_epi8(static_cast<char>(code.value));
  std::size_t i = 0;
  for (; i + 32 <= symbols.size(); i += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols.data() + i));
    const __m256i same = _mm256_cmpeq_epi8(_mm256_and_si256(x, fixed), value);
    auto other = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(same));
    for (; other != 0; other &= other - 1) {
      const auto at = i + static_cast<std::size_t>(std::countr_zero(other));
      exceptions.add(at, symbols[at]);
    }
    for (std::size_t k = 0; k < kCount; ++k) {
      // The top bit of a byte comes from the same byte, whatever the shift takes from its neighbour.
      const __m256i top = _mm256_sll_epi16(x, to_top[k]);
      store32(out + columns[k].start + i / 8, static_cast<std::uint32_t>(_mm256_movemask_epi8(top)));
    }
  }
  return i;
}

template <std::size_t kCount>
std::size_t decode(BitsCode code, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept {
  const auto columns = bit_columns<kCount>(code.mask, symbols.size());
  __m256i bits[kCount == 0 ? 1 : kCount];
  for (std::size_t k = 0; k < kCount; ++k) bits[k] = _mm256_set1_epi8(static_cast<char>(columns[k].bit));
  const __m256i value = _mm256_set1_epi8(static_cast<char>(code.value));
  const __m256i spread =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i select = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  std::size_t i = 0;
  for (; i + 32 <= symbols.size(); i += 32) {
    if (i % 512 == 0) prefetch_columns(columns, stored + i / 8);
    __m256i x = value;
    for (std::size_t k = 0; k < kCount; ++k) {
      const __m256i bytes = _mm256_set1_epi32(static_cast<int>(load32(stored + columns[k].start + i / 8)));
      const __m256i picked = _mm256_and_si256(_mm256_shuffle_epi8(bytes, spread), select);
      x = _mm256_or_si256(x, _mm256_and_si256(_mm256_cmpeq_epi8(picked, select), bits[k]));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols.data() + i), x);
  }
  return i;
}

}  // namespace

std::size_t encode_bits_avx2(BitsCode code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                             BlockExceptions& exceptions) noexcept {
  return for_columns(code.mask,
                     [&]<std::size_t kCount>() noexcept { return encode<kCount>(code, symbols, out, exceptions); });
}

std::size_t decode_bits_avx2(BitsCode code, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept {
  return for_columns(code.mask, [&]<std::size_t kCount>() noexcept { return decode<kCount>(code, stored, symbols); });
}

}  // namespace s4
