#include <algorithm>
#include <cstring>
#include <optional>

#include "histogram.hpp"
#include "payload.hpp"

namespace s4 {
namespace {

constexpr std::size_t kMinCodedLevels = 1024;

void put_descriptor(std::uint8_t* at, Mode mode, std::size_t bytes) noexcept {
  std::memset(at, 0, 4);
  at[0] = static_cast<std::uint8_t>(mode);
  store32(at + 4, bytes);
}

// A plane of levels, with rANS where that pays. Returns what it takes; descriptor is filled in.
std::size_t put_levels(std::span<const std::int8_t> levels, bool may_code, std::uint8_t* descriptor, std::uint8_t* out,
                       PlaneEncoder& encoder, std::vector<std::uint8_t>& room) {
  const std::span<const std::uint8_t> plane(reinterpret_cast<const std::uint8_t*>(levels.data()), levels.size());
  Counts counts{};
  add_histogram(plane, counts);
  if (counts[plane[0]] == plane.size()) {
    out[0] = plane[0];
    put_descriptor(descriptor, Mode::kConstant, 1);
    return 1;
  }
  if (may_code && rans_estimate_bytes(counts, plane.size()) <= 15 * plane.size() / 16) {
    PlaneCode code;
    code.mode = Mode::kRans;
    room.resize(PlaneEncoder::bound_bytes(code, plane.size()));
    encoder.begin(code, plane.size(), counts, room.data());
    bool smaller = true;
    for (std::size_t at = 0; smaller && at < plane.size(); at += kBlockSymbols) {
      smaller = encoder.add(plane.subspan(at, std::min(kBlockSymbols, plane.size() - at)));
    }
    if (smaller) {
      std::memcpy(out, room.data(), encoder.coded_bytes());
      put_descriptor(descriptor, Mode::kRans, encoder.coded_bytes());
      return encoder.coded_bytes();
    }
  }
  std::memcpy(out, plane.data(), plane.size());
  put_descriptor(descriptor, Mode::kRaw, plane.size());
  return plane.size();
}

// The planes of one frame, all in one pass over its blocks.
class PlanesPass {
 public:
  PlanesPass(const FrameInput& input, const PlaneLayout& layout, Workspace& workspace, std::uint8_t* planes)
      : input_(input), layout_(layout), workspace_(workspace), planes_(planes) {}

  // The first plane that its code does not fit, or kMaxPlanes.
  std::size_t run() {
    count_for_rans();
    place();
    const std::size_t n = input_.elements();
    PlanePointers to{};
    for (std::size_t first = 0; first < n; first += kBlockSymbols) {
      const std::size_t m = std::min(kBlockSymbols, n - first);
      split(first, m, to);
      for (std::size_t k = 0; k < input_.width; ++k) {
        if (!workspace_.encoders[k].add({to[k], m})) return k;
      }
    }
    for (std::size_t k = 0; k < input_.width; ++k) workspace_.encoders[k].finish();
    return kMaxPlanes;
  }

  // Moves what was not written to its place. Returns the bytes of all planes.
  std::size_t gather() noexcept {
    std::array<std::size_t, kMaxPlanes + 1> ends{};
    for (std::size_t k = 0; k < input_.width; ++k) ends[k + 1] = ends[k] + workspace_.encoders[k].stored_bytes();
    // From behind: a plane only ever moves towards the end, by the exceptions of those before it.
    for (std::size_t k = input_.width; k-- > 0;) {
      const PlaneEncoder& encoder = workspace_.encoders[k];
      if (planes_ + ends[k] != outs_[k]) std::memmove(planes_ + ends[k], outs_[k], encoder.coded_bytes());
      if (!encoder.exceptions().empty()) {
        std::memcpy(planes_ + ends[k] + encoder.coded_bytes(), encoder.exceptions().data(),
                    encoder.exceptions().size());
      }
    }
    return ends[input_.width];
  }

  // Another code for a plane: from all of it, or none.
  void choose_again(std::size_t k) {
    PlaneCode& plane = workspace_.code.planes[k];
    if (plane.exact) {
      plane.mode = Mode::kRaw;
      return;
    }
    Counts counts{};
    for_blocks([&](std::size_t m) { add_histogram({workspace_.rooms[k].data(), m}, counts); });
    choose_plane_code(counts, input_.elements(), plane_effort(input_, workspace_.code.candidate), plane);
  }

  bool fits(std::size_t room) const noexcept {
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < input_.width; ++k) bytes += workspace_.encoders[k].stored_bytes();
    return bytes < room;
  }

 private:
  const PlaneCode& code(std::size_t k) const noexcept { return workspace_.code.planes[k]; }

  // rANS needs the histogram of the whole plane.
  void count_for_rans() {
    bool needed = false;
    for (std::size_t k = 0; k < input_.width; ++k) {
      counts_[k].fill(0);
      needed = needed || code(k).mode == Mode::kRans;
    }
    if (!needed) return;
    for_blocks([&](std::size_t m) {
      for (std::size_t k = 0; k < input_.width; ++k) {
        if (code(k).mode == Mode::kRans) add_histogram({workspace_.rooms[k].data(), m}, counts_[k]);
      }
    });
  }

