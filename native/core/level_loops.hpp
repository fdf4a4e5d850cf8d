// The loops of level_kernels.hpp, compiled once for each instruction set: the compiler vectorises them.
#pragma once

#include <cstring>

#include "level_kernels.hpp"

#ifndef S4_LEVELS_NAMESPACE
#error "define S4_LEVELS_NAMESPACE: each instruction set needs a namespace of its own"
#endif

namespace s4::S4_LEVELS_NAMESPACE {

inline constexpr std::int32_t kResidualLimit = 2047;

template <typename Word>
inline std::uint16_t top(const std::uint8_t* words, std::size_t i) noexcept {
  Word word;
  std::memcpy(&word, words + i * sizeof(Word), sizeof(Word));
  if constexpr (sizeof(Word) == 2) {
    return static_cast<std::uint16_t>(word << 1 | word >> 15);
  } else {
    return static_cast<std::uint16_t>(word >> (8 * sizeof(Word) - 17));
  }
}

template <typename Word>
RowSum sum_tops_of(const std::uint8_t* words, std::size_t count) noexcept {
  const std::uint16_t first = top<Word>(words, 0);
  std::uint64_t sum = 0;
  std::uint32_t differ = 0;
  // 32 bits hold the sum of 65,536 values of 16.
  constexpr std::size_t kRun = 1U << 16;
  for (std::size_t start = 0; start < count; start += kRun) {
    std::uint32_t part = 0;
    const std::size_t end = count - start < kRun ? count : start + kRun;
    for (std::size_t i = start; i < end; ++i) {
      const std::uint16_t h = top<Word>(words, i);
      part += h;
      differ |= static_cast<std::uint32_t>(h ^ first);
    }
    sum += part;
  }
  return {sum, differ == 0};
}

template <typename Word>
void add_tops_of(const std::uint8_t* words, std::size_t count, std::uint32_t* __restrict sums) noexcept {
  for (std::size_t i = 0; i < count; ++i) sums[i] += top<Word>(words, i);
}

template <typename Word>
void residuals_of(const std::uint8_t* words, std::size_t count, std::int32_t row, const std::int32_t* columns,
                  std::size_t octave_bits, std::int16_t* __restrict out) noexcept {
  const int left = octave_bits < 8 ? 8 - static_cast<int>(octave_bits) : 0;
  const int right = octave_bits > 8 ? static_cast<int>(octave_bits) - 8 : 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t x = (std::int32_t{top<Word>(words, i)} - row - columns[i]) * (1 << left) >> right;
    x = x < -kResidualLimit ? -kResidualLimit : x;
    x = x > kResidualLimit ? kResidualLimit : x;
    out[i] = static_cast<std::int16_t>(x);
  }
}

inline RowSum sum_tops(const std::uint8_t* words, std::size_t width, std::size_t count) noexcept {
  switch (width) {
    case 2: return sum_tops_of<std::uint16_t>(words, count);
    case 4: return sum_tops_of<std::uint32_t>(words, count);
    default: return sum_tops_of<std::uint64_t>(words, count);
  }
}

inline void add_tops(const std::uint8_t* words, std::size_t width, std::size_t count, std::uint32_t* sums) noexcept {
  switch (width) {
    case 2: return add_tops_of<std::uint16_t>(words, count, sums);
    case 4: return add_tops_of<std::uint32_t>(words, count, sums);
    default: return add_tops_of<std::uint64_t>(words, count, sums);
  }
}

inline void residuals(const std::uint8_t* words, std::size_t width, std::size_t count, std::int32_t row,
                      const std::int32_t* columns, std::size_t octave_bits, std::int16_t* out) noexcept {
  switch (width) {
    case 2: return residuals_of<std::uint16_t>(words, count, row, columns, octave_bits, out);
    case 4: return residuals_of<std::uint32_t>(words, count, row, columns, octave_bits, out);
    default: return residuals_of<std::uint64_t>(words, count, row, columns, octave_bits, out);
  }
}

