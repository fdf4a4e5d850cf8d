// One plane, block by block, in the mode that was chosen for it. Source: docs/format.md, section 3.
#pragma once

#include "plane_codes.hpp"

namespace s4 {

// Stored bytes go where they belong in the payload, block by block; exceptions wait here until the end.
class PlaneEncoder {
 public:
  // What a plane of n symbols takes without exceptions, where that is known beforehand; else 0.
  static std::size_t fixed_bytes(const PlaneCode& code, std::size_t n) noexcept;
  // Room that it may write to in out.
  static std::size_t bound_bytes(const PlaneCode& code, std::size_t n) noexcept;

  // counts: of the whole plane, for rANS. out: bound_bytes. A raw plane is written by somebody else.
  void begin(const PlaneCode& code, std::size_t n, const Counts& counts, std::uint8_t* out);
  // The next block; its symbols stay until kChunkBlocks are there. False: the plane is not smaller in this mode, or its
  // sample did not show what it holds.
  bool add(std::span<const std::uint8_t> symbols);
  // Mode as stored.
  Mode mode() const noexcept { return mode_; }
  // Bytes in out, without the exceptions, which go behind them.
  std::size_t coded_bytes() const noexcept {
    return mode_ == Mode::kConstant ? 1 : static_cast<std::size_t>(at_ - out_);
  }
  std::size_t stored_bytes() const noexcept { return coded_bytes() + exceptions_.size(); }
  void finish() noexcept;
  std::span<const std::uint8_t> exceptions() const noexcept { return exceptions_; }

 private:
  const PlaneCode* code_ = nullptr;
  Mode mode_ = Mode::kRaw;
  std::size_t n_ = 0;
  std::uint8_t* out_ = nullptr;
  std::uint8_t* table_ = nullptr;  // the next block's entry
  std::uint8_t* at_ = nullptr;     // where the next block goes
  RansEncodeTable rans_;
  std::array<std::span<const std::uint8_t>, kChunkBlocks> chunk_;  // blocks of it that are there
  std::size_t waiting_ = 0;                                        // how many
  std::size_t left_ = 0;                                           // symbols that are still to come
  BlockExceptions block_exceptions_;
  std::vector<std::uint8_t> exceptions_;
};

}  // namespace s4
