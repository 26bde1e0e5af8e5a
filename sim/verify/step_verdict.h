// step_verdict.h - the result of judging every call of a run (scenarios/README.md, section 6).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/rank_context.h"

namespace shardlab {

/// A call and its place in the program. For a gradient: the place of its forward call.
struct StepPlace {
  SourcePosition position;  ///< `file` is null outside of a program text
  Pass pass = Pass::kForward;
  std::string op;          ///< "aten::mm", "redistribute", "from_local", "all_reduce"
  std::string operands;    ///< types as held: "f32[8@dp, 16], f32[16, 4]"
  std::int64_t order = 0;  ///< calls of the first rank that took part before this one
};

/// A call whose result is not the op's value on its own operands.
struct WrongStep {
  // Indices are those of the whole result, put together from the ranks' pieces.
  StepPlace place;
  std::string what;  ///< one line: "element [3, 1] is 2, 1 is right; off by 1, allowed 3e-07"
  std::int64_t result = 0;        ///< number of the tensor result of the op, from 0
  std::int64_t element = -1;      ///< row-major and global, the worst one; -1: not one element's
  double got = 0, expected = 0;   ///< there
  double error = 0, allowed = 0;  ///< there; `allowed` 0: bitwise
  std::int64_t wrong_elements = 0;
  std::string held_by;  ///< "ranks 0,4", the holders of that element
  bool unequal_replicas = false;

  /// `what`, the number of wrong elements and the holders of the worst one.
  std::string text() const;
};

/// Counts of calls by finding, and the first wrong one in the order of the program.
struct StepVerdict {
  // A call is counted once, for any number of its results and of the ranks that made it.
  bool judged = false;
  std::string not_judged;  ///< the reason why no call was, or empty

  // Each judged call is in one of the first three or among the wrong ones; skipped ones are in
  // none.
  std::int64_t bitwise = 0;             ///< calls: equal to the op in its own dtype, bit for bit
  std::int64_t bounded = 0;             ///< calls: within the bound of their rounding
  std::int64_t undecided_calls = 0;     ///< calls with elements that rounding may have changed
  std::int64_t undecided_elements = 0;  ///< of these calls
  std::map<std::string, std::int64_t> skipped;  ///< calls that could not be judged, by reason

  std::int64_t wrong_calls = 0;
  std::optional<WrongStep> wrong;  ///< the first one
  std::optional<StepPlace>
      non_finite;  ///< the first call that makes a NaN or inf of finite numbers
  /// The first from_local, to_local or collective of the program's own: from there on, calls alone
  /// cannot distinguish right placements from wrong ones.
  std::optional<StepPlace> left;

  /// True when the run is wrong for this reason alone.
  bool wrong_found() const { return wrong.has_value(); }
  std::int64_t calls() const { return bitwise + bounded + undecided_calls + wrong_calls; }
};

/// The name of a call in reports: "aten::mm of f32[8@dp, 16], f32[16, 4], backward of line 7".
std::string to_string(const StepPlace& place);

}  // namespace shardlab
