#include <algorithm>
#include <cstring>
#include <optional>

#include "payload.hpp"

namespace s4 {
namespace {

// Opens a payload's planes, then gives its blocks.
class PayloadReader {
 public:
  PayloadReader(std::span<const std::uint8_t> payload, const PayloadLayout& layout, std::size_t n, Workspace& workspace)
      : payload_(payload), layout_(layout), n_(n), workspace_(workspace) {}

  PayloadFault open() {
    if (layout_.predictor == Predictor::kLevels) {
      if (const PayloadFault fault = open_predictor(); fault.error != PayloadError::kNone) return fault;
    } else {
      planes_ = layout_.width * kDescriptorBytes;
      if (payload_.size() < planes_) return {.error = PayloadError::kTruncated, .offset = payload_.size()};
    }
    for (std::size_t k = 0; k < layout_.width; ++k) {
      const PayloadFault fault = open_plane(false, k, n_, workspace_.decoders[k]);
      if (fault.error != PayloadError::kNone) return fault;
      offsets_[k] = planes_ - length_;
    }
    if (planes_ != payload_.size()) {
      return {.error = PayloadError::kLengths, .plane = layout_.width, .offset = planes_};
    }
    return {};
  }

  PayloadFault next(ConstPlanePointers& planes) noexcept {
    for (std::size_t k = 0; k < layout_.width; ++k) {
      const PlaneError error = workspace_.decoders[k].next(workspace_.rooms[k].data(), planes[k]);
      if (error != PlaneError::kNone) {
        return {.error = PayloadError::kPlane, .plane_error = error, .plane = k, .offset = offsets_[k]};
      }
    }
    return {};
  }

  PlaneLayout planes_layout() const noexcept {
    PlaneLayout layout{layout_.width, layout_.rotation, prediction_ ? &*prediction_ : nullptr};
    if (needs_base(layout_.predictor)) layout.base = {layout_.predictor, layout_.octave_bits != 0, layout_.base};
    return layout;
  }

 private:
  PayloadFault open_predictor() {
    if (payload_.size() < kPredictorBytes) return {.error = PayloadError::kTruncated, .offset = payload_.size()};
    const Grid grid{load32(payload_.data()), load32(payload_.data() + 4)};
    const std::uint16_t base = load16(payload_.data() + 8);
    const std::size_t products = payload_[10];
    if (payload_[11] != 0) return {.error = PayloadError::kReserved, .offset = 11};
    const std::size_t c = grid.columns;
    const std::size_t rows = grid.rows(n_);
    if (base % 2 != 0 || products > kMaxProducts || (c == 0 ? grid.column != 0 || products != 0 : grid.column >= c) ||
        (1 + products) * (rows + c) > n_) {
      return {.error = PayloadError::kLevels, .offset = 0};
    }
    descriptors_ = kPredictorBytes;
    planes_ = kPredictorBytes + ((c != 0 ? 2 : 0) + layout_.width) * kDescriptorBytes;
    if (payload_.size() < planes_) return {.error = PayloadError::kTruncated, .offset = payload_.size()};
    const std::size_t row_bytes = (1 + products) * rows;
    workspace_.levels.resize(row_bytes + (1 + products) * c);
    const std::span<std::int8_t> levels = workspace_.levels;
    if (c != 0) {
      for (std::size_t k = 0; k < 2; ++k) {
        const PayloadFault fault = read_levels(k, k == 0 ? levels.first(row_bytes) : levels.subspan(row_bytes));
        if (fault.error != PayloadError::kNone) return fault;
      }
      descriptors_ += 2 * kDescriptorBytes;
    }
    prediction_.emplace(LevelsView{base, products, levels.first(row_bytes), levels.subspan(row_bytes)}, grid,
                        layout_.octave_bits);
    return {};
  }

