#include "huffman_avx512.hpp"

#include <immintrin.h>

#include <bit>

#include "bit_writer.hpp"

namespace s4 {
namespace {

constexpr std::size_t kStep = 64;
// A place's code in the low bits of a word of 16, its length above; a length of 0: no code.
constexpr unsigned kWordLengthShift = 12;
constexpr auto kWordLengths = static_cast<short>(0xFFFFU << kWordLengthShift);

// Bits of several symbols, and how many they are, in each lane.
struct Lanes {
  __m512i codes;
  __m512i bits;
};

__m512i entries_of(const HuffmanCode& code) noexcept {
  alignas(64) std::array<std::uint16_t, kWindow> entries;
  for (std::size_t place = 0; place < kWindow; ++place) {
    entries[place] = static_cast<std::uint16_t>(code.codes[place] | code.lengths[place] << kWordLengthShift);
  }
  return _mm512_load_si512(entries.data());
}

// Entries 2i and 2i + 1 in one lane of 32 bits.
Lanes join_pairs(__m512i entries) noexcept {
  const __m512i code_mask = _mm512_set1_epi32(kCodeMask);
  const __m512i first_bits =
      _mm512_and_si512(_mm512_srli_epi32(entries, kWordLengthShift), _mm512_set1_epi32(0xFFFF >> kWordLengthShift));
  const __m512i second = _mm512_and_si512(_mm512_srli_epi32(entries, 16), code_mask);
  const __m512i second_bits = _mm512_srli_epi32(entries, 16 + kWordLengthShift);
  return {_mm512_or_si512(_mm512_and_si512(entries, code_mask), _mm512_sllv_epi32(second, first_bits)),
          _mm512_add_epi32(first_bits, second_bits)};
}

// Pairs 2i and 2i + 1 in one lane of 64 bits.
Lanes join_fours(Lanes pairs) noexcept {
  const __m512i low = _mm512_set1_epi64(0xFFFFFFFF);
  const __m512i first_bits = _mm512_and_si512(pairs.bits, low);
  const __m512i second = _mm512_sllv_epi64(_mm512_srli_epi64(pairs.codes, 32), first_bits);
  return {_mm512_or_si512(_mm512_and_si512(pairs.codes, low), second),
          _mm512_add_epi64(first_bits, _mm512_srli_epi64(pairs.bits, 32))};
}

// What window's symbols are replaced by, and which of them had a place with a code.
class Window {
 public:
  explicit Window(const HuffmanCode& code) noexcept
      : entries_(entries_of(code)),
        first_(_mm512_set1_epi16(code.first)),
        shortest_(_mm512_set1_epi16(static_cast<short>(code.shortest))) {}

  // The entries of 32 symbols; missing: those that have none.
  __m512i look_up(const std::uint8_t* symbols, __mmask32& missing) const noexcept {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols));
    const __m512i places =
        _mm512_and_si512(_mm512_sub_epi16(_mm512_cvtepu8_epi16(bytes), first_), _mm512_set1_epi16(0xFF));
    const __m512i found = _mm512_permutexvar_epi16(places, entries_);
    const __mmask32 inside = _mm512_cmplt_epu16_mask(places, _mm512_set1_epi16(kWindow));
    missing = ~_mm512_mask_test_epi16_mask(inside, found, _mm512_set1_epi16(kWordLengths));
    return missing == 0 ? found : _mm512_mask_permutexvar_epi16(found, missing, shortest_, entries_);
  }

 private:
  __m512i entries_;
  __m512i first_;
  __m512i shortest_;
};

// Fours of 32 symbols and of the next 32, two of them to a word.
void put(BitWriter& writer, Lanes a, Lanes b) noexcept {
  alignas(64) std::array<std::uint64_t, 8> words;
  alignas(64) std::array<std::uint64_t, 8> counts;
  const __m512i first = _mm512_unpacklo_epi64(a.codes, b.codes);
  const __m512i first_bits = _mm512_unpacklo_epi64(a.bits, b.bits);
  const __m512i second = _mm512_unpackhi_epi64(a.codes, b.codes);
  const __m512i second_bits = _mm512_unpackhi_epi64(a.bits, b.bits);
  const __m512i bits = _mm512_add_epi64(first_bits, second_bits);
  if (_mm512_cmpgt_epu64_mask(bits, _mm512_set1_epi64(BitWriter::kMost)) == 0) [[likely]] {
    _mm512_store_si512(words.data(), _mm512_or_si512(first, _mm512_sllv_epi64(second, first_bits)));
    _mm512_store_si512(counts.data(), bits);
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::size_t i = half; i < 8; i += 2) writer.put_bytes(words[i], counts[i]);
    }
    return;
  }
  for (const Lanes& fours : {a, b}) {
    _mm512_store_si512(words.data(), fours.codes);
    _mm512_store_si512(counts.data(), fours.bits);
    for (std::size_t i = 0; i < 8; ++i) writer.put(words[i], counts[i]);
  }
}

// Of a code with 32 places. Returns how many symbols it has put.
std::size_t put_window(BitWriter& to, const HuffmanCode& code, std::span<const std::uint8_t> symbols, std::size_t start,
                       BlockExceptions& exceptions) noexcept {
  BitWriter writer = to;  // of its own: a byte that is stored could be one of to's
  const Window window(code);
  std::size_t i = 0;
  for (; i + kStep <= symbols.size(); i += kStep) {
    __mmask32 missing_a;
    __mmask32 missing_b;
    const __m512i a = window.look_up(symbols.data() + i, missing_a);
    const __m512i b = window.look_up(symbols.data() + i + kStep / 2, missing_b);
    for (std::uint64_t missing = missing_a | std::uint64_t{missing_b} << 32; missing != 0; missing &= missing - 1) {
      const auto at = i + static_cast<std::size_t>(std::countr_zero(missing));
      exceptions.add(start + at, symbols[at]);
    }
    put(writer, join_fours(join_pairs(a)), join_fours(join_pairs(b)));
  }
  to = writer;
  return i;
}

}  // namespace

std::uint8_t* encode_huffman_stream_avx512(const HuffmanCode& code, const HuffmanEncodeTable& table,
                                           std::span<const std::uint8_t> symbols, std::size_t start, std::uint8_t* out,
                                           BlockExceptions& exceptions) noexcept {
  return put_stream(code, table, symbols, start, out, exceptions, put_window);
}

}  // namespace s4
