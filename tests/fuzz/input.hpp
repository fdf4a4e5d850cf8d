// What the fuzzers share: bytes of an input as choices, and the element types of the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "core/payload.hpp"
#include "core/simd.hpp"

// libFuzzer's entry; driver.cpp calls it where there is no libFuzzer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace s4::fuzz {

using Bytes = std::span<const std::uint8_t>;

// Two blocks and a bit.
inline constexpr std::size_t kMaxElements = 2 * kBlockSymbols + 1000;

struct Element {
  std::size_t width;
  std::size_t octave_bits;
};

// Integers of all widths, then bf16, fp16, fp32, fp64.
inline constexpr Element kElements[] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {2, 8}, {2, 11}, {4, 8}, {8, 5}};

// Takes little-endian numbers from the front; 0 where nothing is left.
class Choices {
 public:
  explicit Choices(Bytes data) noexcept : data_(data) {}

  std::uint32_t take(std::size_t bytes) noexcept {
    std::uint32_t value = 0;
    for (std::size_t k = 0; k < bytes && !data_.empty(); ++k) {
      value |= std::uint32_t{data_[0]} << (8 * k);
      data_ = data_.subspan(1);
    }
    return value;
  }

  Element element() noexcept { return kElements[take(1) % 8]; }
  Bytes rest() const noexcept { return data_; }

 private:
  Bytes data_;
};

inline void expect(bool holds, const char* what) noexcept {
  if (holds) return;
  std::fprintf(stderr, "expected: %s\n", what);
  std::abort();
}

}  // namespace s4::fuzz
