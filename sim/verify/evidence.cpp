// The numbers in f64 are used if they are known: a mistake shows in them without rounding.
#include "sim/verify/evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "mesh/local_shape.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/scenario/type_text.h"
#include "sim/verify/causes.h"

namespace shardlab {

namespace {

using Recordings = std::vector<const Recording*>;

// The tensor of each rank of `layout`, by mesh index; nothing if one of them has no such value.
std::optional<std::vector<DTensor>> held_by(const Recordings& ranks, const std::string& key,
                                            const MeshLayout& layout) {
  std::vector<DTensor> held;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const RecordedValue* value =
        ranks[static_cast<std::size_t>(layout.rank_at_index(i))]->find(key);
    if (value == nullptr || is_integral(value->value.dtype())) return std::nullopt;
    held.push_back(value->value);
  }
  return held;
}

// The largest value that is explained: each hypothesis reads all elements once per known value.
constexpr std::int64_t kMostElements = 1 << 20;

class Collector {
 public:
  Collector(const VerifyInputs& inputs, const Scenario& scenario, const MeshLayout& layout)
      : inputs_(inputs), scenario_(scenario), layout_(layout) {}

  std::optional<Evidence> collect(const std::string& key) {
    const bool in_f64 = !inputs_.ranks_in_f64.empty();
    const Recordings& ranks = in_f64 ? inputs_.ranks_in_f64 : inputs_.ranks;
    const MeshLayout& layout = layout_of(ranks, key);
    const auto held = held_by(ranks, key, layout);
    if (!held || held->front().numel() > kMostElements) return std::nullopt;
    Evidence evidence;
    evidence.layout = &layout;
    evidence.relative = taken_as_equal(in_f64, held->front().dtype());
    for (const DTensor& piece : *held) evidence.held.push_back(whole_value(piece.local()));
    evidence.got = evidence.held.front();
    if (held->front().distributed()) {
      const DTensorSpec* spec = held->front().spec();
      for (const DTensor& piece : *held) {
        if (piece.spec() != spec) return std::nullopt;
      }
      std::vector<AssemblyFault> faults;
      evidence.got = assemble(*spec, *held, faults);
      evidence.spec = spec;
    }
    add_counts(evidence);
    if (&layout == &layout_) add_cuts(evidence);
    add_numbers(evidence);
    return evidence;
  }

  // From the single-device run: the value itself, and the values before it that a mistake may add.
  static bool add_expected(const Recording& alone, const std::string& key, Evidence& evidence) {
    const RecordedValue* expected = alone.find(key);
    if (expected == nullptr) return false;
    evidence.expected = whole_value(expected->value.local());
    evidence.known.clear();
    constexpr std::size_t kMostKnown = 64;
    for (const RecordedValue& value : alone.values()) {
      if (value.key() == key || evidence.known.size() == kMostKnown) continue;
      if (value.value.numel() > kMostElements || is_integral(value.value.dtype())) continue;
      evidence.known.push_back({value.name, whole_value(value.value.local())});
    }
    return true;
  }

 private:
  // The mesh of the value on the first rank that has it distributed, which may be a submesh: the
  // ranks of other submeshes hold values of their own.
  const MeshLayout& layout_of(const Recordings& ranks, const std::string& key) const {
    for (const Recording* rank : ranks) {
      const RecordedValue* value = rank->find(key);
      if (value != nullptr && value->value.distributed()) return *value->value.spec()->layout();
    }
    return layout_;
  }

  void add_counts(Evidence& evidence) const {
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      evidence.counts.push_back(
          {layout_.size(dim), "the size of mesh dim " + layout_.names()[dim], true});
    }
    evidence.counts.push_back({layout_.size(), "the number of ranks"});
    for (const ScenarioInput& input : scenario_.inputs) {
      for (std::size_t dim = 0; dim < input.type.sizes.size(); ++dim) {
        evidence.counts.push_back(
            {input.type.sizes[dim], fmt::format("the size of dim {} of {}", dim, input.name)});
      }
    }
  }

