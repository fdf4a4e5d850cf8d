#include "huffman_avx2.hpp"

#include <immintrin.h>

#include <bit>

#include "bit_writer.hpp"

#define S4_HUFFMAN_NAMESPACE avx2
#include "huffman_loops.hpp"

namespace s4 {
namespace {

// Two registers that pshufb looks 32 places up in.
struct Lookup {
  __m256i low;
  __m256i high;

  explicit Lookup(const std::array<std::uint8_t, kWindow>& values) noexcept
      : low(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values.data())))),
        high(_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(values.data() + 16)))) {}

  // upper: the top bit of each byte says whether its place is 16 or more.
  __m256i operator()(__m256i places, __m256i upper) const noexcept {
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(low, places), _mm256_shuffle_epi8(high, places), upper);
  }
};

struct Codes {
  Lookup low;
  Lookup high;
  Lookup lengths;
};

// Codes of 32 symbols, joined to eight symbols a word: words[i] with bits[i] bits.
struct Joined {
  __m256i words;  // four words of eight symbols
  __m256i bits;
  __m256i first;  // the same in halves: of four symbols each
  __m256i first_bits;
  __m256i second;
  __m256i second_bits;
};

// Symbols 2i and 2i + 1 in one 32-bit lane: code | code << length.
inline __m256i join_pairs(__m256i codes, __m256i powers) noexcept { return _mm256_madd_epi16(codes, powers); }

// Pairs 2i and 2i + 1, in 32-bit lanes, to one 64-bit lane. bits: of the pairs; becomes those of the sum.
inline __m256i join_fours(__m256i pairs, __m256i& bits) noexcept {
  const __m256i low_mask = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256i low_bits = _mm256_and_si256(bits, low_mask);
  const __m256i high = _mm256_sllv_epi64(_mm256_srli_epi64(pairs, 32), low_bits);
  bits = _mm256_add_epi64(low_bits, _mm256_srli_epi64(bits, 32));
  return _mm256_or_si256(_mm256_and_si256(pairs, low_mask), high);
}

inline Joined join(const Codes& codes, __m256i places) noexcept {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i upper = _mm256_slli_epi16(places, 3);
  const __m256i low = codes.low(places, upper);
  const __m256i high = codes.high(places, upper);
  const __m256i lengths = codes.lengths(places, upper);
  // 2^length in two bytes, by the length: of the even symbols, put beside the odd ones; beside the even ones a 1.
  const __m256i powers_low = _mm256_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32,
                                              64, -128, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m256i powers_high =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 0, 0, 0, 0);
  const __m256i power_low =
      _mm256_or_si256(_mm256_slli_epi16(_mm256_shuffle_epi8(powers_low, lengths), 8), _mm256_set1_epi16(1));
  const __m256i power_high = _mm256_slli_epi16(_mm256_shuffle_epi8(powers_high, lengths), 8);
  const __m256i pair_bits = _mm256_maddubs_epi16(lengths, _mm256_set1_epi8(1));

  // Symbols 0-7 | 16-23, and 8-15 | 24-31.
  const __m256i pairs_a = join_pairs(_mm256_unpacklo_epi8(low, high), _mm256_unpacklo_epi8(power_low, power_high));
  const __m256i pairs_b = join_pairs(_mm256_unpackhi_epi8(low, high), _mm256_unpackhi_epi8(power_low, power_high));
  __m256i bits_a = _mm256_unpacklo_epi16(pair_bits, zero);
  __m256i bits_b = _mm256_unpackhi_epi16(pair_bits, zero);
  const __m256i fours_a = join_fours(pairs_a, bits_a);
  const __m256i fours_b = join_fours(pairs_b, bits_b);

  Joined joined;
  joined.first = _mm256_unpacklo_epi64(fours_a, fours_b);
  joined.first_bits = _mm256_unpacklo_epi64(bits_a, bits_b);
  joined.second = _mm256_unpackhi_epi64(fours_a, fours_b);
  joined.second_bits = _mm256_unpackhi_epi64(bits_a, bits_b);
  joined.words = _mm256_or_si256(joined.first, _mm256_sllv_epi64(joined.second, joined.first_bits));
  joined.bits = _mm256_add_epi64(joined.first_bits, joined.second_bits);
  return joined;
}

