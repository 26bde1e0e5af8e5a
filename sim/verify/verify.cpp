// A value is gathered from all ranks, put together by the definition of its placements and compared
// with the single-device run. If the program leaves the distributed world there may be several such
// runs, with different numbers of ranks, and the one that agrees best counts; if none can know the
// value, it is reported as not verified, with the reason. Values that come out wrong or doubtful in
// their own dtype are judged again in f64: values that are right there were only rounded, with
// amplification.
#include "sim/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <set>
#include <thread>

#include "base/text_of_list.h"
#include "comm/verdict.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "sim/record/marks.h"
#include "sim/run/reference_calls.h"
#include "sim/schedule/ordered_jobs.h"
#include "sim/verify/labels/source_of_pieces.h"
#include "sim/verify/near_pieces.h"

namespace shardlab {

namespace {

using Recordings = std::vector<const Recording*>;

// One value on every rank that has it.
struct Gathered {
  std::vector<const RecordedValue*> by_rank;
  const RecordedValue* first = nullptr;
};

Gathered gather(const Recordings& ranks, const std::string& key) {
  Gathered result;
  for (const Recording* rank : ranks) {
    const RecordedValue* value = rank->find(key);
    if (result.first == nullptr) result.first = value;
    result.by_rank.push_back(value);
  }
  return result;
}

std::optional<double> tolerance_for(const VerifyInputs& inputs, DType dtype) {
  for (const auto& [named, tolerance] : inputs.tolerance) {
    if (named == dtype) return tolerance;
  }
  return std::nullopt;
}

bool worse(const Comparison& a, const Comparison& b) {
  if (a.agreement != b.agreement) return a.agreement > b.agreement;
  const double share_a = a.allowed > 0 ? a.error / a.allowed : a.error;
  const double share_b = b.allowed > 0 ? b.error / b.allowed : b.error;
  return share_a > share_b;
}

Dims index_of(std::int64_t element, const Dims& shape) {
  Dims index(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    index[dim] = element % shape[dim];
    element /= shape[dim];
  }
  return index;
}

// The element at a global index, if this rank's piece holds it.
std::optional<double> element_at(const DTensorSpec& spec, const DTensor& piece,
                                 const Coordinate& coordinate, const Dims& index) {
  const LocalView view = local_view(spec, coordinate);
  if (!view.holds(index)) return std::nullopt;
  std::int64_t at = 0;
  for (std::size_t dim = 0; dim < index.size(); ++dim) {
    std::int64_t local = 0;
    for (const IndexRun& run : view.dims[dim].runs) {
      if (index[dim] >= run.offset && index[dim] < run.offset + run.size) {
        local += index[dim] - run.offset;
        break;
      }
      local += run.size;
    }
    at = at * view.dims[dim].local_size() + local;
  }
  const GlobalValue local = whole_value(piece.local());
  const auto number = static_cast<std::size_t>(at);
  if (local.is_integral()) return static_cast<double>(local.integers[number]);
  return local.reals[number * (is_complex(local.meta.dtype) ? 2 : 1)];
}

// The ranks that hold the wrong element with that very value, and its place; for a pending value,
// the ranks of its terms.
std::string holders_of(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                       const Comparison& judged) {
  const Dims index = index_of(judged.worst_index, spec.shape());
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const Coordinate coordinate = spec.layout()->coordinate_at_index(i);
    const auto held = element_at(spec, pieces[static_cast<std::size_t>(i)], coordinate, index);
    if (!held) continue;
    const bool same = *held == judged.got || (std::isnan(*held) && std::isnan(judged.got));
    if (same || spec.has_partial()) ranks.push_back(spec.layout()->rank_at_index(i));
  }
  std::sort(ranks.begin(), ranks.end());
  return fmt::format("{}{} at [{}]", spec.has_partial() ? "the terms of " : "", fold_ranks(ranks),
                     text_of_list(index, ", "));
}

constexpr const char* kByRank =
    "depends on the rank, and the single-device run computes something else: add [reference]";
constexpr const char* kByWorld =
    "depends on the number of ranks: it is right only if one device computes with that number too; "
    "say in [reference] whether it should";
constexpr const char* kOfOneRank = "holds one rank's piece or term";
constexpr const char* kAllAlike = "all ranks hold the same";
constexpr const char* kBySize =
    "follows from the size of a piece, of which the single-device run has none";
constexpr const char* kOfNumbers =
    "counts over ranks what each makes of its own numbers: say in [reference] what it should be";
constexpr const char* kOtherShape =
    "the single-device run has another shape here: the size follows from a piece, or from what "
    "each rank makes for itself";

constexpr const char* kShapeOfText =
    "follows from a gather into a tensor to which the text gives the shape that several ranks "
    "make: "
    "one device has another; write it with dist.get_world_size(), or say in [reference] what is "
    "meant";

// Number of ranks up to which shifted pieces are searched, for any shift.
constexpr std::int64_t kMostShifted = 64;

// Integers that differ in a single-device run: if that run may be another program, they are as much
// evidence as floats.
bool disagrees(const Comparison& comparison) {
  return comparison.agreement == Agreement::kWrong || comparison.agreement == Agreement::kUndecided;
}

// The answers of the single-device runs about a value.
struct Found {
  Comparison comparison;       ///< with the one that fits best
  bool only_reported = false;  ///< the run with the true numbers fits, not the world of one
  const RecordedValue* single = nullptr;  ///< the best one, in the precision of the comparison
};

// One value in one precision, as each mesh (or, for a slice of it, each sub-mesh) holds it.
class Judge {
 public:
  Judge(const VerifyInputs& inputs, Precision precision, const std::string& key)
      : inputs_(inputs),
        precision_(precision),
        value_(gather(precision == Precision::kDeclared ? inputs.ranks : inputs.ranks_in_f64, key)),
        key_(key) {}

