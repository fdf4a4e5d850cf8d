// The Python face of the kernels: checks, allocates, releases the GIL, raises. No work of its own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bind_modes.hpp"
#include "buffers.hpp"
#include "core/crc32c.hpp"
#include "core/payload.hpp"
#include "core/simd.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using s4::Bytes;
using s4::level_of;
using s4::Output;
using s4::Room;
using s4::View;

void check_width(std::size_t width, std::size_t bytes) {
  if (width != 1 && width != 2 && width != 4 && width != 8) {
    throw nb::value_error("width: expected 1, 2, 4 or 8");
  }
  if (bytes % width != 0) throw nb::value_error("length: expected a multiple of width");
}

const char* describe(s4::PlaneError error) {
  switch (error) {
    case s4::PlaneError::kTruncated: return "truncated: expected more bytes, found the end";
    case s4::PlaneError::kLengths: return "lengths: expected blocks and exceptions that fill the plane";
    case s4::PlaneError::kTable: return "table: expected code lengths that fit or frequencies that sum to 4096";
    case s4::PlaneError::kState: return "state: expected lane states of at least 65536";
    case s4::PlaneError::kWords: return "checksum: expected to end with every word used and every state at 65536";
    case s4::PlaneError::kStream: return "checksum: expected streams that end where their codes do";
    case s4::PlaneError::kParameters: return "parameters: expected value and mask without a common bit";
    case s4::PlaneError::kException: return "exceptions: expected ascending positions within the block";
    case s4::PlaneError::kKind: return "kind: expected GDeflate blocks of kind 0, 1 or 2";
    case s4::PlaneError::kSymbol: return "symbol: expected codes of the block's tables, found bits that are none";
    case s4::PlaneError::kDistance: return "distance: expected a match that begins within its page";
    case s4::PlaneError::kBlocks: return "limit: expected at most 256 GDeflate blocks in a page";
    case s4::PlaneError::kNone: break;
  }
  return "no error";
}

std::string describe(const s4::PayloadFault& fault) {
  const std::string where = std::string(fault.levels ? "level plane " : "plane ") + std::to_string(fault.plane) +
                            " at payload byte " + std::to_string(fault.offset);
  switch (fault.error) {
    case s4::PayloadError::kTruncated: return "truncated: " + where + ": expected descriptors, found the end";
    case s4::PayloadError::kLengths: return "lengths: " + where + ": expected planes that fill the payload exactly";
    case s4::PayloadError::kReserved: return "reserved: " + where + ": expected zero bytes";
    case s4::PayloadError::kMode:
      return "mode: " + where + ": expected a known mode, found " + std::to_string(fault.found);
    case s4::PayloadError::kLevels:
      return "levels: " + where + ": expected rows and columns of the frame and an even base";
    case s4::PayloadError::kPlane: {
      const std::string text = describe(fault.plane_error);
      const std::size_t colon = text.find(':');
      return text.substr(0, colon) + ": " + where + text.substr(colon);
    }
    case s4::PayloadError::kNone: break;
  }
  return "no error";
}

// One a thread, made when it first works and kept: frames come one after another.
s4::Workspace& workspace() {
  thread_local const auto mine = std::make_unique<s4::Workspace>();
  return *mine;
}

void check_element(std::size_t width, std::size_t octave_bits, std::size_t bytes) {
  check_width(width, bytes);
  if (octave_bits != 0 && ((octave_bits != 5 && octave_bits != 8 && octave_bits != 11) || width == 1)) {
    throw nb::value_error("octave_bits: expected 0, or 5, 8 or 11 and more than one byte an element");
  }
}

bool is_bf16(std::size_t width, std::size_t octave_bits) { return width == 2 && octave_bits == 8; }
bool is_fp32(std::size_t width, std::size_t octave_bits) { return width == 4 && octave_bits == 8; }

