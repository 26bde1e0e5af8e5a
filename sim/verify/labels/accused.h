// accused.h - how a step is wrong that was found to be: the id of its mistake, and a sentence.
// Private to the files of labels.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/scenario/cause.h"
#include "sim/verify/labels/matched_calls.h"

namespace shardlab {

/// The steps of a program, and those of them from which a wrong value is made.
struct StepsOnPath {
  std::vector<MatchedCall> calls;
  const MeshLayout* layout = nullptr;
  double relative = 0;
  std::set<std::pair<int, int>> path = {};  ///< places of the text, line and column
  bool by_backward = false;                 ///< gradients are on the path, too
  /// A name in a line whose number is `own` on the ranks and `alone` on one device, and its line.
  std::function<std::optional<std::pair<std::string, int>>(int line, double own, double alone)>
      number_in = {};
  bool has(const MatchedCall& call) const;
};

/// One way in which ranks may hold the right result, by its shape on each rank.
struct Form {
  Placements placements;
  std::vector<GlobalValue> parts;
  double factor = 1;  ///< in gradients of a loss that each rank averages over its own rows
};

/// The cause with which `call` lost its meaning; `step`: its number, or that of the step behind it
/// that was mended.
std::optional<Cause> accused_of(const StepsOnPath& of, const MatchedCall& call, const Form& form,
                                std::size_t step);

/// The same of a collective, by the label of what it was given.
std::optional<Cause> accused_collective(const StepsOnPath& of, const MatchedCall& call);

/// "add in line 3", and a cause that is there.
std::string at(const MatchedCall& call);
Cause found(const MatchedCall& call, std::string_view id, std::string text);

/// Some reduction over the mesh dim takes what is made of the step of this number.
bool reduced_behind(const StepsOnPath& of, std::size_t step, std::size_t mesh_dim);

/// The group of a collective has several ranks along the mesh dim.
bool in_group(const LoggedCall& call, const MeshLayout& layout, std::size_t mesh_dim);

/// The results of `call` are terms that nothing reduces.
Cause terms_of(const MeshLayout& layout, const MatchedCall& call);

}  // namespace shardlab
