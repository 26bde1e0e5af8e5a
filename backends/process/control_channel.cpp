// A star around rank 0, which puts all messages into one order: exchanges are complete when every
// process has brought its part or is gone, the first verdict on a run counts, and calls meet when
// the referee says so. Sending happens under a lock of its own and never under the state's lock on
// other ranks, because rank 0 must always find a reader; so no cycle of waits can come about.
#include "backends/process/control_channel.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "backends/process/messages.h"
#include "backends/process/rendezvous.h"
#include "backends/process/stream_socket.h"
#include "base/fix.h"

namespace shardlab::process {

// Named: ControlChannel::Impl, which the header declares, is made of it.
namespace control_channel {

/// What all processes bring to one exchange, as rank 0 has it so far.
struct Round {
  std::vector<std::string> parts;
  std::vector<bool> here;
};

struct Contribution {
  std::uint64_t sequence;
  std::int64_t root;  ///< or kEveryRank
  bool ends_run;
};

}  // namespace control_channel

namespace {

using control_channel::Contribution;
using control_channel::Round;

enum class Message : std::uint32_t {
  kContribution = 16,  ///< to rank 0: one process's part of an exchange
  kEveryone,           ///< from rank 0: all parts
  kFailed,             ///< to rank 0: a verdict on a run
  kVerdict,            ///< from rank 0: the verdict on a run
  kGone,               ///< from rank 0: a rank whose process is gone
  kLeaves,             ///< to rank 0: takes part in no further run
  kAllLeave,           ///< from rank 0
  kEntered,            ///< to rank 0: a call
  kWaits,              ///< to rank 0: for a call
  kEnded,              ///< to rank 0: no further calls
  kMet,                ///< from rank 0: a call that all have entered
  kGoodbye,
};

constexpr std::int64_t kEveryRank = -1;

[[noreturn]] void refuse_message(std::int64_t from, std::uint32_t type) {
  fail(ErrorKind::kRuntime, Fix{"run the same build of shardlab on all hosts"},
       "rank {} sent an unknown message {}", from, type);
}

Verdict verdict_on_gone(std::int64_t rank, const std::string& reason) {
  Verdict verdict;
  verdict.kind = VerdictKind::kRankFailed;
  verdict.culprits = {rank};
  verdict.cause =
      reason.empty() ? "its process ended in the middle of the run (killed or crashed)" : reason;
  RankReport report;
  report.rank = rank;
  report.state = RankReport::State::kFailed;
  verdict.ranks.push_back(std::move(report));
  return verdict;
}

std::string verdict_payload(std::uint64_t run, const Verdict& verdict) {
  Writer writer;
  writer.put(run);
  put(writer, verdict);
  return writer.take();
}

}  // namespace

class ControlChannel::Impl {
 public:
  Impl(const Membership& membership, std::vector<Connection> connections)
      : rank_(membership.rank),
        size_(membership.size),
        connections_(std::move(connections)),
        gone_(static_cast<std::size_t>(membership.size), false),
        leaving_(static_cast<std::size_t>(membership.size)),
        wake_(make_pipe()),
        listening_([this] { listen(); }) {}

  ~Impl() {
    {
      const std::lock_guard sending(send_mutex_);
      for (Connection& connection : connections_) send(connection, Message::kGoodbye, "");
    }
    stopping_ = true;
    wake_.second = Descriptor();
    listening_.join();
  }