  void add_cuts(Evidence& evidence) const {
    for (const ScenarioInput& input : scenario_.inputs) {
      const DTensorSpec* spec = spec_of(input.type, &layout_);
      for (std::size_t mesh_dim = 0; mesh_dim < layout_.ndim(); ++mesh_dim) {
        const Placement& placement = spec->placement(mesh_dim);
        if (!placement.is_shard()) continue;
        const auto tensor_dim = static_cast<std::size_t>(placement.dim);
        UnevenCut cut{fmt::format("dim {} of {}", tensor_dim, input.name), mesh_dim,
                      lengths_along(*spec, mesh_dim, tensor_dim)};
        if (cut.sizes.front() != cut.sizes.back()) evidence.cuts.push_back(std::move(cut));
      }
    }
  }

  // Numbers that differ between ranks although nothing in the program's text makes them depend on
  // the rank.
  void add_numbers(Evidence& evidence) const {
    for (const auto& [name, first] : inputs_.ranks.front()->numbers()) {
      if (inputs_.traits != nullptr && inputs_.traits->follows_rank(name)) continue;
      UnequalNumber number{name, {{0, first}}};
      for (std::size_t rank = 1; rank < inputs_.ranks.size(); ++rank) {
        const auto& others = inputs_.ranks[rank]->numbers();
        const auto other = others.find(name);
        if (other == others.end() || number.on_ranks.size() > 3) continue;
        const bool known = std::ranges::any_of(
            number.on_ranks, [&](const auto& held) { return held.second == other->second; });
        if (!known) number.on_ranks.emplace_back(static_cast<std::int64_t>(rank), other->second);
      }
      if (number.on_ranks.size() > 1) evidence.numbers.push_back(std::move(number));
    }
  }

  const VerifyInputs& inputs_;
  const Scenario& scenario_;
  const MeshLayout& layout_;
};

// The last line, up to one, at which a statement gives the name a value; 0: none does.
int line_bound(const ast::Program& program, const ast::Block& block, std::string_view name,
               int last) {
  int found = 0;
  for (const ast::Statement& statement : block) {
    const int line = program.source->place(statement.span.begin).line;
    const auto* assign = std::get_if<ast::Assign>(&statement.node);
    const bool binds = assign != nullptr &&
                       std::ranges::any_of(assign->targets, [&](const ast::ExpressionPtr& target) {
                         return ast::base_name(*target) == name;
                       });
    if (binds && line <= last) found = line;
    ast::for_each_part(
        statement, [](const ast::Expression&) {},
        [&](const ast::Block& inner) {
          if (const int inside = line_bound(program, inner, name, last); inside > 0) found = inside;
        });
  }
  return found;
}

// The verdict's expectation, and the only one that causes are tried against: [reference] if it has
// the name, else a world of one, else any other run.
std::pair<const Recording*, std::string> expected_of(const VerifyInputs& inputs,
                                                     const ValueReport& report) {
  const Recording* given = inputs.given.reference;
  if (given != nullptr && given_value(*given, report.name) != nullptr) {
    return {given, report.name + "#end"};
  }
  const Recording* found = nullptr;
  for (const OneDeviceValues& one : inputs.one_device) {
    if (one.reference.empty() || one.reference[0]->find(report.key()) == nullptr) continue;
    if (found == nullptr || one.one_rank) found = one.reference[0];
  }
  return {found, report.key()};
}

}  // namespace

Cause explain_wrong(const VerifyInputs& inputs, const ValueReport& report, const Scenario& scenario,
                    const MeshLayout& layout, const std::optional<Cause>& lost) {
  if (!is_wrong(report)) return {};
  auto evidence = Collector(inputs, scenario, layout).collect(report.key());
  const auto [alone, name] = expected_of(inputs, report);
  const bool known =
      evidence && alone != nullptr && Collector::add_expected(*alone, name, *evidence);
  if (known) {
    if (Cause cause = cause_of(*evidence); !cause.empty()) {
      if (cause.id == causes::kUnequalNumber) {
        const ast::Program& program = *scenario.program;
        cause.line = line_bound(program, program.body, evidence->numbers.front().name, report.line);
      }
      return cause;
    }
  }
  // A loss after the line that makes a value is no reason for it; gradients come last.
  const bool before = lost && (report.name.ends_with(".grad") || lost->line <= report.line);
  if (before) return *lost;
  return known ? last_resort(*evidence) : Cause{};
}

}  // namespace shardlab
