// The Python face of the kernels: checks, allocates, releases the GIL, raises. No work of its own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/crc32c.hpp"
#include "core/payload.hpp"
#include "core/simd.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Bytes = std::span<const std::uint8_t>;

// Any C-contiguous buffer, held without a copy as long as this lives.
class View {
 public:
  explicit View(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  }
  ~View() { PyBuffer_Release(&view_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  Bytes bytes() const { return {static_cast<const std::uint8_t*>(view_.buf), static_cast<std::size_t>(view_.len)}; }

 private:
  Py_buffer view_{};
};

// A writable C-contiguous buffer.
class Room {
 public:
  explicit Room(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) throw nb::python_error();
  }
  ~Room() { PyBuffer_Release(&view_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  std::span<std::uint8_t> bytes() const {
    return {static_cast<std::uint8_t*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

// A bytes object that is filled before anybody else sees it.
struct Output {
  explicit Output(std::size_t size)
      : object(nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)))) {
    if (!object.is_valid()) throw nb::python_error();
  }
  std::span<std::uint8_t> bytes() {
    return {reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(object.ptr())), nb::len(object)};
  }
  // The first bytes only; the others are given back.
  nb::bytes cut(std::size_t size) {
    PyObject* raw = object.release().ptr();
    if (_PyBytes_Resize(&raw, static_cast<Py_ssize_t>(size)) != 0) throw nb::python_error();
    object = nb::steal<nb::bytes>(raw);
    return object;
  }
  nb::bytes object;
};

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

s4::Level level_of(const std::string& name) {
  if (name == "fast") return s4::Level::kFast;
  if (name == "balanced") return s4::Level::kBalanced;
  if (name == "small") return s4::Level::kSmall;
  throw nb::value_error("level: expected fast, balanced or small");
}

void check_layout(const s4::PayloadLayout& layout, std::size_t bytes) {
  check_width(layout.width, bytes);
  const std::size_t octave = layout.octave_bits;
  if (octave != 0 && ((octave != 5 && octave != 8 && octave != 11) || layout.width == 1)) {
    throw nb::value_error("octave_bits: expected 0, or 5, 8 or 11 and more than one byte an element");
  }
  const bool rotated = layout.octave_bits != 0 ? layout.rotation >= 1 && layout.rotation <= 4 : layout.rotation == 0;
  if (!rotated) throw nb::value_error("rotation: expected 1 to 4 for floats, else 0");
  if (layout.predicted && layout.octave_bits == 0) throw nb::value_error("predicted: expected floats");
}

std::uint32_t crc32c(nb::handle data, std::uint32_t initial) {
  const View view(data);
  const nb::gil_scoped_release released;
  return s4::crc32c(view.bytes(), initial);
}

s4::FrameInput frame_input(Bytes bytes, std::size_t width, std::size_t octave_bits, std::uint32_t columns,
                           std::uint32_t column, const std::string& level, bool huffman) {
  check_layout({width, octave_bits, octave_bits != 0 ? 1U : 0U, false}, bytes.size());
  if (columns != 0 && column >= columns) throw nb::value_error("column: expected one of columns");
  return {bytes, width, octave_bits, {columns, column}, {level_of(level), huffman}};
}

std::vector<int> modes_of(const s4::EncodedPayload& result, std::size_t width) {
  std::vector<int> modes;
  for (std::size_t k = 0; k < width; ++k) modes.push_back(static_cast<int>(result.modes[k]));
  return modes;
}

nb::object encode_payload(nb::handle frame, std::size_t width, std::size_t octave_bits, std::uint32_t columns,
                          std::uint32_t column, const std::string& level, bool huffman) {
  const View view(frame);
  const s4::FrameInput input = frame_input(view.bytes(), width, octave_bits, columns, column, level, huffman);
  if (input.bytes.empty()) return nb::none();
  Output out(s4::encode_bound_bytes(input.bytes.size(), width));
  const auto room = out.bytes();
  s4::EncodedPayload result;
  {
    const nb::gil_scoped_release released;
    result = s4::encode_payload(input, room, workspace());
  }
  if (result.bytes == 0) return nb::none();
  return nb::make_tuple(result.predicted, result.rotation, modes_of(result, width), out.cut(result.bytes));
}

nb::object encode_payload_into(nb::handle frame, std::size_t width, std::size_t octave_bits, std::uint32_t columns,
                               std::uint32_t column, const std::string& level, bool huffman, nb::handle out) {
  const View view(frame);
  const Room room(out);
  const s4::FrameInput input = frame_input(view.bytes(), width, octave_bits, columns, column, level, huffman);
  if (input.bytes.empty()) return nb::none();
  const std::size_t bound = s4::encode_bound_bytes(input.bytes.size(), width);
  if (room.bytes().size() < bound) {
    throw nb::value_error(("out: expected room for " + std::to_string(bound) + " bytes").c_str());
  }
  s4::EncodedPayload result;
  {
    const nb::gil_scoped_release released;
    result = s4::encode_payload(input, room.bytes(), workspace());
  }
  if (result.bytes == 0) return nb::none();
  return nb::make_tuple(result.predicted, result.rotation, modes_of(result, width), result.bytes);
}

void decode_to(Bytes payload, const s4::PayloadLayout& layout, std::span<std::uint8_t> frame) {
  s4::PayloadFault fault;
  {
    const nb::gil_scoped_release released;
    fault = s4::decode_payload(payload, layout, frame, workspace());
  }
  if (fault.error != s4::PayloadError::kNone) throw nb::value_error(describe(fault).c_str());
}

nb::bytes decode_payload(nb::handle payload, std::size_t width, std::size_t octave_bits, std::size_t rotation,
                         bool predicted, std::size_t logical_bytes) {
  const View view(payload);
  const s4::PayloadLayout layout{width, octave_bits, rotation, predicted};
  check_layout(layout, logical_bytes);
  Output out(logical_bytes);
  decode_to(view.bytes(), layout, out.bytes());
  return out.object;
}

void decode_payload_into(nb::handle payload, std::size_t width, std::size_t octave_bits, std::size_t rotation,
                         bool predicted, nb::handle out) {
  const View view(payload);
  const Room room(out);
  const s4::PayloadLayout layout{width, octave_bits, rotation, predicted};
  check_layout(layout, room.bytes().size());
  decode_to(view.bytes(), layout, room.bytes());
}

bool verify_payload(nb::handle payload, std::size_t width, std::size_t octave_bits, std::size_t rotation,
                    bool predicted, nb::handle frame) {
  const View view(payload);
  const View logical(frame);
  const s4::PayloadLayout layout{width, octave_bits, rotation, predicted};
  check_layout(layout, logical.bytes().size());
  const nb::gil_scoped_release released;
  return s4::verify_payload(view.bytes(), layout, logical.bytes(), workspace());
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
  if (name != "scalar" && name != "avx2") throw nb::value_error("name: expected scalar or avx2");
  const auto wanted = name == "scalar" ? s4::Simd::kScalar : s4::Simd::kAvx2;
  return s4::set_simd(wanted) == s4::Simd::kAvx2 ? "avx2" : "scalar";
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Kernels of the codec. Buffers are C-contiguous; the GIL is released while they work.";
  m.def("crc32c", &crc32c, "data"_a, "initial"_a = 0, "CRC32C (RFC 3720); initial continues an earlier one.");
  m.def(
      "encode_payload", &encode_payload, "frame"_a, "width"_a, "octave_bits"_a, "columns"_a, "column"_a, "level"_a,
      "huffman"_a,
      nb::sig("def encode_payload(frame: object, width: int, octave_bits: int, columns: int, column: int, level: str, "
              "huffman: bool) "
              "-> tuple[bool, int, list[int], bytes] | None"),
      "(predicted, rotation, modes, payload) of a frame, or None where it is not smaller.");
  m.def("decode_payload", &decode_payload, "payload"_a, "width"_a, "octave_bits"_a, "rotation"_a, "predicted"_a,
        "logical_bytes"_a, "The frame. Raises ValueError on damage.");
  m.def("encode_bound_bytes", &s4::encode_bound_bytes, "frame_bytes"_a, "width"_a,
        "Room that encode_payload_into needs.");
  m.def("encode_payload_into", &encode_payload_into, "frame"_a, "width"_a, "octave_bits"_a, "columns"_a, "column"_a,
        "level"_a, "huffman"_a, "out"_a,
        nb::sig("def encode_payload_into(frame: object, width: int, octave_bits: int, columns: int, column: int, "
                "level: str, huffman: bool, out: object) -> tuple[bool, int, list[int], int] | None"),
        "encode_payload into out; the last member is the payload's length.");
  m.def("decode_payload_into", &decode_payload_into, "payload"_a, "width"_a, "octave_bits"_a, "rotation"_a,
        "predicted"_a, "out"_a,
        "decode_payload into out, which is the whole frame. Its bytes are undefined after an error.");
  m.def("verify_payload", &verify_payload, "payload"_a, "width"_a, "octave_bits"_a, "rotation"_a, "predicted"_a,
        "frame"_a, "Whether the payload decodes to just this frame.");
  m.def("keep_freed_memory", &keep_freed_memory, "bytes"_a,
        "For the whole process: give memory back to the system only beyond this, an arena. False where it cannot be "
        "set.");
  m.def("set_simd", &set_simd, "name"_a, "Use `scalar` or `avx2`, as far as the machine has it. Returns what is used.");
}