  PayloadFault read_levels(std::size_t k, std::span<std::int8_t> levels) {
    PlaneDecoder& decoder = workspace_.decoders[0];
    if (const PayloadFault fault = open_plane(true, k, levels.size(), decoder); fault.error != PayloadError::kNone) {
      return fault;
    }
    for (std::size_t at = 0; at < levels.size(); at += kBlockSymbols) {
      const std::uint8_t* symbols = nullptr;
      const PlaneError error = decoder.next(workspace_.rooms[0].data(), symbols);
      if (error != PlaneError::kNone) {
        return {.error = PayloadError::kPlane,
                .plane_error = error,
                .levels = true,
                .plane = k,
                .offset = planes_ - length_};
      }
      std::memcpy(levels.data() + at, symbols, std::min(kBlockSymbols, levels.size() - at));
    }
    return {};
  }

  PayloadFault open_plane(bool levels, std::size_t k, std::size_t n, PlaneDecoder& decoder) {
    const std::size_t at = descriptors_ + k * kDescriptorBytes;
    const std::uint8_t* descriptor = payload_.data() + at;
    length_ = load32(descriptor + 4);
    PayloadFault fault{.levels = levels, .plane = k, .offset = at, .found = descriptor[0]};
    if (descriptor[1] != 0 || descriptor[2] != 0 || descriptor[3] != 0) {
      fault.error = PayloadError::kReserved;
    } else if (length_ > payload_.size() - planes_) {
      fault.error = PayloadError::kLengths;
    } else if (descriptor[0] > static_cast<std::uint8_t>(Mode::kGDeflate) || Mode{descriptor[0]} == Mode::kZstd) {
      fault.error = PayloadError::kMode;
    } else {
      fault.offset = planes_;
      fault.plane_error =
          decoder.open(Mode{descriptor[0]}, payload_.subspan(planes_, length_), n, payload_.size() - planes_);
      if (fault.plane_error != PlaneError::kNone) fault.error = PayloadError::kPlane;
    }
    planes_ += length_;
    return fault;
  }

  std::span<const std::uint8_t> payload_;
  const PayloadLayout& layout_;
  std::size_t n_;
  Workspace& workspace_;
  std::optional<Prediction> prediction_;
  std::size_t descriptors_ = 0;  // offset of the first descriptor that is not of a level plane
  std::size_t planes_ = 0;       // offset of the next plane's stored bytes
  std::size_t length_ = 0;       // of the plane that was opened last
  std::array<std::size_t, kMaxPlanes> offsets_{};
};

}  // namespace

PayloadFault decode_payload(std::span<const std::uint8_t> payload, const PayloadLayout& layout,
                            std::span<std::uint8_t> frame, Workspace& workspace) {
  const std::size_t n = frame.size() / layout.width;
  PayloadReader reader(payload, layout, n, workspace);
  if (const PayloadFault fault = reader.open(); fault.error != PayloadError::kNone) return fault;
  const PlaneLayout planes_layout = reader.planes_layout();
  ConstPlanePointers planes{};
  for (std::size_t first = 0; first < n; first += kBlockSymbols) {
    if (const PayloadFault fault = reader.next(planes); fault.error != PayloadError::kNone) return fault;
    join_planes(planes_layout, planes, first, std::min(kBlockSymbols, n - first), frame.data() + first * layout.width);
  }
  return {};
}

bool verify_payload(std::span<const std::uint8_t> payload, const PayloadLayout& layout,
                    std::span<const std::uint8_t> frame, Workspace& workspace) {
  const std::size_t n = frame.size() / layout.width;
  PayloadReader reader(payload, layout, n, workspace);
  if (reader.open().error != PayloadError::kNone) return false;
  const PlaneLayout planes_layout = reader.planes_layout();
  ConstPlanePointers planes{};
  for (std::size_t first = 0; first < n; first += kBlockSymbols) {
    if (reader.next(planes).error != PayloadError::kNone) return false;
    const std::size_t m = std::min(kBlockSymbols, n - first);
    if (!planes_equal(planes_layout, planes, first, m, frame.data() + first * layout.width)) return false;
  }
  return true;
}

}  // namespace s4
