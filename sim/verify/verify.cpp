#include "sim/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "comm/verdict.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

// One value on every rank that has it.
struct Gathered {
  std::vector<const RecordedValue*> by_rank;
  const RecordedValue* first = nullptr;
};

Gathered gather(const VerifyInputs& inputs, const std::string& key) {
  Gathered result;
  for (const Recording* rank : inputs.ranks) {
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

bool holds(const DimMap& map, std::int64_t index) {
  return std::any_of(map.runs.begin(), map.runs.end(), [&](const IndexRun& run) {
    return index >= run.offset && index < run.offset + run.size;
  });
}

// Who holds a global element, and where it lies.
std::string holders_of(const DTensorSpec& spec, std::int64_t element) {
  Dims index(spec.ndim());
  for (std::size_t dim = spec.ndim(); dim-- > 0;) {
    index[dim] = element % spec.shape()[dim];
    element /= spec.shape()[dim];
  }
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const LocalView view = local_view(spec, spec.layout()->coordinate_at_index(i));
    bool inside = true;
    for (std::size_t dim = 0; dim < index.size(); ++dim) {
      inside = inside && holds(view.dims[dim], index[dim]);
    }
    if (inside) ranks.push_back(spec.layout()->rank_at_index(i));
  }
  std::sort(ranks.begin(), ranks.end());
  return fmt::format("{} at [{}]", fold_ranks(ranks), fmt::join(index, ", "));
}

// The value as each mesh (or, for a slice of it, each sub-mesh) holds it.
class Judge {
 public:
  Judge(const VerifyInputs& inputs, const Gathered& value, const std::string& key)
      : inputs_(inputs), value_(value), key_(key) {}

  void run(ValueReport& report) {
    if (value_.first->value.numel() > inputs_.most_elements) {
      report.not_verified = "more elements than memory can hold for comparing";
    } else if (value_.first->value.distributed()) {
      judge_distributed(report);
    } else {
      judge_plain(report);
    }
  }

 private:
  void add(ValueReport& report, Comparison comparison) {
    if (!report.verified || worse(comparison, report.comparison)) report.comparison = comparison;
    report.verified = true;
  }

  // Against one device that was told `rank`; for programs that don't read their rank all are one.
  void judge(const GlobalValue& value, bool exact, std::size_t rank, ValueReport& report) {
    if (inputs_.keep > 0) {
      report.kept.push_back(keep_value(value, static_cast<std::int64_t>(rank), inputs_.keep));
    }
    if (inputs_.single.empty()) {
      report.not_verified = "not asked for";
      return;
    }
    const std::size_t told = inputs_.single.size() > 1 ? rank : 0;
    const RecordedValue* single = inputs_.single[told]->find(key_);
    const RecordedValue* reference = inputs_.reference[told]->find(key_);
    if (single == nullptr || reference == nullptr) {
      report.not_verified = "one device does not get here";
      return;
    }
    const Judgement judgement{.exact = exact,
                              .relative_tolerance = tolerance_for(inputs_, value.meta.dtype)};
    add(report, compare(value, whole_value(single->value.local()),
                        whole_value(reference->value.local()), judgement));
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
    bool exact = !spec.has_partial();
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
      exact = exact && held->value.impl()->exact;
      pieces.push_back(held->value);
    }
    std::vector<AssemblyFault> faults;
    const GlobalValue whole = assemble(spec, pieces, faults);
    judge(whole, exact, static_cast<std::size_t>(layout.rank_at_index(0)), report);
    const Comparison& judged = report.comparison;
    if (judged.agreement == Agreement::kWrong && judged.worst_index >= 0) {
      report.holders = holders_of(spec, judged.worst_index);
    }
    if (faults.empty()) return;
    Comparison comparison;
    comparison.agreement = Agreement::kWrong;
    comparison.what = faults.front().what;
    add(report, comparison);
  }

  void judge_plain(ValueReport& report) {
    const bool per_rank = inputs_.single.size() > 1;
    const Tensor* last = nullptr;
    for (std::size_t rank = 0; rank < value_.by_rank.size(); ++rank) {
      const RecordedValue* held = value_.by_rank[rank];
      if (held == nullptr || held->value.impl()->rank_local) continue;
      const Tensor& local = held->value.local();
      const bool shared = last != nullptr &&
                          last->storage()->buffer() == local.storage()->buffer() &&
                          last->offset() == local.offset() && last->meta() == local.meta();
      if (shared && !per_rank) continue;
      last = &local;
      judge(whole_value(local), held->value.impl()->exact, rank, report);
    }
    if (!report.verified && report.not_verified.empty()) {
      report.not_verified = "holds one rank's piece or term";
    }
  }

  const VerifyInputs& inputs_;
  const Gathered& value_;
  const std::string& key_;
};

ValueReport report_on(const VerifyInputs& inputs, const std::string& key) {
  const Gathered value = gather(inputs, key);
  ValueReport report;
  report.name = value.first->name;
  report.occurrence = value.first->occurrence;
  report.where = value.first->where;
  for (const RecordedValue* held : value.by_rank) {
    if (held != nullptr) report.event = std::max(report.event, held->event);
  }
  report.type = type_string(value.first->value);
  Judge(inputs, value, key).run(report);
  return report;
}

}  // namespace

void list_values(const Recording& recording, const std::string& reason,
                 std::vector<ValueReport>& reports) {
  for (const RecordedValue& value : recording.values()) {
    const bool known = std::any_of(reports.begin(), reports.end(), [&](const ValueReport& report) {
      return report.name == value.name && report.occurrence == value.occurrence;
    });
    if (known) continue;
    ValueReport report;
    report.name = value.name;
    report.occurrence = value.occurrence;
    report.type = type_string(value.value);
    report.where = value.where;
    report.event = value.event;
    report.not_verified = reason;
    reports.push_back(std::move(report));
  }
}

std::vector<ValueReport> verify_values(const VerifyInputs& inputs) {
  std::vector<ValueReport> reports;
  std::set<std::string> done;
  for (const Recording* rank : inputs.ranks) {
    for (const RecordedValue& value : rank->values()) {
      const std::string key = value.key();
      if (done.insert(key).second) reports.push_back(report_on(inputs, key));
    }
  }
  return reports;
}

}  // namespace shardlab
