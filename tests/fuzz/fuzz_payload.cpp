// Hostile payloads: no fault of memory, the same answer from scalar and vector kernels, and from the verifier.
//
// An input: element type, layout (bits 0 and 1: the rotation, where the predictor leaves a choice; bits 5 to 7: the
// predictor), elements (3 bytes), payload. The base, where there is one, is made from the payload.
#include <algorithm>
#include <memory>
#include <vector>

#include "input.hpp"

namespace {

using namespace s4;

struct Answer {
  PayloadFault fault;
  std::vector<std::uint8_t> frame;
};

Answer decode(fuzz::Bytes payload, const PayloadLayout& layout, std::size_t bytes, Simd kernels, Workspace& workspace) {
  set_simd(kernels);
  // Different bytes: one that is not written at all is seen too.
  Answer answer{{}, std::vector<std::uint8_t>(bytes, kernels == Simd::kScalar ? 0x55 : 0xAA)};
  answer.fault = decode_payload(payload, layout, answer.frame, workspace);
  return answer;
}

bool same(const PayloadFault& a, const PayloadFault& b) noexcept {
  return a.error == b.error && a.plane_error == b.plane_error && a.levels == b.levels && a.plane == b.plane &&
         a.offset == b.offset;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto workspace = std::make_unique<Workspace>();
  fuzz::Choices choices({data, size});
  const fuzz::Element element = choices.element();
  const std::uint32_t chosen = choices.take(1);
  const std::size_t n = 1 + choices.take(3) % fuzz::kMaxElements;
  const Predictor predictor = fuzz::predictor_of(element, chosen >> 5);
  const std::vector<std::uint8_t> base =
      fuzz::made_base(needs_base(predictor) ? n * base_width(predictor, element.width) : 0, choices.rest());
  const PayloadLayout layout{element.width, element.octave_bits, fuzz::rotation_of(element, predictor, chosen),
                             predictor, base.data()};
  // A copy of just its size: a read behind it is seen.
  const std::vector<std::uint8_t> payload(choices.rest().begin(), choices.rest().end());

  Answer vector = decode(payload, layout, n * element.width, Simd::kAvx2, *workspace);
  const bool decodes = vector.fault.error == PayloadError::kNone;
  for (const Simd kernels : {Simd::kAvx512, Simd::kScalar}) {
    const Answer other = decode(payload, layout, n * element.width, kernels, *workspace);
    fuzz::expect(same(vector.fault, other.fault), "the same fault from all kernels");
    if (decodes) fuzz::expect(vector.frame == other.frame, "the same frame from all kernels");
  }
  for (const Simd kernels : {Simd::kAvx512, Simd::kAvx2, Simd::kScalar}) {
    set_simd(kernels);
    fuzz::expect(verify_payload(payload, layout, vector.frame, *workspace) == decodes, "verified where it decodes");
    if (!decodes) continue;
    std::uint8_t& damaged = vector.frame[size % vector.frame.size()];
    damaged ^= 1;
    fuzz::expect(!verify_payload(payload, layout, vector.frame, *workspace), "a changed frame not verified");
    damaged ^= 1;
  }
  return 0;
}
