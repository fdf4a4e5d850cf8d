#include "rans_avx512.hpp"

#include <immintrin.h>

#include <bit>

namespace s4 {
namespace {

// Sixteen bits of each of 32 places, in a register.
class WindowLookup {
 public:
  WindowLookup(const std::array<std::uint32_t, 256>& values, std::uint8_t first, unsigned shift) noexcept {
    alignas(64) std::array<std::uint16_t, 32> halves;
    for (std::size_t place = 0; place < 32; ++place) {
      halves[place] = static_cast<std::uint16_t>(values[(first + place) & 255] >> shift);
    }
    table_ = _mm512_load_si512(halves.data());
  }

  __m512i operator()(__m512i places) const noexcept { return _mm512_permutexvar_epi16(places, table_); }

 private:
  __m512i table_;
};

// Encode one symbol of sixteen lanes.
inline void encode_sixteen(__m256i frequencies, __m256i starts, __m256i low, __m256i high, __m512i& states,
                           std::uint8_t*& words) noexcept {
  const __m512i f = _mm512_cvtepu16_epi32(frequencies);
  const __m512i start = _mm512_cvtepu16_epi32(starts);
  const __m512i multipliers =
      _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
  const __mmask16 gives = _mm512_cmpge_epu32_mask(_mm512_srli_epi32(states, 20), f);
  const auto given = static_cast<unsigned>(std::popcount(static_cast<unsigned>(gives)));
  const __m256i packed = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(gives, states));
  words -= 2 * given;
  _mm256_mask_storeu_epi16(words, static_cast<__mmask16>((1U << given) - 1), packed);

  const __m512i x = _mm512_mask_srli_epi32(states, gives, states, 16);
  // q = x * (2^32 div f) div 2^32 is x div f or one less.
  const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(x, multipliers), 32);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(multipliers, 32));
  const __m512i q = _mm512_mask_blend_epi32(0xAAAA, even, odd);
  const __m512i r = _mm512_sub_epi32(x, _mm512_mullo_epi32(q, f));
  const __mmask16 over = _mm512_cmpge_epu32_mask(r, f);
  const __m512i quotient = _mm512_mask_add_epi32(q, over, q, _mm512_set1_epi32(1));
  const __m512i rest = _mm512_mask_sub_epi32(r, over, r, f);
  states = _mm512_add_epi32(_mm512_slli_epi32(quotient, kScaleBits), _mm512_add_epi32(rest, start));
}

}  // namespace

std::uint8_t* encode_rans_rows_avx512(const RansEncodeTable& table, const std::uint8_t* symbols, std::size_t rows,
                                      std::uint8_t* words, std::array<std::uint32_t, kLanes>& states) noexcept {
  const WindowLookup frequencies_of(table.shares, table.first, 0);
  const WindowLookup starts_of(table.shares, table.first, 16);
  const WindowLookup low_of(table.multipliers, table.first, 0);
  const WindowLookup high_of(table.multipliers, table.first, 16);
  const __m512i first = _mm512_set1_epi16(table.first);
  __m512i x0 = _mm512_loadu_si512(states.data());
  __m512i x1 = _mm512_loadu_si512(states.data() + 16);
  for (std::size_t row = rows; row-- > 0;) {
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + row * kLanes));
    // The permutation takes the low five bits of each.
    const __m512i places = _mm512_sub_epi16(_mm512_cvtepu8_epi16(values), first);
    const __m512i f = frequencies_of(places);
    const __m512i start = starts_of(places);
    const __m512i low = low_of(places);
    const __m512i high = high_of(places);
    encode_sixteen(_mm512_extracti64x4_epi64(f, 1), _mm512_extracti64x4_epi64(start, 1),
                   _mm512_extracti64x4_epi64(low, 1), _mm512_extracti64x4_epi64(high, 1), x1, words);
    encode_sixteen(_mm512_castsi512_si256(f), _mm512_castsi512_si256(start), _mm512_castsi512_si256(low),
                   _mm512_castsi512_si256(high), x0, words);
  }
  _mm512_storeu_si512(states.data(), x0);
  _mm512_storeu_si512(states.data() + 16, x1);
  return words;
}

}  // namespace s4
