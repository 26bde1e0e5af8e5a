// option_targets.h - the arguments that options set, as rows: the option's names and a member.
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace shardlab {

/// A member (a bool is a flag), or a function of the arguments: with the option's text, or without
/// one for a flag.
template <typename Arguments>
class OptionTarget {
 public:
  template <typename T>
  OptionTarget(T Arguments::*member)
      : add_([member](CLI::App& command, Arguments& arguments, const std::string& names,
                      const std::string& help) -> CLI::Option* {
          if constexpr (std::is_same_v<T, bool>) {
            return command.add_flag(names, arguments.*member, help);
          } else {
            CLI::Option* option = command.add_option(names, arguments.*member, help);
            // A list has one value for each time that its option is given: behind it, files begin.
            if (names.starts_with("-")) option->allow_extra_args(false);
            return option;
          }
        }) {}
  template <std::invocable<Arguments&> Set>
  OptionTarget(Set set)
      : add_([set](CLI::App& command, Arguments& arguments, const std::string& names,
                   const std::string& help) {
          return command.add_flag_callback(
              names, [set, &arguments] { set(arguments); }, help);
        }) {}
  template <std::invocable<Arguments&, const std::string&> Set>
  OptionTarget(Set set)
      : add_([set](CLI::App& command, Arguments& arguments, const std::string& names,
                   const std::string& help) {
          return command.add_option_function<std::string>(
              names, [set, &arguments](const std::string& text) { set(arguments, text); }, help);
        }) {}

  CLI::Option* add(CLI::App& command, Arguments& arguments, const std::string& names,
                   const std::string& help) const {
    return add_(command, arguments, names, help);
  }

 private:
  std::function<CLI::Option*(CLI::App&, Arguments&, const std::string&, const std::string&)> add_;
};

/// The targets of a command's options, by their names. The arguments outlive the command.
class OptionTargets {
 public:
  template <typename Arguments>
  OptionTargets& of(Arguments& arguments,
                    std::initializer_list<std::pair<const char*, OptionTarget<Arguments>>> rows) {
    for (const auto& [names, target] : rows) {
      add_[names] = [&arguments, target = target](CLI::App& command, const std::string& of_option,
                                                  const std::string& help) {
        return target.add(command, arguments, of_option, help);
      };
    }
    return *this;
  }

  CLI::Option* add(CLI::App& command, const std::string& names, const std::string& help) const {
    const auto found = add_.find(names);
    check_invariant(found != add_.end(), "every option of commands.txt has a target");
    return found->second(command, names, help);
  }

 private:
  std::map<std::string,
           std::function<CLI::Option*(CLI::App&, const std::string&, const std::string&)>>
      add_;
};

}  // namespace shardlab
