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

// Eight entries. A gather instruction takes more steps than this on many processors.
inline __m256i look_up(const RansDecodeTable& table, __m256i slots) noexcept {
  const __m128i low = _mm256_castsi256_si128(slots);
  const __m128i high = _mm256_extracti128_si256(slots, 1);
  const auto ab = static_cast<std::uint64_t>(_mm_cvtsi128_si64(low));
  const auto cd = static_cast<std::uint64_t>(_mm_extract_epi64(low, 1));
  const auto ef = static_cast<std::uint64_t>(_mm_cvtsi128_si64(high));
  const auto gh = static_cast<std::uint64_t>(_mm_extract_epi64(high, 1));
  const auto at = [&](std::uint64_t slot) { return static_cast<int>(table[slot]); };
  const __m128i first = _mm_setr_epi32(at(ab & 0xFFFFFFFF), at(ab >> 32), at(cd & 0xFFFFFFFF), at(cd >> 32));
  const __m128i second = _mm_setr_epi32(at(ef & 0xFFFFFFFF), at(ef >> 32), at(gh & 0xFFFFFFFF), at(gh >> 32));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

// One symbol of eight lanes. words must have 16 readable bytes.
inline __m256i decode_eight(const RansDecodeTable& table, __m256i& states, const std::uint8_t*& words) noexcept {
  const __m256i slot = _mm256_and_si256(states, _mm256_set1_epi32(kScale - 1));
  const __m256i entry = look_up(table, slot);
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

// For every set of eight lanes that give a word: where each of them goes, so that they end up side by side at the end.
constexpr Spread make_gathered() {
  Spread gathered{};
  for (std::size_t mask = 0; mask < 256; ++mask) {
    std::size_t next = 8 - static_cast<std::size_t>(std::popcount(mask));
    for (std::uint32_t lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) gathered[mask][next++] = lane;
    }
  }
  return gathered;
}

alignas(32) constexpr Spread kGathered = make_gathered();

// Encode one symbol of eight lanes. shares: f | start << 16. `words` must have 16 bytes in front.
inline void encode_eight(__m256i shares, __m256i multipliers, __m256i& states, std::uint8_t*& words) noexcept {
  const __m256i f = _mm256_and_si256(shares, _mm256_set1_epi32(0xFFFF));
  const __m256i start = _mm256_srli_epi32(shares, 16);
  const __m256i stays = _mm256_cmpgt_epi32(f, _mm256_srli_epi32(states, 20));
  const auto mask = ~static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(stays))) & 0xFF;
  const __m256i lanes = _mm256_load_si256(reinterpret_cast<const __m256i*>(kGathered[mask].data()));
  const __m256i low = _mm256_and_si256(states, _mm256_set1_epi32(0xFFFF));
  const __m256i given = _mm256_permutevar8x32_epi32(low, lanes);
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(given), _mm256_extracti128_si256(given, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words - 16), packed);
  words -= 2 * std::popcount(mask);

  const __m256i x = _mm256_blendv_epi8(_mm256_srli_epi32(states, 16), states, stays);
  // q = x * (2^32 div f) div 2^32 is x div f or one less.
  const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(x, multipliers), 32);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(multipliers, 32));
  const __m256i q = _mm256_blend_epi32(even, odd, 0b10101010);
  const __m256i r = _mm256_sub_epi32(x, _mm256_mullo_epi32(q, f));
  const __m256i exact = _mm256_cmpgt_epi32(f, r);  // r < 2 f < 2^13
  const __m256i quotient = _mm256_add_epi32(q, _mm256_andnot_si256(exact, _mm256_set1_epi32(1)));
  const __m256i rest = _mm256_sub_epi32(r, _mm256_andnot_si256(exact, f));
  states = _mm256_add_epi32(_mm256_slli_epi32(quotient, kScaleBits), _mm256_add_epi32(rest, start));
}

