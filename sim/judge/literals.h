// literals.h - numbers of a program's text that are the size of a mesh dim: factors of values that
// are reduced over it, and lengths of lists that a collective fills. One device cannot tell what
// they mean. Private to the files that run scenarios.
#pragma once

#include <string>
#include <vector>

#include "sim/language/run/def_use.h"
#include "sim/log/trace.h"

namespace shardlab {

struct SizeInText {
  DefUse::Id node = 0;  ///< the value that is multiplied, or the entries of the list
  std::int64_t number = 0;
  std::string group;  ///< "dp": the first one of this size
  SourceSpan place;   ///< of the number; empty: it is not written in one place
  bool list = false;
  /// A sum is divided by it: one device divides by it, too, and agrees.
  bool divides_sum = false;

  /// "3 in line 12 is the size of dp: write mesh.size("dp"), or say in [reference] what is meant".
  std::string text(int line) const;
};

/// `events`: of one rank, whose collectives have their groups.
std::vector<SizeInText> literals_of(const DefUse& flow, const std::vector<TraceEvent>& events);

/// The text with each of these numbers, and nothing else, as it is in a world of one.
std::string text_of_one(std::string text, const std::vector<SizeInText>& literals);

}  // namespace shardlab
