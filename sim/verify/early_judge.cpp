#include "sim/verify/early_judge.h"

#include <algorithm>

#include "base/rank_context.h"
#include "base/scheduler.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/verify/one_value.h"

namespace shardlab {

namespace {

// A rank with more bytes of values that wait for other ranks lets those run first.
constexpr std::int64_t kMostAhead = 4 << 20;

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
  std::map<std::string, int> given;
  std::set<std::string> others;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto* assign = std::get_if<ast::Assign>(&program[i]->node);
    const bool calls = std::holds_alternative<ast::ExpressionStatement>(program[i]->node);
    std::vector<std::string> targets;
    if (assign != nullptr) {
      for (const auto& target : assign->targets) ast::collect_targets(*target, targets);
    }
    for (const std::string& name : targets) ++given[name];
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
    if (at + 1 == program.size() || given[name] != 1 || others.contains(name)) continue;
    unused.all.insert(name);
    unused.from[program[at + 1]->span.begin].push_back(name);
  }
  return unused;
}

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

EarlyJudge::EarlyJudge(const ast::Program& program, VerifyInputs inputs, std::size_t ranks)
    : inputs_(std::move(inputs)),
      ranks_(ranks),
      unused_(unused_names(program.body)),
      spent_(ranks),
      ahead_(ranks, 0) {}

void EarlyJudge::kept(std::size_t rank, const RecordedValue& value) {
  const bool judged =
      value.value.distributed() && !value.read && value.occurrence >= 0 && !value.claim;
  if (!judged) return;
  const std::string key = value.key();
  Waiting all;
  std::int64_t ahead = 0;
  {
    const std::lock_guard lock(mutex_);
    Waiting& waiting = waiting_[key];
    waiting.by_rank.resize(ranks_);
    waiting.by_rank[rank] = value;
    ahead = ahead_[rank] += bytes_of(value);
    if (++waiting.arrived == ranks_) {
      all = std::move(waiting);
      waiting_.erase(key);
      for (std::size_t i = 0; i < ranks_; ++i) ahead_[i] -= bytes_of(all.by_rank[i]);
    }
  }
  if (all.arrived > 0) return judge(key, all);
  if (ahead > kMostAhead) current_rank().scheduler->yield();
}

void EarlyJudge::judge(const std::string& key, const Waiting& value) {
  const RecordedValue& first = value.by_rank.front();
  const DTensorSpec* spec = first.value.spec();
  const bool alike = std::ranges::all_of(
      value.by_rank, [&](const RecordedValue& one) { return one.value.spec() == spec; });
  if (!alike) return;
  ValueReport report;
  report.name = first.name;
  report.occurrence = first.occurrence;
  report.at_end = first.at_end;
  report.spec = spec;
  report.where = first.where;
  std::vector<const RecordedValue*> held;
  for (const RecordedValue& one : value.by_rank) held.push_back(&one);
  OneValue(inputs_, Precision::kDeclared, report, std::move(held)).run(report);
  const bool open = in_doubt(report);
  const bool right = !open && report.facts.agrees();
  const std::lock_guard lock(mutex_);
  if (right) let_go_of(key, value);
  if (right || open) judged_.emplace(key, std::move(report));
}

void EarlyJudge::let_go_of(const std::string& key, const Waiting& value) {
  const RecordedValue& first = value.by_rank.front();
  const Recording& alone = *inputs_.one_device->single.front();
  const RecordedValue* single = alone.find(key);
  const RecordedValue* end = alone.find(first.name + "#end");
  // A name that was written to has other memory at the end, even if with the same bytes.
  const BufferRef& memory = single->value.local().storage()->buffer();
  if (end != nullptr && end->occurrence == first.occurrence + 1 &&
      end->value.local().storage()->buffer() == memory) {
    let_go(end->value.local());
  }
  let_go(single->value.local());
  for (std::size_t rank = 0; rank < ranks_; ++rank)
    spent_[rank].insert(value.by_rank[rank].value.impl());
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
