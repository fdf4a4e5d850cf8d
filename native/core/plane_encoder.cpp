#include "plane_encoder.hpp"

#include <cstring>

namespace s4 {

std::size_t PlaneEncoder::fixed_bytes(const PlaneCode& code, std::size_t n) noexcept {
  switch (code.mode) {
    case Mode::kRaw: return n;
    case Mode::kBits: {
      if (code.bits.mask == 0) return 1;
      std::size_t bytes = 2 + 2 * count_blocks(n);
      for (std::size_t block = 0; block < count_blocks(n); ++block)
        bytes += code.bits.block_bytes(block_symbols(n, block));
      return bytes;
    }
    default: return 0;
  }
}

std::size_t PlaneEncoder::bound_bytes(const PlaneCode& code, std::size_t n) noexcept {
  const std::size_t blocks = count_blocks(n);
  switch (code.mode) {
    case Mode::kRaw: return n;
    case Mode::kBits: return code.bits.mask == 0 ? 2 + 2 * blocks : fixed_bytes(code, n);
    // It stops once it has n bytes: before the last chunk it has less.
    case Mode::kRans: return rans_table_bytes(256) + 4 * count_chunks(n) + n + rans_bound_bytes(kChunkSymbols);
    case Mode::kHuffman: return 2 + 128 + kHuffmanBlockEntry * blocks + n + huffman_bound_bytes(kBlockSymbols);
    default: return 1 + 2 * blocks + n + 32;
  }
}

void PlaneEncoder::begin(const PlaneCode& code, std::size_t n, const Counts& counts, std::uint8_t* out) {
  code_ = &code;
  mode_ = code.mode;
  n_ = n;
  out_ = out;
  exceptions_.clear();
  const std::size_t blocks = count_blocks(n);
  switch (mode_) {
    case Mode::kBits:
      out[0] = code.bits.mask;
      out[1] = code.bits.value;
      table_ = out + 2;
      at_ = table_ + 2 * blocks;
      break;
    case Mode::kNibbles:
      out[0] = code.nibble_first;
      table_ = out + 1;
      at_ = table_ + 2 * blocks;
      break;
    case Mode::kHuffman:
      write_huffman_code(code.huffman, out);
      table_ = out + code.huffman.stored_bytes();
      at_ = table_ + kHuffmanBlockEntry * blocks;
      break;
    case Mode::kRans: {
      std::size_t symbols = 0;
      for (const std::uint32_t count : counts) symbols += count != 0;
      if (symbols == 1) {
        mode_ = Mode::kConstant;
        break;
      }
      Frequencies frequencies;
      normalise(counts, n, frequencies);
      make_rans_encode_table(frequencies, rans_);
      table_ = out + write_rans_table(frequencies, out);
      at_ = table_ + 4 * count_chunks(n);
      left_ = n;
      waiting_ = 0;
      break;
    }
    default: at_ = out + n; break;
  }
}

bool PlaneEncoder::add(std::span<const std::uint8_t> symbols) {
  if (mode_ == Mode::kRaw) return true;
  block_exceptions_.count = 0;
  block_exceptions_.overflow = false;
  switch (mode_) {
    case Mode::kConstant: out_[0] = symbols[0]; return true;
    case Mode::kRans: {
      chunk_[waiting_++] = symbols;
      left_ -= symbols.size();
      if (waiting_ < kChunkBlocks && left_ != 0) return true;
      const std::size_t bytes = encode_rans_chunk(rans_, std::span(chunk_).first(waiting_), at_);
      waiting_ = 0;
      store32(table_, bytes);
      table_ += 4;
      at_ += bytes;
      return static_cast<std::size_t>(at_ - out_) < n_;
    }
    case Mode::kHuffman: {
      std::array<std::size_t, kStreams> lengths;
      at_ += encode_huffman_block(code_->huffman, symbols, at_, lengths, block_exceptions_);
      for (const std::size_t length : lengths) {
        store16(table_, length);
        table_ += 2;
      }
      break;
    }
    case Mode::kNibbles:
      encode_nibble_block(code_->nibble_first, symbols, at_, block_exceptions_);
      at_ += nibble_block_bytes(symbols.size());
      break;
    default:
      encode_bits_block(code_->bits, symbols, at_, block_exceptions_);
      at_ += code_->bits.block_bytes(symbols.size());
      break;
  }
  const std::size_t count = block_exceptions_.count;
  if (block_exceptions_.overflow || (!code_->exact && count > symbols.size() / kUnseenShare)) return false;
  store16(table_, count);
  table_ += 2;
  if (count != 0) {
    const std::size_t at = exceptions_.size();
    exceptions_.resize(at + 3 * count);
    std::memcpy(exceptions_.data() + at, block_exceptions_.positions.data(), 2 * count);
    std::memcpy(exceptions_.data() + at + 2 * count, block_exceptions_.values.data(), count);
  }
  return stored_bytes() < n_;
}

void PlaneEncoder::finish() noexcept {
  if (mode_ != Mode::kBits || code_->bits.mask != 0 || !exceptions_.empty()) return;
  mode_ = Mode::kConstant;
  out_[0] = code_->bits.value;
}

}  // namespace s4
