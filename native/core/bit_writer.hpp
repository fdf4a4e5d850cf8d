// Bits into bytes, the lowest bit first, and the symbols of a Huffman code into bits.
#pragma once

#include "huffman.hpp"

namespace s4 {
// Every file has copies of its own: the linker must not take one that was compiled for AVX2 to serve the others.
namespace {

// Writes eight bytes at a time: up to seven more than the bits need.
class BitWriter {
 public:
  static constexpr std::size_t kMost = 56;  // bits at once

  explicit BitWriter(std::uint8_t* out) noexcept : at_(out) {}

  // count: at most kMost.
  void put(std::uint64_t bits, std::size_t count) noexcept {
    waiting_ |= bits << waiting_bits_;
    waiting_bits_ += count;
    store64(at_, waiting_);
    at_ += waiting_bits_ >> 3;
    waiting_ >>= waiting_bits_ & ~std::size_t{7};
    waiting_bits_ &= 7;
  }

  // count: 8 to kMost, so that what waits afterwards is of these bits alone: the next ones need not wait for it.
  void put_bytes(std::uint64_t bits, std::size_t count) noexcept {
    const std::uint64_t shifted = bits << waiting_bits_;
    store64(at_, shifted | waiting_);
    waiting_bits_ += count;
    at_ += waiting_bits_ >> 3;
    waiting_ = shifted >> (waiting_bits_ & ~std::size_t{7});
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
inline void put_symbol(BitWriter& bits, const HuffmanEncodeTable& table, std::uint8_t symbol, std::size_t position,
                       BlockExceptions& exceptions) noexcept {
  const std::uint32_t entry = table[symbol];
  if ((entry & kNoCode) != 0) exceptions.add(position, symbol);
  bits.put(entry & kCodeMask, entry >> kLengthShift);
}

// Symbols of a stream, which starts at this position of its block: four at a time, of any code.
inline void put_symbols(BitWriter& to, const HuffmanEncodeTable& table, std::span<const std::uint8_t> symbols,
                        std::size_t start, BlockExceptions& exceptions) noexcept {
  BitWriter bits = to;  // of its own: a byte that is stored could be one of to's
  std::size_t i = 0;
  for (; i + 4 <= symbols.size(); i += 4) {
    std::uint64_t word = 0;
    std::uint32_t any = 0;
    std::size_t count = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::uint32_t entry = table[symbols[i + k]];
      word |= std::uint64_t{entry & kCodeMask} << count;
      count += entry >> kLengthShift;
      any |= entry;
    }
    if ((any & kNoCode) != 0) [[unlikely]] {
      for (std::size_t k = 0; k < 4; ++k) {
        if ((table[symbols[i + k]] & kNoCode) != 0) exceptions.add(start + i + k, symbols[i + k]);
      }
    }
    bits.put(word, count);
  }
  for (; i < symbols.size(); ++i) put_symbol(bits, table, symbols[i], start + i, exceptions);
  to = bits;
}

// A stream, which starts at this position of its block. put_window: puts the first symbols of a code with kWindow
// places, as many as it says. Returns the first byte behind the stream.
template <typename PutWindow>
std::uint8_t* put_stream(const HuffmanCode& code, const HuffmanEncodeTable& table,
                         std::span<const std::uint8_t> symbols, std::size_t start, std::uint8_t* out,
                         BlockExceptions& exceptions, const PutWindow& put_window) noexcept {
  BitWriter writer(out);
  const std::size_t done = code.count == kWindow ? put_window(writer, code, symbols, start, exceptions) : 0;
  put_symbols(writer, table, symbols.subspan(done), start + done, exceptions);
  return writer.finish();
}

}  // namespace
}  // namespace s4
