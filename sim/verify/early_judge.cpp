#include "sim/verify/early_judge.h"

#include <algorithm>
#include <limits>

#include "base/rank_context.h"
#include "base/scheduler.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/verify/one_value.h"

namespace shardlab {

namespace {

// Statements in the order in which they run: those of a with, which runs them once, in its place.
void add_in_order(const ast::Block& block, std::vector<const ast::Statement*>& all) {
  for (const ast::Statement& statement : block) {
    all.push_back(&statement);
    if (const auto* with = std::get_if<ast::With>(&statement.node)) add_in_order(with->body, all);
  }
}

// A def runs later than it is written: its names may be used at any time.
UnusedNames unused_names(const ast::Block& block) {
  std::vector<const ast::Statement*> program;
  add_in_order(block, program);
  std::map<std::string, std::size_t> last;
  std::set<std::string> given, others;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto* assign = std::get_if<ast::Assign>(&program[i]->node);
    const bool calls = std::holds_alternative<ast::ExpressionStatement>(program[i]->node);
    std::vector<std::string> targets;
    if (assign != nullptr) {
      for (const auto& target : assign->targets) ast::collect_targets(*target, targets);
    }
    given.insert(targets.begin(), targets.end());
    const auto note = [&](const ast::Expression& part) {
      const auto* name = std::get_if<ast::Name>(&part.node);
      if (name != nullptr) last[name->id] = i;
      if (name != nullptr && assign == nullptr && !calls) others.insert(name->id);
      return false;
    };
    const bool in_place = std::holds_alternative<ast::With>(program[i]->node);
    ast::for_each_part(
        *program[i], [&](const ast::Expression& part) { ast::any_part(part, note); },
        [&](const ast::Block& inner) { in_place || ast::any_part(inner, note); });
  }
  UnusedNames unused;
  for (const auto& [name, at] : last) {
    if (at + 1 == program.size() || !given.contains(name) || others.contains(name)) continue;
    unused.all.insert(name);
    unused.from[program[at + 1]->span.begin].push_back(name);
  }
  return unused;
}

constexpr std::int64_t kOver = std::numeric_limits<std::int64_t>::max();

std::int64_t bytes_of(const RecordedValue& value) { return value.value.local().size_bytes(); }

}  // namespace

WantedValues::WantedValues(const ast::Program& program, std::set<std::string> names)
    : names_(std::move(names)), unused_(unused_names(program.body)) {}

void WantedValues::kept(std::size_t, const RecordedValue& value) {
  if (!names_.contains(value.name)) let_go(value.value.local());
}

bool WantedValues::is_spent(std::size_t, const DTensor& value) const {
  return is_gone(value.local());
}

EarlyJudge::EarlyJudge(const ast::Program& program, VerifyInputs inputs, std::size_t ranks,
                       std::int64_t most_ahead)
    : inputs_(std::move(inputs)),
      ranks_(ranks),
      most_ahead_(most_ahead),
      unused_(unused_names(program.body)),
      spent_(ranks + 1),
      ahead_(ranks + 1, 0),
      came_(ranks + 1, 0) {}

void EarlyJudge::ends_alone() {
  const std::lock_guard lock(mutex_);
  alone_ = kOver;
  moved_.notify_all();
}

void EarlyJudge::ranks_end() {
  const std::lock_guard lock(mutex_);
  furthest_ = kOver;
  moved_.notify_all();
}

void EarlyJudge::ends() {
  waiting_.clear();
  complete_.clear();
}

// A rank waits for the run alone, which goes on in a thread of its own, and that for the first of
// the ranks: never for each other.
void EarlyJudge::keep_pace(std::unique_lock<std::mutex>& lock, std::size_t rank,
                           const RecordedValue& value) {
  const std::int64_t came = came_[rank] += value.value.numel() * item_bytes(value.value.dtype());
  std::int64_t &own = rank == ranks_ ? alone_ : furthest_,
               &other = rank == ranks_ ? furthest_ : alone_;
  if (came > own) {
    own = came;
    moved_.notify_all();
  }
  moved_.wait(lock, [&] { return came - most_ahead_ <= other; });
}

void EarlyJudge::kept(std::size_t rank, const RecordedValue& value) {
  std::unique_lock lock(mutex_);
  keep_pace(lock, rank, value);
  const bool judged = (value.value.distributed() || rank == ranks_) && !value.read &&
                      value.occurrence >= 0 && !value.claim;
  if (!judged) return;
  const std::string key = value.key();
  Waiting& waiting = waiting_[key];
  waiting.by_rank.resize(ranks_ + 1);
  waiting.by_rank[rank] = value;
  ahead_[rank] += bytes_of(value);
  if (++waiting.arrived == ranks_ + 1) {
    for (std::size_t i = 0; i <= ranks_; ++i) ahead_[i] -= bytes_of(waiting.by_rank[i]);
    complete_bytes_ += bytes_of(waiting.by_rank[ranks_]);
    complete_.push_back(std::move(waiting));
    waiting_.erase(key);
  }
  // Whoever is ahead judges what is complete, so that the others need not.
  const auto is_ahead = [&] { return ahead_[rank] > most_ahead_; };
  while (complete_bytes_ > most_ahead_ || (is_ahead() && !complete_.empty())) {
    const Waiting next = std::move(complete_.front());
    complete_.pop_front();
    complete_bytes_ -= bytes_of(next.by_rank[ranks_]);
    lock.unlock();
    judge(next);
    lock.lock();
  }
  const bool yields = is_ahead() && rank != ranks_;
  lock.unlock();
  if (yields) current_rank().scheduler->yield();
}

void EarlyJudge::judge(const Waiting& value) {
  const RecordedValue& first = value.by_rank.front();
  const DTensorSpec* spec = first.value.spec();
  std::vector<const RecordedValue*> held;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (value.by_rank[rank].value.spec() != spec) return;
    held.push_back(&value.by_rank[rank]);
  }
  ValueReport report;
  report.name = first.name;
  report.occurrence = first.occurrence;
  report.at_end = first.at_end;
  report.spec = spec;
  report.where = first.where;
  Recording single(nullptr);
  single.adopt(value.by_rank[ranks_]);
  VerifyInputs inputs = inputs_;
  inputs.one_device.emplace().single = {&single};
  OneValue(inputs, Precision::kDeclared, report, std::move(held)).run(report);
  const bool open = in_doubt(report);
  const bool right = !open && report.facts.agrees();
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; right && rank <= ranks_; ++rank) {
    spent_[rank].insert(value.by_rank[rank].value.impl());
  }
  if (right || open) judged_.emplace(first.key(), std::move(report));
}

bool EarlyJudge::is_spent(std::size_t rank, const DTensor& value) const {
  const std::lock_guard lock(mutex_);
  return spent_[rank].contains(value.impl());
}

const ValueReport* EarlyJudge::find(const std::string& key) const {
  const auto found = judged_.find(key);
  return found == judged_.end() ? nullptr : &found->second;
}

}  // namespace shardlab
