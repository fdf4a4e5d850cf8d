// Predictions from a base, element by element. Source: docs/format.md, sections 2.3 and 5.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace s4 {

// As in a frame header.
enum class Predictor : std::uint8_t {
  kNone = 0,
  kLevels = 1,
  kXor = 2,
  kDifference = 3,
  kNarrowed = 4,
  kWidened = 5,
};

constexpr bool needs_base(Predictor predictor) noexcept { return predictor >= Predictor::kXor; }

// A base's type, beside that of the frame. kWider: fp32 for bf16. kNarrower: bf16 for fp32.
enum class BaseKind : std::uint8_t { kSame = 0, kWider = 1, kNarrower = 2 };

// elements: as many as the frame has.
struct Base {
  BaseKind kind;
  const std::uint8_t* elements;
};

// A prediction of every element of a frame. elements: of the base, from the frame's first on.
struct BasePrediction {
  Predictor predictor = Predictor::kNone;
  bool floats = false;  // of the frame
  const std::uint8_t* elements = nullptr;
};

// Bytes of an element of the base. width: of the frame's.
constexpr std::size_t base_width(Predictor predictor, std::size_t width) noexcept {
  if (predictor == Predictor::kNarrowed) return 2 * width;
  return predictor == Predictor::kWidened ? width / 2 : width;
}

// The prediction that a frame may be on its own: nothing is left of it.
constexpr Predictor copying(BaseKind kind) noexcept {
  return kind == BaseKind::kWider ? Predictor::kNarrowed : Predictor::kXor;
}

// Whether the frame is what copying(base.kind) predicts. frame: whole elements, of two bytes for a wider base.
bool equals_base(const Base& base, std::span<const std::uint8_t> frame) noexcept;

// frame becomes what kXor or kNarrowed predicts.
void copy_base(Predictor predictor, const std::uint8_t* elements, std::span<std::uint8_t> frame) noexcept;

}  // namespace s4
