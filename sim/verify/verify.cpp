// Values are listed by name and number, judged one by one in the dtypes of the program, and again
// in f64 if that run exists: values that are right there were only rounded, with amplification.
#include "sim/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <set>
#include <thread>

#include "mesh/type_string.h"
#include "sim/log/marks.h"
#include "sim/run/reference_calls.h"
#include "sim/schedule/ordered_jobs.h"
#include "sim/verify/early_judge.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/one_value.h"

namespace shardlab {

namespace {

using Fits = ValueFacts::Fits;

// The verdict of both precisions together. A float that is right in f64 is right: its own dtype's
// rounding was amplified. An integer made of integers alone is judged by its bits. If the program
// leaves the distributed world, f64 decides.
void settle(ValueReport& report, const ValueReport& in_f64, bool leaves) {
  if (!in_f64.facts.comparable) return;
  Comparison& own = report.comparison;
  const bool right = in_f64.facts.agrees();
  const bool open = report.facts.fits == Fits::kNoValue || own.agreement == Agreement::kUndecided;
  if (!leaves && !right && !open) return;
  if (!right) {
    const JudgedValue before = report;
    static_cast<JudgedValue&>(report) = in_f64;
    if (in_f64.facts.fits == Fits::kNoValue) report.comparison = before.comparison;
    report.replicas_differ = report.replicas_differ || before.replicas_differ;
    report.kept = before.kept;
    return;
  }
  const bool number_off = own.agreement == Agreement::kWrong && own.worst_index >= 0;
  const bool exact_integers = number_off && !report.in_floats && !in_f64.label;
  if (report.replicas_differ && !in_f64.facts.by_order) return;
  if (exact_integers && report.facts.fits == Fits::kNo && report.facts.alike) return;
  const bool same = report.facts.fits == in_f64.facts.fits;
  const bool alike = report.facts.alike || in_f64.facts.by_order;
  const bool by_order = report.facts.by_order || in_f64.facts.by_order ||
                        (in_f64.facts.fits == Fits::kReplicas && !report.facts.alike);
  report.facts = in_f64.facts;
  report.facts.alike = alike;
  report.facts.by_order = by_order && in_f64.facts.fits == Fits::kReplicas;
  report.replicas_differ = false;
  report.label = in_f64.label;
  report.reason = in_f64.reason;
  if (same && own.agreement <= Agreement::kTolerance) return;
  own.agreement = report.in_floats ? Agreement::kRounding : Agreement::kUndecided;
  if (!same) own = in_f64.comparison;
  own.what.clear();
  report.holders.clear();
}

// A value under all its names is listed where it gets the first; a plain one once, as it is at its
// last write.
class Listing {
 public:
  explicit Listing(const VerifyInputs& inputs) : inputs_(inputs) {}

  std::vector<ValueReport> all() {
    for (std::size_t rank = 0; rank < inputs_.ranks.size(); ++rank) {
      for (const RecordedValue& value : inputs_.ranks[rank]->values()) look_at(value);
    }
    for (const Recording* rank : inputs_.ranks) {
      for (const RecordedNumber& number : rank->notes().shown) look_at(number);
    }
    return std::move(reports_);
  }

 private:
  // Ranks of other stages have no values.
  const Recording& front() const {
    const auto found = std::ranges::find_if(
        inputs_.ranks, [](const Recording* rank) { return !rank->values().empty(); });
    return found == inputs_.ranks.end() ? *inputs_.ranks.front() : **found;
  }

  // Ranks that give a name values unequally often are compared by the last one.
  bool is_unequal(const std::string& name) const {
    const std::int64_t first = front().last_number(name);
    return std::ranges::any_of(inputs_.ranks, [&](const Recording* rank) {
      return rank->last_number(name) != first && rank->last_number(name) >= 0 && first >= 0;
    });
  }

  bool was_changed(const std::string& key) const {
    const auto changed = [&](const Recording* recording) {
      const RecordedValue* held = recording == nullptr ? nullptr : recording->find(key);
      return held != nullptr && held->changed;
    };
    const auto& one = inputs_.one_device;
    const bool alone = one && std::ranges::any_of(one->single, changed);
    if (one && !one->knows_sharing) return alone;
    return alone || std::ranges::any_of(inputs_.ranks, changed);
  }