  std::int64_t rank() const { return rank_; }
  std::int64_t size() const { return size_; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  std::vector<std::string> exchange(std::string_view mine, std::int64_t root, bool ends_run) {
    const Contribution contribution{sequence_++, root, ends_run};
    if (rank_ == 0) {
      const std::lock_guard lock(mutex_);
      contribute(0, contribution, std::string(mine));
    } else {
      Writer writer;
      writer.put(contribution);
      writer.put_text(mine);
      send_to_hub(Message::kContribution, writer.take());
    }
    std::unique_lock lock(mutex_);
    // Rank 0 stays until it has passed everything on.
    if (rank_ == 0) changed_.wait(lock, [&] { return !rounds_.contains(contribution.sequence); });
    if (root != kEveryRank && root != rank_) return {};
    changed_.wait(lock, [&] { return results_.contains(contribution.sequence) || gone_[0]; });
    const auto found = results_.find(contribution.sequence);
    if (found == results_.end()) return alone(mine);
    std::vector<std::string> result = std::move(found->second);
    results_.erase(found);
    return result;
  }

  bool leave(std::string_view reason) {
    const std::string text =
        reason.empty() ? "its process left before the run began" : std::string(reason);
    std::unique_lock lock(mutex_);
    if (rank_ == 0) {
      see_leave(0, text);
    } else {
      lock.unlock();
      send_to_hub(Message::kLeaves, text);
      lock.lock();
    }
    changed_.wait(lock, [&] { return all_leave_ || gone_[0]; });
    return std::ranges::none_of(gone_, std::identity());
  }

  void begin_run() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < leaving_.size(); ++i) {
      if (leaving_[i]) lose(static_cast<std::int64_t>(i), *leaving_[i]);
    }
    for (std::size_t i = 0; i < gone_.size(); ++i) {
      if (gone_[i]) {
        fail(ErrorKind::kRuntime, Fix{"see what that rank wrote before; then start the job again"},
             "the process of rank {} is gone", i);
      }
    }
    ++run_;
    active_ = true;
    own_verdict_.reset();
    met_.clear();
    referees_.erase(referees_.begin(), referees_.lower_bound(run_));
    failed_ = verdicts_.contains(run_);
  }

  void tell_failed(const Verdict& verdict) {
    {
      const std::lock_guard lock(mutex_);
      if (!own_verdict_) own_verdict_ = verdict;
      if (rank_ == 0) decide(run_, verdict);
    }
    if (rank_ != 0) send_to_hub(Message::kFailed, verdict_payload(run_, verdict));
    announce();
  }

  void enter(const Entrance& entrance, const backends::Call& call) {
    Writer writer;
    writer.put(run_);
    writer.put(entrance.place);
    writer.put(entrance.waits);
    writer.put_text(entrance.group);
    writer.put_list<std::int64_t>(entrance.ranks);
    EnteredCall::put(writer, call);
    tell_hub(Message::kEntered, writer.take());
  }

  void wait_for(CallPlace place) {
    Writer writer;
    writer.put(run_);
    writer.put(place);
    tell_hub(Message::kWaits, writer.take());
  }

  void tell_ended() {
    Writer writer;
    writer.put(run_);
    tell_hub(Message::kEnded, writer.take());
  }

  bool take_met(CallPlace place) {
    const std::lock_guard lock(mutex_);
    return std::erase(met_, place) > 0;
  }

  std::optional<CallPlace> next_met() {
    const std::lock_guard lock(mutex_);
    if (met_.empty()) return std::nullopt;
    const CallPlace place = met_.front();
    met_.pop_front();
    return place;
  }

  Verdict verdict() {
    const std::lock_guard lock(mutex_);
    const auto found = verdicts_.find(run_);
    if (found != verdicts_.end()) return found->second;
    check_invariant(own_verdict_.has_value(), "only a failed run has a verdict");
    return *own_verdict_;
  }

  void on_failure(std::function<void()> notify) {
    {
      const std::lock_guard lock(mutex_);
      notify_ = std::move(notify);
    }
    if (failed()) announce();
  }

  std::vector<std::int64_t> gone() {
    const std::lock_guard lock(mutex_);
    std::vector<std::int64_t> ranks;
    for (std::size_t i = 0; i < gone_.size(); ++i) {
      if (gone_[i]) ranks.push_back(static_cast<std::int64_t>(i));
    }
    return ranks;
  }

 private:
  std::vector<std::string> alone(std::string_view mine) const {
    std::vector<std::string> parts(static_cast<std::size_t>(size_));
    parts[static_cast<std::size_t>(rank_)] = mine;
    return parts;
  }

