// The numbers in f64 are used if they are known: a mistake shows in them without rounding.
#include "sim/verify/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "mesh/local_shape.h"
#include "sim/scenario/type_text.h"
#include "sim/verify/causes.h"
#include "sim/verify/claims.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/roles.h"

namespace shardlab {

namespace {

// The largest value that is explained: each hypothesis reads all elements once per known value.
constexpr std::int64_t kMostElements = 1 << 20;

class Collector {
 public:
  Collector(const VerifyInputs& inputs, const Scenario& scenario)
      : inputs_(inputs), scenario_(scenario), layout_(*inputs.mesh) {}

  std::optional<Evidence> collect(const ValueReport& report) {
    const bool in_f64 = !inputs_.ranks_in_f64.empty();
    const MeshLayout& layout = *mesh_of(report, &layout_);
    auto held = held_by_ranks(inputs_, report);
    auto expected = expected_of(inputs_, report);
    if (!held || !expected || product(held->front().meta.shape) > kMostElements) {
      return std::nullopt;
    }
    Evidence evidence;
    evidence.layout = &layout;
    evidence.gradient = report.spec != nullptr && report.name.ends_with(".grad");
    const bool exact = in_f64 || held->front().is_integral();
    evidence.relative = taken_as_equal(exact, held->front().meta.dtype);
    for (GlobalValue& one : *held) evidence.held.push_back(in_reals(std::move(one)));
    evidence.expected = in_reals(std::move(*expected));
    evidence.got = evidence.held.front();
    if (report.spec != nullptr && !assemble_pieces(report, evidence)) return std::nullopt;
    if (report.claim) put_claimed_together(report, evidence);
    add_counts(evidence);
    if (inputs_.flow != nullptr) before_ = inputs_.flow->made_of(nodes_of(*inputs_.flow, report));
    add_numbers(evidence);
    add_known(report, evidence);
    return evidence;
  }

 private:
  // Under the claim's label, where that is one; pieces of other lengths than chunks have no spec.
  static void put_claimed_together(const ValueReport& report, Evidence& evidence) {
    const Label label = labels_of(*report.claim, evidence.held).front();
    const GlobalValue together = put_together(evidence.held, label, *evidence.layout);
    if (together.meta.shape.size() != evidence.got.meta.shape.size()) return;  // they do not fit
    evidence.got = together;
    Arena& arena = process_arena();
    const TensorMeta meta = contiguous_meta(evidence.got.meta.shape, evidence.got.meta.dtype);
    const DTensorSpec* spec = arena.spec(evidence.layout, label.placements, label.order, meta, {});
    for (std::int64_t i = 0; !label.is_replicated() && i < evidence.layout->size(); ++i) {
      const Coordinate at = evidence.layout->coordinate_at_index(i);
      if (local_shape(*spec, at) != evidence.held[static_cast<std::size_t>(i)].meta.shape) return;
    }
    evidence.spec = spec;
  }

  bool assemble_pieces(const ValueReport& report, Evidence& evidence) const {
    const auto& ranks = inputs_.ranks_in_f64.empty() ? inputs_.ranks : inputs_.ranks_in_f64;
    const MeshLayout& layout = *evidence.layout;
    std::vector<DTensor> pieces;
    const DTensorSpec* spec = nullptr;
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      const auto rank = static_cast<std::size_t>(layout.rank_at_index(i));
      const RecordedValue* held = value_of(*ranks[rank], report);
      if (held == nullptr || !held->value.distributed()) return false;
      if (spec == nullptr) spec = held->value.spec();
      if (held->value.spec() != spec) return false;
      pieces.push_back(held->value);
    }
    std::vector<AssemblyFault> faults;
    evidence.got = in_reals(assemble(*spec, pieces, faults));
    evidence.spec = spec;
    return true;
  }

  // Values of one device from which the wrong one is made: a mistake may add them.
  void add_known(const ValueReport& report, Evidence& evidence) const {
    constexpr std::size_t kMostKnown = 64;
    const bool in_f64 = inputs_.one_device && !inputs_.one_device->reference.empty();
    if (!inputs_.one_device) return;
    const Recording* alone =
        in_f64 ? inputs_.one_device->reference[0] : inputs_.one_device->single[0];
    for (const RecordedValue& value : alone->values()) {
      if (value.name == report.name || evidence.known.size() == kMostKnown) continue;
      const bool other = is_integral(value.value.dtype()) == report.in_floats;
      if (value.value.numel() > kMostElements || other) continue;
      if (inputs_.flow != nullptr && value.where.source) {
        DefUse::Ids held = inputs_.flow->held_by(value.name, value.where.span.begin);
        if (held.empty()) held = inputs_.flow->held_by(value.name);
        if (!is_before(held)) continue;
      }
      evidence.known.push_back({value.name, in_reals(whole_value(value.value.local()))});
    }
  }

