// Predictor, rotation and modes of a frame, by the estimated size of a sample. Source: docs/format.md, section 5.
#pragma once

#include "levels.hpp"
#include "plane_codes.hpp"
#include "planes.hpp"

namespace s4 {

// Of levels, without their rows and columns.
inline constexpr std::size_t kPredictorBytes = 12;
// Of a base: the caller puts it in front of the payload.
inline constexpr std::size_t kReferenceBytes = 16;

// octave_bits: 0 where elements are not floats.
struct FrameInput {
  std::span<const std::uint8_t> bytes;
  std::size_t width;
  std::size_t octave_bits;
  Grid grid;
  Effort effort;
  std::span<const Base> bases = {};  // in the order in which they are tried

  std::size_t elements() const noexcept { return bytes.size() / width; }
};

// A way to make a frame's planes. base: which of those that the frame has, where the predictor needs one.
struct Candidate {
  Predictor predictor = Predictor::kNone;
  std::size_t rotation = 0;
  std::size_t base = 0;

  bool operator==(const Candidate&) const = default;
};

// What is left of a base has too many different symbols for Huffman: rANS is smaller there, and no slower.
inline Effort plane_effort(const FrameInput& input, const Candidate& candidate) noexcept {
  return {input.effort.level, input.effort.huffman && !needs_base(candidate.predictor)};
}

struct FrameCode {
  Candidate candidate;
  Levels levels;  // where they are predicted; no rows and columns: the base only
  std::array<PlaneCode, kMaxPlanes> planes;
};

// levels: where the candidate predicts them.
PlaneLayout planes_layout(const FrameInput& input, const Candidate& candidate, const Prediction* levels) noexcept;

void choose_frame_code(const FrameInput& input, FrameCode& code);

}  // namespace s4