  const Gathered& value() const { return value_; }
  // The distance of the value from the single-device run in f64; 0 if there is none.
  double astray() const { return astray_; }
  void expect_astray(double astray) { astray_ = astray; }

  void run(ValueReport& report) {
    if (value_.first->value.numel() > inputs_.most_elements) {
      report.not_verified = "more elements than memory can hold for comparing";
    } else if (value_.first->value.distributed()) {
      judge_distributed(report);
    } else {
      judge_plain(report);
    }
    // One rank's value is no evidence for the others'.
    if (report.comparison.agreement == Agreement::kWrong) return;
    if (!unconfirmed_.empty()) report.verified = false;
  }

 private:
  void add(ValueReport& report, const Comparison& comparison) {
    if (!report.verified || worse(comparison, report.comparison)) report.comparison = comparison;
    report.verified = true;
  }

  // `reference`: null if there is no single-device run in f64.
  Comparison compared(const GlobalValue& value, bool exact, const RecordedValue& single,
                      const RecordedValue* reference, double largest) {
    const GlobalValue declared = whole_value(single.value.local());
    const GlobalValue wide =
        reference != nullptr ? whole_value(reference->value.local()) : GlobalValue();
    const GlobalValue& truth = reference != nullptr ? wide : declared;
    if (precision_ == Precision::kReference) {
      return compare_in_f64(value, truth, f64_noise(declared, truth, astray_, largest));
    }
    if (!inputs_.ranks_in_f64.empty()) astray_ = std::max(astray_, farthest(value, truth));
    const Judgement judgement{.exact = exact,
                              .relative_tolerance = tolerance_for(inputs_, value.meta.dtype)};
    return compare(value, declared, truth, judgement);
  }

  // The value of [reference] under the name of this value, if the value is the name's last.
  const RecordedValue* given(const Recording* recording) const {
    if (recording == nullptr) return nullptr;
    const RecordedValue& first = *value_.first;
    if (first.name.ends_with(".grad")) return recording->find(key_);
    if (!first.at_end) {
      const RecordedValue* end = inputs_.ranks.front()->find(first.name + "#end");
      if (end != nullptr && (end->changed || end->occurrence > first.occurrence + 1))
        return nullptr;
    }
    return given_value(*recording, first.name);
  }

