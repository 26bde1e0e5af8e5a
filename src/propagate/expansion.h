// expansion.h - from rule rows for ONE mesh dim to candidates for the whole mesh, and the choice
// among them (propagate README, "Expanding a single-dim rule list", "Choosing"). Candidates are
// combinations of rows, one per mesh dim; they are counted and priced without building specs: what
// a combination means for one tensor depends on that tensor's placements alone, so it is judged and
// priced once per tensor and list of placements.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "schema/op_row.h"

namespace shardlab {

/// One decision to make: a call, or one list element of a foreach call.
struct Element {
  const OpSchema& schema;                   ///< lists of independent elements replaced by one
  std::vector<OutputMeta> outputs;          ///< empty when the op has none
  std::vector<const DTensorSpec*> tensors;  ///< positional, keyword, then out= tensors
  std::size_t positional = 0;               ///< how many of them are positional
  std::size_t outs = 0;                     ///< how many of them are out= tensors
};

/// Why a combination is dropped; the first one that holds.
enum class Drop : std::uint8_t { kKept, kMixedPartials, kInplace, kOut, kTooShort, kFilter };

/// Row indices, one per mesh dim.
using Combination = InlineVector<std::uint16_t, 4>;

enum class ChoiceRule : std::uint8_t { kOnly, kNegative, kUnchanged, kFree, kCheapest };
std::string_view to_string(ChoiceRule rule);

struct Choice {
  Combination rows;
  double cost = 0;
  int index = -1;  ///< in list order; -1: no candidate is left
  int count = 0;   ///< candidates
  ChoiceRule rule = ChoiceRule::kOnly;
  bool blocked_inplace = false;  ///< some combination was dropped because its target would move
};

class Expansion {
 public:
  Expansion(const Element& element, const PlanOptions& options);

  /// Picks a candidate; list elements choose by cost alone.
  enum class Selection : std::uint8_t { kFull, kCheapestOnly };
  Choice choose(Selection selection);

  /// Calls visit(combination, drop) for every combination in list order.
  template <typename Visit>
  void for_each(const Visit& visit);

  /// Placements of tensor `index` (as in Element) or of an output under a combination.
  Placements input_placements(const Combination& rows, std::size_t index) const;
  Placements output_placements(const Combination& rows, std::size_t index) const;
  /// False: the rows leave this output without a spec.
  bool output_present(const Combination& rows, std::size_t index) const;
  std::size_t output_count() const { return output_count_; }
  double input_cost(const Combination& rows, std::size_t index);
  const std::vector<RuleRow>& rows() const { return rows_; }

 private:
  /// What one tensor's placements, over all combinations, can be.
  struct Column {
    const DTensorSpec* given = nullptr;     ///< inputs
    const DTensorSpec* required = nullptr;  ///< the placements it must have: in-place, out=
    Drop unless_required = Drop::kKept;
    std::vector<Placement> kinds;  ///< distinct placements on one mesh dim
    std::vector<std::uint16_t> kind_of_row;
    std::vector<Drop> drops;    ///< per list of kinds; kFilter = not judged yet
    std::vector<double> costs;  ///< the same; NaN = not priced yet
  };

  void instantiate(std::vector<RuleRow> rows);
  void make_columns();
  void fill_column(Column& column, std::span<const RulePlacement> cells);
  std::size_t code_of(const Column& column, const Combination& rows) const;
  Placements placements_of(const Column& column, const Combination& rows) const;
  Drop drop_of(Column& column, std::size_t code, const Combination& rows);
  Drop judge(const Column& column, const Placements& placements) const;
  double cost_of(Column& column, std::size_t code, const Combination& rows);
  Drop drop_of(const Combination& rows);
  bool unchanged(const Combination& rows) const;
  bool advance(Combination& rows) const;

  const Element& element_;
  const OpRow& row_;
  const PlanOptions& options_;
  const MeshLayout& layout_;
  RuleContext context_;
  std::vector<RuleRow> rows_;
  std::vector<Column> columns_;  ///< outputs, then inputs
  std::size_t output_count_ = 0;
};

template <typename Visit>
void Expansion::for_each(const Visit& visit) {
  if (rows_.empty()) return;
  Combination rows(layout_.ndim(), 0);
  do {
    visit(rows, drop_of(rows));
  } while (advance(rows));
}

}  // namespace shardlab
