// What a plane is stored with: a mode, and what it was made from. Source: docs/format.md, sections 3 and 5.3.
#pragma once

#include "bits.hpp"
#include "huffman.hpp"
#include "nibbles.hpp"
#include "rans.hpp"

namespace s4 {

enum class Mode : std::uint8_t {
  kRaw = 0,
  kConstant = 1,
  kRans = 2,
  kZstd = 3,
  kHuffman = 4,
  kNibbles = 5,
  kBits = 6,
  kGDeflate = 7,  // read only
};

enum class Level { kFast, kBalanced, kSmall };

// huffman: whether `balanced` may use it.
struct Effort {
  Level level;
  bool huffman;
};

// What is known of a plane before it is encoded. Constant planes are bits until they are seen whole.
struct PlaneCode {
  Mode mode = Mode::kRaw;
  BitsCode bits;
  std::uint8_t nibble_first = 0;
  HuffmanCode huffman;
  std::uint64_t estimate = 0;  // stored bytes
  bool exact = false;          // made from the whole plane, not from a sample
};

// The best mode for a plane of n symbols, from the histogram of a sample of it.
void choose_plane_code(const Counts& counts, std::size_t n, Effort effort, PlaneCode& code) noexcept;

}  // namespace s4
