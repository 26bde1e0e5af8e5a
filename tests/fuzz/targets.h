// targets.h - what is fed with mutated texts, and what must hold for every text.
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
  /// Takes any text. What the text's author did wrong is refused by an Error; that this throws
  /// anything else, fails with Internal, ends or hangs is a finding.
  std::function<Answer(const std::string& text)> feed;
};

/// `root`: the repository, whose scenarios, cases and facts are the corpus.
std::vector<Target> make_targets(const std::string& root);

}  // namespace shardlab::fuzz
