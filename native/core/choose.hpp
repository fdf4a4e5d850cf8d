// Predictor, rotation and modes of a frame, by the estimated size of a sample. Source: docs/format.md, section 5.
#pragma once

#include "levels.hpp"
#include "plane_codes.hpp"
#include "planes.hpp"

namespace s4 {

// octave_bits: 0 where elements are not floats.
struct FrameInput {
  std::span<const std::uint8_t> bytes;
  std::size_t width;
  std::size_t octave_bits;
  Grid grid;
  Effort effort;

  std::size_t elements() const noexcept { return bytes.size() / width; }
};

struct FrameCode {
  bool predicted = false;
  std::size_t rotation = 0;
  Levels levels;  // of a predicted frame; no rows and columns: the base only
  std::array<PlaneCode, kMaxPlanes> planes;
};

void choose_frame_code(const FrameInput& input, FrameCode& code);

}  // namespace s4
