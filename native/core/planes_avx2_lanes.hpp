// Vectors of words and of their planes: what planes_avx2.cpp is made from, and nobody else includes.
#pragma once

#include <immintrin.h>

#include "planes.hpp"

namespace s4 {
namespace {

inline __m256i load(const void* at) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
inline void store(void* at, __m256i value) noexcept { _mm256_storeu_si256(static_cast<__m256i*>(at), value); }

// std::array would drop the alignment of its elements.
template <std::size_t kCount>
struct VectorArray {
  __m256i x[kCount];
  __m256i& operator[](std::size_t k) noexcept { return x[k]; }
  const __m256i& operator[](std::size_t k) const noexcept { return x[k]; }
};

// fp32 to bf16, in the lower half.
inline __m256i narrowed(__m256i b) noexcept {
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(b, _mm256_add_epi32(odd, _mm256_set1_epi32(32767))), 16);
}

// Lanes of 16 or 32 bits.
template <typename Word>
struct Lanes;

template <>
struct Lanes<std::uint16_t> {
  static constexpr std::size_t kVectors = 2;
  using Vectors = VectorArray<kVectors>;
  static __m256i left(__m256i x, __m128i bits) noexcept { return _mm256_sll_epi16(x, bits); }
  static __m256i right(__m256i x, __m128i bits) noexcept { return _mm256_srl_epi16(x, bits); }
  static __m256i add(__m256i a, __m256i b) noexcept { return _mm256_add_epi16(a, b); }
  static __m256i subtract(__m256i a, __m256i b) noexcept { return _mm256_sub_epi16(a, b); }
  static __m256i top_bits() noexcept { return _mm256_set1_epi16(INT16_MIN); }
  static __m256i low_bits() noexcept { return _mm256_set1_epi16(1); }
  // All ones where the top bit is set.
  static __m256i signs(__m256i x) noexcept { return _mm256_srai_epi16(x, 15); }
  // The k-th vector's predictions, at the top of its words.
  static __m256i lifted(const std::uint16_t* predicted, std::size_t k) noexcept { return load(predicted + 16 * k); }
  // The k-th vector's elements of an fp32 base, rounded.
  static __m256i rounded(const std::uint8_t* wide, std::size_t k) noexcept {
    const __m256i both = _mm256_packus_epi32(narrowed(load(wide + 64 * k)), narrowed(load(wide + 64 * k + 32)));
    return _mm256_permute4x64_epi64(both, 0b11011000);
  }

  static void to_planes(const Vectors& x, const PlanePointers& planes, std::size_t at) noexcept {
    const __m256i low = _mm256_set1_epi16(0xFF);
    const __m256i first = _mm256_packus_epi16(_mm256_and_si256(x[0], low), _mm256_and_si256(x[1], low));
    const __m256i second = _mm256_packus_epi16(_mm256_srli_epi16(x[0], 8), _mm256_srli_epi16(x[1], 8));
    store(planes[0] + at, _mm256_permute4x64_epi64(first, 0b11011000));
    store(planes[1] + at, _mm256_permute4x64_epi64(second, 0b11011000));
  }

  static Vectors from_planes(const ConstPlanePointers& planes, std::size_t at) noexcept {
    const __m256i first = load(planes[0] + at);
    const __m256i second = load(planes[1] + at);
    const __m256i low = _mm256_unpacklo_epi8(first, second);
    const __m256i high = _mm256_unpackhi_epi8(first, second);
    return {{_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)}};
  }
};

