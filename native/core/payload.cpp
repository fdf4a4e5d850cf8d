#include "payload.hpp"

#include <algorithm>
#include <cstring>

#include "planes.hpp"

namespace s4 {
namespace {

// rANS is tried where it promises more than this part of the plane: below, the time is better spent elsewhere.
constexpr std::size_t kLeastGainShift = 7;

struct Plane {
  Mode mode;
  std::span<const std::uint8_t> stored;
};

// room: rans_bound_bytes(plane.size()) bytes.
Plane encode_plane(std::span<const std::uint8_t> plane, std::span<std::uint8_t> room) noexcept {
  Counts counts;
  histogram(plane, counts);
  if (counts[plane[0]] == plane.size()) return {Mode::kConstant, plane.first(1)};
  Frequencies frequencies;
  normalise(counts, plane.size(), frequencies);
  const std::uint64_t promised = rans_estimate_bytes(counts, frequencies, plane.size());
  if (promised + (plane.size() >> kLeastGainShift) >= plane.size()) return {Mode::kRaw, plane};
  const std::size_t bytes = rans_encode(plane, frequencies, room);
  if (bytes >= plane.size()) return {Mode::kRaw, plane};
  return {Mode::kRans, room.first(bytes)};
}

bool decode_plane(Mode mode, std::span<const std::uint8_t> stored, std::span<std::uint8_t> plane,
                  PayloadFault& fault) noexcept {
  switch (mode) {
    case Mode::kRaw:
      if (stored.size() != plane.size()) break;
      std::memcpy(plane.data(), stored.data(), plane.size());
      return true;
    case Mode::kConstant:
      if (stored.size() != 1) break;
      std::memset(plane.data(), stored[0], plane.size());
      return true;
    case Mode::kRans:
      fault.rans = rans_decode(stored, plane);
      if (fault.rans == RansError::kNone) return true;
      fault.error = PayloadError::kRans;
      return false;
    default: fault.error = PayloadError::kMode; return false;
  }
  fault.error = PayloadError::kLengths;
  return false;
}

}  // namespace

std::size_t encode_scratch_bytes(std::size_t frame_bytes, std::size_t width) noexcept {
  return frame_bytes + rans_bound_bytes(frame_bytes / width);
}

EncodedPayload encode_payload(std::span<const std::uint8_t> frame, std::size_t width, bool rotated,
                              std::span<std::uint8_t> out, std::span<std::uint8_t> scratch) noexcept {
  const std::size_t n = frame.size() / width;
  const auto planes = scratch.first(frame.size());
  const auto room = scratch.subspan(frame.size());
  split_planes(frame, width, rotated, planes);
  EncodedPayload result;
  std::size_t at = width * kDescriptorBytes;
  if (at >= out.size()) return result;
  std::memset(out.data(), 0, at);
  for (std::size_t k = 0; k < width; ++k) {
    const Plane plane = encode_plane(planes.subspan(k * n, n), room);
    if (plane.stored.size() >= out.size() - at) return result;
    std::uint8_t* descriptor = out.data() + k * kDescriptorBytes;
    descriptor[0] = static_cast<std::uint8_t>(plane.mode);
    const auto length = static_cast<std::uint32_t>(plane.stored.size());
    std::memcpy(descriptor + 4, &length, 4);
    std::memcpy(out.data() + at, plane.stored.data(), plane.stored.size());
    at += plane.stored.size();
    result.modes[k] = plane.mode;
  }
  result.bytes = at;
  return result;
}

PayloadFault decode_payload(std::span<const std::uint8_t> payload, std::size_t width, bool rotated,
                            std::span<std::uint8_t> frame, std::span<std::uint8_t> scratch) noexcept {
  const std::size_t n = frame.size() / width;
  PayloadFault fault;
  std::size_t at = width * kDescriptorBytes;
  if (payload.size() < at) return {.error = PayloadError::kTruncated, .offset = payload.size()};
  for (std::size_t k = 0; k < width; ++k) {
    const std::uint8_t* descriptor = payload.data() + k * kDescriptorBytes;
    std::uint32_t length;
    std::memcpy(&length, descriptor + 4, 4);
    fault = {.plane = k, .offset = k * kDescriptorBytes, .found = descriptor[0]};
    if (descriptor[1] != 0 || descriptor[2] != 0 || descriptor[3] != 0) {
      fault.error = PayloadError::kReserved;
      return fault;
    }
    if (length > payload.size() - at) {
      fault.error = PayloadError::kLengths;
      return fault;
    }
    const auto mode = static_cast<Mode>(descriptor[0]);
    fault.offset = at;
    if (!decode_plane(mode, payload.subspan(at, length), scratch.subspan(k * n, n), fault)) return fault;
    at += length;
  }
  if (at != payload.size()) return {.error = PayloadError::kLengths, .plane = width, .offset = at};
  join_planes(scratch.first(frame.size()), width, rotated, frame);
  return {};
}

}  // namespace s4
