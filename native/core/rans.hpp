// rANS over bytes: 32 lanes, 32-bit states, 16-bit refill, 12-bit probabilities. Source: docs/format.md, section 4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace s4 {

inline constexpr std::size_t kLanes = 32;
inline constexpr std::uint32_t kScaleBits = 12;
inline constexpr std::uint32_t kScale = 1U << kScaleBits;
inline constexpr std::uint32_t kLowest = 1U << 16;  // states are at least this between symbols
inline constexpr std::size_t kChunkSymbols = 1U << 16;
inline constexpr std::size_t kStatesBytes = kLanes * 4;
inline constexpr std::size_t kPresentBytes = 32;

using Counts = std::array<std::uint32_t, 256>;
using Frequencies = std::array<std::uint16_t, 256>;

enum class RansError {
  kNone,
  kTruncated,  // the stored bytes end before their own lengths say
  kTable,      // frequencies that do not describe a distribution
  kLengths,    // chunk lengths that do not fill the plane
  kState,      // a lane starts below the lowest state
  kWords,      // words left over, or states that do not end where the encoder began
};

// How often every byte occurs.
void histogram(std::span<const std::uint8_t> plane, Counts& counts) noexcept;

// Frequencies that sum to kScale; symbols that occur have at least one. At least two symbols must occur.
void normalise(const Counts& counts, std::size_t total, Frequencies& frequencies) noexcept;

// The stored bytes that rans_encode will need, within a few per cent, from the histogram alone; the same integers in
// every engine.
std::uint64_t rans_estimate_bytes(const Counts& counts, const Frequencies& frequencies, std::size_t total) noexcept;

// What the output of rans_encode may need at most for n symbols.
std::size_t rans_bound_bytes(std::size_t n) noexcept;

// Encode a plane of at least two different symbols. out: rans_bound_bytes(plane.size()) bytes. Returns the bytes used.
std::size_t rans_encode(std::span<const std::uint8_t> plane, const Frequencies& frequencies,
                        std::span<std::uint8_t> out) noexcept;

// Decode exactly plane.size() symbols from untrusted bytes.
RansError rans_decode(std::span<const std::uint8_t> stored, std::span<std::uint8_t> plane) noexcept;

// One entry a slot: symbol | (frequency - 1) << 8 | (slot - start) << 20.
using DecodeTable = std::array<std::uint32_t, kScale>;

// One chunk: states, then words. The twin of rans_decode_chunk_avx2.
RansError rans_decode_chunk(const DecodeTable& table, std::span<const std::uint8_t> chunk,
                            std::span<std::uint8_t> symbols) noexcept;

}  // namespace s4