  // The comparison with the single-device run that fits best; programs that do not read their rank
  // have one run for all ranks.
  std::optional<Found> best(const GlobalValue& value, bool exact, std::size_t rank) {
    if (const RecordedValue* single = given(inputs_.given.single)) {
      return Found{
          compared(value, exact, *single, given(inputs_.given.reference), inputs_.given.largest),
          false, single};
    }
    std::optional<Found> best;
    bool contradicted = false;
    for (const OneDeviceValues& one : inputs_.one_device) {
      const std::size_t as_rank = one.single.size() > 1 ? rank : 0;
      if (as_rank >= one.single.size()) continue;
      const RecordedValue* single = one.single[as_rank]->find(key_);
      if (single == nullptr) continue;
      const RecordedValue* reference = nullptr;
      if (!one.reference.empty()) {
        reference = one.reference[as_rank]->find(key_);
        if (reference == nullptr) continue;
      }
      const Comparison comparison = compared(value, exact, *single, reference, one.largest);
      const bool wrong = disagrees(comparison);
      if (wrong && !one.complete) continue;
      if (wrong && one.other_shape && follows_exchange()) continue;
      // A value of another shape does not contradict: it is a piece, and there are more ranks than
      // one.
      if (wrong && one.one_rank && comparison.worst_index >= 0) contradicted = true;
      // If none agrees, a world of one has the expected value.
      const bool alike = wrong && best && best->comparison.agreement == comparison.agreement;
      if (!best || (alike ? one.one_rank : worse(best->comparison, comparison))) {
        best = Found{comparison, false, reference != nullptr ? reference : single};
      }
    }
    if (best) best->only_reported = contradicted && !disagrees(best->comparison);
    return best;
  }

  void judge(const GlobalValue& value, bool exact, std::size_t rank, ValueReport& report) {
    if (inputs_.keep > 0 && precision_ == Precision::kDeclared) {
      report.kept.push_back(keep_value(value, static_cast<std::int64_t>(rank), inputs_.keep));
    }
    const std::optional<Found> found = best(value, exact, rank);
    if (!found) {
      not_known(report, rank, nothing_for(rank));
    } else if (disagrees(found->comparison) && cannot_contradict()) {
      not_known(report, rank, kByRank);
    } else if (const std::string reason = disagrees(found->comparison) ? no_mistake(*found) : "";
               !reason.empty()) {
      not_known(report, rank, reason);
    } else if (found->only_reported && follows_exchange()) {
      not_known(report, rank, kByWorld);
    } else {
      add(report, found->comparison);
    }
  }

  std::string nothing_for(std::size_t rank) const {
    const bool shaped = std::ranges::any_of(inputs_.one_device, &OneDeviceValues::other_shape);
    if (shaped && follows_exchange()) return kShapeOfText;
    if (static_cast<std::int64_t>(rank) < inputs_.reported_ranks) return inputs_.nothing;
    return fmt::format("the single-device run takes the place of the first {} ranks alone",
                       inputs_.reported_ranks);
  }

  void not_known(ValueReport& report, std::size_t rank, const std::string& reason) {
    unconfirmed_.push_back(static_cast<std::int64_t>(rank));
    report.not_verified = reason;
  }

  // In the single-device run a collective returns its input, as in a world of one rank: numbers of
  // a larger world do not fit to that.
  bool follows_exchange() const {
    return inputs_.traits != nullptr && inputs_.traits->follows_exchange(value_.first->name);
  }

  // The single-device run has one rank only: if the program treats ranks differently, the run can
  // confirm a value but not contradict it. A plain value of one rank alone is compared with the run
  // as this rank's number.
  bool cannot_contradict() const {
    if (given(inputs_.given.single) != nullptr) return false;
    if (inputs_.traits == nullptr || !inputs_.traits->follows_rank(value_.first->name))
      return false;
    return inputs_.traits->leaves || value_.first->value.distributed();
  }

