// Ranks note the outcome of each check with its place and occurrence, and the notes are merged
// after the run: the same failure on many ranks is reported once, with its ranks. CHECK_CLOSE keeps
// the pieces, and compares the whole value that they make when all ranks of the mesh have come.
#include "sim/testing/rank_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "autograd/at_place.h"
#include "autograd/grad_node.h"
#include "comm/verdict.h"
#include "kernels/cpu_kernels.h"
#include "propagate/propagator.h"
#include "sim/log/marks.h"
#include "sim/verify/compare.h"
#include "sim/verify/labels/label.h"
#include "sim/verify/step_run.h"
#include "sim/world/spmd.h"
#include "trace/recorder.h"

namespace shardlab::testing {

// Expected values as plain tensors; widened() gives them in f64.

Reference::Reference(DTensor value) : exact(std::move(value)) {
  if (exact.distributed()) {
    throw Error(ErrorKind::kValue, "a reference is a plain tensor")
        .with("got", type_string(exact))
        .with("fix", "compare with the value before it is distributed, or full_tensor() of it");
  }
}

Reference::Reference(std::vector<double> given) : values(std::move(given)) {}

DTensor widened(const DTensor& plain) {
  if (!is_complex(plain.dtype()) && !is_floating(plain.dtype())) return plain;
  const DTensor wide = to(plain.detach(), is_complex(plain.dtype()) ? DType::kC128 : DType::kF64);
  return plain.requires_grad() ? wide.requires_grad_() : wide;
}

DTensor fresh(const DTensor& plain) {
  const DTensor copy = plain.detach().clone();
  return plain.requires_grad() ? copy.requires_grad_() : copy;
}

namespace {

// The exception of a failed REQUIRE.
struct RankStops {};

struct Recorded {
  CheckSite site;
  std::int64_t occurrence = 0;  // of the site on this rank
  bool passed = true;
  std::string text;
  DTensor got;  // kClose
  Reference reference;
};

using Place = std::tuple<std::string, int, std::string>;
Place place_of(const CheckSite& site) { return {site.file, site.line, site.expression}; }

// One slot per rank, so that ranks on several threads share nothing.
class Records {
 public:
  explicit Records(const MeshLayout& mesh)
      : mesh_(mesh), by_rank_(static_cast<std::size_t>(mesh.size())) {}

  void add(std::int64_t rank, Recorded record) {
    Rank& slot = by_rank_[static_cast<std::size_t>(rank)];
    record.occurrence = slot.passes[place_of(record.site)]++;
    slot.records.push_back(std::move(record));
  }

  std::vector<SiteReport> merged(bool complete) const;

 private:
  struct Rank {
    std::vector<Recorded> records;
    std::map<Place, std::int64_t> passes;
  };
  const MeshLayout& mesh_;
  std::vector<Rank> by_rank_;
};

// The run whose ranks live now. Tests of a process come one after the other.
Records* running = nullptr;

// All records of one place.
class Site {
 public:
  Site(const CheckSite& site, const MeshLayout& mesh) : site_(site), mesh_(mesh) {}

  void add(std::int64_t rank, const Recorded& record) {
    if (site_.kind == CheckSite::Kind::kClose) {
      values_[record.occurrence][rank] = &record;
    } else if (!record.passed) {
      failed_[record.text].push_back(rank);
    }
  }

  /// `complete`: every rank reached its end.
  SiteReport report(bool complete) {
    for (const auto& [occurrence, held] : values_) compare_values(held, complete);
    SiteReport report{site_, failed_.empty(), {}};
    for (auto& [text, ranks] : failed_) {
      std::sort(ranks.begin(), ranks.end());
      ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
      report.text +=
          fmt::format("{}{} on {}", report.text.empty() ? "" : "\n", text, fold_ranks(ranks));
    }
    return report;
  }

 private:
  using Held = std::map<std::int64_t, const Recorded*>;  // by rank

  void compare_values(const Held& held, bool complete) {
    const auto before = failed_;
    compare_each(held, complete);
    if (failed_ == before) return;
    const std::string label = label_of_plain(held);
    if (label.empty()) return;
    failed_ = before;
    for (const auto& [rank, record] : held) failed_[label].push_back(rank);
  }

