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

using Elements = std::vector<std::uint8_t>;

// The same elements, most of them moved by a few units; by bits where they have no order.
Elements moved(const Type& type, const Elements& frame) {
  Elements base = frame;
  for (std::size_t i = 0; i < base.size() / type.width; ++i) {
    std::uint8_t& low = base[i * type.width];
    low = static_cast<std::uint8_t>(type.octave_bits != 0 ? low + i % 3 : low ^ (i % 5 == 0 ? 4 : 0));
  }
  return base;
}

// fp32 elements of which these are the upper halves, or the upper halves of fp32.
Elements of_other_width(const Type& type, const Elements& frame) {
  const std::size_t n = frame.size() / type.width;
  Elements base(type.width == 2 ? 4 * n : 2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < 2; ++k) {
      if (type.width == 2) {
        base[4 * i + 2 + k] = frame[2 * i + k];
        base[4 * i + k] = static_cast<std::uint8_t>(i * 31 >> k * 3);
      } else {
        base[2 * i + k] = frame[4 * i + 2 + k];
      }
    }
  }
  return base;
}

bool print_digest(const Type& type, s4::Grid grid, s4::Level level, const Elements& frame,
                  std::span<const s4::Base> bases, s4::Workspace& workspace) {
  std::vector<std::uint8_t> out(s4::encode_bound_bytes(frame.size(), type.width));
  const s4::FrameInput input{frame, type.width, type.octave_bits, grid, {level, true}, bases};
  const s4::EncodedPayload coded = s4::encode_payload(input, out, workspace);
  const std::span<const std::uint8_t> payload(out.data(), coded.bytes);
  const s4::Predictor predictor = coded.candidate.predictor;
  std::printf("%s %zu %d: predictor %d, %zu bytes, %08x\n", type.name, frame.size(), static_cast<int>(level),
              static_cast<int>(predictor), coded.bytes, s4::crc32c(payload));
  if (coded.bytes == 0) return true;
  const std::uint8_t* base = s4::needs_base(predictor) ? bases[coded.candidate.base].elements : nullptr;
  const s4::PayloadLayout layout{type.width, type.octave_bits, coded.candidate.rotation, predictor, base};
  std::vector<std::uint8_t> decoded(frame.size());
  const s4::PayloadFault fault = s4::decode_payload(payload, layout, decoded, workspace);
  return fault.error == s4::PayloadError::kNone && decoded == frame &&
         s4::verify_payload(payload, layout, frame, workspace);
}

// Alone, from a base like it, and from one of the other width.
bool print_digests(const Type& type, std::size_t n, s4::Level level, s4::Workspace& workspace) {
  const Elements frame = make_frame(type, n, 300);
  const Elements near = moved(type, frame);
  const s4::Base same{s4::BaseKind::kSame, near.data()};
  if (!print_digest(type, {300, 0}, level, frame, {}, workspace)) return false;
  if (!print_digest(type, {300, 0}, level, frame, {&same, 1}, workspace)) return false;
  if (type.octave_bits != 8) return true;
  const Elements far = of_other_width(type, frame);
  const s4::Base other{type.width == 2 ? s4::BaseKind::kWider : s4::BaseKind::kNarrower, far.data()};
  return print_digest(type, {300, 0}, level, frame, {&other, 1}, workspace);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) == "scalar") s4::set_simd(s4::Simd::kScalar);
  const auto workspace = std::make_unique<s4::Workspace>();
  for (const Type& type : kTypes) {
    for (const std::size_t n : {std::size_t{37}, std::size_t{20'011}, std::size_t{140'000}}) {
      for (const s4::Level level : {s4::Level::kFast, s4::Level::kBalanced, s4::Level::kSmall}) {
        if (!print_digests(type, n, level, *workspace)) {
          std::puts("does not come back");
          return 1;
        }
      }
    }
  }
  return 0;
}
