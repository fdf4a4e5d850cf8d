// Blocks of a plane, and the symbols that a mode does not code. Source: docs/format.md, section 3.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace s4 {

inline constexpr std::size_t kBlockSymbols = 1U << 16;
// More in one block, and the plane is stored raw; or chosen for again, where a sample had not seen a 64th of the block.
inline constexpr std::size_t kMaxExceptions = 8191;
inline constexpr std::size_t kUnseenShare = 64;
// How far vector stores may reach behind what they are for.
inline constexpr std::size_t kSlack = 64;

using Counts = std::array<std::uint32_t, 256>;

constexpr std::size_t count_blocks(std::size_t n) noexcept { return (n + kBlockSymbols - 1) / kBlockSymbols; }

constexpr std::size_t block_symbols(std::size_t n, std::size_t block) noexcept {
  const std::size_t left = n - block * kBlockSymbols;
  return left < kBlockSymbols ? left : kBlockSymbols;
}

// Why stored bytes are not a plane.
enum class PlaneError {
  kNone,
  kTruncated,   // the stored bytes end before their own lengths say
  kLengths,     // stored bytes are left over, or lengths do not add up
  kTable,       // a table that is no frequency or code table
  kState,       // a rANS lane starts below the lowest state
  kWords,       // rANS words left over, or states that do not end where the encoder began
  kStream,      // a Huffman stream or a GDeflate page that does not end where its codes do
  kParameters,  // value and mask that contradict each other
  kException,   // an exception outside its block, or out of order
  kKind,        // a GDeflate block of no known kind
  kSymbol,      // bits that are no GDeflate code
  kDistance,    // a GDeflate match from before its page
  kBlocks,      // more GDeflate blocks in a page than are read
};

inline std::uint16_t load16(const std::uint8_t* at) noexcept {
  std::uint16_t value;
  std::memcpy(&value, at, 2);
  return value;
}

inline std::uint32_t load32(const std::uint8_t* at) noexcept {
  std::uint32_t value;
  std::memcpy(&value, at, 4);
  return value;
}

inline std::uint64_t load64(const std::uint8_t* at) noexcept {
  std::uint64_t value;
  std::memcpy(&value, at, 8);
  return value;
}

inline void store16(std::uint8_t* at, std::size_t value) noexcept {
  const auto low = static_cast<std::uint16_t>(value);
  std::memcpy(at, &low, 2);
}

inline void store32(std::uint8_t* at, std::size_t value) noexcept {
  const auto low = static_cast<std::uint32_t>(value);
  std::memcpy(at, &low, 4);
}

inline void store64(std::uint8_t* at, std::uint64_t value) noexcept { std::memcpy(at, &value, 8); }

// The exceptions of one block while it is encoded.
struct BlockExceptions {
  std::array<std::uint16_t, kMaxExceptions> positions;
  std::array<std::uint8_t, kMaxExceptions> values;
  std::size_t count = 0;
  bool overflow = false;

  void add(std::size_t position, std::uint8_t value) noexcept {
    if (count == kMaxExceptions) {
      overflow = true;
      return;
    }
    positions[count] = static_cast<std::uint16_t>(position);
    values[count] = value;
    ++count;
  }
};

// Writes the exceptions of one block over its symbols.
PlaneError put_exceptions(std::span<const std::uint8_t> stored, std::size_t count,
                          std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