  // The reason why a value that differs from one device's may still be meant by the program; empty
  // if it may not. A plain value is right as long as it is not claimed to be the whole one.
  std::string no_mistake(const Found& found) const {
    const bool leaves = inputs_.traits != nullptr && inputs_.traits->leaves;
    if (!leaves || given(inputs_.given.single) != nullptr) return {};
    const DTensor& held = value_.first->value;
    const bool other_shape = held.shape() != found.single->value.shape();
    const std::optional<Label> label = label_beside(found.single->value);
    if (held.distributed()) return other_shape && !label ? kOtherShape : "";
    if (label && may_be(*label, held)) return text_of(*label, *inputs_.mesh);
    if (other_shape) return kOtherShape;
    if (is_collected(held)) return is_of_tensors(held) ? "" : kOfNumbers;
    return inputs_.traits->follows_size(value_.first->name) ? kBySize : "";
  }

  // A value that was reduced over a mesh dim is no term over it.
  bool may_be(const Label& label, const DTensor& held) const {
    const MeshDims reduced = collected_along(held);
    for (std::size_t dim = 0; dim < label.placements.size(); ++dim) {
      const bool over = (reduced >> dim & 1) != 0;
      if (over && label.placements[dim].is_partial()) return false;
    }
    return true;
  }

  // The values of the ranks of the mesh; nothing if one has none, or they are too large.
  std::optional<std::vector<GlobalValue>> held_on_mesh() const {
    if (inputs_.mesh == nullptr) return std::nullopt;
    std::vector<GlobalValue> held;
    for (std::int64_t i = 0; i < inputs_.mesh->size(); ++i) {
      const auto rank = static_cast<std::size_t>(inputs_.mesh->rank_at_index(i));
      const RecordedValue* value = rank < value_.by_rank.size() ? value_.by_rank[rank] : nullptr;
      if (value == nullptr) return std::nullopt;
      const Tensor& local = value->value.local();
      if (local.numel() > kMostLabelled / inputs_.mesh->size()) return std::nullopt;
      held.push_back(whole_value(local));
    }
    return held;
  }

  double relative(DType dtype) const {
    return taken_as_equal(precision_ == Precision::kReference, dtype);
  }

  // The label under which the ranks' tensors make one device's value.
  std::optional<Label> label_beside(const DTensor& single) const {
    const auto held = held_on_mesh();
    if (!held) return std::nullopt;
    return label_of(*held, whole_value(single.local()), *inputs_.mesh, relative(single.dtype()));
  }

  // For values brought by messages: "each rank holds its piece of dim 2, which cp cuts, of k,
  // shifted by 1 along cp". Empty if it is something else.
  std::string shifted() const {
    if (!follows_exchange() || (inputs_.mesh != nullptr && inputs_.mesh->size() > kMostShifted)) {
      return {};
    }
    const auto held = held_on_mesh();
    if (!held) return {};
    const std::vector<NamedWhole> known = wholes();
    const auto found = shifted_pieces(*inputs_.mesh, *held, known, relative((*held)[0].meta.dtype));
    if (!found) return {};
    return fmt::format("{}, of {}, shifted by {} along {}", text_of(found->label, *inputs_.mesh),
                       known[found->index].name, found->places,
                       inputs_.mesh->names()[found->mesh_dim]);
  }

  // The same for a value that no single rank has to compare.
  std::optional<Label> label_alone() const {
    const auto one = std::ranges::find_if(inputs_.one_device, &OneDeviceValues::one_rank);
    const OneDeviceValues* alone = one != inputs_.one_device.end() ? &*one
                                   : inputs_.one_device.empty()    ? nullptr
                                                                   : &inputs_.one_device.front();
    if (alone == nullptr || alone->single.empty()) return std::nullopt;
    const bool in_f64 = precision_ == Precision::kReference && !alone->reference.empty();
    const RecordedValue* single = (in_f64 ? alone->reference : alone->single)[0]->find(key_);
    return single == nullptr ? std::nullopt : label_beside(single->value);
  }

