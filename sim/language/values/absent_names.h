// absent_names.h - names that people know and programs do not have, and the text to write instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

struct AbsentNames {
  std::string names;    ///< separated by blanks; a program knows none of them
  std::string instead;  ///< a line of a program, on tensors x, w, ... (absent_names_test.cpp)
  std::string note;
};

/// All rows; a name is in one of them.
const std::vector<AbsentNames>& absent_names();

/// The "fix" for an unknown name that people know: "programs do not have it: write F.relu(x)".
/// Empty for any other name.
std::string advice_on(std::string_view name);

}  // namespace shardlab
