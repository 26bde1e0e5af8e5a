// Every process says hello to rank 0 with its job, rank and size. Rank 0 answers when all have
// come, or tells those that came who is missing; whoever does not belong to the job is turned away.
#include "backends/process/rendezvous.h"

#include <utility>

#include "backends/process/wire.h"
#include "base/fix.h"

namespace shardlab::process {

namespace {

const char* const kStartAll =
    "start all ranks of the job, and set MASTER_ADDR and MASTER_PORT to the place of rank 0";

enum class Greeting : std::uint32_t { kHello, kWelcome, kRefused };

std::uint32_t type(Greeting greeting) { return static_cast<std::uint32_t>(greeting); }

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

std::string hello(const Membership& membership) {
  Writer writer;
  writer.put_text(membership.job);
  writer.put(membership.rank);
  writer.put(membership.size);
  return writer.take();
}

// Rank 0 while the others come.
class Reception {
 public:
  explicit Reception(const Membership& membership)
      : membership_(membership), peers_(static_cast<std::size_t>(membership.size - 1)) {}

  /// Whoever does not belong here is turned away with the reason.
  void admit(Connection connection, Clock::time_point deadline) {
    const std::optional<Frame> frame = connection.wait(deadline);
    if (!frame || frame->type != type(Greeting::kHello)) return;
    Reader reader(frame->payload);
    const std::string job = reader.text();
    const auto rank = reader.get<std::int64_t>(), size = reader.get<std::int64_t>();
    std::string refusal;
    if (job != membership_.job) {
      refusal = "rank 0 belongs to another job";
    } else if (size != membership_.size) {
      refusal = fmt::format("rank {} counts {} processes, rank 0 counts {}", rank, size,
                            membership_.size);
    } else if (rank < 1 || rank >= size) {
      refusal = fmt::format("there is no rank {} in a job of {} processes", rank, size);
    } else if (peers_[static_cast<std::size_t>(rank - 1)]) {
      refusal = fmt::format("rank {} is there already", rank);
    }
    if (!refusal.empty()) {
      connection.send(type(Greeting::kRefused), refusal);
      return;
    }
    peers_[static_cast<std::size_t>(rank - 1)] = std::move(connection);
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

  [[noreturn]] void give_up() {
    const std::string reason =
        fmt::format("{} did not come to rank 0 ({}:{}) within {}", fold_ranks(missing()),
                    membership_.host, membership_.port, seconds_text(membership_.patience));
    for (Connection& peer : peers_) {
      if (peer) peer.send(type(Greeting::kRefused), reason);
    }
    fail(ErrorKind::kRuntime, Fix{kStartAll}, "{}", reason);
  }

 private:
  const Membership& membership_;
  std::vector<Connection> peers_;
};

std::vector<Connection> receive_all(const Membership& membership, Listener& listener,
                                    Clock::time_point deadline) {
  Reception reception(membership);
  while (!reception.missing().empty()) {
    Connection connection;
    if (!listener.accept(deadline, connection)) reception.give_up();
    reception.admit(std::move(connection), deadline);
  }
  return reception.welcome();
}

std::vector<Connection> join(const Membership& membership, Clock::time_point deadline) {
  Connection connection = connect_to(membership.host, membership.port, deadline);
  const std::string place = fmt::format("rank 0 ({}:{})", membership.host, membership.port);
  if (!connection) {
    fail(ErrorKind::kRuntime, Fix{kStartAll}, "rank {} did not reach {} within {}", membership.rank,
         place, seconds_text(membership.patience));
  }
  connection.send(type(Greeting::kHello), hello(membership));
  // Rank 0 answers when all are there or its own patience ends: somewhat later than ours.
  const std::optional<Frame> frame = connection.wait(deadline + membership.patience);
  if (frame && frame->type == type(Greeting::kRefused)) {
    fail(ErrorKind::kRuntime, Fix{kStartAll}, "{}", frame->payload);
  }
  if (!frame) {
    fail(ErrorKind::kRuntime, Fix{"see what rank 0 wrote; then start the job again"},
         "{} left before the job began", place);
  }
  std::vector<Connection> result;
  result.push_back(std::move(connection));
  return result;
}

}  // namespace

std::vector<Connection> meet(const Membership& membership, std::optional<Listener> listener) {
  const Clock::time_point deadline = Clock::now() + membership.patience;
  if (membership.size == 1) return {};
  if (membership.rank != 0) return join(membership, deadline);
  if (!listener) listener.emplace(membership.port);
  return receive_all(membership, *listener, deadline);
}

}  // namespace shardlab::process