  // The value is made of one of these nodes. The loop or branch around a name is none of its parts.
  bool is_before(const DefUse::Ids& held) const {
    const auto decides = [&](DefUse::Id id) {
      return inputs_.flow->nodes()[id].kind == DefUse::Kind::kDecides;
    };
    const bool is_decision = std::ranges::all_of(held, decides);
    return std::ranges::any_of(held, [&](DefUse::Id id) {
      return (is_decision || !decides(id)) && std::ranges::binary_search(before_, id);
    });
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

  // Numbers that differ between ranks although nothing in the program's text makes them depend on
  // the rank.
  void add_numbers(Evidence& evidence) const {
    for (const auto& [name, first] : inputs_.ranks.front()->notes().numbers) {
      const DefUse* flow = inputs_.flow;
      if (flow != nullptr && (flow->follows_rank(name) || !is_before(flow->held_by(name)))) {
        continue;
      }
      UnequalNumber number{name, {{0, first}}};
      for (std::size_t rank = 1; rank < inputs_.ranks.size(); ++rank) {
        const auto& others = inputs_.ranks[rank]->notes().numbers;
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
  DefUse::Ids before_;  // all that the value is made of
};

// Pieces of unequal lengths that from_local takes for equal ones: each rank has another whole.
Cause without_shape(const VerifyInputs& inputs, const ValueReport& report) {
  if (report.spec == nullptr || report.spec->has_partial() || !report.replicas_differ) return {};
  const auto held = held_by_ranks(inputs, report);
  const auto expected = expected_of(inputs, report);
  if (!held || !expected || expected->meta.shape == report.spec->shape()) return {};
  const Label label{.placements = report.spec->placements(), .order = report.spec->order()};
  const GlobalValue whole = put_together(*held, label, *report.spec->layout());
  if (whole.meta.shape != expected->meta.shape) return {};
  return {causes::kOtherLabel,
          fmt::format("the ranks' pieces have unequal lengths and make [{0}]: without shape= "
                      "from_local takes all for as long as this rank's; write shape=[{0}]",
                      text_of_list(expected->meta.shape, ", "))};
}

}  // namespace

int line_bound(const DefUse& flow, std::string_view name, int last) {
  int found = 0;
  for (DefUse::Id id = 0; id < flow.nodes().size(); ++id) {
    const int line = flow.nodes()[id].name == name ? flow.line_of(id) : 0;
    if (line <= last) found = std::max(found, line);
  }
  return found;
}

Cause cause_by_numbers(const VerifyInputs& inputs, const ValueReport& report,
                       const Scenario& scenario) {
  if (Cause shape = without_shape(inputs, report); !shape.empty()) return shape;
  const auto evidence = Collector(inputs, scenario).collect(report);
  if (!evidence) return {};
  Cause cause = cause_of(*evidence);
  if (cause.id == causes::kUnequalNumber) {
    const std::string& name = evidence->numbers.front().name;
    cause.line = inputs.flow != nullptr ? line_bound(*inputs.flow, name, report.line) : 0;
  }
  return cause;
}

Cause last_cause(const VerifyInputs& inputs, const ValueReport& report, const Scenario& scenario) {
  const auto evidence = Collector(inputs, scenario).collect(report);
  return evidence ? last_resort(*evidence) : Cause{causes::kNone, std::string(kNoCause)};
}

Cause cause_by_text(const DefUse& flow, const ValueReport& report,
                    const std::vector<std::string>& warnings) {
  const DefUse::Ids all = flow.made_of(nodes_of(flow, report));
  const bool gradient = flow.any(all, DefUse::Kind::kBackward);
  for (const DefUse::Id id : all) {
    const int line = flow.line_of(id);
    const std::string place = fmt::format("line {}: ", line);
    const std::string write = fmt::format("of line {} wrote", line);  // which backward ignores
    for (const std::string& warning : warnings) {
      if (gradient && warning.find(write) != warning.npos) {
        return {causes::kTermAdded, warning, line};
      }
      if (!warning.starts_with(place)) continue;
      return {causes::kOtherChunk, warning.substr(place.size()), line};
    }
  }
  return {};
}

}  // namespace shardlab
