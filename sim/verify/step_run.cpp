// Parts of a call are kept until the last rank of its mesh has brought its own; then it is judged
// and its values are freed. Ranks run apart between collectives, so that several calls may wait.
#include "sim/verify/step_run.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlab {

namespace {

constexpr const char* kTooLarge = "operands and results take more memory than there is";
constexpr const char* kOutOfStep = "the ranks of the mesh make different calls";

std::int64_t bytes_of(const StepPart& part) {
  std::int64_t bytes = 0;
  const auto add = [&](const DTensor& tensor) {
    if (tensor.defined() && tensor.local().defined()) bytes += tensor.local().size_bytes();
  };
  for_each_tensor(part.args, add);
  for_each_tensor(part.results, add);
  return bytes;
}

// Ranks that take turns by their number meet in collectives from different lines, and in no other
// call: a stage's own to_local is not that of another stage.
bool alike(const StepPart& a, const StepPart& b) {
  const bool meet = a.kind == PartKind::kCollective ||
                    (a.position.line == b.position.line && a.position.column == b.position.column);
  return meet && a.kind == b.kind && a.row == b.row && a.placing == b.placing &&
         a.collective.kind == b.collective.kind && a.args.size() == b.args.size() &&
         a.results.size() == b.results.size();
}

const StepPlace* missed_write(const Step& step) {
  for (const StepPart& part : step.parts) {
    if (part.missed) return &*part.missed;
  }
  return nullptr;
}

// The error for a write that `reader`, which has the same memory, should see and does not; it
// points to the write.
WrongStep lost_write(const Step& reader, const StepPlace& write) {
  WrongStep wrong;
  wrong.place = write;
  wrong.what =
      "the write does not show in what shares its memory in the single-device run, read by " +
      to_string(place_of(reader));
  return wrong;
}

std::vector<std::int64_t> ranks_of(const StepKey& key) {
  if (key.layout == nullptr) return key.group;
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < key.layout->size(); ++i) {
    ranks.push_back(key.layout->rank_at_index(i));
  }
  return ranks;
}

}  // namespace

Steps::Steps(StepOptions options)
    : options_(std::move(options)), readers_(static_cast<std::size_t>(options_.ranks)) {
  verdict_.judged = true;
}

StepReader& Steps::listen(std::int64_t rank, Observer* next) {
  auto& reader = readers_[static_cast<std::size_t>(rank)];
  reader = std::make_unique<StepReader>(
      rank, next, [this](const StepKey& key, std::size_t index, StepPart&& part) {
        take(key, index, std::move(part));
      });
  return *reader;
}

void Steps::finish(std::int64_t rank) { readers_[static_cast<std::size_t>(rank)]->finish(); }

void Steps::skip(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  ++verdict_.skipped[reason];
}

void Steps::take(const StepKey& key, std::size_t index, StepPart&& part) {
  Step whole;
  {
    const std::lock_guard lock(mutex_);
    Pending& pending = pending_[key];
    if (pending.step.parts.empty()) {
      pending.step.ranks = ranks_of(key);
      pending.step.parts.resize(pending.step.ranks.size());
    }
    const std::int64_t bytes = bytes_of(part);
    pending.step.parts[index] = std::move(part);
    pending.bytes += bytes;
    waiting_bytes_ += bytes;
    if (waiting_bytes_ > options_.most_bytes) pending.dropped = true;
    if (pending.dropped) {
      for (StepPart& kept : pending.step.parts) kept = {};
      waiting_bytes_ -= std::exchange(pending.bytes, 0);
    }
    if (++pending.arrived < pending.step.parts.size()) return;
    waiting_bytes_ -= pending.bytes;
    const bool dropped = pending.dropped;
    whole = std::move(pending.step);
    pending_.erase(key);
    if (dropped) {
      ++verdict_.skipped[kTooLarge];
      return;
    }
  }
  judge(whole);
}

void Steps::add_wrong(WrongStep wrong) {
  ++verdict_.wrong_calls;
  const bool first = !verdict_.wrong || wrong.place.order < verdict_.wrong->place.order;
  if (first) verdict_.wrong = std::move(wrong);
}

void Steps::judge(const Step& step) {
  const bool same = std::ranges::all_of(
      step.parts, [&](const StepPart& part) { return alike(part, step.first()); });
  if (!same) {
    skip(kOutOfStep);
    return;
  }
  StepFinding found = judge_step(step, *options_.device, *options_.propagator);
  const StepPlace* missed = missed_write(step);
  const std::lock_guard lock(mutex_);
  if (missed != nullptr) add_wrong(lost_write(step, *missed));
  using enum StepFinding::Kind;
  if (found.kind == kBitwise) ++verdict_.bitwise;
  if (found.kind == kBounded) ++verdict_.bounded;
  if (found.kind == kSkipped) ++verdict_.skipped[found.reason];
  if (found.kind == kUndecided) {
    ++verdict_.undecided_calls;
    verdict_.undecided_elements += found.undecided_elements;
  }
  if (found.kind == kWrong) {
    found.wrong.place = place_of(step);
    add_wrong(std::move(found.wrong));
  }
  if (!found.makes_non_finite) return;
  if (!verdict_.non_finite || step.first().order < verdict_.non_finite->order) {
    verdict_.non_finite = place_of(step);
  }
}

StepVerdict Steps::verdict() {
  const std::lock_guard lock(mutex_);
  StepVerdict verdict = verdict_;
  if (!pending_.empty()) {
    verdict.skipped["not every rank of the mesh made the call"] +=
        static_cast<std::int64_t>(pending_.size());
  }
  for (const auto& reader : readers_) {
    if (!reader || !reader->left()) continue;
    if (verdict.left && verdict.left->order <= reader->left()->order) continue;
    verdict.left = place_of({{0}, {*reader->left()}});
  }
  return verdict;
}

}  // namespace shardlab
