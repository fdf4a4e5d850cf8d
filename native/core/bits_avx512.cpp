#include "bits_avx512.hpp"

#include <immintrin.h>

#include "bits_columns.hpp"

namespace s4 {
namespace {

// A mask of 64 bits is 64 symbols of a column.
template <std::size_t kCount>
struct Vectors {
  __m512i bits[kCount == 0 ? 1 : kCount];

  explicit Vectors(const std::array<BitColumn, kCount>& columns) noexcept {
    for (std::size_t k = 0; k < kCount; ++k) bits[k] = _mm512_set1_epi8(static_cast<char>(columns[k].bit));
  }
};

template <std::size_t kCount>
std::size_t encode(BitsCode code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                   BlockExceptions& exceptions) noexcept {
  const auto columns = bit_columns<kCount>(code.mask, symbols.size());
  const Vectors<kCount> vectors(columns);
  const __m512i fixed = _mm512_set1_epi8(static_cast<char>(~code.mask));
  const __m512i value = _mm512_set1_epi8(static_cast<char>(code.value));
  std::size_t i = 0;
  for (; i + 64 <= symbols.size(); i += 64) {
    const __m512i x = _mm512_loadu_si512(symbols.data() + i);
    for (std::uint64_t other = _mm512_cmpneq_epi8_mask(_mm512_and_si512(x, fixed), value); other != 0;
         other &= other - 1) {
      const auto at = i + static_cast<std::size_t>(std::countr_zero(other));
      exceptions.add(at, symbols[at]);
    }
    for (std::size_t k = 0; k < kCount; ++k) {
      store64(out + columns[k].start + i / 8, _mm512_test_epi8_mask(x, vectors.bits[k]));
    }
  }
  return i;
}

template <std::size_t kCount>
std::size_t decode(BitsCode code, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept {
  const auto columns = bit_columns<kCount>(code.mask, symbols.size());
  const Vectors<kCount> vectors(columns);
  const __m512i value = _mm512_set1_epi8(static_cast<char>(code.value));
  std::size_t i = 0;
  for (; i + 64 <= symbols.size(); i += 64) {
    if (i % 512 == 0) prefetch_columns(columns, stored + i / 8);
    __m512i x = value;
    for (std::size_t k = 0; k < kCount; ++k) {
      x = _mm512_mask_add_epi8(x, load64(stored + columns[k].start + i / 8), x, vectors.bits[k]);
    }
    _mm512_storeu_si512(symbols.data() + i, x);
  }
  return i;
}

}  // namespace

std::size_t encode_bits_avx512(BitsCode code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                               BlockExceptions& exceptions) noexcept {
  return for_columns(code.mask,
                     [&]<std::size_t kCount>() noexcept { return encode<kCount>(code, symbols, out, exceptions); });
}

std::size_t decode_bits_avx512(BitsCode code, const std::uint8_t* stored, std::span<std::uint8_t> symbols) noexcept {
  return for_columns(code.mask, [&]<std::size_t kCount>() noexcept { return decode<kCount>(code, stored, symbols); });
}

}  // namespace s4
