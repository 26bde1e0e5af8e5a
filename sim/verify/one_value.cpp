// A distributed value is put together by its own placements: they are its claim. A plain value is
// asked whether all ranks hold one device's, and else whether some placements make it of what they
// hold.
#include "sim/verify/one_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "comm/verdict.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "sim/log/marks.h"
#include "sim/verify/claims.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/near_pieces.h"

namespace shardlab {

namespace {

bool worse(const Comparison& a, const Comparison& b) {
  if (a.agreement != b.agreement) return a.agreement > b.agreement;
  const double share_a = a.allowed > 0 ? a.error / a.allowed : a.error;
  const double share_b = b.allowed > 0 ? b.error / b.allowed : b.error;
  return share_a > share_b;
}

// The element at a place of the whole, if this rank's piece holds it.
std::optional<double> element_at(const DTensorSpec& spec, const DTensor& piece,
                                 const Coordinate& coordinate, std::int64_t element) {
  std::optional<std::size_t> at;
  for_each_element(local_view(spec, coordinate), [&](std::size_t local, std::size_t global) {
    if (static_cast<std::int64_t>(global) == element) at = local;
  });
  if (!at) return std::nullopt;
  const GlobalValue local = whole_value(piece.local());
  if (local.is_integral()) return static_cast<double>(local.integers[*at]);
  return local.reals[*at * (is_complex(local.meta.dtype) ? 2 : 1)];
}

// The ranks that hold the wrong element with that very value, and its place; for a pending value,
// the ranks of its terms.
std::string holders_of(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                       const Comparison& judged) {
  const Dims index = index_of(judged.worst_index, spec.shape());
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const Coordinate coordinate = spec.layout()->coordinate_at_index(i);
    const auto held =
        element_at(spec, pieces[static_cast<std::size_t>(i)], coordinate, judged.worst_index);
    if (!held) continue;
    const bool same = *held == judged.got || (std::isnan(*held) && std::isnan(judged.got));
    if (same || spec.has_partial()) ranks.push_back(spec.layout()->rank_at_index(i));
  }
  std::sort(ranks.begin(), ranks.end());
  return fmt::format("{}{} at [{}]", spec.has_partial() ? "the terms of " : "", fold_ranks(ranks),
                     text_of_list(index, ", "));
}

// "[2, 3] as f64[8@dp, 3]": without shape= each piece is taken for one of several like it.
std::string text_of(const RecordedValue* held) {
  if (held == nullptr) return "nothing";
  const std::string type = type_string(held->value);
  if (!held->value.distributed()) return type;
  return fmt::format("[{}] as {}", text_of_list(held->value.local().shape(), ", "), type);
}

ValueFacts::Fits fits_of(bool terms, bool replicated) {
  using Fits = ValueFacts::Fits;
  return terms ? Fits::kTerms : replicated ? Fits::kReplicas : Fits::kPieces;
}

bool disagrees(const Comparison& comparison) {
  return comparison.agreement == Agreement::kWrong || comparison.agreement == Agreement::kUndecided;
}

// Terms that are equal along a mesh dim are a replica that is off by a factor.
bool has_equal_terms(const Label& label, const std::vector<GlobalValue>& held,
                     const MeshLayout& layout) {
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (label.placements[dim].is_partial() && alike_along(held, layout, dim)) return true;
  }
  return false;
}

// In place of its only row; equal ones are a row that was gathered again.
bool has_other_rows(const GlobalValue& held, const GlobalValue& whole) {
  Dims one = held.meta.shape;
  if (one.empty() || one[0] < 2) return false;
  one[0] = 1;
  const auto turns = [](const auto& numbers, std::int64_t rows) {
    const auto row = static_cast<std::int64_t>(numbers.size()) / rows;
    return !std::equal(numbers.begin(), numbers.end() - row, numbers.begin() + row);
  };
  const std::int64_t rows = held.meta.shape[0];
  return one == whole.meta.shape && (turns(held.reals, rows) || turns(held.integers, rows));
}

}  // namespace

