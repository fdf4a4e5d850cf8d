#pragma once

#include "blocks.hpp"

namespace s4 {

// Adds how often every byte occurs.
void add_histogram(std::span<const std::uint8_t> plane, Counts& counts) noexcept;

}  // namespace s4
