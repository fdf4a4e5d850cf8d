#include "planes_avx2.hpp"

#include <immintrin.h>

#define S4_PLANES_NAMESPACE avx2
#include "planes_loops.hpp"

namespace s4 {
namespace {

// Words of two and of four bytes are done by hand, 32 at a time; the loops do the others, and what is left.
constexpr std::size_t kStep = 32;
// Bytes that are asked for before they are needed: frames come from memory.
constexpr std::size_t kAhead = 4096;

inline __m256i load(const void* at) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
inline void store(void* at, __m256i value) noexcept { _mm256_storeu_si256(static_cast<__m256i*>(at), value); }

// std::array would drop the alignment of its elements.
template <std::size_t kCount>
struct VectorArray {
  __m256i x[kCount];
  __m256i& operator[](std::size_t k) noexcept { return x[k]; }
  const __m256i& operator[](std::size_t k) const noexcept { return x[k]; }
};

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
  // The k-th vector's predictions, at the top of its words.
  static __m256i lifted(const std::uint16_t* predicted, std::size_t k) noexcept { return load(predicted + 16 * k); }

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
  static __m256i lifted(const std::uint16_t* predicted, std::size_t k) noexcept {
    const __m128i tops = _mm_loadu_si128(reinterpret_cast<const __m128i*>(predicted + 8 * k));
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(tops), 16);
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

// A rotation to the left, by a number of bits that is the same for all.
template <typename Word>
class Rotation {
 public:
  explicit Rotation(std::size_t bits) noexcept
      : left_(_mm_cvtsi32_si128(static_cast<int>(bits))), right_(_mm_cvtsi32_si128(static_cast<int>(kBits - bits))) {}

  __m256i operator()(__m256i x) const noexcept {
    return _mm256_or_si256(Lanes<Word>::left(x, left_), Lanes<Word>::right(x, right_));
  }

