// Candidates for the whole mesh are all sequences of rule rows, one per mesh dim, in the order of
// the row list with the last mesh dim running fastest. The order matters: of candidates at the same
// price the first in the list is taken (the last, if it moves nothing), so that rules have to list
// their rows as the recordings do to decide as these do.
//
// With r rows and d mesh dims there are r^d candidates, most of which share the placements of a
// tensor. A column per tensor therefore numbers the different placements in it, and a front of k
// rows becomes one code per column, whose verdict is found once. Fronts are cut off as soon as one
// column refuses them. This is right because every refusal is final: further rows do not unmix
// partials, do not make pieces longer, and do not change the placements in front of them.
//
// Prices are computed last, once per column and code, and only if no candidate leaves every input
// where it is.
#include "propagate/expansion.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/rules.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

constexpr double kNotPriced = std::numeric_limits<double>::quiet_NaN();

RuleContext context_of(const Element& element) {
  const auto outs = static_cast<std::ptrdiff_t>(element.outs);
  return {element.schema, element.outputs, {element.tensors.begin(), element.tensors.end() - outs}};
}

bool replicated(const RuleRow& row) {
  const auto is_replica = [](const RulePlacement& cell) {
    return cell.absent || (!cell.any_shard && cell.placement.is_replicate());
  };
  return std::all_of(row.outputs.begin(), row.outputs.end(), is_replica) &&
         std::all_of(row.inputs.begin(), row.inputs.end(), is_replica);
}