inline std::int64_t dot(const std::int16_t* x, const std::int16_t* b, std::size_t count) noexcept {
  std::int64_t sum = 0;
  for (std::size_t start = 0; start < count; start += kSumRun) {
    const std::size_t end = count - start < kSumRun ? count : start + kSumRun;
    std::int32_t part = 0;
    for (std::size_t i = start; i < end; ++i) part += std::int32_t{x[i]} * b[i];
    sum += part;
  }
  return sum;
}

inline std::int64_t energy(const std::int16_t* x, std::size_t count) noexcept {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::int32_t{x[i]} * x[i];
  return sum;
}

inline void add_scaled(std::int32_t* __restrict sums, std::int16_t factor, const std::int16_t* x,
                       std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) sums[i] += std::int32_t{factor} * x[i];
}

inline void subtract_product(std::int16_t* __restrict x, std::int16_t factor, const std::int16_t* b,
                             std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const auto product = static_cast<std::int16_t>(factor * b[i]);
    x[i] = static_cast<std::int16_t>(x[i] - (product >> 4));
  }
}

// The numbers are known to the compiler, so that one pass with everything in registers is left.
template <std::size_t kProducts, int kShift>
void predict_of(std::uint16_t base, const std::uint16_t* units, const std::int16_t* factors, const std::int16_t* b,
                std::size_t stride, std::size_t count, std::uint16_t* __restrict out) noexcept {
  std::int16_t a[kProducts + 1];
  for (std::size_t k = 0; k < kProducts; ++k) a[k] = factors[k];
  for (std::size_t i = 0; i < count; ++i) {
    auto sum = static_cast<std::uint16_t>(base + units[i]);
    for (std::size_t k = 0; k < kProducts; ++k) {
      const auto product = static_cast<std::int16_t>(a[k] * b[k * stride + i]);
      sum = static_cast<std::uint16_t>(sum + static_cast<std::int16_t>(product >> kShift));
    }
    out[i] = static_cast<std::uint16_t>(sum & 0xFFFE);
  }
}

template <int kShift>
void predict_by(std::uint16_t base, const std::uint16_t* units, std::size_t products, const std::int16_t* factors,
                const std::int16_t* b, std::size_t stride, std::size_t count, std::uint16_t* out) noexcept {
  switch (products) {
    case 0: return predict_of<0, kShift>(base, units, factors, b, stride, count, out);
    case 1: return predict_of<1, kShift>(base, units, factors, b, stride, count, out);
    case 2: return predict_of<2, kShift>(base, units, factors, b, stride, count, out);
    case 3: return predict_of<3, kShift>(base, units, factors, b, stride, count, out);
    case 4: return predict_of<4, kShift>(base, units, factors, b, stride, count, out);
    case 5: return predict_of<5, kShift>(base, units, factors, b, stride, count, out);
    case 6: return predict_of<6, kShift>(base, units, factors, b, stride, count, out);
    case 7: return predict_of<7, kShift>(base, units, factors, b, stride, count, out);
    default: return predict_of<8, kShift>(base, units, factors, b, stride, count, out);
  }
}

inline void predict(std::uint16_t base, const std::uint16_t* units, std::size_t products, const std::int16_t* factors,
                    const std::int16_t* b, std::size_t stride, std::size_t shift, std::size_t count,
                    std::uint16_t* out) noexcept {
  switch (shift) {
    case 1: return predict_by<1>(base, units, products, factors, b, stride, count, out);
    case 4: return predict_by<4>(base, units, products, factors, b, stride, count, out);
    default: return predict_by<7>(base, units, products, factors, b, stride, count, out);
  }
}

inline constexpr LevelKernels kKernels{&sum_tops, &add_tops,   &residuals,        &dot,
                                       &energy,   &add_scaled, &subtract_product, &predict};

}  // namespace s4::S4_LEVELS_NAMESPACE
