// command_text.h - the commands and their options as text (commands.txt, which says its form).
#pragma once

#include <string>
#include <vector>

namespace shardlab {

struct OptionText {
  std::string names;   ///< "--verbose,-v", or "FILE" of a word without an option
  std::string type;    ///< of its value, in the help; empty: the parser's
  std::string values;  ///< that it takes: "a|b", "1..9", "1..", ">0"; empty: all
  std::string help;
  std::vector<std::string> without;  ///< options that exclude it
  bool required = false;
};
struct CommandText {
  std::string name, about;
  std::vector<OptionText> options;
  std::string footer;
};

/// All commands, in order.
///   fails  Internal: a line that has none of its forms
std::vector<CommandText> command_texts();

}  // namespace shardlab
