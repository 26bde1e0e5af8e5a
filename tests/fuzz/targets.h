// targets.h - readers that are fed with mutated texts, and the properties that must hold for every
// text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace shardlab::fuzz {

enum class Answer : std::uint8_t { kAccepted, kRefused };

struct Target {
  std::string name;  ///< "type"
  int share;         ///< of 100 inputs
  Material material;
  /// Takes any text. Mistakes of the text's author are refused by an Error; any other exception, an
  /// Internal error, an end of the process or a hang is a finding.
  std::function<Answer(const std::string& text)> feed;
};

/// `root`: the repository, whose scenarios, cases and facts are the corpus.
std::vector<Target> make_targets(const std::string& root);

}  // namespace shardlab::fuzz
