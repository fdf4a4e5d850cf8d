// Which instruction set the kernels use: one decision for the whole process.
#pragma once

namespace s4 {

// kAvx2: with BMI2 and LZCNT. kAvx512: foundation, byte and word, vector length; with all of kAvx2.
enum class Simd { kScalar = 0, kAvx2 = 1, kAvx512 = 2 };

// The best set that this machine has, unless set_simd chose a lower one.
Simd simd() noexcept;

// For tests: use a set that the machine has. Returns what is used from now on.
Simd set_simd(Simd wanted) noexcept;

}  // namespace s4