// What a frame header says, checked, and the base that it needs, held as long as this lives.
class Decoding {
 public:
  Decoding(std::size_t width, std::size_t octave_bits, unsigned predictor, unsigned layout, std::size_t frame_bytes,
           nb::handle base)
      : layout_{width, octave_bits, layout == 0 ? 0U : layout - 1U, s4::Predictor::kNone}, copy_(layout == 0) {
    check_element(width, octave_bits, frame_bytes);
    if (predictor > static_cast<unsigned>(s4::Predictor::kWidened)) {
      throw nb::value_error("predictor: expected 0 to 5");
    }
    layout_.predictor = s4::Predictor{static_cast<std::uint8_t>(predictor)};
    if (!element_fits()) throw nb::value_error("predictor: expected one for these elements");
    if (!layout_fits(layout)) throw nb::value_error("layout: expected one for these elements and their predictor");
    if (!base.is_none()) base_.emplace(base);
    const std::size_t expected =
        s4::needs_base(layout_.predictor) ? frame_bytes / width * s4::base_width(layout_.predictor, width) : 0;
    const std::size_t found = base_ ? base_->bytes().size() : 0;
    if (found != expected) {
      const std::string text = "lengths: base: expected " + std::to_string(expected) + " bytes, found ";
      throw nb::value_error((text + std::to_string(found)).c_str());
    }
    if (base_) layout_.base = base_->bytes().data();
  }

  // The frame is what is predicted: its payload is empty.
  bool copy() const noexcept { return copy_; }
  const s4::PayloadLayout& layout() const noexcept { return layout_; }

 private:
  // Source: docs/format.md, sections 2.3 and 2.2.
  bool element_fits() const noexcept {
    switch (layout_.predictor) {
      case s4::Predictor::kLevels: return layout_.octave_bits != 0;
      case s4::Predictor::kNarrowed: return is_bf16(layout_.width, layout_.octave_bits);
      case s4::Predictor::kWidened: return is_fp32(layout_.width, layout_.octave_bits);
      default: return true;
    }
  }

  bool layout_fits(unsigned layout) const noexcept {
    const bool floats = layout_.octave_bits != 0;
    switch (layout_.predictor) {
      case s4::Predictor::kXor:
      case s4::Predictor::kNarrowed: return layout == 0 || layout == (floats ? 2U : 1U);
      case s4::Predictor::kDifference:
      case s4::Predictor::kWidened: return layout == 1;
      default: return floats ? layout >= 2 && layout <= 5 : layout == 1;
    }
  }

  s4::PayloadLayout layout_;
  bool copy_;
  std::optional<View> base_;
};

// The bases that a frame is offered, held as long as this lives.
class Offered {
 public:
  Offered(const nb::list& bases, std::size_t frame_bytes, std::size_t width, std::size_t octave_bits) {
    for (const nb::handle one : bases) {
      unsigned kind = 0;
      if (!nb::isinstance<nb::tuple>(one) || nb::len(one) != 2 || !nb::try_cast(one[0], kind)) {
        throw nb::value_error("bases: expected pairs of kind and elements");
      }
      const Bytes elements = views_.emplace_back(one[1]).bytes();
      if (kind > 2 || (kind == 1 && !is_bf16(width, octave_bits)) || (kind == 2 && !is_fp32(width, octave_bits))) {
        throw nb::value_error("bases: expected kind 0, or 1 for bf16, or 2 for fp32");
      }
      const std::size_t expected = kind == 0 ? frame_bytes : kind == 1 ? 2 * frame_bytes : frame_bytes / 2;
      if (elements.size() != expected) {
        const std::string text = "bases: expected " + std::to_string(expected) + " bytes, found ";
        throw nb::value_error((text + std::to_string(elements.size())).c_str());
      }
      bases_.push_back({s4::BaseKind{static_cast<std::uint8_t>(kind)}, elements.data()});
    }
  }
  std::span<const s4::Base> bases() const noexcept { return bases_; }

 private:
  std::deque<View> views_;
  std::vector<s4::Base> bases_;
};

std::uint32_t crc32c(nb::handle data, std::uint32_t initial) {
  const View view(data);
  const nb::gil_scoped_release released;
  return s4::crc32c(view.bytes(), initial);
}

// A frame to encode, with everything that is known of it, held as long as this lives.
class Encoding {
 public:
  Encoding(nb::handle frame, std::size_t width, std::size_t octave_bits, std::uint32_t columns, std::uint32_t column,
           const std::string& level, bool huffman, const nb::list& bases)
      : frame_(frame),
        offered_(bases, frame_.bytes().size(), width, octave_bits),
        input_{frame_.bytes(), width, octave_bits, {columns, column}, {level_of(level), huffman}, offered_.bases()} {
    check_element(width, octave_bits, frame_.bytes().size());
    if (columns != 0 && column >= columns) throw nb::value_error("column: expected one of columns");
  }