inline void store(std::array<std::uint64_t, 4>& to, __m256i from) noexcept {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to.data()), from);
}

inline void put(BitWriter& writer, const Joined& joined) noexcept {
  alignas(32) std::array<std::uint64_t, 4> words;
  alignas(32) std::array<std::uint64_t, 4> bits;
  const __m256i too_long = _mm256_cmpgt_epi64(joined.bits, _mm256_set1_epi64x(BitWriter::kMost));
  if (_mm256_testz_si256(too_long, too_long)) [[likely]] {
    store(words, joined.words);
    store(bits, joined.bits);
    for (std::size_t i = 0; i < 4; ++i) writer.put_bytes(words[i], bits[i]);
    return;
  }
  alignas(32) std::array<std::uint64_t, 4> second;
  alignas(32) std::array<std::uint64_t, 4> second_bits;
  store(words, joined.first);
  store(bits, joined.first_bits);
  store(second, joined.second);
  store(second_bits, joined.second_bits);
  for (std::size_t i = 0; i < 4; ++i) {
    writer.put(words[i], bits[i]);
    writer.put(second[i], second_bits[i]);
  }
}

// Of a code with 32 places: 32 symbols at a time. Returns how many it has put.
std::size_t put_window(BitWriter& to, const HuffmanCode& code, std::span<const std::uint8_t> symbols, std::size_t start,
                       BlockExceptions& exceptions) noexcept {
  BitWriter writer = to;  // of its own: a byte that is stored could be one of to's
  std::array<std::uint8_t, kWindow> low;
  std::array<std::uint8_t, kWindow> high;
  std::array<std::uint8_t, kWindow> lengths;
  for (std::size_t place = 0; place < kWindow; ++place) {
    low[place] = static_cast<std::uint8_t>(code.codes[place]);
    high[place] = static_cast<std::uint8_t>(code.codes[place] >> 8);
    lengths[place] = code.lengths[place];
  }
  const Codes codes{Lookup(low), Lookup(high), Lookup(lengths)};
  const __m256i first = _mm256_set1_epi8(static_cast<char>(code.first));
  const __m256i last_place = _mm256_set1_epi8(kWindow - 1);
  const __m256i zero = _mm256_setzero_si256();
  const __m256i shortest = _mm256_set1_epi8(static_cast<char>(code.shortest));
  std::size_t i = 0;
  for (; i + 32 <= symbols.size(); i += 32) {
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols.data() + i));
    __m256i places = _mm256_sub_epi8(values, first);
    const __m256i inside = _mm256_cmpeq_epi8(_mm256_min_epu8(places, last_place), places);
    const __m256i has_code =
        _mm256_andnot_si256(_mm256_cmpeq_epi8(codes.lengths(places, _mm256_slli_epi16(places, 3)), zero), inside);
    auto missing = ~static_cast<std::uint32_t>(_mm256_movemask_epi8(has_code));
    if (missing != 0) [[unlikely]] {
      for (; missing != 0; missing &= missing - 1) {
        const auto at = i + static_cast<std::size_t>(std::countr_zero(missing));
        exceptions.add(start + at, symbols[at]);
      }
      places = _mm256_blendv_epi8(shortest, places, has_code);
    }
    put(writer, join(codes, places));
  }
  to = writer;
  return i;
}

}  // namespace

std::uint8_t* encode_huffman_stream_avx2(const HuffmanCode& code, const HuffmanEncodeTable& table,
                                         std::span<const std::uint8_t> symbols, std::size_t start, std::uint8_t* out,
                                         BlockExceptions& exceptions) noexcept {
  return put_stream(code, table, symbols, start, out, exceptions, put_window);
}

PlaneError decode_huffman_block_avx2(const HuffmanDecodeTable& table, std::span<const std::uint8_t> streams,
                                     const std::array<std::size_t, kStreams>& lengths, std::size_t readable,
                                     std::span<std::uint8_t> symbols) noexcept {
  return avx2::decode_block(table, streams, lengths, readable, symbols);
}

}  // namespace s4
