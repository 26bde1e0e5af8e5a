// Each line is of one kind, which its first characters tell.
#include "sim/cli/command_text.h"

#include <map>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace shardlab {

namespace {

constexpr const char* kText =
#include "sim/cli/commands.inc"
    ;

OptionText option_of(const std::string& line) {
  std::istringstream words(line);
  OptionText option;
  words >> option.names;
  bool excludes = false;
  for (std::string word; words >> word;) {
    if (excludes) {
      option.without.push_back(word);
    } else if (word == "required") {
      option.required = true;
    } else if (word == "without") {
      excludes = true;
    } else if (word.starts_with('[') && word.ends_with(']')) {
      option.values = word.substr(1, word.size() - 2);
    } else {
      option.type = word;
    }
  }
  return option;
}

// Adds a line to a text: a line of its own, or a part of the one before it.
void add_line(std::string& text, std::string_view line, const char* between) {
  const bool goes_on = text.ends_with('\\');
  if (goes_on) text.pop_back();
  if (!text.empty() && !goes_on) text += between;
  text += line;
}

}  // namespace

std::vector<CommandText> command_texts() {
  std::vector<CommandText> commands;
  std::map<std::string, CommandText> shared;
  CommandText* current = nullptr;
  std::istringstream lines(kText);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t colon = line.find(": ");
    if (line[0] == '@') {
      current = &shared[line.substr(1)];
    } else if (line[0] != ' ' && colon != std::string::npos) {
      current = &commands.emplace_back(
          CommandText{line.substr(0, colon), line.substr(colon + 2), {}, ""});
    } else if (current == nullptr || !line.starts_with("  ")) {
      fail(ErrorKind::kInternal, "commands.txt: a line of no form: {}", line);
    } else if (line.starts_with("  |")) {
      add_line(current->footer, std::string_view(line).substr(line.size() > 3 ? 4 : 3), "\n");
    } else if (line.starts_with("  @")) {
      const std::vector<OptionText>& options = shared.at(line.substr(3)).options;
      current->options.insert(current->options.end(), options.begin(), options.end());
    } else if (line.starts_with("      ")) {
      add_line(current->options.back().help, std::string_view(line).substr(6), " ");
    } else {
      current->options.push_back(option_of(line));
    }
  }
  return commands;
}

}  // namespace shardlab
