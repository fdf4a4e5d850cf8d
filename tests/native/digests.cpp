// Encodes frames made of integers alone, decodes them again, and prints a digest of every payload: the same on every
// processor and instruction set. tests/native/test_other_processors.py compares.
#include <cstdio>
#include <string>

#include "core/crc32c.hpp"
#include "core/payload.hpp"
#include "core/simd.hpp"

namespace {

struct Type {
  const char* name;
  std::size_t width;
  std::size_t octave_bits;
};

constexpr Type kTypes[] = {{"bf16", 2, 8}, {"fp16", 2, 11}, {"fp32", 4, 8},
                           {"fp64", 8, 5}, {"int8", 1, 0},  {"int32", 4, 0}};

// Like an optimizer's second moment: each row and column has a level of its own; noise below; some rows of zeros.
std::vector<std::uint8_t> make_frame(const Type& type, std::size_t n, std::size_t columns) {
  std::vector<std::uint8_t> frame(n * type.width);
  std::uint64_t state = 88172645463325252ULL;
  for (std::size_t i = 0; i < n; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const std::size_t row = i / columns;
    const std::size_t column = i % columns;
    std::uint64_t word = state >> (64 - 8 * type.width);
    if (type.octave_bits != 0) {
      const std::size_t spread = (row * 7 % 40 + column * 13 % 60) / 10 + (row % 5) * (column % 7) / 6 + state % 3;
      const std::uint64_t top = (spread + 20) << (type.octave_bits - 1);
      word = (word & ((std::uint64_t{1} << (8 * type.width - 9)) - 1)) | top << (8 * type.width - 16);
    } else {
      word %= 30;
    }
    if (row % 11 == 3) word = 0;
    for (std::size_t k = 0; k < type.width; ++k) frame[i * type.width + k] = static_cast<std::uint8_t>(word >> (8 * k));
  }
  return frame;
}

bool print_digest(const Type& type, std::size_t n, s4::Grid grid, s4::Level level, s4::Workspace& workspace) {
  const auto frame = make_frame(type, n, 300);
  std::vector<std::uint8_t> out(s4::encode_bound_bytes(frame.size(), type.width));
  const s4::FrameInput input{frame, type.width, type.octave_bits, grid, {level, true}};
  const s4::EncodedPayload coded = s4::encode_payload(input, out, workspace);
  const std::span<const std::uint8_t> payload(out.data(), coded.bytes);
  std::printf("%s %zu %d: %zu bytes, %08x\n", type.name, n, static_cast<int>(level), coded.bytes, s4::crc32c(payload));
  if (coded.bytes == 0) return true;
  const s4::PayloadLayout layout{type.width, type.octave_bits, coded.rotation, coded.predicted};
  std::vector<std::uint8_t> decoded(frame.size());
  const s4::PayloadFault fault = s4::decode_payload(payload, layout, decoded, workspace);
  return fault.error == s4::PayloadError::kNone && decoded == frame &&
         s4::verify_payload(payload, layout, frame, workspace);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) == "scalar") s4::set_simd(s4::Simd::kScalar);
  const auto workspace = std::make_unique<s4::Workspace>();
  for (const Type& type : kTypes) {
    for (const std::size_t n : {std::size_t{37}, std::size_t{20'011}, std::size_t{140'000}}) {
      for (const s4::Level level : {s4::Level::kFast, s4::Level::kBalanced, s4::Level::kSmall}) {
        if (!print_digest(type, n, {300, 0}, level, *workspace)) {
          std::puts("does not come back");
          return 1;
        }
      }
    }
  }
  return 0;
}