template <>
struct Lanes<std::uint32_t> {
  static constexpr std::size_t kVectors = 4;
  using Vectors = VectorArray<kVectors>;
  static __m256i left(__m256i x, __m128i bits) noexcept { return _mm256_sll_epi32(x, bits); }
  static __m256i right(__m256i x, __m128i bits) noexcept { return _mm256_srl_epi32(x, bits); }
  static __m256i add(__m256i a, __m256i b) noexcept { return _mm256_add_epi32(a, b); }
  static __m256i subtract(__m256i a, __m256i b) noexcept { return _mm256_sub_epi32(a, b); }
  static __m256i top_bits() noexcept { return _mm256_set1_epi32(INT32_MIN); }
  static __m256i low_bits() noexcept { return _mm256_set1_epi32(1); }
  static __m256i signs(__m256i x) noexcept { return _mm256_srai_epi32(x, 31); }
  static __m256i lifted(const std::uint16_t* predicted, std::size_t k) noexcept {
    const __m128i tops = _mm_loadu_si128(reinterpret_cast<const __m128i*>(predicted + 8 * k));
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(tops), 16);
  }
  // The least that the k-th vector's elements of a bf16 base may have been before they were rounded.
  static __m256i rounded(const std::uint8_t* narrow, std::size_t k) noexcept {
    const __m128i tops = _mm_loadu_si128(reinterpret_cast<const __m128i*>(narrow + 16 * k));
    return _mm256_sub_epi32(_mm256_slli_epi32(_mm256_cvtepu16_epi32(tops), 16), _mm256_set1_epi32(32768));
  }

  static void to_planes(const Vectors& x, const PlanePointers& planes, std::size_t at) noexcept {
    // Within 128 bits: byte 0 of four words, byte 1 of four words, ...
    const __m256i grouped = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9,
                                             13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i a = _mm256_shuffle_epi8(x[0], grouped);
    const __m256i b = _mm256_shuffle_epi8(x[1], grouped);
    const __m256i c = _mm256_shuffle_epi8(x[2], grouped);
    const __m256i d = _mm256_shuffle_epi8(x[3], grouped);
    const __m256i ab_low = _mm256_unpacklo_epi32(a, b);
    const __m256i ab_high = _mm256_unpackhi_epi32(a, b);
    const __m256i cd_low = _mm256_unpacklo_epi32(c, d);
    const __m256i cd_high = _mm256_unpackhi_epi32(c, d);
    store(planes[0] + at, _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ab_low, cd_low), in_order));
    store(planes[1] + at, _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ab_low, cd_low), in_order));
    store(planes[2] + at, _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi64(ab_high, cd_high), in_order));
    store(planes[3] + at, _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi64(ab_high, cd_high), in_order));
  }

  static Vectors from_planes(const ConstPlanePointers& planes, std::size_t at) noexcept {
    const __m256i p0 = load(planes[0] + at);
    const __m256i p1 = load(planes[1] + at);
    const __m256i p2 = load(planes[2] + at);
    const __m256i p3 = load(planes[3] + at);
    const __m256i low01 = _mm256_unpacklo_epi8(p0, p1);
    const __m256i high01 = _mm256_unpackhi_epi8(p0, p1);
    const __m256i low23 = _mm256_unpacklo_epi8(p2, p3);
    const __m256i high23 = _mm256_unpackhi_epi8(p2, p3);
    const __m256i a = _mm256_unpacklo_epi16(low01, low23);    // words 0-3, 16-19
    const __m256i b = _mm256_unpackhi_epi16(low01, low23);    // words 4-7, 20-23
    const __m256i c = _mm256_unpacklo_epi16(high01, high23);  // words 8-11, 24-27
    const __m256i d = _mm256_unpackhi_epi16(high01, high23);  // words 12-15, 28-31
    return {{_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(c, d, 0x20),
             _mm256_permute2x128_si256(a, b, 0x31), _mm256_permute2x128_si256(c, d, 0x31)}};
  }
};

// What a word is predicted from. kDifference: integers; kOrdered: floats. kRounded: a base of another width.
enum class Way { kPlain, kLevels, kXor, kDifference, kOrdered, kRounded };

template <typename Word>
class BaseLanes {
 public:
  // What is left of x, given the k-th vector of the base.
  template <Way kWay>
  static __m256i taken(__m256i x, const std::uint8_t* base, std::size_t k) noexcept {
    if constexpr (kWay == Way::kXor) return _mm256_xor_si256(x, load(base + 32 * k));
    if constexpr (kWay == Way::kDifference) return zigzag(L::subtract(x, load(base + 32 * k)));
    if constexpr (kWay == Way::kOrdered) return zigzag(L::subtract(order(x), order(load(base + 32 * k))));
    if constexpr (kWay != Way::kRounded) return x;
    const __m256i rounded = L::rounded(base, k);
    return sizeof(Word) == 2 ? _mm256_xor_si256(x, rounded) : L::subtract(x, rounded);
  }

  // The exact inverse of taken.
  template <Way kWay>
  static __m256i given(__m256i x, const std::uint8_t* base, std::size_t k) noexcept {
    if constexpr (kWay == Way::kXor) return _mm256_xor_si256(x, load(base + 32 * k));
    if constexpr (kWay == Way::kDifference) return L::add(unzigzag(x), load(base + 32 * k));
    if constexpr (kWay == Way::kOrdered) return unorder(L::add(unzigzag(x), order(load(base + 32 * k))));
    if constexpr (kWay != Way::kRounded) return x;
    const __m256i rounded = L::rounded(base, k);
    return sizeof(Word) == 2 ? _mm256_xor_si256(x, rounded) : L::add(x, rounded);
  }

 private:
  using L = Lanes<Word>;

  static __m256i order(__m256i x) noexcept { return _mm256_xor_si256(x, _mm256_or_si256(L::signs(x), L::top_bits())); }
  static __m256i unorder(__m256i y) noexcept {
    const __m256i negative = _mm256_andnot_si256(L::signs(y), _mm256_set1_epi8(-1));
    return _mm256_xor_si256(y, _mm256_or_si256(negative, L::top_bits()));
  }
  static __m256i zigzag(__m256i d) noexcept { return _mm256_xor_si256(L::add(d, d), L::signs(d)); }
  static __m256i unzigzag(__m256i z) noexcept {
    const __m256i odd = L::subtract(_mm256_setzero_si256(), _mm256_and_si256(z, L::low_bits()));
    return _mm256_xor_si256(L::right(z, _mm_cvtsi32_si128(1)), odd);
  }
};

}  // namespace
}  // namespace s4
