// Argument parsing only; the commands are in their own files.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string_view>

#include "base/kept_memory.h"
#include "base/text.h"
#include "base/version.h"
#include "sim/cli/command_line.h"
#include "sim/cli/interrupts.h"

namespace {

using namespace shardlab;

// An option that the command does not have, and the nearest that it has; empty: it has all.
std::pair<std::string, std::string> unknown_option(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& word : command.remaining()) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && name != "--") return {name, suggest(name, names)};
  }
  return {};
}

// `first`: the word in place of a command.
void refuse_arguments(const CLI::App& app, const CLI::ParseError& error, const std::string& first) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const bool known = std::ranges::find(commands, first) != commands.end();
  std::string text, fix;
  if (known) {
    text = fmt::format("shardlab {}: {}", first, error.what());
    fix = fmt::format("shardlab {} --help", first);
    const auto [option, suggestion] = unknown_option(*app.get_subcommand(first));
    if (!option.empty()) {
      text = fmt::format("shardlab {}: unknown option '{}'", first, option);
      fix = fmt::format("{}{} shardlab {} --help lists all", suggestion,
                        suggestion.ends_with('?') ? "" : ";", first);
    }
  } else if (first.empty() || first.starts_with('-')) {
    text = "the first argument names a command";
    fix = "one of: " + text_of_list(commands, ", ");
  } else {
    text = fmt::format("unknown command '{}'", first);
    fix = suggest(first, commands);
  }
  std::fputs(fmt::format("error: {}\n  fix         {}\n", text, fix).c_str(), stderr);
}

// A full disk is reported when the buffered output is written.
int with_output(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs(fmt::format("error: what was printed could not be written: {}\n"
                         "  fix         make room there, or send it elsewhere\n",
                         std::strerror(errno))
                 .c_str(),
             stderr);
  return kCannotRun;
}

void begin() {
  keep_freed_memory();
  report_on_interrupt();
  std::signal(SIGPIPE, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  begin();
  if (argc > 1 && std::string_view(argv[1]) == "check") {
    std::fputs(
        "error: `shardlab check` is a program of its own, which tests/run builds: "
        "build/tests/facts/check FILE...\n",
        stderr);
    return kCannotRun;
  }
  CLI::App app(
      "shardlab - distributed tensors on simulated ranks: placements, collectives, numbers");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of all commands");
  app.set_version_flag("--version", fmt::format("shardlab {}", version()), "print the version");
  app.footer(
      "Examples:\n  shardlab run scenarios/models/megatron_mlp.toml\n"
      "  shardlab show \"f32[10@x, 6@y]\" --mesh x=2,y=3\n"
      "Exit codes: 0 fine, 1 the program ran and something failed, 2 it can't run as written,\n"
      "3 a defect of shardlab, 4 only because of another process, 130 interrupted.");
  Parsed parsed;
  add_commands(app, parsed);
  // The parser would take a list in brackets apart, so that it must not begin with one.
  std::vector<std::string> words(argv, argv + argc);
  // The recorder records both sides first: what follows is its own, and the script's.
  const bool of_script = std::ranges::any_of(
      words, [](const std::string& word) { return word.substr(0, word.find('=')) == "--ranks"; });
  if (words.size() > 1 && words[1] == "blame" && of_script) {
    words[1] = "record";
    words.insert(words.begin() + 2, "--blame");
  }
  std::vector<const char*> pointers;
  for (std::string& word : words) {
    if (word.starts_with('[')) word = fmt::format(" {}", word);
    pointers.push_back(word.c_str());
  }
  try {
    app.parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return with_output(app.exit(error));
    refuse_arguments(app, error, argc > 1 ? argv[1] : "");
    return kCannotRun;
  }
  return with_output(guarded(parsed.chosen));
}