  bool empty() const noexcept { return input_.bytes.empty(); }
  std::size_t bound_bytes() const noexcept { return s4::encode_bound_bytes(input_.bytes.size(), input_.width); }

  s4::EncodedPayload to(std::span<std::uint8_t> room) const {
    const nb::gil_scoped_release released;
    return s4::encode_payload(input_, room, workspace());
  }

  // payload: bytes, or their number.
  nb::object described(const s4::EncodedPayload& result, nb::handle payload) const {
    std::vector<int> modes;
    for (std::size_t k = 0; k < input_.width && !result.copy; ++k) modes.push_back(static_cast<int>(result.modes[k]));
    const s4::Candidate& how = result.candidate;
    const nb::object base = s4::needs_base(how.predictor) ? nb::object(nb::int_(how.base)) : nb::none();
    return nb::make_tuple(static_cast<int>(how.predictor), base, result.copy ? 0 : 1 + how.rotation, modes, payload);
  }

 private:
  View frame_;
  Offered offered_;
  s4::FrameInput input_;
};

nb::object encode_payload(nb::handle frame, std::size_t width, std::size_t octave_bits, std::uint32_t columns,
                          std::uint32_t column, const std::string& level, bool huffman, const nb::list& bases) {
  const Encoding encoding(frame, width, octave_bits, columns, column, level, huffman, bases);
  if (encoding.empty()) return nb::none();
  Output out(encoding.bound_bytes());
  const s4::EncodedPayload result = encoding.to(out.bytes());
  if (result.bytes == 0 && !result.copy) return nb::none();
  return encoding.described(result, out.cut(result.bytes));
}

nb::object encode_payload_into(nb::handle frame, std::size_t width, std::size_t octave_bits, std::uint32_t columns,
                               std::uint32_t column, const std::string& level, bool huffman, const nb::list& bases,
                               nb::handle out) {
  const Encoding encoding(frame, width, octave_bits, columns, column, level, huffman, bases);
  const Room room(out);
  if (encoding.empty()) return nb::none();
  if (room.bytes().size() < encoding.bound_bytes()) {
    throw nb::value_error(("out: expected room for " + std::to_string(encoding.bound_bytes()) + " bytes").c_str());
  }
  const s4::EncodedPayload result = encoding.to(room.bytes());
  if (result.bytes == 0 && !result.copy) return nb::none();
  return encoding.described(result, nb::int_(result.bytes));
}

void decode_to(Bytes payload, const Decoding& decoding, std::span<std::uint8_t> frame) {
  if (decoding.copy() && !payload.empty()) {
    throw nb::value_error("lengths: expected no payload of a frame that is its base");
  }
  s4::PayloadFault fault;
  {
    const nb::gil_scoped_release released;
    if (decoding.copy()) return s4::copy_base(decoding.layout().predictor, decoding.layout().base, frame);
    fault = s4::decode_payload(payload, decoding.layout(), frame, workspace());
  }
  if (fault.error != s4::PayloadError::kNone) throw nb::value_error(describe(fault).c_str());
}

nb::bytes decode_payload(nb::handle payload, std::size_t width, std::size_t octave_bits, unsigned predictor,
                         unsigned layout, std::size_t logical_bytes, nb::handle base) {
  const View view(payload);
  const Decoding decoding(width, octave_bits, predictor, layout, logical_bytes, base);
  Output out(logical_bytes);
  decode_to(view.bytes(), decoding, out.bytes());
  return out.object;
}

void decode_payload_into(nb::handle payload, std::size_t width, std::size_t octave_bits, unsigned predictor,
                         unsigned layout, nb::handle out, nb::handle base) {
  const View view(payload);
  const Room room(out);
  const Decoding decoding(width, octave_bits, predictor, layout, room.bytes().size(), base);
  decode_to(view.bytes(), decoding, room.bytes());
}