  static void send(Connection& connection, Message message, std::string_view payload) {
    connection.send(static_cast<std::uint32_t>(message), payload);
  }
  // Not under mutex_: the listening thread must go on reading while we wait for rank 0 to read.
  void send_to_hub(Message message, std::string_view payload) {
    const std::lock_guard sending(send_mutex_);
    send(connections_[0], message, payload);
  }
  void tell_hub(Message message, std::string payload) {
    if (rank_ != 0) return send_to_hub(message, payload);
    {
      const std::lock_guard lock(mutex_);
      handle(0, {static_cast<std::uint32_t>(message), std::move(payload)});
    }
    announce();
  }
  // Under mutex_, which is fine: peers read whatever they do.
  void send_to_all(Message message, const std::string& payload) {
    const std::lock_guard sending(send_mutex_);
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (!gone_[i + 1]) send(connections_[i], message, payload);
    }
  }

  // Rank 0, under mutex_, as the following three.
  void contribute(std::int64_t from, const Contribution& contribution, std::string part) {
    const auto [place, fresh] = rounds_.try_emplace(contribution.sequence);
    Round& round = place->second.first;
    if (fresh) {
      place->second.second = contribution;
      round.parts.resize(static_cast<std::size_t>(size_));
      round.here.resize(static_cast<std::size_t>(size_), false);
    }
    round.parts[static_cast<std::size_t>(from)] = std::move(part);
    round.here[static_cast<std::size_t>(from)] = true;
    finish_rounds();
  }

  bool complete(const Round& round) const {
    for (std::size_t i = 0; i < round.here.size(); ++i) {
      if (!round.here[i] && !gone_[i] && !leaving_[i]) return false;
    }
    return true;
  }

  void finish_rounds() {
    while (!rounds_.empty() && complete(rounds_.begin()->second.first)) {
      auto node = rounds_.extract(rounds_.begin());
      auto& [round, contribution] = node.mapped();
      const std::int64_t root = contribution.root;
      Writer writer;
      writer.put(contribution);
      for (const std::string& part : round.parts) writer.put_text(part);
      if (root == kEveryRank) send_to_all(Message::kEveryone, writer.take());
      if (root > 0 && !gone_[static_cast<std::size_t>(root)]) {
        const std::lock_guard sending(send_mutex_);
        send(connections_[static_cast<std::size_t>(root - 1)], Message::kEveryone, writer.take());
      }
      if (root <= 0) store(contribution, std::move(round.parts));
      changed_.notify_all();
    }
  }

  Referee& referee_of(std::uint64_t run) { return referees_.try_emplace(run, size_).first->second; }

  void rule(std::uint64_t run, const Referee::Ruling& ruling) {
    if (ruling.verdict) decide(run, *ruling.verdict);
    if (!ruling.met) return;
    Writer writer;
    writer.put(run);
    writer.put(*ruling.met);
    const std::string_view payload = writer.bytes();
    const std::lock_guard sending(send_mutex_);
    for (const std::int64_t rank : ruling.ranks) {
      if (rank == 0) {
        met_.push_back(*ruling.met);
      } else if (!gone_[static_cast<std::size_t>(rank)]) {
        send(connections_[static_cast<std::size_t>(rank - 1)], Message::kMet, payload);
      }
    }
  }

  // The first verdict on a run counts.
  void decide(std::uint64_t run, const Verdict& verdict) {
    if (!verdicts_.try_emplace(run, verdict).second) return;
    if (run == run_ && active_) failed_ = true;
    send_to_all(Message::kVerdict, verdict_payload(run, verdict));
  }

  // Under mutex_, on every rank, as the following two.
  void store(const Contribution& contribution, std::vector<std::string> parts) {
    if (contribution.ends_run) active_ = false;
    results_.emplace(contribution.sequence, std::move(parts));
    changed_.notify_all();
  }

  void lose(std::int64_t rank, const std::string& reason) {
    if (gone_[static_cast<std::size_t>(rank)]) return;
    gone_[static_cast<std::size_t>(rank)] = true;
    if (active_) {
      verdicts_.try_emplace(run_, verdict_on_gone(rank, reason));
      failed_ = true;
    }
    if (rank_ == 0) {
      Writer writer;
      writer.put(rank);
      writer.put_text(reason);
      send_to_all(Message::kGone, writer.take());
      finish_rounds();
      see_all_leave();
    }
    changed_.notify_all();
  }

  // Rank 0, under mutex_, as the following.
  void see_leave(std::int64_t rank, const std::string& reason) {
    leaving_[static_cast<std::size_t>(rank)] = reason;
    if (active_) return lose(rank, reason);
    finish_rounds();
    see_all_leave();
  }

  void see_all_leave() {
    for (std::size_t i = 0; i < gone_.size(); ++i) {
      if (!gone_[i] && !leaving_[i]) return;
    }
    all_leave_ = true;
    send_to_all(Message::kAllLeave, "");
    changed_.notify_all();
  }

  void handle(std::int64_t from, const Frame& frame) {
    Reader reader(frame.payload);
    switch (static_cast<Message>(frame.type)) {
      case Message::kContribution: {
        const auto contribution = reader.get<Contribution>();
        return contribute(from, contribution, reader.text());
      }
      case Message::kEveryone: {
        const auto contribution = reader.get<Contribution>();
        std::vector<std::string> parts;
        for (std::int64_t i = 0; i < size_; ++i) parts.push_back(reader.text());
        return store(contribution, std::move(parts));
      }
      case Message::kFailed: {
        const auto run = reader.get<std::uint64_t>();
        return decide(run, get_verdict(reader));
      }
      case Message::kVerdict: {
        const auto run = reader.get<std::uint64_t>();
        verdicts_.insert_or_assign(run, get_verdict(reader));
        if (run == run_ && active_) failed_ = true;
        return;
      }
      case Message::kGone: {
        const auto rank = reader.get<std::int64_t>();
        return lose(rank, reader.text());
      }
      case Message::kLeaves:
        return see_leave(from, frame.payload);
      case Message::kAllLeave:
        all_leave_ = true;
        return changed_.notify_all();
      case Message::kEntered: {
        const auto run = reader.get<std::uint64_t>();
        Entrance entrance;
        entrance.place = reader.get<CallPlace>();
        entrance.waits = reader.get<bool>();
        entrance.group = reader.text();
        entrance.ranks = reader.list<std::int64_t>();
        auto call = std::make_unique<EnteredCall>(reader);
        return rule(run, referee_of(run).enter(from, entrance, std::move(call)));
      }
      case Message::kWaits: {
        const auto run = reader.get<std::uint64_t>();
        return rule(run, referee_of(run).wait(from, reader.get<CallPlace>()));
      }
      case Message::kEnded: {
        const auto run = reader.get<std::uint64_t>();
        return rule(run, referee_of(run).end(from));
      }
      case Message::kMet: {
        const auto run = reader.get<std::uint64_t>();
        if (run == run_) met_.push_back(reader.get<CallPlace>());
        return;
      }
      case Message::kGoodbye:
        return all_leave_ ? void() : lose(from, "");
    }
    refuse_message(from, frame.type);
  }

  // Tells the program, once per run and under no lock.
  void announce() {
    std::function<void()> notify;
    {
      const std::lock_guard lock(mutex_);
      if (active_ && (own_verdict_ || verdicts_.contains(run_))) {
        failed_ = true;
        notify = std::exchange(notify_, nullptr);
      }
    }
    if (notify) notify();
  }

  // False when the peer is gone. A peer whose message makes no sense counts as gone.
  bool take_in(Connection& connection, std::int64_t from) {
    bool open = connection.receive();
    const std::lock_guard lock(mutex_);
    try {
      while (const std::optional<Frame> frame = connection.next()) handle(from, *frame);
    } catch (const Error&) {
      open = false;
    }
    if (!open && !all_leave_) lose(from, "");
    return open;
  }

  // The background thread.
  void listen() {
    std::vector<pollfd> entries{{wake_.first.get(), POLLIN, 0}};
    for (const Connection& connection : connections_) {
      entries.push_back({connection.descriptor(), POLLIN, 0});
    }
    // Messages may have come together with the welcome: the first pass looks at all connections.
    for (bool first = true; !stopping_; first = false) {
      if (!first && poll(entries.data(), entries.size(), -1) <= 0) continue;
      for (std::size_t i = 1; i < entries.size(); ++i) {
        if (!first && entries[i].revents == 0) continue;
        const std::int64_t from = rank_ == 0 ? static_cast<std::int64_t>(i) : 0;
        // poll() passes over negative descriptors.
        if (!take_in(connections_[i - 1], from)) entries[i].fd = -1;
      }
      announce();
    }
  }

  const std::int64_t rank_, size_;
  std::vector<Connection> connections_;  ///< rank 0: to rank i + 1; others: one, to rank 0
  std::mutex send_mutex_;                ///< taken after mutex_
  std::mutex mutex_;                     ///< guards the following
  std::condition_variable changed_;
  std::vector<bool> gone_;
  std::vector<std::optional<std::string>> leaving_;  ///< rank 0: why
  bool all_leave_ = false;
  std::map<std::uint64_t, std::pair<Round, Contribution>> rounds_;  ///< rank 0, by sequence
  std::map<std::uint64_t, std::vector<std::string>> results_;       ///< by sequence
  std::map<std::uint64_t, Verdict> verdicts_;                       ///< by run
  std::map<std::uint64_t, Referee> referees_;                       ///< rank 0, by run
  std::deque<CallPlace> met_;           ///< in the order in which rank 0 saw them
  std::optional<Verdict> own_verdict_;  ///< until rank 0 has decided
  std::function<void()> notify_;
  std::uint64_t run_ = 0;
  bool active_ = false;
  std::uint64_t sequence_ = 0;  ///< of exchanges; the program's thread only
  std::atomic<bool> failed_{false};
  std::atomic<bool> stopping_{false};
  std::pair<Descriptor, Descriptor> wake_;  ///< a pipe: closing its second end wakes listen()
  std::thread listening_;                   ///< last: it uses everything above
};