  // For plain tensors that are no whole value: the pieces or terms of it that the ranks hold; empty
  // if they hold none.
  std::string label_of_plain(const Held& held) const {
    std::vector<GlobalValue> values;
    for (std::int64_t index = 0; index < mesh_.size(); ++index) {
      const auto found = held.find(mesh_.rank_at_index(index));
      if (found == held.end() || found->second->got.distributed()) return {};
      values.push_back(whole_value(found->second->got.local()));
    }
    const Recorded& first = *held.begin()->second;
    const double relative = taken_as_equal(false, first.got.dtype());
    const auto label =
        label_of(values, whole_value(first.reference.exact.local()), mesh_, relative);
    return label && !label->is_replicated() ? text_of(*label, mesh_) : std::string();
  }

  void compare_each(const Held& held, bool complete) {
    for (const auto& [rank, record] : held) {
      if (!record->got.distributed()) {
        judge(whole_value(record->got.local()), is_exact(record->got), *record, {rank});
      } else if (is_first(held, rank, *record->got.spec())) {
        compare_distributed(held, *record, complete);
      }
    }
  }

  // Whether no lower rank holds a value of this spec.
  static bool is_first(const Held& held, std::int64_t rank, const DTensorSpec& spec) {
    const auto found = std::find_if(held.begin(), held.end(), [&](const auto& other) {
      return other.second->got.distributed() && other.second->got.spec() == &spec;
    });
    return found->first == rank;
  }

  void compare_distributed(const Held& held, const Recorded& first, bool complete) {
    const DTensorSpec& spec = *first.got.spec();
    std::vector<DTensor> pieces;
    std::vector<std::int64_t> ranks, missing;
    bool exact = !spec.has_partial();
    for (std::int64_t index = 0; index < spec.layout()->size(); ++index) {
      const std::int64_t rank = spec.layout()->rank_at_index(index);
      const auto found = held.find(rank);
      const bool here = found != held.end() && found->second->got.distributed() &&
                        found->second->got.spec() == &spec;
      (here ? ranks : missing).push_back(rank);
      if (!here) continue;
      exact = exact && is_exact(found->second->got);
      pieces.push_back(found->second->got);
    }
    if (!missing.empty()) {
      if (!complete) return;  // the error of the run has more details
      std::sort(missing.begin(), missing.end());
      failed_[fmt::format("{} did not compare a {}", fold_ranks(missing), type_string(spec))] =
          ranks;
      return;
    }
    std::vector<AssemblyFault> faults;
    const GlobalValue whole = assemble(spec, pieces, faults);
    for (const AssemblyFault& fault : faults) failed_[fault.what] = ranks;
    judge(whole, exact, first, ranks);
  }

  void judge(const GlobalValue& whole, bool exact, const Recorded& first,
             const std::vector<std::int64_t>& ranks) {
    const Reference& reference = first.reference;
    const bool program = reference.kind == Reference::Kind::kProgram;
    const GlobalValue single = whole_value(reference.single.local());
    const GlobalValue truth = whole_value(reference.exact.local());
    const Comparison comparison =
        compare(whole, single, truth, {.exact = whole.is_integral() || (program && exact)});
    if (comparison.agreement != Agreement::kWrong) return;
    auto& known = failed_[comparison.what];
    known.insert(known.end(), ranks.begin(), ranks.end());
  }

