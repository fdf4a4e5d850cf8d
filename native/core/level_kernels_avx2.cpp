#define S4_LEVELS_NAMESPACE avx2
#include "level_loops.hpp"

namespace s4 {

const LevelKernels kLevelKernelsAvx2 = avx2::kKernels;

}  // namespace s4