// Values of four bytes, of 32 places: byte k of all of them in the k-th pair of registers.
class WindowLookup {
 public:
  WindowLookup(const std::array<std::uint32_t, 256>& values, std::uint8_t first) noexcept {
    alignas(16) std::array<std::array<std::uint8_t, 16>, 8> bytes;
    for (std::size_t place = 0; place < 32; ++place) {
      const std::uint32_t value = values[(first + place) & 255];
      for (std::size_t k = 0; k < 4; ++k)
        bytes[2 * k + place / 16][place % 16] = static_cast<std::uint8_t>(value >> (8 * k));
    }
    for (std::size_t i = 0; i < 8; ++i) {
      tables_[i] = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes[i].data())));
    }
  }

  // The values of 32 places: out[g] has those of lanes 8 g to 8 g + 7.
  void operator()(__m256i places, __m256i (&out)[4]) const noexcept {
    const __m256i upper = _mm256_slli_epi16(places, 3);
    const __m256i b0 = look_up(0, places, upper);
    const __m256i b1 = look_up(1, places, upper);
    const __m256i b2 = look_up(2, places, upper);
    const __m256i b3 = look_up(3, places, upper);
    const __m256i low01 = _mm256_unpacklo_epi8(b0, b1);
    const __m256i high01 = _mm256_unpackhi_epi8(b0, b1);
    const __m256i low23 = _mm256_unpacklo_epi8(b2, b3);
    const __m256i high23 = _mm256_unpackhi_epi8(b2, b3);
    const __m256i a = _mm256_unpacklo_epi16(low01, low23);    // 0-3, 16-19
    const __m256i b = _mm256_unpackhi_epi16(low01, low23);    // 4-7, 20-23
    const __m256i c = _mm256_unpacklo_epi16(high01, high23);  // 8-11, 24-27
    const __m256i d = _mm256_unpackhi_epi16(high01, high23);  // 12-15, 28-31
    out[0] = _mm256_permute2x128_si256(a, b, 0x20);
    out[1] = _mm256_permute2x128_si256(c, d, 0x20);
    out[2] = _mm256_permute2x128_si256(a, b, 0x31);
    out[3] = _mm256_permute2x128_si256(c, d, 0x31);
  }

 private:
  __m256i look_up(std::size_t k, __m256i places, __m256i upper) const noexcept {
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(tables_[2 * k], places),
                              _mm256_shuffle_epi8(tables_[2 * k + 1], places), upper);
  }

  __m256i tables_[8];
};

// The same from memory, for any symbols.
class MemoryLookup {
 public:
  explicit MemoryLookup(const std::array<std::uint32_t, 256>& values) noexcept : values_(values.data()) {}

  void operator()(const std::uint8_t* symbols, __m256i (&out)[4]) const noexcept {
    for (std::size_t g = 0; g < 4; ++g) {
      const std::uint8_t* at = symbols + 8 * g;
      out[g] = _mm256_setr_epi32(value(at[0]), value(at[1]), value(at[2]), value(at[3]), value(at[4]), value(at[5]),
                                 value(at[6]), value(at[7]));
    }
  }

 private:
  int value(std::uint8_t symbol) const noexcept { return static_cast<int>(values_[symbol]); }

  const std::uint32_t* values_;
};

template <typename LookUp>
std::uint8_t* encode_rows(LookUp look_up, std::size_t rows, std::uint8_t* words,
                          std::array<std::uint32_t, kLanes>& states) noexcept {
  auto* lanes = reinterpret_cast<__m256i*>(states.data());
  __m256i x0 = _mm256_loadu_si256(lanes);
  __m256i x1 = _mm256_loadu_si256(lanes + 1);
  __m256i x2 = _mm256_loadu_si256(lanes + 2);
  __m256i x3 = _mm256_loadu_si256(lanes + 3);
  __m256i shares[4];
  __m256i multipliers[4];
  for (std::size_t row = rows; row-- > 0;) {
    look_up(row, shares, multipliers);
    encode_eight(shares[3], multipliers[3], x3, words);
    encode_eight(shares[2], multipliers[2], x2, words);
    encode_eight(shares[1], multipliers[1], x1, words);
    encode_eight(shares[0], multipliers[0], x0, words);
  }
  _mm256_storeu_si256(lanes, x0);
  _mm256_storeu_si256(lanes + 1, x1);
  _mm256_storeu_si256(lanes + 2, x2);
  _mm256_storeu_si256(lanes + 3, x3);
  return words;
}

}  // namespace

std::uint8_t* encode_rans_rows_avx2(const RansEncodeTable& table, const std::uint8_t* symbols, std::size_t rows,
                                    std::uint8_t* words, std::array<std::uint32_t, kLanes>& states) noexcept {
  if (table.windowed) {
    const WindowLookup shares_of(table.shares, table.first);
    const WindowLookup multipliers_of(table.multipliers, table.first);
    const __m256i first = _mm256_set1_epi8(static_cast<char>(table.first));
    const auto look_up = [&](std::size_t row, __m256i(&shares)[4], __m256i(&multipliers)[4]) {
      const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols + row * kLanes));
      const __m256i places = _mm256_sub_epi8(values, first);
      shares_of(places, shares);
      multipliers_of(places, multipliers);
    };
    return encode_rows(look_up, rows, words, states);
  }
  const MemoryLookup shares_of(table.shares);
  const MemoryLookup multipliers_of(table.multipliers);
  const auto look_up = [&](std::size_t row, __m256i(&shares)[4], __m256i(&multipliers)[4]) {
    shares_of(symbols + row * kLanes, shares);
    multipliers_of(symbols + row * kLanes, multipliers);
  };
  return encode_rows(look_up, rows, words, states);
}

PlaneError decode_rans_rows_avx2(const RansDecodeTable& table, RansChunk& chunk,
                                 std::span<std::uint8_t> symbols) noexcept {
  // A local copy, which stores through `symbols` cannot alias.
  RansChunk state = chunk;
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
  chunk = state;
  return PlaneError::kNone;
}

}  // namespace s4