  // A tensor that was written through another one of the same memory may be whole again; it shows
  // in f64.
  void judge_held(ValueReport& report) {
    const std::optional<Label> label = label_alone();
    if (!label) {
      const std::string moved = shifted();
      report.not_verified = moved.empty() ? kOfOneRank : moved;
    } else if (!label->is_replicated()) {
      report.not_verified = text_of(*label, *inputs_.mesh);
    } else if (precision_ == Precision::kDeclared) {
      report.not_verified = kAllAlike;
    } else {
      judge(whole_value(value_.first->value.local()), is_exact(value_.first->value), 0, report);
    }
  }

  void judge_distributed(ValueReport& report) {
    std::map<std::int64_t, const DTensorSpec*> specs;  // by the first rank that has the layout
    std::set<const MeshLayout*> seen;
    for (std::size_t rank = 0; rank < value_.by_rank.size(); ++rank) {
      const RecordedValue* held = value_.by_rank[rank];
      if (held == nullptr || !held->value.distributed()) continue;
      const DTensorSpec* spec = held->value.spec();
      if (!spec->layout()->coordinate_of(static_cast<std::int64_t>(rank))) continue;
      if (seen.insert(spec->layout()).second) specs[static_cast<std::int64_t>(rank)] = spec;
    }
    for (const auto& [rank, spec] : specs) judge_on(*spec, report);
    if (specs.empty()) report.not_verified = "no rank of its mesh holds it";
  }

  void judge_on(const DTensorSpec& spec, ValueReport& report) {
    const MeshLayout& layout = *spec.layout();
    std::vector<DTensor> pieces;
    // Sums of integers are the same in every order.
    bool exact = !spec.has_partial() || is_integral(spec.dtype());
    for (std::int64_t index = 0; index < layout.size(); ++index) {
      const std::int64_t rank = layout.rank_at_index(index);
      const RecordedValue* held = value_.by_rank[static_cast<std::size_t>(rank)];
      if (held == nullptr || !held->value.distributed() || held->value.spec() != &spec) {
        Comparison comparison;
        comparison.agreement = Agreement::kWrong;
        comparison.what =
            fmt::format("rank {} holds {}, others {}", rank,
                        held == nullptr ? "nothing" : type_string(held->value), type_string(spec));
        add(report, comparison);
        return;
      }
      exact = exact && is_exact(held->value);
      pieces.push_back(held->value);
    }
    if (!exact && is_near(spec, pieces, report)) return;
    std::vector<AssemblyFault> faults;
    const GlobalValue whole = assemble(spec, pieces, faults);
    judge(whole, exact, static_cast<std::size_t>(layout.rank_at_index(0)), report);
    if (report.not_verified == kByRank) judge_by_source(spec, pieces, whole, report);
    const Comparison& judged = report.comparison;
    if (judged.agreement == Agreement::kWrong && judged.worst_index >= 0) {
      report.holders = holders_of(spec, pieces, judged);
    }
    if (faults.empty()) return;
    Comparison comparison = report.comparison;
    comparison.agreement = Agreement::kWrong;
    comparison.what = faults.front().what + (comparison.what.empty() ? "" : "; " + comparison.what);
    report.comparison = comparison;
    report.replicas_differ = true;
    report.verified = true;
  }

  // Against the only run on one device there is; others leave more to decide.
  bool is_near(const DTensorSpec& spec, const std::vector<DTensor>& pieces, ValueReport& report) {
    const bool others = precision_ != Precision::kDeclared || inputs_.keep > 0 ||
                        !inputs_.ranks_in_f64.empty() || inputs_.one_device.size() != 1 ||
                        given(inputs_.given.single) != nullptr;
    if (others) return false;
    const OneDeviceValues& one = inputs_.one_device[0];
    if (one.single.size() != 1 || !one.reference.empty()) return false;
    const RecordedValue* single = one.single[0]->find(key_);
    if (single == nullptr) return false;
    const auto comparison = compare_pieces(spec, pieces, single->value.local());
    if (comparison) add(report, *comparison);
    return comparison.has_value();
  }