bool verify_payload(nb::handle payload, std::size_t width, std::size_t octave_bits, unsigned predictor, unsigned layout,
                    nb::handle frame, nb::handle base) {
  const View view(payload);
  const View logical(frame);
  const Decoding decoding(width, octave_bits, predictor, layout, logical.bytes().size(), base);
  const nb::gil_scoped_release released;
  if (!decoding.copy()) return s4::verify_payload(view.bytes(), decoding.layout(), logical.bytes(), workspace());
  const bool wider = decoding.layout().predictor == s4::Predictor::kNarrowed;
  const s4::Base whole{wider ? s4::BaseKind::kWider : s4::BaseKind::kSame, decoding.layout().base};
  return view.bytes().empty() && s4::equals_base(whole, logical.bytes());
}

bool keep_freed_memory(int bytes) {
#if defined(__GLIBC__)
  // Blocks of this size and more would be mapped anew each time, and every page of them touched for the first time.
  constexpr int kGreatestThreshold = 32 << 20;
  return mallopt(M_MMAP_THRESHOLD, kGreatestThreshold) != 0 && mallopt(M_TRIM_THRESHOLD, bytes) != 0;
#else
  static_cast<void>(bytes);
  return false;
#endif
}

std::string set_simd(const std::string& name) {
  constexpr std::array kNames{"scalar", "avx2", "avx512"};  // in the order of s4::Simd
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) throw nb::value_error("name: expected scalar, avx2 or avx512");
  return kNames[static_cast<std::size_t>(s4::set_simd(static_cast<s4::Simd>(found - kNames.begin())))];
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Kernels of the codec. Buffers are C-contiguous; the GIL is released while they work.";
  m.def("crc32c", &crc32c, "data"_a, "initial"_a = 0, "CRC32C (RFC 3720); initial continues an earlier one.");
  m.def(
      "encode_payload", &encode_payload, "frame"_a, "width"_a, "octave_bits"_a, "columns"_a, "column"_a, "level"_a,
      "huffman"_a, "bases"_a,
      nb::sig("def encode_payload(frame: object, width: int, octave_bits: int, columns: int, column: int, level: str, "
              "huffman: bool, bases: list[tuple[int, object]]) "
              "-> tuple[int, int | None, int, list[int], bytes] | None"),
      "(predictor, number of its base, layout, modes, payload) of a frame, or None where it is not smaller. bases: "
      "kind and elements. Layout 0: the frame is what the base predicts, and the payload empty.");
  m.def("decode_payload", &decode_payload, "payload"_a, "width"_a, "octave_bits"_a, "predictor"_a, "layout"_a,
        "logical_bytes"_a, "base"_a = nb::none(),
        "The frame. base: as many elements, where the predictor needs them. Raises ValueError on damage.");
  m.def("encode_bound_bytes", &s4::encode_bound_bytes, "frame_bytes"_a, "width"_a,
        "Room that encode_payload_into needs.");
  m.def("encode_payload_into", &encode_payload_into, "frame"_a, "width"_a, "octave_bits"_a, "columns"_a, "column"_a,
        "level"_a, "huffman"_a, "bases"_a, "out"_a,
        nb::sig("def encode_payload_into(frame: object, width: int, octave_bits: int, columns: int, column: int, "
                "level: str, huffman: bool, bases: list[tuple[int, object]], out: object) "
                "-> tuple[int, int | None, int, list[int], int] | None"),
        "encode_payload into out; the last member is the payload's length.");
  m.def("decode_payload_into", &decode_payload_into, "payload"_a, "width"_a, "octave_bits"_a, "predictor"_a, "layout"_a,
        "out"_a, "base"_a = nb::none(),
        "decode_payload into out, which is the whole frame. Its bytes are undefined after an error.");
  m.def("verify_payload", &verify_payload, "payload"_a, "width"_a, "octave_bits"_a, "predictor"_a, "layout"_a,
        "frame"_a, "base"_a = nb::none(), "Whether the payload decodes to just this frame.");
  s4::bind_modes(m);
  m.def("keep_freed_memory", &keep_freed_memory, "bytes"_a,
        "For the whole process: give memory back to the system only beyond this, an arena. False where it cannot be "
        "set.");
  m.def("set_simd", &set_simd, "name"_a,
        "Use `scalar`, `avx2` or `avx512`, as far as the machine has it. Returns what is used.");
}