/// Plain ones first, so that they win ties among candidates.
ShardKinds shard_kinds(const std::vector<const DTensorSpec*>& tensors) {
  ShardKinds kinds;
  for (const DTensorSpec* spec : tensors) {
    for (const Placement& placement : spec->placements()) {
      if (!placement.is_shard()) continue;
      const std::int64_t kind = placement.is_plain_shard() ? 0 : placement.split_factor;
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    }
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

RulePlacement instantiated(const RulePlacement& cell, std::int64_t kind) {
  if (!cell.any_shard || kind == 0) return {cell.placement, false, cell.absent};
  return RulePlacement::of(Placement::strided_shard(cell.placement.dim, kind));
}

bool is_strided(const DTensorSpec* spec) { return spec->has_strided(); }

}  // namespace

StridedShards strided_of_candidates(const Element& element) {
  const auto first = std::ranges::find_if(element.tensors, is_strided);
  return first == element.tensors.end() ? StridedShards::kPieces : (*first)->strided();
}

StridedShards strided_of_results(const Element& element) {
  const std::span positional(element.tensors.data(), element.positional);
  if (std::ranges::any_of(positional, &DTensorSpec::has_strided_order)) {
    return StridedShards::kOrder;
  }
  const bool any = std::ranges::any_of(positional, is_strided);
  return any ? StridedShards::kPieces : strided_of_candidates(element);
}

std::string_view to_string(ChoiceRule rule) {
  constexpr std::string_view kTexts[] = {
      "the only candidate, taken whatever it costs", "free, and every input stays as it is",
      "the first candidate that costs nothing", "the first candidate of least cost"};
  return kTexts[static_cast<std::size_t>(rule)];
}

Expansion::Expansion(const Element& element, const PlanOptions& options)
    : element_(element),
      row_(*element.schema.row),
      options_(options),
      layout_(*element.schema.layout),
      sequence_(cutting_sequence(element)),
      strided_(strided_of_candidates(element)),
      context_(context_of(element)) {
  std::vector<RuleRow> rows = rule_rows(row_.rule, context_);
  const std::size_t inputs = context_.tensors.size();
  output_count_ = rows.empty() ? element.outputs.size() : rows.front().outputs.size();
  const auto* own = std::get_if<FactorRule>(&row_.rule);
  if (own != nullptr && !rows.empty() && rows.front().inputs.size() != inputs) {
    fail(ErrorKind::kValue, Fix{"give the rule one operand for each tensor of the call"},
         "{}: its rule {} has {} operands, and the call has {} tensors", row_.name(), own->text,
         rows.front().inputs.size(), inputs);
  }
  for (const RuleRow& row : rows) {
    check_invariant(row.outputs.size() == output_count_ && row.inputs.size() == inputs,
                    "a rule row has a cell for every output and input");
  }
  const auto kinds = shard_kinds(element_.tensors);
  rows_.reserve((rows.size() + 1) * std::max<std::size_t>(1, kinds.size()));
  if (std::none_of(rows.begin(), rows.end(), replicated)) {
    RuleRow all = uniform_row(placement_of_letter('r'), output_count_, inputs);
    for (std::size_t i = 0; i < output_count_; ++i) {
      const bool never = !rows.empty() && std::all_of(rows.begin(), rows.end(), [&](const auto& r) {
        return r.outputs[i].absent;
      });
      const bool masked = i < element.outputs.size() && !element.outputs[i].present;
      if (never || masked) all.outputs[i] = RulePlacement::none();
    }
    add_row(std::move(all), kinds);
  }
  for (RuleRow& row : rows) add_row(std::move(row), kinds);
  withheld_.reserve(rows_.size());
  for (const RuleRow& row : rows_) {
    withheld_.push_back(shardlab::withheld(row_.rule, context_, row));
    any_withheld_ = any_withheld_ || withheld_.back() != nullptr;
  }
  any_withheld_ = any_withheld_ || std::ranges::any_of(element_.tensors, [](const auto* tensor) {
                    return is_integral(tensor->dtype());
                  });
  make_columns();
}

void Expansion::add_row(RuleRow row, const ShardKinds& kinds) {
  // An out= tensor is laid out like its output.
  for (std::size_t i = 0; i < element_.outs; ++i) row.inputs.push_back(row.outputs[i]);
  const auto open = [](const RulePlacement& cell) { return cell.any_shard; };
  if (std::none_of(row.outputs.begin(), row.outputs.end(), open) &&
      std::none_of(row.inputs.begin(), row.inputs.end(), open)) {
    rows_.push_back(std::move(row));
    return;
  }
  for (const std::int64_t kind : kinds) {
    RuleRow& filled = rows_.emplace_back(row);
    for (RulePlacement& cell : filled.outputs) cell = instantiated(cell, kind);
    for (RulePlacement& cell : filled.inputs) cell = instantiated(cell, kind);
  }
}

void Expansion::make_columns() {
  const std::vector<const DTensorSpec*>& tensors = element_.tensors;
  columns_.resize(output_count_ + tensors.size());
  std::vector<RulePlacement> cells(rows_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const bool is_output = c < output_count_;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      cells[r] = is_output ? rows_[r].outputs[c] : rows_[r].inputs[c - output_count_];
    }
    Column& column = columns_[c];
    if (!is_output) column.given = tensors[c - output_count_];
    fill_column(column, cells);
  }
  if (row_.inplace()) {
    columns_[output_count_].required = tensors[0];
    columns_[output_count_].unless_required = Drop::kInplace;
    if (output_count_ > 0) {
      columns_[0].required = tensors[0];
      columns_[0].unless_required = Drop::kInplace;
    }
  }
  // Only positional tensors are moved before a call, as in the reference.
  for (std::size_t i = element_.positional; i < context_.tensors.size(); ++i) {
    columns_[output_count_ + i].required = tensors[i];
    columns_[output_count_ + i].unless_required = Drop::kKeyword;
  }
  for (std::size_t i = 0; i < element_.outs; ++i) {
    columns_[i].required = tensors[tensors.size() - element_.outs + i];
    columns_[i].unless_required = Drop::kOut;
  }
}

void Expansion::fill_column(Column& column, std::span<const RulePlacement> cells) const {
  column.kinds.reserve(cells.size());
  column.kind_of_row.reserve(cells.size());
  for (const RulePlacement& cell : cells) {
    const auto found = std::find(column.kinds.begin(), column.kinds.end(), cell.placement);
    column.kind_of_row.push_back(static_cast<std::uint16_t>(found - column.kinds.begin()));
    if (found == column.kinds.end()) column.kinds.push_back(cell.placement);
  }
  std::size_t last = 0;
  for (std::size_t i = 0; i < layout_.ndim(); ++i) {
    last = column.code_behind(last, column.kinds.size() - 1);
  }
  column.verdicts.assign(last + 1, Verdict::kOpen);
  if (column.given == nullptr) return;
  column.given_code = 0;
  for (const Placement& placement : column.given->placements()) {
    const auto found = std::find(column.kinds.begin(), column.kinds.end(), placement);
    if (found == column.kinds.end()) {
      column.given_code = kNoCode;
      return;
    }
    const auto kind = static_cast<std::size_t>(found - column.kinds.begin());
    column.given_code = column.code_behind(column.given_code, kind);
  }
}

Placements Expansion::placements_of(const Column& column,
                                    std::span<const std::uint16_t> rows) const {
  Placements placements;
  for (const std::uint16_t row : rows) placements.push_back(column.of(row));
  return placements;
}

