// The part of a world that has a fabric: Traffic knows when an operation is complete, ranks park
// until then. Data may be there earlier; nobody looks at it.
#include <algorithm>

#include "backends/threads/world.h"
#include "base/rank_context.h"
#include "comm/filling.h"
#include "comm/observer.h"

namespace shardlab::threads {

namespace {

using Event = FabricLog::Event::Kind;

Operation operation_of(const Group& group, const Call& call, std::int32_t number) {
  if (!is_message(call.kind)) return {.group = number};
  const bool sends = call.kind == CollectiveKind::kSend;
  const auto peer = static_cast<std::size_t>(sends ? call.to : call.from);
  return {.kind = sends ? Operation::Kind::kSend : Operation::Kind::kReceive,
          .group = number,
          .peer = static_cast<std::int32_t>(group.ranks()[peer]),
          .tag = call.tag};
}

}  // namespace

void World::use(const Fabric& fabric) {
  fabric_ = fabric;
  traffic_ = std::make_unique<Traffic>(fabric.transport);
  if (fabric.lazy_groups) traffic_->make_lazily();
  posters_.resize(static_cast<std::size_t>(ranks_));
}

void World::log(Event kind, std::int32_t rank, std::int32_t call) {
  if (fabric_.log == nullptr || fabric_.log->full()) return;
  fabric_.log->events.push_back({kind, rank, call, current_rank().position});
}

std::int32_t World::sender_for(std::int64_t rank, const std::vector<std::int32_t>& senders) {
  const std::lock_guard lock(fabric_mutex_);
  if (has_fabric() && fabric_.log != nullptr && fabric_.log->chooses) {
    Poster& own = posters_[static_cast<std::size_t>(rank)];
    own.senders = senders;
    return std::exchange(own.sender, -1);
  }
  if (senders.empty() || fabric_.seed == 0) return senders.empty() ? -1 : senders[0];
  fabric_.seed = fabric_.seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return senders[(fabric_.seed >> 33) % senders.size()];
}

bool World::choose() {
  if (!has_fabric() || fabric_.log == nullptr || !fabric_.log->chooses || failed()) return false;
  const std::lock_guard lock(fabric_mutex_);
  std::vector<std::pair<std::size_t, std::int32_t>> ways;
  for (std::size_t rank = 0; rank < posters_.size(); ++rank) {
    for (const std::int32_t sender : posters_[rank].senders) ways.emplace_back(rank, sender);
  }
  if (ways.empty()) return false;
  FabricLog& log = *fabric_.log;
  if (log.way.size() == log.ways.size()) log.way.push_back(0);
  const auto [rank, sender] = ways[log.way[log.ways.size()]];
  log.ways.push_back(ways.size());
  posters_[rank].sender = sender;
  posters_[rank].senders.clear();
  scheduler_.unpark(static_cast<std::int64_t>(rank));
  return true;
}

// Calls of the program, not those that make groups.
void World::log_call(Traffic::Id id, const Group& group, const Call& call, bool joins, bool any) {
  FabricLog* const log = fabric_.log;
  if (log == nullptr || log->full() || observer_to_tell() == nullptr) return;
  if (call.kind == CollectiveKind::kSplit) return;
  const std::int32_t rank = traffic_->rank_of(id);
  posted_.back().call = static_cast<std::int32_t>(log->calls.size());
  this->log(Event::kPost, rank, posted_.back().call);
  FabricLog::Call& one = log->calls.emplace_back();
  one.rank = rank;
  one.kind = call.kind;
  one.what = traffic_->operation(id);
  one.position = call.position;
  one.joins = joins;
  one.any = any;
  if (is_message(call.kind)) one.label = call.op_name;
  const bool brings = call.x != nullptr && call.x->defined();
  const bool adds = call.kind == CollectiveKind::kAllReduce ||
                    call.kind == CollectiveKind::kReduceScatter ||
                    call.kind == CollectiveKind::kReduce;
  one.rounds = adds && brings && call.op != ReduceOp::kMax && call.op != ReduceOp::kMin &&
               group.ranks().size() > 2 && unit_roundoff(call.x->dtype()) > 0;
  if (brings) one.input.push_back(call.x->meta());
  if (!brings && call.kind == CollectiveKind::kBroadcast) one.input.push_back(*call.expected);
  if (gives_tensor(call.kind) && call.kind != CollectiveKind::kSend) {
    const auto place = std::ranges::find(group.ranks(), rank) - group.ranks().begin();
    one.output.push_back(result_meta(call, place));
  }
  const auto number = static_cast<std::size_t>(one.what.group);
  if (log->groups.size() <= number) log->groups.resize(number + 1);
  log->groups[number] = {group.name(), group.ranks()};
}

void World::posted(Traffic::Id id, const Group& group, const Call& call) {
  posted_.resize(static_cast<std::size_t>(id) + 1);
  posted_.back() = {call.kind, &group, call.position, -1};
}

void World::wake_completed() {
  for (const Traffic::Id done : traffic_->take_completed()) {
    const std::int32_t owner = traffic_->rank_of(done);
    const std::int32_t logged = posted_[static_cast<std::size_t>(done)].call;
    if (logged >= 0) fabric_.log->calls[static_cast<std::size_t>(logged)].complete = true;
    if (posters_[static_cast<std::size_t>(owner)].waits_for == done) scheduler_.unpark(owner);
  }
}

void World::leave_open(const Verdict& verdict) {
  const std::lock_guard lock(fabric_mutex_);
  if (fabric_.log == nullptr) return;
  for (const RankReport& report : verdict.ranks) {
    for (auto last = fabric_.log->calls.rbegin(); last != fabric_.log->calls.rend(); ++last) {
      FabricLog::Call& call = *last;
      const SourcePosition& at = call.position;
      const bool there =
          at.file != nullptr && fmt::format("{}:{}", at.file, at.line) == report.where;
      if (call.rank != report.rank || !there) continue;
      call.complete = false;
      break;
    }
  }
}

// On a fabric that waits for each call, a batch is over before the rank goes on.
void World::await_batch(std::int64_t rank) {
  if (fabric_.transport != Transport::kBlocking) return;
  for (Traffic::Id id = posters_[static_cast<std::size_t>(rank)].first;; ++id) {
    {
      const std::lock_guard lock(fabric_mutex_);
      if (id >= static_cast<Traffic::Id>(posted_.size())) return;
      if (traffic_->rank_of(id) != rank) continue;
    }
    await(id);
  }
}

Traffic::Id World::post(Group& group, std::int64_t rank, const Call& call, bool any) {
  Poster& own = posters_[static_cast<std::size_t>(rank)];
  const std::uint32_t batch = open_batch(current_rank());
  const bool joins = batch != 0 && own.batch == batch;
  if (!joins) await_batch(rank);
  std::unique_lock lock(fabric_mutex_);
  const auto [known, fresh] = fabric_groups_.try_emplace(&group, -1);
  if (fresh) known->second = traffic_->add_group(group.ranks());
  const Operation what = operation_of(group, call, known->second);
  const auto owner = static_cast<std::int32_t>(rank);
  for (Traffic::Id made; (made = traffic_->creation(owner, {&what, 1})) >= 0;) {
    posted(made, group, call);
    wake_completed();
    lock.unlock();
    await(made);
    lock.lock();
  }
  const Traffic::Id id = traffic_->post(owner, {&what, 1}, joins);
  if (!joins) own.first = id;
  own.batch = batch;
  posted(id, group, call);
  log_call(id, group, call, joins, any);
  wake_completed();
  return id;
}

bool World::complete(Traffic::Id id) {
  if (id < 0) return true;
  const std::lock_guard lock(fabric_mutex_);
  const RankContext& rank = current_rank();
  log((rank.mode & kModeSynchronizes) != 0 ? Event::kSynchronize : Event::kPoll,
      static_cast<std::int32_t>(rank.rank), -1);
  return traffic_->complete(id);
}

void World::report_wait(Traffic::Id id) {
  if (id < 0) return;
  const std::lock_guard lock(fabric_mutex_);
  const std::int32_t call = posted_[static_cast<std::size_t>(id)].call;
  if (call >= 0) log(Event::kWait, traffic_->rank_of(id), call);
}

void World::await(Traffic::Id id) {
  if (id < 0) return;
  Poster& own = posters_[static_cast<std::size_t>(current_rank().rank)];
  for (;;) {
    {
      const std::lock_guard lock(fabric_mutex_);
      own.waits_for = traffic_->complete(id) ? -1 : id;
      if (own.waits_for < 0) return;
    }
    if (failed()) throw Error(failure()->error);
    scheduler_.park();
  }
}

void World::settle_fabric(std::int64_t rank) {
  const auto next_open = [&](std::size_t from) {
    const std::lock_guard lock(fabric_mutex_);
    for (; from < posted_.size(); ++from) {
      const auto id = static_cast<Traffic::Id>(from);
      if (traffic_->rank_of(id) == rank && !traffic_->complete(id)) return id;
    }
    return -1;
  };
  for (Traffic::Id id = 0; (id = next_open(static_cast<std::size_t>(id))) >= 0;) await(id);
}

std::string World::action(Traffic::Id id) const {
  const Posted& one = posted_[static_cast<std::size_t>(id)];
  const Operation& what = traffic_->operation(id);
  std::string text;
  if (what.kind == Operation::Kind::kCollective) {
    text = fmt::format("is in {} on group {}", to_string(one.kind), one.group->name());
  } else {
    const bool sends = what.kind == Operation::Kind::kSend;
    text = fmt::format("{} rank {}", sends ? "sends to" : "receives from", what.peer);
  }
  if (one.position.file != nullptr) text += fmt::format(" ({})", place_text(one.position));
  return text;
}

// Ranks whose calls have met, and that wait all the same.
void World::report_fabric(std::vector<RankReport>& by_rank) const {
  const std::lock_guard lock(fabric_mutex_);
  for (std::size_t rank = 0; rank < posters_.size(); ++rank) {
    const Traffic::Id id = posters_[rank].waits_for;
    RankReport& report = by_rank[rank];
    if (id < 0 || traffic_->complete(id) || report.state != RankReport::State::kRuns) continue;
    const Posted& one = posted_[static_cast<std::size_t>(id)];
    report.state = RankReport::State::kWaits;
    report.what = to_string(one.kind);
    report.group = one.group->name();
    report.message = true;
    report.does = action(id);
    if (one.position.file != nullptr) {
      report.where = fmt::format("{}:{}", one.position.file, one.position.line);
    }
    Blocker blocker = traffic_->blocker(id);
    if (blocker.behind == id) report.does += ", behind: it " + action(blocker.operation);
    for (std::size_t i = 0; i < posters_.size() && blocker.operation >= 0; ++i) {
      if (static_cast<std::size_t>(blocker.rank) != rank) break;
      blocker = traffic_->blocker(blocker.operation);
    }
    report.missing = {blocker.rank};
  }
}

}  // namespace shardlab::threads

namespace shardlab {

void use_fabric(Backend& backend, const Fabric& fabric) {
  static_cast<threads::World&>(backend).use(fabric);
}

}  // namespace shardlab
