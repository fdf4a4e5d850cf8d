// A frame's payload: predictor, descriptors and planes. Source: docs/format.md, sections 2.2 to 3 and 5.
#pragma once

#include <memory>

#include "choose.hpp"
#include "plane_decoder.hpp"
#include "plane_encoder.hpp"

namespace s4 {

inline constexpr std::size_t kDescriptorBytes = 8;
inline constexpr std::size_t kRoomBytes = kChunkSymbols + kSlack;

// What one thread needs to encode and decode: made once, used for every frame.
struct Workspace {
  FrameCode code;
  std::array<PlaneEncoder, kMaxPlanes> encoders;
  std::array<PlaneDecoder, kMaxPlanes> decoders;
  std::array<std::array<std::uint8_t, kRoomBytes>, kMaxPlanes> rooms;
  std::array<std::vector<std::uint8_t>, kMaxPlanes> coded;
  std::vector<std::int8_t> levels;
};

// bytes 0 and no copy: not smaller than the frame. copy: the frame is what is predicted, and has no planes.
struct EncodedPayload {
  std::size_t bytes = 0;
  bool copy = false;
  Candidate candidate;
  std::array<Mode, kMaxPlanes> modes{};
};

enum class PayloadError { kNone, kTruncated, kLengths, kReserved, kMode, kLevels, kPlane };

struct PayloadFault {
  PayloadError error = PayloadError::kNone;
  PlaneError plane_error = PlaneError::kNone;
  bool levels = false;  // whether plane counts level planes
  std::size_t plane = 0;
  std::size_t offset = 0;  // in the payload
  std::uint8_t found = 0;
};

// What the frame header says, or the frame itself. base: as many elements as the frame has, where the predictor needs
// it.
struct PayloadLayout {
  std::size_t width;
  std::size_t octave_bits;
  std::size_t rotation;
  Predictor predictor;
  const std::uint8_t* base = nullptr;
};

// Room that encode_payload needs in out.
std::size_t encode_bound_bytes(std::size_t frame_bytes, std::size_t width) noexcept;

// out: encode_bound_bytes(input.bytes.size(), input.width).
EncodedPayload encode_payload(const FrameInput& input, std::span<std::uint8_t> out, Workspace& workspace);

// payload: untrusted. frame: written whole where the result is kNone.
PayloadFault decode_payload(std::span<const std::uint8_t> payload, const PayloadLayout& layout,
                            std::span<std::uint8_t> frame, Workspace& workspace);

// Whether the payload decodes to this frame; nothing is written.
bool verify_payload(std::span<const std::uint8_t> payload, const PayloadLayout& layout,
                    std::span<const std::uint8_t> frame, Workspace& workspace);

}  // namespace s4
