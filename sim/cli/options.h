// options.h - values that options take.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace shardlab {

/// A whole number, `lowest` or more.
CLI::Validator whole_number_from(std::int64_t lowest);

}  // namespace shardlab
