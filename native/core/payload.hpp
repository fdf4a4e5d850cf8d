// A frame's payload: descriptors and planes. Source: docs/format.md, sections 2.2, 3 and 5.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rans.hpp"

namespace s4 {

inline constexpr std::size_t kMaxPlanes = 8;
inline constexpr std::size_t kDescriptorBytes = 8;

enum class Mode : std::uint8_t { kRaw = 0, kConstant = 1, kRans = 2, kZstd = 3 };

struct EncodedPayload {
  std::size_t bytes = 0;  // 0: not smaller than the frame
  std::array<Mode, kMaxPlanes> modes{};
};

enum class PayloadError { kNone, kTruncated, kLengths, kReserved, kMode, kRans };

struct PayloadFault {
  PayloadError error = PayloadError::kNone;
  RansError rans = RansError::kNone;
  std::size_t plane = 0;
  std::size_t offset = 0;  // in the payload
  std::uint8_t found = 0;
};

// Room that encode_payload needs: planes, then one encoded plane.
std::size_t encode_scratch_bytes(std::size_t frame_bytes, std::size_t width) noexcept;

// frame: n * width bytes. out: frame.size() bytes. scratch: encode_scratch_bytes.
EncodedPayload encode_payload(std::span<const std::uint8_t> frame, std::size_t width, bool rotated,
                              std::span<std::uint8_t> out, std::span<std::uint8_t> scratch) noexcept;

// payload: untrusted. frame: n * width bytes, written whole where the result is kNone. scratch: frame.size() bytes.
PayloadFault decode_payload(std::span<const std::uint8_t> payload, std::size_t width, bool rotated,
                            std::span<std::uint8_t> frame, std::span<std::uint8_t> scratch) noexcept;

}  // namespace s4
