// The Python face of the kernels: checks, allocates, releases the GIL, raises. No work of its own.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/crc32c.hpp"
#include "core/payload.hpp"
#include "core/planes.hpp"
#include "core/rans.hpp"
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

// A bytes object that is filled before anybody else sees it.
struct Output {
  explicit Output(std::size_t size)
      : object(nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)))) {
    if (!object.is_valid()) throw nb::python_error();
  }
  std::span<std::uint8_t> bytes() {
    return {reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(object.ptr())), nb::len(object)};
  }
  nb::bytes object;
};

std::unique_ptr<std::uint8_t[]> scratch(std::size_t size) {
  return std::make_unique_for_overwrite<std::uint8_t[]>(size);
}

void check_width(std::size_t width, std::size_t bytes) {
  if (width != 1 && width != 2 && width != 4 && width != 8) {
    throw nb::value_error("width: expected 1, 2, 4 or 8");
  }
  if (bytes % width != 0) throw nb::value_error("length: expected a multiple of width");
}

const char* describe(s4::RansError error) {
  switch (error) {
    case s4::RansError::kTruncated: return "truncated: expected more bytes, found the end";
    case s4::RansError::kTable: return "table: expected frequencies of at least two symbols that sum to 4096";
    case s4::RansError::kLengths: return "lengths: expected chunks that fill the plane";
    case s4::RansError::kState: return "state: expected lane states of at least 65536";
    case s4::RansError::kWords: return "checksum: expected to end with every word used and every state at 65536";
    case s4::RansError::kNone: break;
  }
  return "no error";
}

std::string describe(const s4::PayloadFault& fault) {
  const std::string where = "plane " + std::to_string(fault.plane) + " at payload byte " + std::to_string(fault.offset);
  switch (fault.error) {
    case s4::PayloadError::kTruncated: return "truncated: " + where + ": expected descriptors, found the end";
    case s4::PayloadError::kLengths: return "lengths: " + where + ": expected planes that fill the payload exactly";
    case s4::PayloadError::kReserved: return "reserved: " + where + ": expected zero bytes in the descriptor";
    case s4::PayloadError::kMode:
      return "mode: " + where + ": expected a known mode, found " + std::to_string(fault.found);
    case s4::PayloadError::kRans: {
      const std::string text = describe(fault.rans);
      const std::size_t colon = text.find(':');
      return text.substr(0, colon) + ": " + where + text.substr(colon);
    }
    case s4::PayloadError::kNone: break;
  }
  return "no error";
}

std::uint32_t crc32c(nb::handle data, std::uint32_t initial) {
  const View view(data);
  const nb::gil_scoped_release released;
  return s4::crc32c(view.bytes(), initial);
}

nb::bytes split_planes(nb::handle words, std::size_t width, bool rotated) {
  const View view(words);
  check_width(width, view.bytes().size());
  Output out(view.bytes().size());
  const auto planes = out.bytes();
  {
    const nb::gil_scoped_release released;
    s4::split_planes(view.bytes(), width, rotated, planes);
  }
  return out.object;
}

nb::bytes join_planes(nb::handle planes, std::size_t width, bool rotated) {
  const View view(planes);
  check_width(width, view.bytes().size());
  Output out(view.bytes().size());
  const auto words = out.bytes();
  {
    const nb::gil_scoped_release released;
    s4::join_planes(view.bytes(), width, rotated, words);
  }
  return out.object;
}

std::vector<std::uint32_t> histogram(nb::handle plane) {
  const View view(plane);
  s4::Counts counts;
  {
    const nb::gil_scoped_release released;
    s4::histogram(view.bytes(), counts);
  }
  return {counts.begin(), counts.end()};
}

nb::bytes rans_encode(nb::handle plane) {
  const View view(plane);
  const Bytes symbols = view.bytes();
  if (symbols.size() > UINT32_MAX) throw nb::value_error("plane: expected less than 4 GiB");
  const auto room = scratch(s4::rans_bound_bytes(symbols.size()));
  std::size_t bytes = 0;
  {
    const nb::gil_scoped_release released;
    s4::Counts counts;
    s4::histogram(symbols, counts);
    if (!symbols.empty() && counts[symbols[0]] != symbols.size()) {
      s4::Frequencies frequencies;
      s4::normalise(counts, symbols.size(), frequencies);
      bytes = s4::rans_encode(symbols, frequencies, {room.get(), s4::rans_bound_bytes(symbols.size())});
    }
  }
  if (bytes == 0) throw nb::value_error("plane: expected at least two different symbols");
  return nb::bytes(room.get(), bytes);
}

nb::bytes rans_decode(nb::handle stored, std::size_t n) {
  const View view(stored);
  Output out(n);
  const auto plane = out.bytes();
  s4::RansError error;
  {
    const nb::gil_scoped_release released;
    error = s4::rans_decode(view.bytes(), plane);
  }
  if (error != s4::RansError::kNone) throw nb::value_error(describe(error));
  return out.object;
}

nb::object encode_payload(nb::handle frame, std::size_t width, bool rotated) {
  const View view(frame);
  const Bytes bytes = view.bytes();
  check_width(width, bytes.size());
  if (bytes.empty()) return nb::none();
  const std::size_t scratch_bytes = s4::encode_scratch_bytes(bytes.size(), width);
  const auto room = scratch(scratch_bytes);
  const auto out = scratch(bytes.size());
  s4::EncodedPayload result;
  {
    const nb::gil_scoped_release released;
    result = s4::encode_payload(bytes, width, rotated, {out.get(), bytes.size()}, {room.get(), scratch_bytes});
  }
  if (result.bytes == 0) return nb::none();
  std::vector<int> modes;
  for (std::size_t k = 0; k < width; ++k) modes.push_back(static_cast<int>(result.modes[k]));
  return nb::make_tuple(modes, nb::bytes(out.get(), result.bytes));
}

nb::bytes decode_payload(nb::handle payload, std::size_t width, bool rotated, std::size_t logical_bytes) {
  const View view(payload);
  check_width(width, logical_bytes);
  Output out(logical_bytes);
  const auto frame = out.bytes();
  const auto room = scratch(logical_bytes);
  s4::PayloadFault fault;
  {
    const nb::gil_scoped_release released;
    fault = s4::decode_payload(view.bytes(), width, rotated, frame, {room.get(), logical_bytes});
  }
  if (fault.error != s4::PayloadError::kNone) throw nb::value_error(describe(fault).c_str());
  return out.object;
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
  m.def("split_planes", &split_planes, "words"_a, "width"_a, "rotated"_a, "Planes back to back, plane 0 first.");
  m.def("join_planes", &join_planes, "planes"_a, "width"_a, "rotated"_a, "The inverse of split_planes.");
  m.def("histogram", &histogram, "plane"_a, "How often each of the 256 byte values occurs.");
  m.def("rans_encode", &rans_encode, "plane"_a, "One plane of at least two different symbols.");
  m.def("rans_decode", &rans_decode, "stored"_a, "n"_a, "Exactly n symbols. Raises ValueError on damage.");
  m.def("encode_payload", &encode_payload, "frame"_a, "width"_a, "rotated"_a,
        nb::sig("def encode_payload(frame: object, width: int, rotated: bool) -> tuple[list[int], bytes] | None"),
        "(modes, payload) of a frame, or None where it is not smaller.");
  m.def("decode_payload", &decode_payload, "payload"_a, "width"_a, "rotated"_a, "logical_bytes"_a,
        "The frame. Raises ValueError on damage.");
  m.def("set_simd", &set_simd, "name"_a, "Use `scalar` or `avx2`, as far as the machine has it. Returns what is used.");
}