  void look_at(const RecordedValue& value) {
    const bool plain = !value.value.distributed();
    if (value.occurrence < 0) return;  // found by the number that it belongs to
    if (value.read && (!value.changed || !plain)) return;
    ValueReport report;
    report.name = value.name;
    report.occurrence = value.occurrence;
    report.at_end = value.at_end;
    report.read = value.read;
    const bool input = value.at_end && value.occurrence == 0;
    if (value.at_end && (plain ? !input || !was_changed(value.key()) : !adds_to(value))) return;
    const bool gradient = value.name.ends_with(".grad");
    if (plain && !value.at_end && !value.read && !gradient) {
      if (value.changed) return;  // the name keeps it: it is listed with its next number
      const std::int64_t last = front().last_number(value.name);
      report.last = last < 0 || value.occurrence >= last;
      if (is_unequal(value.name)) {
        if (!report.last) return;
        if (!known_.insert(value.name).second) return;
      }
    } else if (!value.at_end && !value.read && !gradient) {
      const RecordedValue* end = front().find(value.name + "#end");
      report.last = end == nullptr || (!end->changed && end->occurrence == value.occurrence + 1);
    }
    report.where = value.where;
    report.spec = value.value.spec();
    report.claim = value.claim;
    auto& same = listed_[report.key()];
    const bool fresh = known_.insert(report.key()).second;
    if (!fresh && (same.empty() || is_any_of(same, value))) return;
    same.push_back(report);
    report.in_floats = !is_integral(value.value.dtype());
    report.type = type_string(value.value);
    if (value.claim) report.type += "  " + text_of(value.claim->type, *value.claim->mesh);
    if (gradient) {
      const std::string leaf = value.name.substr(0, value.name.size() - 5);
      const auto& passes = front().notes().passes;
      const auto found = passes.find(leaf);
      report.passes = found == passes.end() ? 0 : found->second;
    }
    const RecordedValue* own = value_of(*inputs_.ranks.at(inputs_.reporting_rank), report);
    report.event = own != nullptr ? own->event : 0;
    add(std::move(report));
  }

  // Stages may give a name values of their own, each on its part of the mesh and in its own branch.
  static bool is_any_of(const std::vector<ValueReport>& reports, const RecordedValue& value) {
    return std::ranges::any_of(
        reports, [&](const ValueReport& report) { return is_held_as(report, value); });
  }

  // The final value of a name is listed if a write changed it, or if [reference] changes it alone.
  bool adds_to(const RecordedValue& value) const {
    if (was_changed(value.key())) return true;
    const Recording* given = inputs_.given.single;
    const RecordedValue* end = given == nullptr ? nullptr : given->find(value.key());
    return value.occurrence == 0 && end != nullptr && end->changed;
  }

  // Numbers that are read from tensors; sizes, ranks and what the text gives have no outcome.
  void look_at(const RecordedNumber& number) {
    if (inputs_.flow == nullptr || !inputs_.leaves) return;
    const DefUse& flow = *inputs_.flow;
    DefUse::Ids held = flow.shown_at(number.where.span.begin);
    if (held.empty()) held = flow.held_by(number.name, number.where.span.begin);
    if (!flow.any(flow.made_of(held), DefUse::Kind::kRead)) return;
    ValueReport report;
    report.name = number.name;
    report.occurrence = number.occurrence;
    report.at_end = number.at_end;
    report.number = true;
    if (!known_.insert(report.key()).second) return;
    report.where = number.where;
    report.in_floats = number.dtype == DType::kF64;
    report.type = number.dtype == DType::kF64   ? "float"
                  : number.dtype == DType::kI64 ? "int"
                                                : "bool";
    add(std::move(report));
  }

  void add(ValueReport report) {
    if (report.where.source) report.line = report.where.source->place(report.where.span.begin).line;
    reports_.push_back(std::move(report));
  }