std::unique_ptr<ControlChannel> ControlChannel::open(const Membership& membership,
                                                     std::optional<Listener> listener) {
  auto impl = std::make_unique<Impl>(membership, meet(membership, std::move(listener)));
  return std::unique_ptr<ControlChannel>(new ControlChannel(std::move(impl)));
}

ControlChannel::ControlChannel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlChannel::~ControlChannel() = default;

std::int64_t ControlChannel::rank() const { return impl_->rank(); }
std::int64_t ControlChannel::size() const { return impl_->size(); }
std::vector<std::string> ControlChannel::exchange(std::string_view mine) {
  return impl_->exchange(mine, kEveryRank, false);
}
std::vector<std::string> ControlChannel::gather(std::string_view mine, std::int64_t root) {
  return impl_->exchange(mine, root, false);
}
void ControlChannel::begin_run() { impl_->begin_run(); }
void ControlChannel::tell_failed(const Verdict& verdict) { impl_->tell_failed(verdict); }
bool ControlChannel::failed() const { return impl_->failed(); }
Verdict ControlChannel::verdict() const { return impl_->verdict(); }
void ControlChannel::on_failure(std::function<void()> notify) {
  impl_->on_failure(std::move(notify));
}
void ControlChannel::enter(const Entrance& entrance, const backends::Call& call) {
  impl_->enter(entrance, call);
}
void ControlChannel::wait_for(CallPlace place) { impl_->wait_for(place); }
bool ControlChannel::take_met(CallPlace place) { return impl_->take_met(place); }
std::optional<CallPlace> ControlChannel::next_met() { return impl_->next_met(); }
void ControlChannel::tell_ended() { impl_->tell_ended(); }
std::vector<std::string> ControlChannel::end_run(std::string_view mine) {
  return impl_->exchange(mine, kEveryRank, true);
}
bool ControlChannel::leave(std::string_view reason) { return impl_->leave(reason); }
std::vector<std::int64_t> ControlChannel::gone() const { return impl_->gone(); }

}  // namespace shardlab::process
