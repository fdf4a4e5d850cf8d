#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "core/plane_codes.hpp"

namespace s4 {

Level level_of(const std::string& name);

// What an engine elsewhere asks of the histograms that it made: the choices of this one.
void bind_modes(nanobind::module_& m);

}  // namespace s4
