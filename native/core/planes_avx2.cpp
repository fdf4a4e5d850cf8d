#include "planes_avx2.hpp"

#include "planes_avx2_lanes.hpp"

#define S4_PLANES_NAMESPACE avx2
#include "planes_loops.hpp"

namespace s4 {
namespace {

// Words of two and of four bytes are done by hand, 32 at a time; the loops do the others, and what is left.
constexpr std::size_t kStep = 32;
// Bytes that are asked for before they are needed: frames come from memory.
constexpr std::size_t kAhead = 4096;

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

// Bytes beside a word: of levels' predictions, or of a base.
template <typename Word, Way kWay>
inline constexpr std::size_t kSideBytes = kWay == Way::kPlain     ? 0
                                          : kWay == Way::kLevels  ? 2
                                          : kWay == Way::kRounded ? (sizeof(Word) == 2 ? 4 : 2)
                                                                  : sizeof(Word);

inline const std::uint16_t* as_levels(const std::uint8_t* side) noexcept {
  return reinterpret_cast<const std::uint16_t*>(side);
}

// A base's next lines, for one step.
template <typename Word, Way kWay>
void prefetch(const std::uint8_t* beside) noexcept {
  if constexpr (kWay != Way::kPlain && kWay != Way::kLevels) {
    for (std::size_t at = 0; at < kStep * kSideBytes<Word, kWay>; at += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(beside) + kAhead + at, _MM_HINT_T0);
    }
  }
}

// Where vectors end, loops go on: their words, predictions and planes from element done on.
template <typename Pointers>
Pointers moved(const Pointers& planes, std::size_t width, std::size_t done) noexcept {
  Pointers to = planes;
  for (std::size_t k = 0; k < width; ++k) to[k] += done;
  return to;
}

// side: the levels' predictions, or the base, of element 0 here.
template <typename Word, Way kWay>
void split_steps(const PlaneLayout& layout, const std::uint8_t* words, const std::uint8_t* side, std::size_t n,
                 const PlanePointers& planes, std::size_t start) noexcept {
  using L = Lanes<Word>;
  constexpr bool kLevels = kWay == Way::kLevels;
  const Rotation<Word> once(1);
  const Rotation<Word> rotate(kLevels ? layout.rotation - 1 : layout.rotation);
  for (std::size_t i = 0; i < n; i += kStep) {
    const std::uint8_t* beside = side + i * kSideBytes<Word, kWay>;
    prefetch<Word, kWay>(beside);
    typename L::Vectors x;
    for (std::size_t k = 0; k < L::kVectors; ++k) {
      const std::uint8_t* from = words + i * sizeof(Word) + 32 * k;
      if (k % 2 == 0) _mm_prefetch(reinterpret_cast<const char*>(from) + kAhead, _MM_HINT_T0);
      x[k] = load(from);
      if constexpr (kLevels) x[k] = L::subtract(once(x[k]), L::lifted(as_levels(beside), k));
      x[k] = rotate(BaseLanes<Word>::template taken<kWay>(x[k], beside, k));
    }
    L::to_planes(x, planes, start + i);
  }
}

template <typename Word, Way kWay, bool kCompare>
bool join_steps(const PlaneLayout& layout, const ConstPlanePointers& planes, const std::uint8_t* side,
                std::size_t start, std::size_t n, std::uint8_t* words, const std::uint8_t* expected) noexcept {
  using L = Lanes<Word>;
  constexpr bool kLevels = kWay == Way::kLevels;
  constexpr std::size_t kBits = 8 * sizeof(Word);
  const Rotation<Word> back(kBits - (kLevels ? layout.rotation - 1 : layout.rotation));
  const Rotation<Word> back_once(kBits - 1);
  __m256i differ = _mm256_setzero_si256();
  for (std::size_t i = 0; i < n; i += kStep) {
    const std::uint8_t* beside = side + i * kSideBytes<Word, kWay>;
    prefetch<Word, kWay>(beside);
    // What is compared was written a moment ago.
    if constexpr (!kCompare) {
      for (std::size_t k = 0; i % 64 == 0 && k < sizeof(Word); ++k) {
        _mm_prefetch(reinterpret_cast<const char*>(planes[k] + start + i) + kAhead, _MM_HINT_T0);
      }
    }
    typename L::Vectors x = L::from_planes(planes, start + i);
    for (std::size_t k = 0; k < L::kVectors; ++k) {
      x[k] = BaseLanes<Word>::template given<kWay>(back(x[k]), beside, k);
      if constexpr (kLevels) x[k] = back_once(L::add(x[k], L::lifted(as_levels(beside), k)));
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

// Calls work<way> once, with the base from element first on; where levels are predicted, once a tile.
template <typename Word, typename Work>
bool for_way(const PlaneLayout& layout, std::size_t first, std::size_t n, const Work& work) noexcept {
  if (layout.levels != nullptr) {
    alignas(64) std::uint16_t predicted[avx2::kTile];
    for (std::size_t start = 0; start < n; start += avx2::kTile) {
      const std::size_t count = n - start < avx2::kTile ? n - start : avx2::kTile;
      layout.levels->get(first + start, count, predicted);
      const auto* side = reinterpret_cast<const std::uint8_t*>(predicted);
      if (!work.template operator()<Way::kLevels>(side, start, count)) return false;
    }
    return true;
  }
  const Predictor predictor = layout.base.predictor;
  if (!needs_base(predictor)) return work.template operator()<Way::kPlain>(nullptr, 0, n);
  const std::uint8_t* side = layout.base.elements + first * base_width(predictor, sizeof(Word));
  if (predictor == Predictor::kXor) return work.template operator()<Way::kXor>(side, 0, n);
  if (predictor != Predictor::kDifference) return work.template operator()<Way::kRounded>(side, 0, n);
  if (layout.base.floats) return work.template operator()<Way::kOrdered>(side, 0, n);
  return work.template operator()<Way::kDifference>(side, 0, n);
}

template <typename Word>
void split_words(const PlaneLayout& layout, const std::uint8_t* words, std::size_t first, std::size_t n,
                 const PlanePointers& planes) noexcept {
  const std::size_t whole = n / kStep * kStep;
  for_way<Word>(layout, first, whole, [&]<Way kWay>(const std::uint8_t* side, std::size_t start, std::size_t count) {
    split_steps<Word, kWay>(layout, words + start * sizeof(Word), side, count, planes, start);
    return true;
  });
  avx2::split<Word>(layout, words + whole * sizeof(Word), first + whole, n - whole, moved(planes, sizeof(Word), whole));
}

template <typename Word, bool kCompare>
bool join_words(const PlaneLayout& layout, const ConstPlanePointers& planes, std::size_t first, std::size_t n,
                std::uint8_t* words, const std::uint8_t* expected) noexcept {
  const std::size_t whole = n / kStep * kStep;
  const bool same = for_way<Word>(
      layout, first, whole, [&]<Way kWay>(const std::uint8_t* side, std::size_t start, std::size_t count) {
        const std::size_t at = start * sizeof(Word);
        return join_steps<Word, kWay, kCompare>(layout, planes, side, start, count, kCompare ? nullptr : words + at,
                                                kCompare ? expected + at : nullptr);
      });
  if (!same) return false;
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

void narrow_words_avx2(const std::uint8_t* wide, std::size_t n, std::uint8_t* out) noexcept {
  const std::size_t whole = n / 16 * 16;
  for (std::size_t i = 0; i < whole; i += 16) store(out + 2 * i, Lanes<std::uint16_t>::rounded(wide + 4 * i, 0));
  avx2::narrow_all(wide + 4 * whole, n - whole, out + 2 * whole);
}

}  // namespace s4