Drop Expansion::judge(const Column& column, std::span<const std::uint16_t> front) const {
  const std::size_t last = front.size() - 1;
  const Placement& placement = column.of(front[last]);
  if (placement.is_partial()) {
    for (const std::uint16_t row : front.first(last)) {
      const Placement& other = column.of(row);
      if (other.is_partial() && !may_mix(other, placement)) return Drop::kMixedPartials;
    }
  }
  if (column.required != nullptr && placement != column.required->placements()[last]) {
    return column.unless_required;
  }
  if (column.given == nullptr) return Drop::kKept;
  if (!row_.has(kAllowUneven)) return too_short(column, front) ? Drop::kTooShort : Drop::kKept;
  const Placements& given = column.given->placements();
  const auto as_given = [&](std::uint16_t row, const Placement& now) {
    return column.of(row) == now;
  };
  if (std::equal(front.begin(), front.end(), given.begin(), as_given)) return Drop::kKept;
  // A short piece that did not move has been kept so far.
  for (std::size_t length = 1; length <= front.size(); ++length) {
    if (too_short(column, front.first(length))) return Drop::kTooShort;
  }
  return Drop::kKept;
}

// A dim must be at least as long as the number of pieces, times the factor of a strided cut.
bool Expansion::too_short(const Column& column, std::span<const std::uint16_t> front) const {
  const Placement& placement = column.of(front.back());
  if (!placement.is_shard()) return false;
  const Dims& shape = column.given->shape();
  const auto dim = static_cast<std::size_t>(placement.dim);
  if (dim >= shape.size()) return true;
  std::int64_t pieces = placement.is_strided_shard() ? placement.split_factor : 1;
  for (std::size_t i = 0; i < front.size(); ++i) {
    const Placement& cut = column.of(front[i]);
    if (cut.is_shard() && cut.dim == placement.dim) pieces *= layout_.size(i);
  }
  return shape[dim] < pieces;
}

bool Expansion::passes_filter(const Combination& rows) const {
  if (row_.filter == nullptr) return true;
  std::vector<Placements> inputs;
  for (std::size_t i = 0; i < context_.tensors.size(); ++i) {
    inputs.push_back(input_placements(rows, i));
  }
  return row_.filter(context_, inputs) == nullptr;
}

Drop Expansion::drop_of(const Combination& rows) const {
  Drop first = Drop::kKept;
  for (const Column& column : columns_) {
    for (std::size_t length = 1; length <= rows.size(); ++length) {
      const Drop drop = judge(column, std::span(rows.data(), length));
      if (drop != Drop::kKept && (first == Drop::kKept || drop < first)) first = drop;
    }
  }
  if (first != Drop::kKept) return first;
  return passes_filter(rows) ? Drop::kKept : Drop::kFilter;
}

bool Expansion::front_kept(const Combination& rows) {
  const std::size_t length = rows.size();
  const std::uint16_t row = rows.back();
  const std::size_t* before = codes_at(length - 1);
  std::size_t* codes = codes_at(length);
  bool inplace = false;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    Column& column = columns_[c];
    codes[c] = column.code_behind(before[c], column.kind_of(row));
    if (all_kept_) continue;
    Verdict& verdict = column.verdicts.data()[codes[c]];
    if (verdict == Verdict::kOpen) {
      const Drop drop = judge(column, rows);
      verdict = drop == Drop::kKept      ? Verdict::kKept
                : drop == Drop::kInplace ? Verdict::kInplace
                                         : Verdict::kDropped;
    }
    if (verdict == Verdict::kDropped) return false;
    inplace = inplace || verdict == Verdict::kInplace;
  }
  // The all-replicated row completes any front, so a combination that only its target blocks
  // exists.
  blocked_inplace_ = blocked_inplace_ || inplace;
  return !inplace;
}

template <typename Visit>
bool Expansion::walk(Combination& rows, const Visit& visit) {
  if (rows.size() == layout_.ndim()) {
    return (row_.filter != nullptr && !passes_filter(rows)) || visit(rows);
  }
  rows.push_back(0);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    rows.back() = static_cast<std::uint16_t>(row);
    if (front_kept(rows) && !walk(rows, visit)) return false;
  }
  rows.pop_back();
  return true;
}

MoveCosts& Expansion::moves(std::size_t index) {
  auto& moves = columns_[output_count_ + index].moves;
  return moves ? *moves : moves.emplace(*element_.tensors[index], options_);
}