bool is_held_as(const ValueReport& report, const RecordedValue& held) {
  const DTensorSpec* spec = held.value.spec();
  const bool here = held.where.span.begin == report.where.span.begin;
  if (report.spec == nullptr || spec == nullptr) {
    return here || !report.claim || !held.claim || report.claim->mesh == held.claim->mesh;
  }
  return here || spec->layout() == report.spec->layout();
}

static std::vector<const RecordedValue*> held_as(const std::vector<const Recording*>& ranks,
                                                 const ValueReport& report) {
  std::vector<const RecordedValue*> by_rank;
  for (const Recording* rank : ranks) {
    const RecordedValue* held = value_of(*rank, report);
    by_rank.push_back(held == nullptr || is_held_as(report, *held) ? held : nullptr);
  }
  return by_rank;
}

OneValue::OneValue(const VerifyInputs& inputs, Precision precision, const ValueReport& report)
    : OneValue(
          inputs, precision, report,
          held_as(precision == Precision::kDeclared ? inputs.ranks : inputs.ranks_in_f64, report)) {
}

OneValue::OneValue(const VerifyInputs& inputs, Precision precision, const ValueReport& report,
                   std::vector<const RecordedValue*> by_rank)
    : inputs_(inputs), precision_(precision), report_(report), by_rank_(std::move(by_rank)) {
  const auto found =
      std::ranges::find_if(by_rank_, [](const auto* held) { return held != nullptr; });
  if (found != by_rank_.end()) first_ = *found;
}

bool OneValue::is_given() const {
  return inputs_.given.single != nullptr && report_.last &&
         given_value(*inputs_.given.single, report_.name) != nullptr;
}

const RecordedValue* OneValue::alone(Precision precision, std::size_t rank) const {
  const bool in_f64 = precision == Precision::kReference;
  if (is_given()) {
    const Recording* given = in_f64 ? inputs_.given.reference : inputs_.given.single;
    return given == nullptr ? nullptr : given_value(*given, report_.name);
  }
  if (!inputs_.one_device) return nullptr;
  const auto& runs = in_f64 ? inputs_.one_device->reference : inputs_.one_device->single;
  const std::size_t as_rank = runs.size() > 1 ? rank : 0;
  return as_rank < runs.size() ? value_of(*runs[as_rank], report_) : nullptr;
}

double OneValue::relative(DType dtype) const {
  return taken_as_equal(precision_ == Precision::kReference, dtype);
}

OneValue::Answer OneValue::compared(const GlobalValue& value, bool exact, std::size_t rank) {
  const RecordedValue* single = alone(Precision::kDeclared, rank);
  const RecordedValue* reference = alone(Precision::kReference, rank);
  const bool ran = inputs_.one_device && !inputs_.one_device->reference.empty();
  if (single == nullptr || (reference == nullptr && ran && !is_given())) return {};
  const GlobalValue declared = whole_value(single->value.local());
  const GlobalValue wide =
      reference != nullptr ? whole_value(reference->value.local()) : GlobalValue();
  const GlobalValue& truth = reference != nullptr ? wide : declared;
  const double largest = is_given() ? inputs_.given.largest : inputs_.one_device->largest;
  if (precision_ == Precision::kReference) {
    return {compare_in_f64(value, truth, f64_noise(declared, truth, astray_, largest)), true};
  }
  if (!inputs_.ranks_in_f64.empty()) astray_ = std::max(astray_, farthest(value, truth));
  Judgement judgement{.exact = exact};
  for (const auto& [named, tolerance] : inputs_.tolerance) {
    if (named == value.meta.dtype) judgement.relative_tolerance = tolerance;
  }
  return {compare(value, declared, truth, judgement), true};
}

