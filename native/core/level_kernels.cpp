#define S4_LEVELS_NAMESPACE scalar
#include "level_loops.hpp"
#include "simd.hpp"

namespace s4 {

const LevelKernels& level_kernels() noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2) return kLevelKernelsAvx2;
#endif
  return scalar::kKernels;
}

}  // namespace s4