  CheckSite site_;
  const MeshLayout& mesh_;
  std::map<std::int64_t, Held> values_;  // by occurrence
  std::map<std::string, std::vector<std::int64_t>> failed_;
};

std::vector<SiteReport> Records::merged(bool complete) const {
  std::map<Place, Site> sites;
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    for (const Recorded& record : by_rank_[rank].records) {
      auto [site, added] = sites.try_emplace(place_of(record.site), record.site, mesh_);
      site->second.add(static_cast<std::int64_t>(rank), record);
    }
  }
  std::vector<SiteReport> reports;
  for (auto& [place, site] : sites) reports.push_back(site.report(complete));
  return reports;
}

// Errors that ranks threw, without those that a REQUIRE stopped and those that only waited for
// them.
std::string error_of(WorldResult result) {
  const auto stopped = [](const RankFailure& failure) {
    try {
      if (failure.foreign) std::rethrow_exception(failure.foreign);
    } catch (const RankStops&) {
      return true;
    } catch (...) {
    }
    return false;
  };
  const bool any = std::any_of(result.failures.begin(), result.failures.end(), stopped);
  std::erase_if(result.failures, [&](const RankFailure& failure) {
    return stopped(failure) || (any && failure.consequence);
  });
  return result.ok() ? "" : result.merged().text();
}

// Both parts in the dtype and shape of `got`.
Reference complete(Reference reference, const DTensor& got) {
  if (!reference.exact.defined()) {
    const auto& [shape, dtype] = std::pair(got.shape(), got.dtype());
    const bool integral = is_integral(dtype);
    reference.exact = tensor(reference.values, shape, integral ? dtype : DType::kF64);
  }
  if (!reference.single.defined()) reference.single = to(reference.exact, got.dtype());
  reference.single = detached(reference.single);
  reference.exact = detached(widened(reference.exact));
  return reference;
}

}  // namespace

bool on_rank() { return running != nullptr && current_rank_or_null() != nullptr; }

void check(const CheckSite& site, bool passed, const std::string& text) {
  Recorded record;
  record.site = site;
  record.passed = passed;
  if (!passed) record.text = text;
  running->add(current_rank().rank, std::move(record));
  const bool stops =
      site.kind == CheckSite::Kind::kRequire || site.kind == CheckSite::Kind::kRequireFalse;
  if (!passed && stops) throw RankStops{};
}

void check_close(const CheckSite& site, const DTensor& got, const Reference& reference) {
  if (!on_rank()) {
    throw Error(ErrorKind::kRuntime, "CHECK_CLOSE outside of a SHARD_TEST")
        .with("fix", "the body of a SHARD_TEST runs on the ranks of its mesh");
  }
  Recorded record;
  record.site = site;
  record.got = detached(got);
  record.reference = complete(reference, got);
  if (auto* recorder = dynamic_cast<Recorder*>(&program_calls())) {
    const PlaceScope place({site.file, site.line});
    recorder->check_close(got,
                          reference.single.defined() ? reference.single : record.reference.single);
  }
  running->add(current_rank().rank, std::move(record));
}

MeshRun run_on_mesh(std::string_view mesh, const MeshBody& body, SchedulerKind scheduler,
                    const OpRegistry& ops) {
  const std::vector<MeshDim> dims = parse_mesh_dims(mesh);
  WorldOptions options;
  options.schedule.kind = scheduler;
  options.schedule.workers = 1;  // tensors of tests are small: waking a thread takes longer
  MeshLayout::Init init;
  for (const MeshDim& dim : dims) {
    init.names.push_back(dim.name);
    init.shape.push_back(dim.size);
  }
  const MeshLayout& layout = *process_arena().layout(std::move(init));
  options.ranks = layout.size();
  Propagator propagator(ops, PlanOptions{});
  options.propagator = &propagator;
  Steps steps({.ranks = options.ranks,
               .propagator = &propagator,
               .device = make_cpu_device(cpu_kernel_table())});
  Records records(layout);
  running = &records;
  WorldResult result;
  try {
    result = try_spmd(std::move(options), [&](RankContext& rank) {
      Marks marks(&steps.listen(rank.rank, nullptr));
      const ObserverScope observed(marks);
      body(rank, init_mesh(dims));
      steps.finish(rank.rank);
    });
  } catch (...) {
    running = nullptr;
    throw;
  }
  running = nullptr;
  const bool complete = result.ok();
  std::string error = error_of(std::move(result));
  const StepVerdict calls = steps.verdict();
  if (error.empty() && calls.wrong) {
    error =
        fmt::format("a call is wrong: {}\n{}", to_string(calls.wrong->place), calls.wrong->text());
  }
  return {records.merged(complete), std::move(error)};
}

}  // namespace shardlab::testing