void OneValue::add(ValueReport& report, const Comparison& comparison, Fits fits) {
  const bool first = report.facts.fits == Fits::kNoValue;
  if (first || worse(comparison, report.comparison)) report.comparison = comparison;
  if (first || fits == Fits::kNo) report.facts.fits = fits;
}

void OneValue::keep(ValueReport& report, const GlobalValue& value, std::size_t rank) const {
  if (inputs_.keep == 0 || precision_ != Precision::kDeclared) return;
  report.kept.push_back(keep_value(value, static_cast<std::int64_t>(rank), inputs_.keep));
}

void OneValue::run(ValueReport& report) {
  report.facts.fits = Fits::kNoValue;
  report.facts.given = is_given();
  report.facts.alike = true;
  if (first_->value.numel() > inputs_.most_elements) {
    report.facts.comparable = false;
    report.reason = "more elements than memory can hold for comparing";
  } else if (first_->value.distributed()) {
    distributed(report);
    if (report.claim && report.claim->mesh == report.spec->layout()) {
      const std::string fault = fault_of(*report.claim, report.spec->placements());
      if (!fault.empty()) wrong_claim(report, fault);
    }
  } else if (report.claim != nullptr) {
    claimed(report);
  } else {
    plain(report);
  }
  const bool failed = inputs_.one_device && !inputs_.one_device->failure.empty();
  const bool away = !report.facts.agrees() && !report.facts.given && !report.replicas_differ;
  if (!inputs_.one_device || (failed && away)) {
    report.facts.comparable = false;
    report.reason = inputs_.nothing;
  }
}

void OneValue::distributed(ValueReport& report) {
  std::map<std::int64_t, const DTensorSpec*> specs;  // by the first rank that has the layout
  std::set<const MeshLayout*> seen;
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    const RecordedValue* held = by_rank_[rank];
    if (held == nullptr || !held->value.distributed()) continue;
    const DTensorSpec* spec = held->value.spec();
    if (!spec->layout()->coordinate_of(static_cast<std::int64_t>(rank))) continue;
    if (seen.insert(spec->layout()).second) specs[static_cast<std::int64_t>(rank)] = spec;
  }
  for (const auto& [rank, spec] : specs) on_mesh(*spec, report);
  if (!specs.empty()) return;
  report.facts.comparable = false;
  report.reason = "no rank of its mesh holds it";
}

void OneValue::on_mesh(const DTensorSpec& spec, ValueReport& report) {
  const MeshLayout& layout = *spec.layout();
  std::vector<DTensor> pieces;
  // Sums of integers are the same in every order.
  bool exact = !spec.has_partial() || is_integral(spec.dtype());
  for (std::int64_t index = 0; index < layout.size(); ++index) {
    const std::int64_t rank = layout.rank_at_index(index);
    const RecordedValue* held = by_rank_[static_cast<std::size_t>(rank)];
    if (held == nullptr || !held->value.distributed() || held->value.spec() != &spec) {
      Comparison comparison;
      comparison.agreement = Agreement::kWrong;
      comparison.what =
          fmt::format("rank {} holds {}, others {}", rank, text_of(held), type_string(spec));
      report.replicas_differ = true;
      return add(report, comparison, Fits::kNo);
    }
    exact = exact && is_exact(held->value);
    pieces.push_back(held->value);
  }
  report.facts.claims_terms = spec.has_partial();
  if (!exact && is_near(spec, pieces, report)) return;
  std::vector<AssemblyFault> faults;
  const GlobalValue whole = assemble(spec, pieces, faults);
  const auto rank = static_cast<std::size_t>(layout.rank_at_index(0));
  keep(report, whole, rank);
  const Answer answer = compared(whole, exact, rank);
  const Fits own = fits_of(spec.has_partial(), spec.is_replicated());
  if (answer.known) {
    add(report, answer.comparison, disagrees(answer.comparison) ? Fits::kNo : own);
    const Comparison& judged = report.comparison;
    if (judged.agreement == Agreement::kWrong && judged.worst_index >= 0) {
      report.holders = holders_of(spec, pieces, judged);
    }
  }
  if (!faults.empty()) add_faults(faults, spec, pieces, report);
}

