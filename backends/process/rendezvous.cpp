// Every process says hello to rank 0 with its job, rank and size. Rank 0 reads many at a time, and
// answers when all have arrived, or names the missing ones to those that arrived. If one cannot
// take part, counts other ranks, or comes twice, all hear that, those that come within two seconds
// too. A process of another job gets an answer that says so; a peer that is none of ours, or sends
// nothing, is dropped silently. Rank 0 speaks first: if it may listen on one of several ports,
// others listen on the rest, and a process that connects there receives their greeting or nothing,
// and tries the next port.
#include "backends/process/rendezvous.h"

#include <poll.h>
#include <algorithm>
#include <utility>

#include <thread>

#include "backends/process/job_state.h"
#include "backends/process/presence.h"
#include "backends/process/wire.h"

namespace shardlab::process {

namespace {

const char* const kStartAll =
    "start all ranks of the job with one WORLD_SIZE, and set MASTER_ADDR and MASTER_PORT to the "
    "place of rank 0";

// A peer that sends nothing for so long is not rank 0; one that sends it no hello is not a rank.
constexpr std::chrono::seconds kGreetingTakes(2);
// Time of waiting at the first port, before the others are tried.
constexpr std::chrono::milliseconds kFirstPortTakes(50);
// Time for which the host of rank 0 may leave a call at one of several ports without an answer.
constexpr std::chrono::milliseconds kCallTakes(500);
// A hello is shorter, whatever the name of the job.
constexpr std::size_t kLongestHello = 65'536;

enum class Greeting : std::uint32_t { kRankZero, kHello, kWelcome, kRefused };

std::uint32_t type(Greeting greeting) { return static_cast<std::uint32_t>(greeting); }

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

// The first word of rank 0: jobs of one name differ in their meeting place.
std::string rank_zero(const Membership& membership) {
  return packed(membership.job, membership.port);
}

std::string hello(const Membership& membership) {
  return packed(membership.job, membership.rank, membership.size, membership.unfit);
}

// "host:29501", or "host:29501-29516", one of these.
std::string place_text(const Membership& membership) {
  const std::string first = fmt::format("{}:{}", membership.host, membership.port);
  if (membership.ports == 1) return first;
  return fmt::format("{}-{}", first, membership.port + membership.ports - 1);
}

// Rank 0 while the others arrive.
class Reception {
 public:
  explicit Reception(const Membership& membership)
      : membership_(membership),
        peers_(static_cast<std::size_t>(membership.size - 1)),
        most_(membership.size) {
    if (!membership.unfit.empty()) tear(membership.unfit);
  }

  /// Accepts connections and reads them, until something happens; false when `deadline` passed.
  bool serve(Listener& listener, Clock::time_point deadline) {
    std::vector<pollfd> entries{{listener.descriptor(), POLLIN, 0}};
    Clock::time_point next = torn_by_.empty() ? deadline : std::min(deadline, torn_until_);
    for (const Guest& guest : guests_) {
      entries.push_back({guest.connection.descriptor(), POLLIN, 0});
      next = std::min(next, guest.until);
    }
    poll(entries.data(), entries.size(), milliseconds_until(next));
    const Clock::time_point now = Clock::now();
    std::vector<Guest> staying;
    for (std::size_t i = 0; i < guests_.size(); ++i) {
      const bool stays = entries[i + 1].revents == 0 ? now < guests_[i].until : hear(guests_[i]);
      if (stays) staying.push_back(std::move(guests_[i]));
    }
    guests_ = std::move(staying);
    if (entries[0].revents != 0) {
      Guest guest{{}, now + kGreetingTakes};
      if (listener.accept(now, guest.connection)) {
        guest.connection.send(type(Greeting::kRankZero), rank_zero(membership_));
        guests_.push_back(std::move(guest));
      }
    }
    return now < deadline;
  }

  std::vector<std::int64_t> missing() const {
    std::vector<std::int64_t> ranks;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!peers_[i]) ranks.push_back(static_cast<std::int64_t>(i) + 1);
    }
    return ranks;
  }

  std::vector<Connection> welcome() {
    for (Connection& peer : peers_) peer.send(type(Greeting::kWelcome), "");
    return std::move(peers_);
  }

