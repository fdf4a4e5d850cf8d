// The loops of levels.cpp: one row, or a part of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace s4 {

// What is left of an element is at most 2,047, and 1,009 more for each of eight products; a factor at most 127: sums of
// 1,024 products of the two fit 32 bits.
inline constexpr std::size_t kSumRun = 1024;

struct RowSum {
  std::uint64_t sum;
  bool equal;
};

struct LevelKernels {
  // Sum of the top 16 bits (without the sign) of count elements, and whether they are all equal.
  RowSum (*sum_tops)(const std::uint8_t* words, std::size_t width, std::size_t count) noexcept;
  // sums[j] += top of element j.
  void (*add_tops)(const std::uint8_t* words, std::size_t width, std::size_t count, std::uint32_t* sums) noexcept;
  // (top - row - columns[j]) * 256 div 2^octave_bits, limited.
  void (*residuals)(const std::uint8_t* words, std::size_t width, std::size_t count, std::int32_t row,
                    const std::int32_t* columns, std::size_t octave_bits, std::int16_t* out) noexcept;
  // Sum of x * b; b: factors, at most 127.
  std::int64_t (*dot)(const std::int16_t* x, const std::int16_t* b, std::size_t count) noexcept;
  // Sum of x * x, of any x.
  std::int64_t (*energy)(const std::int16_t* x, std::size_t count) noexcept;
  // sums[j] += factor * x[j].
  void (*add_scaled)(std::int32_t* sums, std::int16_t factor, const std::int16_t* x, std::size_t count) noexcept;
  // x[j] -= factor * b[j] div 16.
  void (*subtract_product)(std::int16_t* x, std::int16_t factor, const std::int16_t* b, std::size_t count) noexcept;
  // out[j] = (base + units[j] + the sum over products k of factors[k] * b[k * stride + j] div 2^shift) & ~1.
  // shift: 1, 4 or 7.
  void (*predict)(std::uint16_t base, const std::uint16_t* units, std::size_t products, const std::int16_t* factors,
                  const std::int16_t* b, std::size_t stride, std::size_t shift, std::size_t count,
                  std::uint16_t* out) noexcept;
};

const LevelKernels& level_kernels() noexcept;
extern const LevelKernels kLevelKernelsAvx2;

}  // namespace s4
