#include "rans_avx2.hpp"

#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "rans_rows.hpp"

namespace s4 {
namespace {

// For every set of eight lanes that refill: which of the next words each lane takes.
using Spread = std::array<std::array<std::uint32_t, 8>, 256>;

constexpr Spread make_spread() {
  Spread spread{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::uint32_t next = 0;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) spread[mask][lane] = next++;
    }
  }
  return spread;
}

alignas(32) constexpr Spread kSpread = make_spread();

// One symbol of eight lanes. words must have 16 readable bytes.
inline __m256i decode_eight(const RansDecodeTable& table, __m256i& states, const std::uint8_t*& words) noexcept {
  const __m256i slot = _mm256_and_si256(states, _mm256_set1_epi32(kScale - 1));
  const __m256i entry = _mm256_i32gather_epi32(reinterpret_cast<const int*>(table.data()), slot, 4);
  const __m256i less_one = _mm256_and_si256(_mm256_srli_epi32(entry, 8), _mm256_set1_epi32(0xFFF));
  const __m256i frequency = _mm256_add_epi32(less_one, _mm256_set1_epi32(1));
  const __m256i high = _mm256_srli_epi32(states, kScaleBits);
  __m256i x = _mm256_add_epi32(_mm256_mullo_epi32(frequency, high), _mm256_srli_epi32(entry, 20));

  const __m256i refill = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
  const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(refill)));
  const __m256i next = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
  const __m256i lanes = _mm256_load_si256(reinterpret_cast<const __m256i*>(kSpread[mask].data()));
  const __m256i word = _mm256_permutevar8x32_epi32(next, lanes);
  states = _mm256_blendv_epi8(x, _mm256_or_si256(_mm256_slli_epi32(x, 16), word), refill);
  words += 2 * std::popcount(mask);
  return _mm256_and_si256(entry, _mm256_set1_epi32(0xFF));
}

// The low bytes of four vectors of eight, in order.
inline __m256i pack(__m256i a, __m256i b, __m256i c, __m256i d) noexcept {
  const __m256i halves = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
  return _mm256_permutevar8x32_epi32(halves, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

}  // namespace

PlaneError decode_rans_block_avx2(const RansDecodeTable& table, std::span<const std::uint8_t> stored,
                                 std::span<std::uint8_t> symbols) noexcept {
  RansChunk state;
  if (const PlaneError error = open_chunk(stored, state); error != PlaneError::kNone) return error;
  auto* lanes = reinterpret_cast<__m256i*>(state.states.data());
  __m256i x0 = _mm256_loadu_si256(lanes);
  __m256i x1 = _mm256_loadu_si256(lanes + 1);
  __m256i x2 = _mm256_loadu_si256(lanes + 2);
  __m256i x3 = _mm256_loadu_si256(lanes + 3);
  std::size_t start = 0;
  // A row takes at most 64 bytes of words, and its last load reads 16 from where the third group ended (at most 48).
  for (; symbols.size() - start >= kLanes && state.end - state.words >= 64; start += kLanes) {
    const __m256i a = decode_eight(table, x0, state.words);
    const __m256i b = decode_eight(table, x1, state.words);
    const __m256i c = decode_eight(table, x2, state.words);
    const __m256i d = decode_eight(table, x3, state.words);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(symbols.data() + start), pack(a, b, c, d));
  }
  _mm256_storeu_si256(lanes, x0);
  _mm256_storeu_si256(lanes + 1, x1);
  _mm256_storeu_si256(lanes + 2, x2);
  _mm256_storeu_si256(lanes + 3, x3);
  for (; start < symbols.size(); start += kLanes) {
    const std::size_t count = std::min(kLanes, symbols.size() - start);
    const PlaneError error = decode_row(table, state, symbols.data() + start, count);
    if (error != PlaneError::kNone) return error;
  }
  return close_chunk(state);
}

}  // namespace s4
