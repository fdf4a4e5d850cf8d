// Bits into bytes, the lowest bit first, and the symbols of a Huffman code into bits.
#pragma once

#include "huffman.hpp"

namespace s4 {
// Every file has copies of its own: the linker must not take one that was compiled for AVX2 to serve the others.
namespace {

// Writes eight bytes at a time: up to seven more than the bits need.
class BitWriter {
 public:
  explicit BitWriter(std::uint8_t* out) noexcept : at_(out) {}

  // count: at most 56.
  void put(std::uint64_t bits, std::size_t count) noexcept {
    waiting_ |= bits << waiting_bits_;
    waiting_bits_ += count;
    store64(at_, waiting_);
    at_ += waiting_bits_ >> 3;
    waiting_ >>= waiting_bits_ & ~std::size_t{7};
    waiting_bits_ &= 7;
  }

  // The first byte behind the bits.
  std::uint8_t* finish() const noexcept { return at_ + (waiting_bits_ != 0); }

 private:
  std::uint8_t* at_;
  std::uint64_t waiting_ = 0;
  std::size_t waiting_bits_ = 0;
};

// One symbol at a position of its block; one without a code goes to the exceptions.
inline void put_symbol(BitWriter& bits, const HuffmanCode& code, std::uint8_t symbol, std::size_t position,
                       BlockExceptions& exceptions) noexcept {
  std::size_t place = static_cast<std::uint8_t>(symbol - code.first);
  if (code.lengths[place] == 0) {
    exceptions.add(position, symbol);
    place = code.shortest;
  }
  bits.put(code.codes[place], code.lengths[place]);
}

}  // namespace
}  // namespace s4