  const VerifyInputs& inputs_;
  std::set<std::string> known_;
  std::map<std::string, std::vector<ValueReport>> listed_;  // by key
  std::vector<ValueReport> reports_;
};

void judge_number(const VerifyInputs& inputs, ValueReport& report) {
  const bool wide = !inputs.ranks_in_f64.empty();
  const auto& ranks = wide ? inputs.ranks_in_f64 : inputs.ranks;
  std::vector<GlobalValue> held;
  for (const Recording* rank : ranks) {
    if (auto value = numbers_of(*rank, report)) held.push_back(std::move(*value));
  }
  const auto expected = expected_of(inputs, report);
  report.facts.fits = Fits::kNoValue;
  report.facts.given =
      inputs.given.single != nullptr &&
      std::ranges::any_of(inputs.given.single->notes().shown, [&](const RecordedNumber& given) {
        return given.at_end && given.name == report.name;
      });
  report.facts.alike =
      std::ranges::all_of(held, [&](const GlobalValue& one) { return same_numbers(one, held[0]); });
  if (!inputs.one_device || (!expected && !inputs.one_device->failure.empty())) {
    report.facts.comparable = false;
    report.reason = inputs.nothing;
  }
  if (!expected || held.empty()) return;
  const double largest = inputs.one_device ? inputs.one_device->largest : 0;
  const F64Noise noise = f64_noise(*expected, *expected, 0, largest);
  report.facts.fits = Fits::kReplicas;
  for (const GlobalValue& one : held) {
    const Comparison comparison = compare_in_f64(one, *expected, noise);
    if (comparison.agreement != Agreement::kWrong) continue;
    if (report.facts.fits == Fits::kReplicas) report.comparison = comparison;
    report.facts.fits = Fits::kNo;
  }
  if (report.facts.fits == Fits::kReplicas) {
    report.comparison.agreement = Agreement::kEnvelope;
    return;
  }
  if (static_cast<std::int64_t>(held.size()) != inputs.mesh->size() || report.facts.alike) return;
  const auto label = label_of(held, *expected, *inputs.mesh, taken_as_equal(wide, DType::kF32));
  if (!label || !label->has_terms()) return;
  report.label = label;
  report.comparison = {};
  report.comparison.agreement = Agreement::kEnvelope;
  report.facts.fits = Fits::kTerms;
  report.facts.averages = label->is_average();
  report.reason = text_of(*label, *inputs.mesh);
}

void judge_value(const VerifyInputs& inputs, ValueReport& report) {
  if (report.number) return judge_number(inputs, report);
  const ValueReport* early = inputs.early == nullptr ? nullptr : inputs.early->find(report.key());
  const bool again = inputs.one_device && !inputs.one_device->reference.empty();
  if (early != nullptr && !(again && in_doubt(*early))) {
    static_cast<JudgedValue&>(report) = *early;
    return;
  }
  OneValue judge(inputs, Precision::kDeclared, report);
  judge.run(report);
  if (inputs.ranks_in_f64.empty()) return;
  OneValue finer(inputs, Precision::kReference, report);
  if (finer.first() == nullptr) return;
  finer.expect_astray(judge.astray());
  ValueReport in_f64 = report;
  static_cast<JudgedValue&>(in_f64) = {};
  finer.run(in_f64);
  settle(report, in_f64, inputs.leaves);
}

// Values are judged one by one, large ones on all cores.
void judge_values(const VerifyInputs& inputs, const std::vector<ValueReport*>& reports) {
  constexpr std::int64_t kElements = 1 << 18;
  std::int64_t elements = 0;
  for (const RecordedValue& value : inputs.ranks.front()->values()) elements += value.value.numel();
  const std::size_t cores = elements < kElements ? 1 : std::thread::hardware_concurrency();
  std::vector<std::exception_ptr> failures(reports.size());
  const auto judge = [&](std::size_t i) {
    try {
      judge_value(inputs, *reports[i]);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  run_in_order(reports.size(), cores, judge, [](std::size_t) {});
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

bool in_doubt(const ValueReport& report) {
  const Agreement agreement = report.comparison.agreement;
  return report.facts.comparable &&
         (agreement == Agreement::kUndecided || agreement == Agreement::kTolerance ||
          report.facts.fits == Fits::kNo || report.facts.by_order);
}

const RecordedValue* given_value(const Recording& reference, const std::string& name) {
  const bool gradient = name.ends_with(".grad");
  const RecordedValue* value = reference.find(name + (gradient ? "#0" : "#end"));
  const bool only_read = !gradient && value != nullptr && value->occurrence == 0 && !value->changed;
  return only_read ? nullptr : value;
}

const RecordedValue* value_of(const Recording& recording, const ValueReport& report) {
  if (report.number) return nullptr;
  const bool gradient = report.name.ends_with(".grad");
  if (report.spec != nullptr || report.at_end || report.read || gradient) {
    return recording.find(report.key());
  }
  const std::int64_t last = recording.last_number(report.name);
  return recording.at_last_write(report.name, report.last && last >= 0 ? last : report.occurrence);
}

std::optional<GlobalValue> numbers_of(const Recording& recording, const ValueReport& report) {
  if (!report.number) {
    const RecordedValue* value = value_of(recording, report);
    return value == nullptr ? std::nullopt : std::optional(whole_value(value->value.local()));
  }
  const auto& numbers = recording.notes().shown;
  const std::string key = report.key();
  const auto found = std::ranges::find_if(
      numbers, [&](const RecordedNumber& number) { return number.key() == key; });
  if (found == numbers.end()) return std::nullopt;
  GlobalValue value;
  value.meta = contiguous_meta(Dims{}, found->dtype);
  if (value.is_integral()) {
    value.integers = {static_cast<std::int64_t>(found->number)};
  } else {
    value.reals = {found->number};
  }
  return value;
}

std::optional<std::vector<GlobalValue>> held_by_ranks(const VerifyInputs& inputs,
                                                      const ValueReport& report) {
  const auto& ranks = inputs.ranks_in_f64.empty() ? inputs.ranks : inputs.ranks_in_f64;
  const MeshLayout* mesh = mesh_of(report, inputs.mesh);
  std::vector<GlobalValue> held;
  for (std::int64_t i = 0; mesh != nullptr && i < mesh->size(); ++i) {
    auto value = numbers_of(*ranks[static_cast<std::size_t>(mesh->rank_at_index(i))], report);
    if (!value) return std::nullopt;
    held.push_back(std::move(*value));
  }
  return held;
}

std::optional<GlobalValue> expected_of(const VerifyInputs& inputs, const ValueReport& report) {
  const bool in_f64 = !inputs.ranks_in_f64.empty();
  const auto& [single, reference, largest] = inputs.given;
  const Recording* given = in_f64 && reference != nullptr ? reference : single;
  if (given != nullptr && report.last) {
    if (report.number) {
      ValueReport end = report;
      end.at_end = true;
      if (auto value = numbers_of(*given, end)) return value;
    } else if (const RecordedValue* value = given_value(*given, report.name)) {
      return whole_value(value->value.local());
    }
  }
  if (!inputs.one_device) return std::nullopt;
  const auto& one = *inputs.one_device;
  const auto& runs = in_f64 && !one.reference.empty() ? one.reference : one.single;
  return runs.empty() ? std::nullopt : numbers_of(*runs[0], report);
}

void list_values(const Recording& recording, const std::string& reason,
                 std::vector<ValueReport>& reports) {
  std::set<std::pair<std::string, std::int64_t>> known;
  for (const ValueReport& report : reports) known.emplace(report.name, report.occurrence);
  for (const RecordedValue& value : recording.values()) {
    if (value.read || value.occurrence < 0 || (value.at_end && !value.changed)) continue;
    if (!known.emplace(value.name, value.occurrence).second) continue;
    ValueReport report;
    report.name = value.name;
    report.occurrence = value.occurrence;
    report.at_end = value.at_end;
    report.type = type_string(value.value);
    report.spec = value.value.spec();
    report.where = value.where;
    report.event = value.event;
    report.reason = reason;
    report.facts.comparable = false;
    report.row = &outcome_of(report.facts);
    reports.push_back(std::move(report));
  }
}

ValueCounts count_values(const std::vector<ValueReport>& reports) {
  ValueCounts counts;
  for (const ValueReport& report : reports) {
    ++counts.of[static_cast<std::size_t>(report.outcome())];
    if (report.row->fails_strictly && !report.row->fails) ++counts.not_verified;
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
  std::vector<ValueReport> reports = Listing(inputs).all();
  std::vector<ValueReport*> all;
  for (ValueReport& report : reports) all.push_back(&report);
  judge_values(inputs, all);
  return reports;
}

bool agrees_in(const VerifyInputs& inputs, ValueReport report) {
  static_cast<JudgedValue&>(report) = {};
  if (report.number || inputs.ranks_in_f64.empty()) {
    judge_value(inputs, report);
  } else {
    OneValue judge(inputs, Precision::kReference, report);
    if (judge.first() == nullptr) return false;
    judge.run(report);
  }
  return report.facts.agrees();
}

void verify_again(const VerifyInputs& inputs, std::vector<ValueReport>& reports) {
  std::vector<ValueReport*> open;
  for (ValueReport& report : reports) {
    if (!in_doubt(report)) continue;
    static_cast<JudgedValue&>(report) = {};
    open.push_back(&report);
  }
  judge_values(inputs, open);
}

bool in_doubt(const std::vector<ValueReport>& reports) {
  return std::ranges::any_of(reports, [](const ValueReport& one) { return in_doubt(one); });
}

}  // namespace shardlab