// Replicas of a claim that differ by rounding alone were added up in different orders: that is
// known in f64, where they are as close as one device.
void OneValue::add_faults(const std::vector<AssemblyFault>& faults, const DTensorSpec& spec,
                          const std::vector<DTensor>& pieces, ValueReport& report) const {
  const MeshLayout& layout = *spec.layout();
  bool near = inputs_.leaves && !is_integral(spec.dtype());
  for (std::int64_t index = 0; index < layout.size() && near; ++index) {
    const Coordinate first = representative(spec, layout.coordinate_at_index(index));
    const auto other = static_cast<std::size_t>(layout.index_of(first));
    near = close_numbers(whole_value(pieces[static_cast<std::size_t>(index)].local()),
                         whole_value(pieces[other].local()), relative(spec.dtype()));
  }
  report.facts.by_order = near;
  if (near) return;
  Comparison comparison = report.comparison;
  comparison.agreement = Agreement::kWrong;
  comparison.what = faults.front().what + (comparison.what.empty() ? "" : "; " + comparison.what);
  report.comparison = comparison;
  report.replicas_differ = true;
  report.facts.alike = false;
  report.facts.fits = Fits::kNo;
}

// Against the only run on one device there is; others leave more to decide.
bool OneValue::is_near(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                       ValueReport& report) {
  const bool others = precision_ != Precision::kDeclared || inputs_.keep > 0 ||
                      !inputs_.ranks_in_f64.empty() || !inputs_.one_device || is_given();
  if (others) return false;
  const OneDeviceValues& one = *inputs_.one_device;
  if (one.single.size() != 1 || !one.reference.empty()) return false;
  const RecordedValue* single = value_of(*one.single[0], report_);
  if (single == nullptr) return false;
  const auto comparison = compare_pieces(spec, pieces, single->value.local());
  if (comparison) add(report, *comparison, fits_of(false, spec.is_replicated()));
  return comparison.has_value();
}

void OneValue::wrong_claim(ValueReport& report, const std::string& what) {
  report.comparison = {};
  report.comparison.agreement = Agreement::kWrong;
  report.comparison.what = what;
  report.facts.fits = Fits::kNo;
  report.facts.alike = false;
  report.replicas_differ = true;
}

// The claim names the label; what ranks hold is one device's value under it, or it is wrong.
void OneValue::claimed(ValueReport& report) {
  const SpmdClaim& claim = *report.claim;
  const RecordedValue* single = alone(precision_, 0);
  std::map<const MeshLayout*, std::vector<GlobalValue>> parts;  // ranks claim it on their own mesh
  const auto wrong = [&](const std::string& what) { wrong_claim(report, what); };
  for (const RecordedValue* own : by_rank_) {
    if (own == nullptr || !own->claim || parts.contains(own->claim->mesh)) continue;
    const MeshLayout& mesh = *own->claim->mesh;
    std::vector<GlobalValue>& held = parts[&mesh];
    for (std::int64_t i = 0; i < mesh.size(); ++i) {
      const RecordedValue* value = by_rank_[static_cast<std::size_t>(mesh.rank_at_index(i))];
      if (value != nullptr) held.push_back(whole_value(value->value.local()));
    }
    if (std::ssize(held) != mesh.size()) {
      return wrong(fmt::format("only {} of {} ranks claim it", held.size(), mesh.size()));
    }
    const std::string fault = fault_of(*own->claim, held);
    if (fault.empty()) continue;
    if (&mesh == claim.mesh) return wrong(fault);
    return wrong(fmt::format("on rank {}: {}", mesh.rank_at_index(0), fault));
  }
  if (!parts.contains(claim.mesh)) return wrong("no rank claims it");
  const std::vector<GlobalValue>& held = parts[claim.mesh];
  const bool exact = is_integral(first_->value.dtype());
  for (const Label& label : labels_of(claim, held)) {
    const GlobalValue whole = put_together(held, label, *claim.mesh);
    if (whole.meta.shape.size() != held[0].meta.shape.size()) {
      if (report.facts.fits == Fits::kNoValue) wrong("the ranks' pieces do not fit together");
      continue;
    }
    const Answer answer = compared(whole, exact, 0);
    const bool first = report.facts.fits == Fits::kNoValue;
    if (!answer.known) continue;
    if (first) report.comparison = answer.comparison;
    report.facts.claims_terms = label.has_terms();
    report.facts.fits = Fits::kNo;
    if (disagrees(answer.comparison)) continue;
    report.comparison = answer.comparison;
    report.label = label;
    report.facts.fits = fits_of(label.has_terms(), label.is_replicated());
    return;
  }
  const bool cut =
      std::ranges::any_of(claim.type.types, [](const SpmdType& type) { return type.is_s(); });
  const bool open = leaves_open(claim);
  const bool other_shape = single != nullptr && single->value.shape() != held[0].meta.shape;
  if (single != nullptr && !open && (cut || !other_shape)) return;
  report.facts.comparable = false;
  report.reason = open ? "V says nothing of how the ranks' values belong together"
                       : "one device has another shape here: the ranks' values are stacked";
}

