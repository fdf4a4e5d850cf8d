// Buffers of Python, held and made.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

namespace s4 {

namespace nb = nanobind;
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

}  // namespace s4