  // Values of the program on one device whose meaning does not depend on the rank.
  std::vector<NamedWhole> wholes() const {
    std::vector<NamedWhole> result;
    if (inputs_.one_device.empty()) return result;
    const OneDeviceValues& one = inputs_.one_device.back();  // a world of one if there is one
    const bool in_f64 = precision_ == Precision::kReference && !one.reference.empty();
    for (const RecordedValue& value : (in_f64 ? one.reference : one.single)[0]->values()) {
      if (value.read || value.value.numel() > kMostLabelled) continue;
      if (inputs_.traits->follows_rank(value.name)) continue;
      result.push_back({value.name, whole_value(value.value.local())});
    }
    return result;
  }

  // Pieces that the program took by rank have no counterpart on one device, but a source: put
  // together they are that value again.
  void judge_by_source(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                       const GlobalValue& whole, ValueReport& report) {
    if (spec.numel() > kMostLabelled || unconfirmed_.size() != 1) return;
    std::vector<GlobalValue> held;
    for (const DTensor& piece : pieces) held.push_back(whole_value(piece.local()));
    const std::vector<NamedWhole> known = wholes();
    const auto source = source_of_pieces(spec, held, whole, known);
    if (!source) return;
    hold_to(known[source->index], whole, report);
    if (!source->other) return;
    report.cause = {causes::kOtherLabel,
                    fmt::format("its pieces are {} under the label {}: {} is another order",
                                known[source->index].name,
                                arguments_of(*source->other, *spec.layout()), arguments_of(spec))};
  }

  void hold_to(const NamedWhole& of, const GlobalValue& got, ValueReport& report) {
    Comparison comparison = compare(got, of.value, of.value, {.exact = true});
    if (comparison.agreement == Agreement::kWrong) {
      comparison.what = fmt::format("element {} is {:.9g}, {} has {:.9g}", comparison.worst_index,
                                    comparison.got, of.name, comparison.expected);
    }
    unconfirmed_.clear();
    report.not_verified.clear();
    add(report, comparison);
  }

  // from_local(..).full_tensor(): a label without a name.
  void judge_mixed(ValueReport& report) {
    const Where& where = report.where;
    if (inputs_.mesh == nullptr || !where.source || value_.first->value.numel() > kMostLabelled) {
      return;
    }
    const std::string_view text = where.source->line(report.line);
    if (text.find("from_local(") == text.npos) return;
    const GlobalValue got = whole_value(value_.first->value.local());
    const bool alike = std::ranges::all_of(value_.by_rank, [&](const RecordedValue* held) {
      if (held == nullptr) return false;
      const GlobalValue own = whole_value(held->value.local());
      return own.reals == got.reals && own.integers == got.integers;
    });
    if (!alike) return;
    const std::vector<NamedWhole> known = wholes();
    const auto source = source_of_mixed(*inputs_.mesh, got, known);
    if (!source) return;
    hold_to(known[source->index], got, report);
    if (!source->other) return;
    report.cause = {
        causes::kOtherLabel,
        fmt::format("its pieces are {} under the label {}: they were put together in "
                    "another order",
                    known[source->index].name, arguments_of(*source->other, *inputs_.mesh))};
  }

  void judge_plain(ValueReport& report) {
    const bool per_rank = std::ranges::any_of(
        inputs_.one_device, [](const OneDeviceValues& one) { return one.single.size() > 1; });
    const Tensor* last = nullptr;
    for (std::size_t rank = 0; rank < value_.by_rank.size(); ++rank) {
      const RecordedValue* held = value_.by_rank[rank];
      if (held == nullptr) continue;
      const Tensor& local = held->value.local();
      // A piece, unless [reference] has a whole value of this shape under its name; a gradient is a
      // term until it is added up.
      const RecordedValue* named = given(inputs_.given.single);
      const bool whole = named != nullptr && named->value.shape() == local.shape() &&
                         !value_.first->name.ends_with(".grad");
      if (is_rank_local(held->value) && !whole) continue;
      const bool shared = last != nullptr &&
                          last->storage()->buffer() == local.storage()->buffer() &&
                          last->offset() == local.offset() && last->meta() == local.meta();
      if (shared && !per_rank) continue;
      last = &local;
      judge(whole_value(local), is_exact(held->value), rank, report);
    }
    if (!report.verified && report.not_verified == kByRank) judge_mixed(report);
    if (!report.verified && report.not_verified.empty()) {
      judge_held(report);
    }
  }

