// What the fuzzers share: bytes of an input as choices, and the element types of the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

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

// Of three bits; none where it does not fit the elements.
inline Predictor predictor_of(const Element& element, std::uint32_t chosen) noexcept {
  const bool halves = element.octave_bits == 8;
  switch (chosen % 8) {
    case 1: return Predictor::kXor;
    case 2: return Predictor::kDifference;
    case 3: return halves && element.width == 2 ? Predictor::kNarrowed : Predictor::kNone;
    case 4: return element.octave_bits != 0 ? Predictor::kLevels : Predictor::kNone;
    case 5: return halves && element.width == 4 ? Predictor::kWidened : Predictor::kNone;
    default: return Predictor::kNone;
  }
}

inline std::size_t rotation_of(const Element& element, Predictor predictor, std::uint32_t chosen) noexcept {
  if (element.octave_bits == 0) return 0;
  switch (predictor) {
    case Predictor::kXor:
    case Predictor::kNarrowed: return 1;
    case Predictor::kDifference:
    case Predictor::kWidened: return 0;
    default: return 1 + chosen % 4;
  }
}

// Of just this size: a read behind it is seen. bytes: what it is made from, over and over, with every sign.
inline std::vector<std::uint8_t> made_base(std::size_t size, Bytes bytes) {
  std::vector<std::uint8_t> base(size);
  for (std::size_t i = 0; i < size; ++i) {
    base[i] = static_cast<std::uint8_t>((bytes.empty() ? 0 : bytes[i % bytes.size()]) + 37 * (i / 64));
  }
  return base;
}

inline void expect(bool holds, const char* what) noexcept {
  if (holds) return;
  std::fprintf(stderr, "expected: %s\n", what);
  std::abort();
}

}  // namespace s4::fuzz
