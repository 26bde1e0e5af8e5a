// proposals.h - small edits of a program that undo what people get wrong: a missing or doubled
// reduction, a factor, a label, a group, an offset. Pure: a program in, texts out. None is known to
// help before it has been tried.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/edit/block_edits.h"

namespace shardlab {

/// The text with the edits made.
std::string edited_text(std::string text, const std::vector<TextEdit>& edits);

/// All that proposals are made from.
struct Suspicion {
  const ast::Program* program = nullptr;
  std::vector<std::string> mesh_dims;
  std::vector<std::string> inputs;  ///< names
  std::int64_t line = 0;            ///< of the file, to look at first
  std::string_view cause;           ///< an id, or empty
  bool failed = false;              ///< the program did not run to its end
};

/// Each once: those that the cause asks for come first, at the line and then around it; then those
/// of several places, then all others.
std::vector<Proposal> proposals(const Suspicion& suspicion);

}  // namespace shardlab