 private:
  static constexpr std::size_t kBits = 8 * sizeof(Word);
  __m128i left_;
  __m128i right_;
};

// Where vectors end, loops go on: their words, predictions and planes from element done on.
template <typename Pointers>
Pointers moved(const Pointers& planes, std::size_t width, std::size_t done) noexcept {
  Pointers to = planes;
  for (std::size_t k = 0; k < width; ++k) to[k] += done;
  return to;
}

template <typename Word, bool kPredicted>
void split_steps(const PlaneLayout& layout, const std::uint8_t* words, const std::uint16_t* predicted, std::size_t n,
                 const PlanePointers& planes, std::size_t start) noexcept {
  using L = Lanes<Word>;
  const Rotation<Word> once(1);
  const Rotation<Word> rotate(kPredicted ? layout.rotation - 1 : layout.rotation);
  for (std::size_t i = 0; i < n; i += kStep) {
    typename L::Vectors x;
    for (std::size_t k = 0; k < L::kVectors; ++k) {
      const std::uint8_t* from = words + i * sizeof(Word) + 32 * k;
      if (k % 2 == 0) _mm_prefetch(reinterpret_cast<const char*>(from) + kAhead, _MM_HINT_T0);
      x[k] = load(from);
      if constexpr (kPredicted) x[k] = L::subtract(once(x[k]), L::lifted(predicted + i, k));
      x[k] = rotate(x[k]);
    }
    L::to_planes(x, planes, start + i);
  }
}

template <typename Word, bool kPredicted>
typename Lanes<Word>::Vectors join_step(const Rotation<Word>& back, const Rotation<Word>& back_once,
                                        const std::uint16_t* predicted, const ConstPlanePointers& planes,
                                        std::size_t at) noexcept {
  using L = Lanes<Word>;
  typename L::Vectors x = L::from_planes(planes, at);
  for (std::size_t k = 0; k < L::kVectors; ++k) {
    x[k] = back(x[k]);
    if constexpr (kPredicted) x[k] = back_once(L::add(x[k], L::lifted(predicted, k)));
  }
  return x;
}

template <typename Word, bool kPredicted, bool kCompare>
bool join_steps(const PlaneLayout& layout, const ConstPlanePointers& planes, const std::uint16_t* predicted,
                std::size_t start, std::size_t n, std::uint8_t* words, const std::uint8_t* expected) noexcept {
  constexpr std::size_t kBits = 8 * sizeof(Word);
  const Rotation<Word> back(kBits - (kPredicted ? layout.rotation - 1 : layout.rotation));
  const Rotation<Word> back_once(kBits - 1);
  __m256i differ = _mm256_setzero_si256();
  for (std::size_t i = 0; i < n; i += kStep) {
    const auto x =
        join_step<Word, kPredicted>(back, back_once, kPredicted ? predicted + i : nullptr, planes, start + i);
    for (std::size_t k = 0; k < Lanes<Word>::kVectors; ++k) {
      const std::size_t at = i * sizeof(Word) + 32 * k;
      if constexpr (kCompare) {
        differ = _mm256_or_si256(differ, _mm256_xor_si256(x[k], load(expected + at)));
      } else {
        store(words + at, x[k]);
      }
    }
  }
  return _mm256_testz_si256(differ, differ) != 0;
}

template <typename Word>
void split_words(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
                 const PlanePointers& planes) noexcept {
  const std::size_t whole = n / kStep * kStep;
  if (layout.prediction == nullptr) {
    split_steps<Word, false>(layout, words, nullptr, whole, planes, 0);
  } else {
    alignas(64) std::uint16_t predicted[avx2::kTile];
    for (std::size_t start = 0; start < whole; start += avx2::kTile) {
      const std::size_t count = whole - start < avx2::kTile ? whole - start : avx2::kTile;
      layout.prediction->get(first + start, count, predicted);
      split_steps<Word, true>(layout, words + start * sizeof(Word), predicted, count, planes, start);
    }
  }
  avx2::split<Word>(layout, words + whole * sizeof(Word), first + whole, n - whole, moved(planes, sizeof(Word), whole));
}

template <typename Word, bool kCompare>
bool join_words(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                std::uint8_t* words, const std::uint8_t* expected) noexcept {
  const std::size_t whole = n / kStep * kStep;
  if (layout.prediction == nullptr) {
    if (!join_steps<Word, false, kCompare>(layout, planes, nullptr, 0, whole, words, expected)) return false;
  } else {
    alignas(64) std::uint16_t predicted[avx2::kTile];
    for (std::size_t start = 0; start < whole; start += avx2::kTile) {
      const std::size_t count = whole - start < avx2::kTile ? whole - start : avx2::kTile;
      layout.prediction->get(first + start, count, predicted);
      const std::size_t at = start * sizeof(Word);
      if (!join_steps<Word, true, kCompare>(layout, planes, predicted, start, count, kCompare ? nullptr : words + at,
                                            kCompare ? expected + at : nullptr)) {
        return false;
      }
    }
  }
  const auto rest = moved(planes, sizeof(Word), whole);
  const std::size_t at = whole * sizeof(Word);
  if constexpr (kCompare) return avx2::equal<Word>(layout, rest, first + whole, n - whole, expected + at);
  avx2::join<Word>(layout, rest, first + whole, n - whole, words + at);
  return true;
}

}  // namespace

void split_planes_avx2(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
                       const PlanePointers& planes) noexcept {
  switch (layout.width) {
    case 2: return split_words<std::uint16_t>(layout, words, first, n, planes);
    case 4: return split_words<std::uint32_t>(layout, words, first, n, planes);
    default: return avx2::split_any(layout, words, first, n, planes);
  }
}

void join_planes_avx2(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                      std::uint8_t* words) noexcept {
  switch (layout.width) {
    case 2: join_words<std::uint16_t, false>(layout, planes, first, n, words, nullptr); return;
    case 4: join_words<std::uint32_t, false>(layout, planes, first, n, words, nullptr); return;
    default: return avx2::join_any(layout, planes, first, n, words);
  }
}

bool planes_equal_avx2(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                       const std::uint8_t* words) noexcept {
  switch (layout.width) {
    case 2: return join_words<std::uint16_t, true>(layout, planes, first, n, nullptr, words);
    case 4: return join_words<std::uint32_t, true>(layout, planes, first, n, nullptr, words);
    default: return avx2::equal_any(layout, planes, first, n, words);
  }
}

}  // namespace s4