  const VerifyInputs& inputs_;
  Precision precision_;
  Gathered value_;
  const std::string& key_;
  double astray_ = 0;
  std::vector<std::int64_t>
      unconfirmed_;  // the single-device run neither confirms nor contradicts them
};

// The verdict of both precisions together. A float that is right in f64 is right: its own dtype's
// rounding was amplified. An integer made of integers alone is judged by its bits.
void settle(ValueReport& report, const ValueReport& in_f64, const ProgramTraits& traits) {
  if (!in_f64.verified) {
    if (!report.verified) report.not_verified = in_f64.not_verified;
    return;
  }
  Comparison& own = report.comparison;
  if (in_f64.comparison.agreement == Agreement::kWrong) {
    const bool open = !report.verified || own.agreement == Agreement::kUndecided;
    if (!open && !traits.leaves) return;
    report.comparison = in_f64.comparison;
    report.holders = in_f64.holders;
    report.verified = true;
    return;
  }
  if (report.not_verified == kAllAlike) {
    report.comparison = in_f64.comparison;
    report.verified = true;
    report.not_verified.clear();
  }
  const bool number_off = own.agreement == Agreement::kWrong && own.worst_index >= 0;
  if (!number_off || !report.in_floats || report.replicas_differ) return;
  own.agreement = Agreement::kRounding;
  own.what.clear();
  report.holders.clear();
}

// Final values without a later write, and values read under which another one is recorded, are
// listed already. A rank may read its own values: they have no claim.
bool says_nothing_new(const VerifyInputs& inputs, const Gathered& value, const std::string& key) {
  if (value.first->read && !is_collected(value.first->value)) return true;
  if (!value.first->at_end && !value.first->read) return false;
  const auto changed = [](const RecordedValue* held) { return held != nullptr && held->changed; };
  if (std::ranges::any_of(value.by_rank, changed)) return false;
  for (const OneDeviceValues& one : inputs.one_device) {
    for (const Recording* recording : one.single) {
      if (changed(recording->find(key))) return false;
    }
  }
  // A name that has a value of its own is compared with [reference] there.
  const Recording* given = inputs.given.single;
  return given == nullptr || value.first->occurrence > 0 || !changed(given->find(key));
}

std::optional<ValueReport> report_on(const VerifyInputs& inputs, const std::string& key) {
  Judge judge(inputs, Precision::kDeclared, key);
  const Gathered& value = judge.value();
  if (says_nothing_new(inputs, value, key)) return std::nullopt;
  ValueReport report;
  report.name = value.first->name;
  report.occurrence = value.first->occurrence;
  report.at_end = value.first->at_end;
  report.where = value.first->where;
  if (report.where.source) report.line = report.where.source->place(report.where.span.begin).line;
  report.in_floats = !is_integral(value.first->value.dtype());
  const RecordedValue* own = value.by_rank.at(inputs.reporting_rank);
  report.event = own != nullptr ? own->event : 0;
  report.type = type_string(value.first->value);
  report.spec = value.first->value.spec();
  if (const std::string_view name = report.name; name.ends_with(".grad")) {
    report.passes = inputs.ranks.front()->passes_of(std::string(name.substr(0, name.size() - 5)));
  }
  judge.run(report);
  if (inputs.ranks_in_f64.empty() || inputs.traits == nullptr) return report;
  Judge finer(inputs, Precision::kReference, key);
  if (finer.value().first == nullptr) return report;
  finer.expect_astray(judge.astray());
  ValueReport in_f64;
  finer.run(in_f64);
  settle(report, in_f64, *inputs.traits);
  return report;
}

// Values are judged one by one, large ones on all cores.
std::vector<std::optional<ValueReport>> reports_on(const VerifyInputs& inputs,
                                                   const std::vector<std::string>& keys) {
  constexpr std::int64_t kElements = 1 << 18;
  std::int64_t elements = 0;
  for (const RecordedValue& value : inputs.ranks.front()->values()) elements += value.value.numel();
  const std::size_t cores = elements < kElements ? 1 : std::thread::hardware_concurrency();
  std::vector<std::optional<ValueReport>> reports(keys.size());
  std::vector<std::exception_ptr> failures(keys.size());
  const auto judge = [&](std::size_t i) {
    try {
      reports[i] = report_on(inputs, keys[i]);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  run_in_order(keys.size(), cores, judge, [](std::size_t) {});
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return reports;
}

bool is_open(const ValueReport& report) {
  const Agreement agreement = report.comparison.agreement;
  return report.verified && (agreement == Agreement::kUndecided ||
                             agreement == Agreement::kTolerance || agreement == Agreement::kWrong);
}

}  // namespace

const RecordedValue* given_value(const Recording& reference, const std::string& name) {
  const RecordedValue* value = reference.find(name + "#end");
  const bool only_read = value != nullptr && value->occurrence == 0 && !value->changed;
  return only_read ? nullptr : value;
}

void list_values(const Recording& recording, const std::string& reason,
                 std::vector<ValueReport>& reports) {
  std::set<std::pair<std::string, std::int64_t>> known;
  for (const ValueReport& report : reports) known.emplace(report.name, report.occurrence);
  for (const RecordedValue& value : recording.values()) {
    if (value.read || (value.at_end && !value.changed)) continue;
    if (!known.emplace(value.name, value.occurrence).second) continue;
    ValueReport report;
    report.name = value.name;
    report.occurrence = value.occurrence;
    report.at_end = value.at_end;
    report.type = type_string(value.value);
    report.spec = value.value.spec();
    report.where = value.where;
    report.event = value.event;
    report.not_verified = reason;
    reports.push_back(std::move(report));
  }
}

ValueCounts count_values(const std::vector<ValueReport>& reports) {
  ValueCounts counts;
  for (const ValueReport& report : reports) {
    if (!report.verified) {
      ++counts.not_verified;
      continue;
    }
    ++counts.verified;
    if (report.comparison.agreement == Agreement::kWrong) ++counts.wrong;
  }
  return counts;
}

double largest_in_f64(const Recording& single, const Recording& reference) {
  const auto wide = [](const RecordedValue& held) {
    return held.value.dtype() == DType::kF64 || held.value.dtype() == DType::kC128;
  };
  double largest = 0;
  if (std::ranges::none_of(single.values(), wide)) return largest;
  for (const RecordedValue& held : reference.values()) {
    const DType dtype = held.value.dtype();
    if (is_integral(dtype)) continue;
    largest = std::max(largest, largest_finite(whole_value(held.value.local()).reals));
  }
  return largest;
}

std::vector<ValueReport> verify_values(const VerifyInputs& inputs) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  for (const Recording* rank : inputs.ranks) {
    for (const RecordedValue& value : rank->values()) {
      std::string key = value.key();
      if (known.insert(key).second) keys.push_back(std::move(key));
    }
  }
  std::vector<ValueReport> reports;
  for (auto& report : reports_on(inputs, keys)) {
    if (report) reports.push_back(std::move(*report));
  }
  return reports;
}

void verify_again(const VerifyInputs& inputs, std::vector<ValueReport>& reports) {
  std::vector<std::size_t> open;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (!is_open(reports[i])) continue;
    open.push_back(i);
    keys.push_back(reports[i].key());
  }
  auto again = reports_on(inputs, keys);
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (again[i]) reports[open[i]] = std::move(*again[i]);
  }
}

bool in_doubt(const std::vector<ValueReport>& reports) {
  return std::ranges::any_of(reports, is_open);
}

}  // namespace shardlab
