// absent_names.h - names of torch that programs do not have, and what to write instead.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shardlab {

/// A name and the sentence that says what to write.
struct AbsentName {
  std::string_view name;
  std::string_view instead;
};

/// Sorted by name; none of them means anything to a program. All of them are asked for by the test
/// that tries each.
std::span<const AbsentName> absent_names();

/// The "fix" for an unknown name that torch or Python has: "torch has it, programs do not: write
/// ...". Empty for any other name.
std::string advice_on(std::string_view name);

}  // namespace shardlab
