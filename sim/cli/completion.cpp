// The scripts hold the words themselves, so that a key press starts no program.
#include "sim/cli/completion.h"

#include "base/error.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

// Without the characters that shells, or zsh's and fish's lists, read in their own way.
std::string plain(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (std::string_view("'\"`$\\[]:\n").find(letter) == std::string_view::npos) out += letter;
  }
  return out;
}

std::string joined_words(const std::vector<CompletedWord>& words) {
  std::string text;
  for (const CompletedWord& word : words) text += (text.empty() ? "" : " ") + word.word;
  return text;
}

std::string bash_script(const std::vector<CompletedCommand>& commands) {
  std::vector<CompletedWord> names;
  std::string cases;
  for (const CompletedCommand& one : commands) {
    names.push_back(one.command);
    cases +=
        fmt::format("    {}) options=\"{}\" ;;\n", one.command.word, joined_words(one.options));
  }
  return fmt::format(
      "_shardlab() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} options=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$word\")\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  case $word in\n"
      "    -*) mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\") ;;\n"
      "    *) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _shardlab shardlab\n",
      joined_words(names), cases);
}

std::string zsh_script(const std::vector<CompletedCommand>& commands) {
  std::string names, cases;
  for (const CompletedCommand& one : commands) {
    names += fmt::format("    '{}:{}'\n", one.command.word, plain(one.command.about));
    cases += fmt::format("    {})\n      options=(\n", one.command.word);
    for (const CompletedWord& option : one.options) {
      cases += fmt::format("        '{}[{}]'\n", option.word, plain(option.about));
    }
    cases += "      ) ;;\n";
  }
  return fmt::format(
      "#compdef shardlab\n"
      "_shardlab() {{\n"
      "  local -a commands options\n"
      "  commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n{}  esac\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  _arguments $options '*:file:_files'\n"
      "}}\n"
      "compdef _shardlab shardlab\n",
      names, cases);
}

std::string fish_script(const std::vector<CompletedCommand>& commands) {
  std::string text;
  for (const CompletedCommand& one : commands) {
    text += fmt::format("complete -c shardlab -n __fish_use_subcommand -f -a {} -d '{}'\n",
                        one.command.word, plain(one.command.about));
    for (const CompletedWord& option : one.options) {
      text +=
          fmt::format("complete -c shardlab -n '__fish_seen_subcommand_from {}' -l {} -d '{}'\n",
                      one.command.word, option.word.substr(2), plain(option.about));
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell,
                              const std::vector<CompletedCommand>& commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  fail(Fix{"one of: bash, zsh, fish"}, "no completion for shell '{}'", shell);
}

std::string completion_json(const std::string& shell, const std::string& script) {
  return nlohmann::json{{"shell", shell}, {"script", script}}.dump() + "\n";
}

}  // namespace shardlab
