// completion.h - scripts by which shells complete the program's commands and options.
#pragma once

#include <string>
#include <vector>

namespace shardlab {

/// A command or an option, and its purpose.
struct CompletedWord {
  std::string word;
  std::string about;  ///< one line
};

/// A command with its options, long names with their dashes.
struct CompletedCommand {
  CompletedWord command;
  std::vector<CompletedWord> options;
};

/// The script for bash, zsh or fish; words that are no options complete to files.
///   fails  Value: another shell
std::string completion_script(const std::string& shell,
                              const std::vector<CompletedCommand>& commands);

/// One JSON object: the shell and its script.
std::string completion_json(const std::string& shell, const std::string& script);

}  // namespace shardlab