void OneValue::plain(ValueReport& report) {
  if (replicas(report)) return;
  if (labelled(report) || of_one_rank(report)) return;
  report.facts.fits = alone(precision_, 0) == nullptr ? Fits::kNoValue : Fits::kNo;
}

// Every rank that has the value holds one device's. Ranks that share memory are asked once.
bool OneValue::replicas(ValueReport& report) {
  const bool per_rank = inputs_.one_device && inputs_.one_device->single.size() > 1;
  std::optional<GlobalValue> before;
  const Tensor* last = nullptr;
  bool agree = true;
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    const RecordedValue* held = by_rank_[rank];
    if (held == nullptr || held->value.distributed()) continue;
    const Tensor& local = held->value.local();
    const bool shared = last != nullptr && last->storage()->buffer() == local.storage()->buffer() &&
                        last->offset() == local.offset() && last->meta() == local.meta();
    if (shared && !per_rank) continue;
    last = &local;
    GlobalValue value = whole_value(local);
    if (before && !same_numbers(*before, value)) {
      report.facts.alike =
          report.facts.alike && close_numbers(*before, value, relative(local.dtype()));
      report.facts.by_order = true;
    }
    if (!is_rank_local(held->value) || !inputs_.leaves) keep(report, value, rank);
    const Answer answer = compared(value, is_exact(held->value), rank);
    if (!before) before = std::move(value);
    if (!answer.known) {
      agree = false;
      continue;
    }
    if (disagrees(answer.comparison)) agree = false;
    if (agree || disagrees(answer.comparison)) {
      add(report, answer.comparison, agree ? Fits::kReplicas : Fits::kNo);
    }
  }
  report.facts.by_order = report.facts.by_order && agree && report.facts.alike;
  // Ranks' own numbers may be equal by chance, as counts and rates are.
  if (!agree && is_rank_local(first_->value)) report.facts.alike = false;
  return agree;
}