  // Every block's planes, in the rooms.
  template <typename Work>
  void for_blocks(Work work) {
    PlanePointers to{};
    const std::size_t n = input_.elements();
    for (std::size_t k = 0; k < input_.width; ++k) to[k] = workspace_.rooms[k].data();
    for (std::size_t first = 0; first < n; first += kBlockSymbols) {
      const std::size_t m = std::min(kBlockSymbols, n - first);
      split_planes(layout_, input_.bytes.data() + first * input_.width, first, m, to);
      work(m);
    }
  }

  // Planes of known size go to their place at once, and the first one behind them; the others to rooms of their own.
  void place() {
    const std::size_t n = input_.elements();
    std::size_t at = 0;
    bool known = true;
    for (std::size_t k = 0; k < input_.width; ++k) {
      const std::size_t bytes = PlaneEncoder::fixed_bytes(code(k), n);
      const std::size_t bound = PlaneEncoder::bound_bytes(code(k), n);
      // Bits that may turn out constant need more room until they do.
      const bool in_place = known && (bytes == bound || (bytes == 0));
      if (in_place) {
        outs_[k] = planes_ + at;
      } else {
        auto& room = workspace_.coded[k];
        if (room.size() < bound) room.resize(bound);
        outs_[k] = room.data();
      }
      workspace_.encoders[k].begin(code(k), n, counts_[k], outs_[k]);
      known = known && bytes != 0;
      at += bytes;
    }
  }

  void split(std::size_t first, std::size_t m, PlanePointers& to) noexcept {
    for (std::size_t k = 0; k < input_.width; ++k) {
      const std::size_t within = code(k).mode == Mode::kRans ? first % kChunkSymbols : 0;
      to[k] = code(k).mode == Mode::kRaw ? outs_[k] + first : workspace_.rooms[k].data() + within;
    }
    split_planes(layout_, input_.bytes.data() + first * input_.width, first, m, to);
  }

  const FrameInput& input_;
  const PlaneLayout& layout_;
  Workspace& workspace_;
  std::uint8_t* planes_;
  PlanePointers outs_{};
  std::array<Counts, kMaxPlanes> counts_;
};

// Whether the frame is what one of its bases predicts: the first of them. Not where a reference is no smaller.
bool find_copy(const FrameInput& input, EncodedPayload& found) noexcept {
  if (input.bytes.size() <= kReferenceBytes) return false;
  for (std::size_t k = 0; k < input.bases.size(); ++k) {
    if (!equals_base(input.bases[k], input.bytes)) continue;
    found.copy = true;
    found.candidate = {copying(input.bases[k].kind), 0, k};
    return true;
  }
  return false;
}

}  // namespace

std::size_t encode_bound_bytes(std::size_t frame_bytes, std::size_t width) noexcept {
  // Levels (an eighth of the elements at most) and descriptors; planes of known size; one plane of unknown size.
  return frame_bytes + 2 * (frame_bytes / width) + 4096 + 2 * kChunkSymbols + 2 * kBlockSymbols;
}

EncodedPayload encode_payload(const FrameInput& input, std::span<std::uint8_t> out, Workspace& workspace) {
  EncodedPayload result;
  if (find_copy(input, result)) return result;
  FrameCode& code = workspace.code;
  choose_frame_code(input, code);
  const std::size_t reference_bytes = needs_base(code.candidate.predictor) ? kReferenceBytes : 0;
  if (input.bytes.size() <= reference_bytes) return result;
  const std::size_t limit = input.bytes.size() - reference_bytes;
  std::size_t at = 0;
  std::size_t descriptors = 0;
  std::optional<Prediction> prediction;
  if (code.candidate.predictor == Predictor::kLevels) {
    const Levels& levels = code.levels;
    const bool grid = levels.size() != 0;
    store32(out.data(), grid ? input.grid.columns : 0);
    store32(out.data() + 4, grid ? input.grid.column : 0);
    store16(out.data() + 8, levels.base);
    store16(out.data() + 10, levels.products);
    descriptors = kPredictorBytes;
    at = descriptors + ((grid ? 2 : 0) + input.width) * kDescriptorBytes;
    if (grid) {
      const bool may_code = std::min(levels.rows.size(), levels.columns.size()) >= kMinCodedLevels;
      for (const auto& plane : {std::span(levels.rows), std::span(levels.columns)}) {
        at += put_levels(plane, may_code, out.data() + descriptors, out.data() + at, workspace.encoders[0],
                         workspace.coded[0]);
        descriptors += kDescriptorBytes;
      }
    }
    prediction.emplace(levels.view(), input.grid, input.octave_bits);
  } else {
    at = input.width * kDescriptorBytes;
  }
  if (at >= limit) return result;
  const PlaneLayout layout = planes_layout(input, code.candidate, prediction ? &*prediction : nullptr);
  PlanesPass pass(input, layout, workspace, out.data() + at);
  for (std::size_t failed = pass.run(); failed != kMaxPlanes; failed = pass.run()) {
    pass.choose_again(failed);
  }
  if (!pass.fits(limit - at)) return result;
  at += pass.gather();
  for (std::size_t k = 0; k < input.width; ++k) {
    const PlaneEncoder& encoder = workspace.encoders[k];
    result.modes[k] = encoder.mode();
    put_descriptor(out.data() + descriptors + k * kDescriptorBytes, encoder.mode(), encoder.stored_bytes());
  }
  result.bytes = at;
  result.candidate = code.candidate;
  return result;
}

}  // namespace s4