  /// Whether the job cannot begin, and the others have come, or had the time for it.
  bool torn() const { return !torn_by_.empty() && (came_ >= most_ || Clock::now() >= torn_until_); }

  [[noreturn]] void give_up() {
    const std::string reason =
        !torn_by_.empty()
            ? torn_by_
            : fmt::format("{} did not come to rank 0 ({}) within {}", fold_ranks(missing()),
                          place_text(membership_), seconds_text(membership_.patience));
    for (Connection& peer : peers_) {
      if (peer) peer.send(type(Greeting::kRefused), reason);
    }
    fail(ErrorKind::kRuntime, Fix{kStartAll}, "{}", reason);
  }

 private:
  /// A connection that has not sent its hello.
  struct Guest {
    Connection connection;
    Clock::time_point until;
  };

  /// False when there is nothing more to read from the guest.
  bool hear(Guest& guest) {
    const bool open = guest.connection.receive();
    try {
      if (const std::optional<Frame> frame = guest.connection.next()) {
        admit(*frame, std::move(guest.connection));
        return false;
      }
    } catch (const Error&) {
      return false;  // no message of ours
    }
    return open && guest.connection.unread() < kLongestHello;
  }

  void admit(const Frame& frame, Connection connection) {
    if (frame.type != type(Greeting::kHello)) return;
    Reader reader(frame.payload);
    const std::string job = reader.text();
    const auto rank = reader.get<std::int64_t>(), size = reader.get<std::int64_t>();
    std::string refusal = job == membership_.job ? reason_against(rank, size, reader.text())
                                                 : "rank 0 belongs to another job";
    if (!refusal.empty()) {
      connection.send(type(Greeting::kRefused), refusal);
    } else {
      peers_[static_cast<std::size_t>(rank - 1)] = std::move(connection);
    }
    if (job != membership_.job) return;
    ++came_;
    most_ = std::max(most_, size);
    if (!refusal.empty()) tear(std::move(refusal));
  }

  /// Empty for a rank of the job.
  std::string reason_against(std::int64_t rank, std::int64_t size, const std::string& unfit) const {
    const bool known = rank >= 1 && rank < membership_.size;
    if (rank == 0 || (known && peers_[static_cast<std::size_t>(rank - 1)])) {
      return fmt::format("two processes are rank {}", rank);
    }
    if (!unfit.empty()) return unfit;
    if (!membership_.unfit.empty()) return membership_.unfit;
    if (size != membership_.size) {
      return fmt::format("rank {} counts {} processes, rank 0 counts {}", rank, size,
                         membership_.size);
    }
    if (known) return "";
    return fmt::format("there is no rank {} in a job of {} processes", rank, size);
  }

  /// The first reason is everybody's.
  void tear(std::string reason) {
    if (!torn_by_.empty()) return;
    torn_by_ = std::move(reason);
    torn_until_ = Clock::now() + kGreetingTakes;
  }

  const Membership& membership_;
  std::vector<Connection> peers_;
  std::vector<Guest> guests_;
  std::int64_t came_ = 1, most_;  ///< processes of the job, and as many as one of them counts
  std::string torn_by_;           ///< why the job cannot begin
  Clock::time_point torn_until_;
};

std::vector<Connection> receive_all(const Membership& membership, Listener& listener,
                                    Clock::time_point deadline) {
  Reception reception(membership);
  while (!reception.missing().empty()) {
    if (!reception.serve(listener, deadline) || reception.torn()) reception.give_up();
  }
  return reception.welcome();
}

// Whether rank 0 of this job is at the other end. Another program that listens there may send
// anything.
bool is_rank_zero(Connection& connection, const Membership& membership,
                  Clock::time_point deadline) {
  try {
    const std::optional<Frame> frame = connection.wait(deadline);
    return frame && frame->type == type(Greeting::kRankZero) &&
           frame->payload == rank_zero(membership);
  } catch (const Error&) {
    return false;
  }
}