double Expansion::input_cost(const Combination& rows, std::size_t index) {
  const DTensorSpec& given = *element_.tensors[index];
  const Placements placements = input_placements(rows, index);
  const bool strided =
      given.has_strided() || std::ranges::any_of(placements, &Placement::is_strided_shard);
  if (sequence_.empty() && given.has_default_order() && !strided) {
    return moves(index).to(placements);
  }
  const DTensorSpec* wanted = input_spec(rows, index);
  return moves(index).to(strided ? *wanted->with(strided_) : *wanted);
}

double Expansion::input_cost_here(const Combination& rows, std::size_t index) {
  Column& column = columns_[output_count_ + index];
  if (column.costs.empty()) column.costs.assign(column.verdicts.size(), kNotPriced);
  double& cost = column.costs[codes_at(rows.size())[output_count_ + index]];
  if (std::isnan(cost)) cost = input_cost(rows, index);
  return cost;
}

double Expansion::bound_here(const Combination& rows, std::size_t priced) {
  double total = 0;
  for (std::size_t i = 0; i < element_.tensors.size(); ++i) {
    Column& column = columns_[output_count_ + i];
    const std::size_t code = codes_at(rows.size())[output_count_ + i];
    const double price = column.costs.empty() ? kNotPriced : column.costs[code];
    if (i < priced || !std::isnan(price)) {
      total += i < priced ? input_cost_here(rows, i) : price;
      continue;
    }
    if (column.bounds.empty()) column.bounds.assign(column.verdicts.size(), kNotPriced);
    double& bound = column.bounds[code];
    if (std::isnan(bound)) {
      const bool default_orders = sequence_.empty() && column.given->has_default_order();
      bound = moves(i).at_least(input_placements(rows, i), default_orders);
    }
    total += bound;
  }
  return total;
}

std::vector<double> Expansion::row_bounds() {
  std::vector<double> bounds(layout_.ndim() * rows_.size());
  for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
    for (std::size_t i = 0; i < element_.tensors.size(); ++i) {
      const Column& column = columns_[output_count_ + i];
      std::vector<double> of_kind;
      for (const Placement& kind : column.kinds) of_kind.push_back(moves(i).at_least(dim, kind));
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        bounds[dim * rows_.size() + row] +=
            of_kind[column.kind_of(static_cast<std::uint16_t>(row))];
      }
    }
  }
  return bounds;
}

bool Expansion::plans_moves() const {
  const auto planned = [](const DTensorSpec* spec) {
    return spec->has_strided() || !spec->has_default_order();
  };
  return std::ranges::any_of(element_.tensors, planned);
}

double Expansion::total_cost(const Combination& rows) {
  double total = 0;
  for (std::size_t i = 0; i < element_.tensors.size(); ++i) total += input_cost(rows, i);
  return total;
}

bool Expansion::unchanged_here() {
  const std::size_t* codes = codes_at(layout_.ndim());
  for (std::size_t c = output_count_; c < output_count_ + element_.positional; ++c) {
    if (codes[c] != columns_[c].given_code) return false;
  }
  return true;
}

Choice Expansion::choose(Selection selection) {
  // Counting and judging first, without prices: the inputs of most calls need not move.
  Choice first, unmoved;
  int count = 0;
  codes_.assign((layout_.ndim() + 1) * columns_.size(), 0);
  Combination rows;
  walk(rows, [&](const Combination& here) {
    const int index = count++;
    if (withheld(here) != nullptr) return true;
    if (first.index < 0) first = {.rows = here, .index = index};
    if (unchanged_here()) unmoved = {.rows = here, .index = index};
    return true;
  });
  all_kept_ = std::ranges::all_of(columns_, [](const Column& column) {
    return std::ranges::count(column.verdicts, Verdict::kKept) + 1 == std::ssize(column.verdicts);
  });
  const bool full = selection == Selection::kFull;
  Choice choice = first;
  choice.rule = ChoiceRule::kOnly;
  if (count == 1 && first.index == 0) {
    choice.cost = total_cost(first.rows);
  } else if (first.index >= 0) {
    if (full && unmoved.index >= 0) unmoved.cost = total_cost(unmoved.rows);
    if (full && unmoved.index >= 0 && unmoved.cost == 0) {
      choice = unmoved;
      choice.rule = ChoiceRule::kUnchanged;
    } else {
      choice = cheapest();
      choice.rule = full && choice.cost == 0 ? ChoiceRule::kFree : ChoiceRule::kCheapest;
    }
  }
  choice.count = count;
  choice.blocked_inplace = blocked_inplace_;
  return choice;
}