// A reduce gave it to one rank: what others hold then is no value of it, unless they show it.
bool OneValue::of_one_rank(ValueReport& report) {
  if (inputs_.flow == nullptr || !report_.where.source) return false;
  const DefUse& flow = *inputs_.flow;
  const auto own = flow.held_by(report_.name, report_.where.span.begin);
  const bool reduced = std::ranges::any_of(own, [&](DefUse::Id id) {
    return flow.nodes()[id].kind == DefUse::Kind::kReduced && flow.nodes()[id].entry;
  });
  if (!reduced) return false;
  std::set<int> shown;
  for (const DefUse::Id id : flow.makes(own)) {
    if (flow.nodes()[id].kind == DefUse::Kind::kShown) shown.insert(flow.line_of(id));
  }
  bool found = false;
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    if (by_rank_[rank] == nullptr) continue;
    const Answer answer = compared(whole_value(by_rank_[rank]->value.local()), false, rank);
    if (answer.known && !disagrees(answer.comparison)) {
      found = true;
      report.comparison = answer.comparison;
    } else if (std::ranges::any_of(inputs_.ranks[rank]->notes().statements, [&](auto begin) {
                 return shown.contains(report_.where.source->place(begin).line);
               })) {
      return false;
    }
  }
  if (found) report.facts.fits = Fits::kReplicas;
  return found;
}

// Some op on the way to the value takes a largest or smallest one.
bool OneValue::takes_extremes() const {
  if (inputs_.flow == nullptr) return true;
  const DefUse& flow = *inputs_.flow;
  const auto all = flow.made_of(flow.held_by(report_.name, report_.where.span.begin));
  return std::ranges::any_of(all, [&](DefUse::Id id) {
    const std::string& op = flow.nodes()[id].op;
    const bool index = op.starts_with("arg") || op.find("softm") != op.npos;
    return !index && (op.find("max") != op.npos || op.find("min") != op.npos || op == "topk" ||
                      op == "sort" || op == "any" || op == "all" || op == "norm");
  });
}

// A value that was reduced over a mesh dim is no term over it.
bool OneValue::may_be(const Label& label, const std::vector<GlobalValue>& held) const {
  if (!label.has_terms()) return true;
  if (held[0].meta.dtype == DType::kBool || has_equal_terms(label, held, *inputs_.mesh)) {
    return false;
  }
  const MeshDims reduced = collected_along(first_->value), varies = varies_along(first_->value);
  for (std::size_t dim = 0; dim < label.placements.size(); ++dim) {
    const Placement& placement = label.placements[dim];
    if (!placement.is_partial()) continue;
    if ((reduced >> dim & 1) != 0 || (varies >> dim & 1) == 0) return false;
    if (is_extreme(placement.op) && !takes_extremes()) return false;
  }
  return true;
}

bool OneValue::labelled(ValueReport& report) {
  const RecordedValue* single = alone(precision_, 0);
  if (inputs_.mesh == nullptr || !inputs_.leaves || single == nullptr) return false;
  std::vector<GlobalValue> held;
  for (std::int64_t i = 0; i < inputs_.mesh->size(); ++i) {
    const auto rank = static_cast<std::size_t>(inputs_.mesh->rank_at_index(i));
    const RecordedValue* value = rank < by_rank_.size() ? by_rank_[rank] : nullptr;
    if (value == nullptr || value->value.distributed()) return false;
    const Tensor& local = value->value.local();
    if (local.numel() > kMostLabelled / inputs_.mesh->size()) {
      report.facts.comparable = false;
      report.reason = "too large to be compared as pieces or terms";
      return true;
    }
    held.push_back(whole_value(local));
  }
  const GlobalValue whole = whole_value(single->value.local());
  report.label = label_of(held, whole, *inputs_.mesh, relative(whole.meta.dtype));
  if (report.label && !may_be(*report.label, held)) report.label.reset();
  report.row_per_rank = !report.label && has_other_rows(held[0], whole);
  if (!report.label) return false;
  report.facts.fits = report.label->has_terms() ? Fits::kTerms : Fits::kPieces;
  report.facts.averages = report.label->is_average();
  report.reason = text_of(*report.label, *inputs_.mesh);
  report.comparison = {};
  report.comparison.agreement = Agreement::kEnvelope;
  if (report.label->by_rows()) return true;
  const Answer answer = compared(put_together(held, *report.label, *inputs_.mesh), false, 0);
  if (answer.known && !disagrees(answer.comparison)) report.comparison = answer.comparison;
  return true;
}

}  // namespace shardlab