// Tries port after port until rank 0 is found, or `deadline` passes: then unconnected.
Connection find_rank_zero(const Membership& membership, Clock::time_point deadline) {
  if (membership.ports == 1) return connect_to(membership.host, membership.port, deadline);
  while (true) {
    for (int i = 0; i < membership.ports; ++i) {
      const Clock::time_point now = Clock::now();
      const auto port = static_cast<std::uint16_t>(membership.port + i);
      Connection connection =
          connect_to(membership.host, port, i == 0 ? now + kFirstPortTakes : now, kCallTakes);
      if (connection &&
          is_rank_zero(connection, membership, std::min(deadline, now + kGreetingTakes))) {
        return connection;
      }
    }
    if (Clock::now() > deadline) return Connection();
  }
}

// Rank 0's answer, after its first word. It arrives when all are present or its own patience ends:
// somewhat later than ours.
std::optional<Frame> answer_of(Connection& connection, Clock::time_point deadline) {
  std::optional<Frame> frame = connection.wait(deadline);
  if (frame && frame->type == type(Greeting::kRankZero)) frame = connection.wait(deadline);
  return frame;
}

// Rank 0 hears it, if it goes on one day. A launcher that has ended rank 0 ends this process, too,
// before it tells a story of its own.
[[noreturn]] void refuse_silence(const Membership& membership, Connection& connection,
                                 bool waited) {
  rank_zero_is_silent();
  const std::string place = fmt::format("rank 0 ({})", place_text(membership));
  if (waited) {
    connection.send(static_cast<std::uint32_t>(Message::kGone),
                    packed(std::int64_t{0}, kNoAnswer, Spoke::kNo));
    fail(ErrorKind::kRuntime, Fix{kStartAll}, "{} does not answer: it is stopped, or cut off",
         place);
  }
  std::this_thread::sleep_for(backends::kLastMessages);
  fail(ErrorKind::kRuntime, Fix{"see what rank 0 wrote; then start the job again"},
       "{} left before the job began", place);
}

std::vector<Connection> join(const Membership& membership, Clock::time_point deadline) {
  Connection connection = find_rank_zero(membership, deadline);
  const std::string place = fmt::format("rank 0 ({})", place_text(membership));
  if (!connection) {
    rank_zero_is_silent();
    fail(ErrorKind::kRuntime, Fix{kStartAll}, "rank {} did not reach {} within {}", membership.rank,
         place, seconds_text(membership.patience));
  }
  connection.send(type(Greeting::kHello), hello(membership));
  const Clock::time_point patient_until = deadline + membership.patience;
  const std::optional<Frame> frame = answer_of(connection, patient_until);
  if (frame && frame->type == type(Greeting::kRefused)) {
    fail(ErrorKind::kRuntime, Fix{kStartAll}, "{}", frame->payload);
  }
  if (!frame) refuse_silence(membership, connection, Clock::now() >= patient_until);
  std::vector<Connection> result;
  result.push_back(std::move(connection));
  return result;
}

// A process may be rank 0 already where this one cannot listen.
void tell_other_rank_zero(Membership membership, const Error& why) {
  membership.patience = kGreetingTakes / 2;
  membership.unfit = why.summary();
  try {
    join(membership, Clock::now() + membership.patience);
  } catch (const Error&) {
    return;  // the caller's reason is better
  }
}

}  // namespace

std::vector<Connection> meet(const Membership& membership, std::optional<Listener> listener) {
  const Clock::time_point deadline = Clock::now() + membership.patience;
  if (membership.size == 1) return {};
  if (membership.rank != 0) return join(membership, deadline);
  try {
    if (!listener) listener.emplace(membership.port, membership.ports);
  } catch (const Error& error) {
    tell_other_rank_zero(membership, error);
    throw;
  }
  return receive_all(membership, *listener, deadline);
}

void tell_unfit(Membership membership, const std::string& reason) {
  if (membership.rank == 0 && membership.size == 1) return;
  membership.patience = kGreetingTakes;
  membership.size = std::max<std::int64_t>(membership.size, 2);
  membership.unfit = membership.rank < 0
                         ? fmt::format("a process cannot take part: {}", reason)
                         : fmt::format("rank {} cannot take part: {}", membership.rank, reason);
  try {
    meet(membership, std::nullopt);
  } catch (const Error&) {
    return;  // the caller has the reason
  }
}

}  // namespace shardlab::process