template <typename Visit>
void Expansion::each_choosable(const Visit& visit) {
  int index = 0;
  Combination rows;
  walk(rows, [&](const Combination& here) {
    const int own = index++;
    return withheld(here) != nullptr || visit(here, own);
  });
}

Choice Expansion::cheapest() { return plans_moves() ? cheapest_planned() : cheapest_priced(); }

Choice Expansion::cheapest_priced() {
  Choice best;
  best.cost = std::numeric_limits<double>::infinity();
  each_choosable([&](const Combination& rows, int index) {
    // Prices are not negative: a sum that is not better already needs no further terms.
    double total = 0;
    for (std::size_t i = 0; i < element_.tensors.size(); ++i) {
      if (best.index >= 0 && total >= best.cost) break;
      total += input_cost_here(rows, i);
    }
    if (best.index < 0 || total < best.cost) best = {.rows = rows, .cost = total, .index = index};
    return best.cost != 0;
  });
  return best;
}

// If a price needs a search for a plan, the candidate with the lowest bound is priced first: the
// bounds of most others are above its price.
Choice Expansion::cheapest_planned() {
  const std::vector<double> row_bounds = this->row_bounds();
  const auto rough = [&](const Combination& rows) {
    double total = 0;
    for (std::size_t dim = 0; dim < rows.size(); ++dim) {
      total += row_bounds[dim * rows_.size() + rows[dim]];
    }
    return total;
  };
  Choice best;
  each_choosable([&](const Combination& rows, int index) {
    if (best.index >= 0 && rough(rows) >= best.cost) return true;
    const double bound = bound_here(rows, 0);
    if (best.index < 0 || bound < best.cost) best = {.rows = rows, .cost = bound, .index = index};
    return best.cost != 0;
  });
  if (best.index < 0) return best;
  best.cost = total_cost(best.rows);
  if (best.cost == 0) return best;  // those before it cost something
  each_choosable([&](const Combination& rows, int index) {
    const auto better = [&](double cost) {
      return cost < best.cost || (cost == best.cost && index < best.index);
    };
    if (!better(rough(rows))) return true;
    const std::size_t inputs = element_.tensors.size();
    double total = bound_here(rows, 0);
    for (std::size_t priced = 1; priced <= inputs && better(total); ++priced) {
      total = bound_here(rows, priced);
    }
    if (better(total)) best = {.rows = rows, .cost = total, .index = index};
    return best.cost != 0;
  });
  return best;
}

Placements Expansion::input_placements(const Combination& rows, std::size_t index) const {
  return placements_of(columns_[output_count_ + index], rows);
}

Placements Expansion::output_placements(const Combination& rows, std::size_t index) const {
  return placements_of(columns_[index], rows);
}

const DTensorSpec* Expansion::input_spec(const Combination& rows, std::size_t index) const {
  const DTensorSpec* given = element_.tensors[index];
  const Placements placements = input_placements(rows, index);
  const ShardOrder order = order_in(sequence_, placements);
  const bool stays = given->placements() == placements && given->order() == order;
  return stays ? given
               : layout_.arena().spec(&layout_, placements, order, given->meta(),
                                      strided_of_results(element_));
}

const DTensorSpec* Expansion::output_spec(const Combination& rows, std::size_t index) const {
  const OutputMeta& output = element_.outputs[index];
  if (!output.present || index >= output_count_ || !output_present(rows, index)) return nullptr;
  const Placements placements = output_placements(rows, index);
  const DTensorSpec* written = columns_[index].required;
  return layout_.arena().spec(
      &layout_, placements, order_in(sequence_, placements), output.meta,
      written != nullptr ? written->strided() : strided_of_results(element_));
}

const char* Expansion::withheld(const Combination& rows) const {
  if (!any_withheld_) return nullptr;
  for (std::size_t dim = 0; dim < rows.size(); ++dim) {
    if (withheld_[rows[dim]] != nullptr) return withheld_[rows[dim]];
    for (std::size_t i = 0; i < element_.tensors.size(); ++i) {
      const DTensorSpec& given = *element_.tensors[i];
      const Placement& wanted = rows_[rows[dim]].inputs[i].placement;
      const bool parts =
          wanted.is_partial(ReduceOp::kSum) && given.placements()[dim].is_replicate();
      if (parts && is_integral(given.dtype())) return "integers are not cut into equal terms";
    }
  }
  return nullptr;
}

bool Expansion::output_present(const Combination& rows, std::size_t index) const {
  return std::none_of(rows.begin(), rows.end(),
                      [&](std::uint16_t row) { return rows_[row].outputs[index].absent; });
}

}  // namespace shardlab
