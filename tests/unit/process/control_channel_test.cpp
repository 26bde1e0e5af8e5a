#include "backends/process/control_channel.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/process/hub.h"
#include "backends/process/rendezvous.h"
#include "backends/process/wire.h"

using namespace shardlab;
using namespace shardlab::process;

namespace {

using Strings = std::vector<std::string>;
using Body = std::function<void(std::int64_t rank, std::unique_ptr<ControlChannel>& channel)>;

Membership place(std::int64_t rank, std::int64_t size, std::uint16_t port) {
  return {.rank = rank, .size = size, .host = "localhost", .port = port, .job = "test"};
}

// Each rank's body on a thread of its own, as if it were a process.
void in_job(std::int64_t size, const Body& body) {
  Listener listener(0);
  const std::uint16_t port = listener.port();
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    std::optional<Listener> mine;
    if (rank == 0) mine.emplace(std::move(listener));
    threads.emplace_back([&body, rank, size, port, mine = std::move(mine)]() mutable {
      auto channel = ControlChannel::open(place(rank, size, port), std::move(mine));
      body(rank, channel);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Verdict failure_of(std::int64_t rank, std::string cause) {
  Verdict verdict;
  verdict.culprits = {rank};
  verdict.cause = std::move(cause);
  return verdict;
}

// Waits for a failure without a clock.
void await_failure(ControlChannel& channel) {
  std::atomic<bool> told{false};
  channel.on_failure([&] {
    told = true;
    told.notify_all();
  });
  told.wait(false);
}

}  // namespace

TEST_CASE("messages of processes arrive by rank, also uneven and empty parts") {
  for (const std::int64_t size : {1, 2, 5}) {
    in_job(size, [&](std::int64_t rank, auto& channel) {
      CHECK(channel->rank() == rank);
      CHECK(channel->size() == size);
      Strings expected;
      for (std::int64_t i = 0; i < size; ++i) {
        expected.emplace_back(static_cast<std::size_t>(i) * 70'000, 'x');
      }
      CHECK(channel->exchange(expected[static_cast<std::size_t>(rank)]) == expected);
      CHECK(channel->exchange("") == Strings(static_cast<std::size_t>(size)));
    });
  }
}

TEST_CASE("gathered parts arrive on one process only") {
  in_job(3, [](std::int64_t rank, auto& channel) {
    for (const std::int64_t root : {0, 2}) {
      const Strings got = channel->gather("from " + std::to_string(rank), root);
      if (rank == root) CHECK(got == Strings{"from 0", "from 1", "from 2"});
      if (rank != root) CHECK(got.empty());
    }
  });
}

TEST_CASE("B-7 a failure reaches every process with its reason, and the next run is sound again") {
  in_job(4, [](std::int64_t rank, auto& channel) {
    channel->begin_run();
    CHECK(!channel->failed());
    channel->exchange("all have begun");
    if (rank == 2) channel->report_failed(failure_of(2, "the wheel came off"));
    await_failure(*channel);
    CHECK(channel->failed());
    CHECK(channel->end_run("").size() == 4);
    CHECK(channel->verdict().culprits == std::vector<std::int64_t>{2});
    CHECK(channel->verdict().cause == "the wheel came off");
    channel->begin_run();
    CHECK(!channel->failed());
    channel->end_run("");
    CHECK(!channel->failed());
  });
}

TEST_CASE("B-7 a rank that fails before an exchange has no part in it, and the run ends for all") {
  for (const std::int64_t size : {2, 5}) {
    for (std::int64_t culprit = 0; culprit < size; ++culprit) {
      in_job(size, [&](std::int64_t rank, auto& channel) {
        const auto without = [&](std::string text) {
          Strings all(static_cast<std::size_t>(size), text);
          all[static_cast<std::size_t>(culprit)].clear();
          return all;
        };
        channel->begin_run();
        if (rank == culprit) {
          channel->report_failed(failure_of(culprit, "no device"));
        } else {
          CHECK(channel->exchange("the start") == without("the start"));
          CHECK(channel->failed());
          CHECK(channel->exchange("once more") == without("once more"));
        }
        CHECK(channel->end_run("the end") == Strings(static_cast<std::size_t>(size), "the end"));
        CHECK(channel->verdict().culprits == std::vector<std::int64_t>{culprit});
        const Strings got = channel->gather("behind it", size - 1);
        CHECK(got == (rank == size - 1 ? Strings(static_cast<std::size_t>(size), "behind it")
                                       : Strings{}));
        channel->begin_run();
        CHECK(channel->exchange("the next") == Strings(static_cast<std::size_t>(size), "the next"));
        channel->end_run("");
        CHECK(!channel->failed());
        CHECK(channel->gone().empty());
        channel->exchange("all have looked");
      });
    }
  }
}

TEST_CASE("B-7 the first of several failures to reach rank 0 is everybody's") {
  std::vector<Verdict> verdicts(4);
  in_job(4, [&](std::int64_t rank, auto& channel) {
    channel->begin_run();
    channel->report_failed(failure_of(rank, "all at once"));
    channel->end_run("");
    verdicts[static_cast<std::size_t>(rank)] = channel->verdict();
  });
  for (const Verdict& verdict : verdicts) {
    CHECK(verdict.culprits == verdicts[0].culprits);
    CHECK(verdict.cause == "all at once");
  }
}

TEST_CASE("a process that ends in the middle of a run is named; those that are left go on") {
  for (const std::int64_t victim : {1, 2}) {
    in_job(3, [&](std::int64_t rank, auto& channel) {
      channel->begin_run();
      channel->exchange("all have begun");
      if (rank == victim) return channel.reset();
      await_failure(*channel);
      const Strings left = channel->end_run("alive");
      for (std::int64_t i = 0; i < 3; ++i) {
        CHECK(left[static_cast<std::size_t>(i)] == (i == victim ? "" : "alive"));
      }
      CHECK(channel->verdict().culprits == std::vector<std::int64_t>{victim});
      CHECK(channel->gone() == std::vector<std::int64_t>{victim});
      const std::string gone = fmt::format("the process of rank {} is gone", victim);
      CHECK_THROWS_WITH(channel->begin_run(), doctest::Contains(gone.c_str()));
      channel->exchange("all have looked");
    });
  }
}

TEST_CASE("without rank 0 every process knows it and is alone") {
  in_job(3, [](std::int64_t rank, auto& channel) {
    channel->begin_run();
    channel->exchange("all have begun");
    if (rank == 0) return channel.reset();
    await_failure(*channel);
    const Strings left = channel->end_run("alive");
    CHECK(left[static_cast<std::size_t>(rank)] == "alive");
    CHECK(left[0].empty());
    CHECK(channel->verdict().culprits == std::vector<std::int64_t>{0});
  });
}

TEST_CASE("leaving after a run is no failure of it") {
  in_job(2, [](std::int64_t rank, auto& channel) {
    channel->begin_run();
    channel->end_run("");
    if (rank == 1) return channel.reset();
    channel->exchange("waits for rank 1 or its end");
    CHECK(!channel->failed());
  });
}

TEST_CASE("ranks that do not come are named after a stated time, on all that came") {
  Listener listener(0);
  const std::uint16_t port = listener.port();
  std::vector<std::string> texts(2);
  const auto come = [&](std::int64_t rank, std::optional<Listener> mine) {
    Membership membership = place(rank, 4, port);
    membership.patience = std::chrono::milliseconds(100);
    try {
      ControlChannel::open(membership, std::move(mine));
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(rank)] = error.summary();
    }
  };
  std::thread other([&] { come(1, std::nullopt); });
  come(0, std::move(listener));
  other.join();
  const std::string expected =
      fmt::format("ranks 2,3 did not come to rank 0 (localhost:{}) within 0.1 s", port);
  CHECK(texts[0] == expected);
  CHECK(texts[1] == expected);
}

TEST_CASE("B-16 ranks that count other processes are named at once, on all that came") {
  Listener listener(0);
  const std::uint16_t port = listener.port();
  std::vector<std::string> texts(4);
  const auto come = [&](std::int64_t rank, std::optional<Listener> mine) {
    Membership membership = place(rank, rank == 2 ? 5 : 4, port);
    membership.patience = std::chrono::seconds(8);
    try {
      ControlChannel::open(membership, std::move(mine));
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(rank)] = error.summary();
    }
  };
  std::vector<std::thread> others;
  for (const std::int64_t rank : {1, 2, 3}) {
    others.emplace_back([&come, rank] { come(rank, std::nullopt); });
  }
  come(0, std::move(listener));
  for (std::thread& other : others) other.join();
  CHECK(texts == std::vector<std::string>(4, "rank 2 counts 5 processes, rank 0 counts 4"));
}

TEST_CASE("B-16 a process that cannot take part, or comes twice, is told to all that came") {
  struct Case {
    std::vector<Membership> others;  // of rank 0, which counts three
    std::string told, unfit;         // by rank 0, and why it cannot
    std::size_t silent;              // of these
  };
  Membership beyond = place(5, 3, 0), nameless = place(-1, 3, 0), larger = place(1, 4, 0);
  const std::vector<Case> cases = {
      {{place(1, 3, 0), place(1, 3, 0)}, "two processes are rank 1", "", 2},
      {{place(1, 3, 0), place(0, 3, 0)}, "two processes are rank 0", "", 2},
      {{place(1, 3, 0), beyond}, "there is no rank 5 in a job of 3 processes", "", 2},
      {{larger, place(2, 4, 0), place(3, 4, 0)}, "counts 4 processes, rank 0 counts 3", "", 3},
      {{place(2, 3, 0), beyond}, "rank 5 cannot take part: RANK is 5", "RANK is 5", 1},
      {{place(2, 3, 0), nameless}, "a process cannot take part: RANK is x", "RANK is x", 1},
      {{place(1, 3, 0), place(2, 3, 0)}, "rank 0 cannot take part: no NCCL", "no NCCL", 2},
  };
  for (const Case& one : cases) {
    Listener listener(0);
    const std::uint16_t port = listener.port();
    const bool zero_is_unfit = !one.unfit.empty() && one.silent == 2;
    std::vector<std::string> texts(one.others.size());
    const Clock::time_point began = Clock::now();
    std::vector<std::thread> others;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      others.emplace_back([&, i] {
        Membership membership = one.others[i];
        membership.port = port;
        membership.patience = std::chrono::seconds(20);
        if (i >= one.silent) return tell_unfit(membership, one.unfit);
        try {
          ControlChannel::open(membership);
        } catch (const Error& error) {
          texts[i] = error.summary();
        }
      });
    }
    Membership zero = place(0, 3, port);
    zero.patience = std::chrono::seconds(20);
    if (zero_is_unfit) zero.unfit = one.told;
    std::string said;
    try {
      ControlChannel::open(zero, std::move(listener));
    } catch (const Error& error) {
      said = error.summary();
    }
    for (std::thread& other : others) other.join();
    CAPTURE(one.told);
    CHECK(said.ends_with(one.told));
    for (std::size_t i = 0; i < one.silent; ++i) {
      // A second rank 0 says that it cannot listen.
      if (one.others[i].rank != 0) CHECK(texts[i].ends_with(one.told));
      CHECK_FALSE(texts[i].empty());
    }
    CHECK(Clock::now() - began < std::chrono::seconds(10));
  }
}

TEST_CASE("rank 0 is missing where nobody listens") {
  std::uint16_t port = Listener(0).port();
  Membership membership = place(1, 2, port);
  membership.patience = std::chrono::milliseconds(50);
  const std::string missing =
      fmt::format("rank 1 did not reach rank 0 (localhost:{}) within 0.05 s", port);
  CHECK_THROWS_WITH(ControlChannel::open(membership), doctest::Contains(missing.c_str()));
}

TEST_CASE("a process of another job is turned away with the reason") {
  Listener listener(0);
  const std::uint16_t port = listener.port();
  std::string refusal;
  std::thread stranger([&] {
    Membership membership = place(1, 2, port);
    membership.job = "another";
    try {
      ControlChannel::open(membership);
    } catch (const Error& error) {
      refusal = error.summary();
    }
    ControlChannel::open(place(1, 2, port));
  });
  ControlChannel::open(place(0, 2, port), std::move(listener));
  stranger.join();
  CHECK(refusal == "rank 0 belongs to another job");
}

namespace {

// A job with this patience for exchanges between ranks.
constexpr std::chrono::milliseconds kPatience{300};

void in_impatient_job(std::int64_t size, const Body& body) {
  Listener listener(0);
  const std::uint16_t port = listener.port();
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    std::optional<Listener> mine;
    if (rank == 0) mine.emplace(std::move(listener));
    threads.emplace_back([&body, rank, size, port, mine = std::move(mine)]() mutable {
      Membership membership = place(rank, size, port);
      membership.longest_wait = kPatience;
      auto channel = ControlChannel::open(membership, std::move(mine));
      body(rank, channel);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Returns when `count` others have passed here.
struct Gate {
  std::atomic<int> passed{0};
  void pass() {
    ++passed;
    passed.notify_all();
  }
  void await(int count) {
    for (int seen = passed; seen < count; seen = passed) passed.wait(seen);
  }
};

}  // namespace

TEST_CASE("B-16 the end of a run misses a rank that does not come, and goes on without it") {
  for (const std::int64_t victim : {1, 0}) {
    CAPTURE(victim);
    Gate gate;
    in_impatient_job(3, [&](std::int64_t rank, auto& channel) {
      channel->begin_run();
      if (rank == victim) {
        gate.await(2);  // as if it slept
        CHECK_THROWS(channel->begin_run());
        return;
      }
      const Strings left = channel->end_run("alive");
      CHECK(left[static_cast<std::size_t>(rank)] == "alive");
      CHECK(left[static_cast<std::size_t>(victim)].empty());
      CHECK(channel->verdict().kind == VerdictKind::kTimeout);
      CHECK(channel->verdict().culprits == std::vector<std::int64_t>{victim});
      // The end of rank 0 is reported after the last exchange.
      while (channel->gone().empty()) std::this_thread::yield();
      CHECK(channel->gone() == std::vector<std::int64_t>{victim});
      CHECK(text(channel->verdict()).find(fmt::format("rank {}: running for ", victim)) !=
            std::string::npos);
      gate.pass();
      gate.await(2);
    });
  }
}

TEST_CASE("B-16 once a run has failed its end waits two seconds, whatever the patience") {
  Gate gate;
  in_job(3, [&](std::int64_t rank, auto& channel) {
    channel->begin_run();
    if (rank == 2) return gate.await(2);
    if (rank == 1) channel->report_failed(failure_of(1, "the wheel came off"));
    const Strings left = channel->end_run("alive");
    CHECK(left == Strings{"alive", "alive", ""});
    CHECK(channel->verdict().cause == "the wheel came off");
    CHECK(channel->why_gone(2) == "it did not end when the run had failed");
    gate.pass();
  });
}

// Nothing is heard after the news that rank 0 is gone, which passes everything on.
TEST_CASE("B-16 the others hear first that rank 0 does not end in time") {
  JobState state(0, 4);
  const StandingBoard board;
  Strings gone;  // each news, as rank 3 hears it
  const auto send = [&](std::int64_t rank, Message message, std::string_view payload) {
    if (rank == 3 && message == Message::kGone) gone.emplace_back(payload);
  };
  Hub hub(state, board, std::chrono::hours(1), send, [](std::int64_t) { return Clock::now(); });
  state.run = 1;
  state.active = true;
  hub.begin_run();
  hub.decide(1, failure_of(2, "the wheel came off"));
  for (const std::int64_t rank : {2, 3}) hub.contribute(rank, {1, kEveryRank, 1, true}, "alive");
  for (; gone.empty(); std::this_thread::yield()) hub.keep_watch();
  const std::string reason = "it did not end when the run had failed";
  CHECK(gone == Strings{packed(std::int64_t{1}, reason, Spoke::kNo),
                        packed(std::int64_t{0}, reason, Spoke::kNo)});
}

TEST_CASE("B-16 a process that does not answer is named, rank 0 as well") {
  for (const std::int64_t victim : {1, 0}) {
    CAPTURE(victim);
    Listener listener(0);
    const std::uint16_t port = listener.port();
    std::vector<Connection> stopped;
    const auto come = [&](std::int64_t rank, std::optional<Listener> mine) {
      Membership membership = place(rank, 3, port);
      membership.longest_wait = kPatience;
      // It joins, and is silent afterwards: as a process that is stopped.
      if (rank == victim) {
        stopped = meet(membership, std::move(mine));
        return;
      }
      auto channel = ControlChannel::open(membership, std::move(mine));
      CHECK(channel->exchange("here")[static_cast<std::size_t>(victim)].empty());
      CHECK(channel->why_gone(victim) == "it does not answer: it is stopped, or cut off");
    };
    std::vector<std::thread> threads;
    for (const std::int64_t rank : {0, 1, 2}) {
      std::optional<Listener> mine;
      if (rank == 0) mine.emplace(std::move(listener));
      threads.emplace_back(
          [&come, rank, mine = std::move(mine)]() mutable { come(rank, std::move(mine)); });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_CASE("whoever judges takes as long as it takes") {
  in_impatient_job(2, [](std::int64_t rank, auto& channel) {
    channel->begin_run();
    channel->end_run("");
    if (rank == 0) {
      channel->reports();
      std::this_thread::sleep_for(4 * kPatience);
    }
    CHECK(channel->exchange(rank == 0 ? "met" : "") == Strings{"met", ""});
    CHECK(channel->gone().empty());
    channel->exchange("all have looked");
  });
}

TEST_CASE("a wait for a rank that has ended without the call fails at once") {
  in_job(3, [](std::int64_t rank, auto& channel) {
    channel->begin_run();
    if (rank != 1) {
      const backends::Call call(CollectiveKind::kBarrier);
      channel->enter({{0, 0}, "world", {0, 1, 2}, true}, call, CollectiveChecks::kOff);
      channel->wait_on(std::chrono::seconds(1), std::chrono::hours(1));
      await_failure(*channel);
    } else {
      channel->report_ended();
    }
    channel->end_run("");
    CHECK(channel->verdict().kind == VerdictKind::kDeadlock);
    CHECK(channel->verdict().culprits == std::vector<std::int64_t>{1});
  });
}

TEST_CASE("B-16 a patience that is over is a verdict when wait_on returns") {
  Gate gate;
  in_job(3, [&](std::int64_t rank, auto& channel) {
    channel->begin_run();
    if (rank != 1) {
      const backends::Call call(CollectiveKind::kBarrier);
      channel->enter({{0, 0}, "world", {0, 1, 2}, true}, call, CollectiveChecks::kOff);
      gate.pass();
      gate.await(2);
      channel->wait_on(std::chrono::seconds(7), std::chrono::seconds(7));
      REQUIRE(channel->failed());
      CHECK(channel->verdict().cause.ends_with(
          "waited 7 s for rank 1 in barrier() on group world, call 0"));
    } else {
      await_failure(*channel);
    }
    channel->end_run("");
    CHECK(channel->verdict().culprits == std::vector<std::int64_t>{1});
  });
}

TEST_CASE("a rank that runs something else is refused before anything runs, on all ranks") {
  in_job(3, [](std::int64_t rank, auto& channel) {
    const std::string about =
        rank == 2 ? "shardlab 1\ndraw.toml\nseed 0\n" : "shardlab 1\ntrain.toml\nseed 1\n";
    try {
      channel->begin_run(about);
      FAIL("they differ");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kValue);
      CHECK(error.summary() ==
            "rank 2 runs something else than rank 0: draw.toml, and not train.toml");
    }
    channel->begin_run("the same");
    channel->end_run("");
  });
}

TEST_CASE("a large message to a process that does not read keeps nobody waiting") {
  Listener listener(0);
  const std::uint16_t port = listener.port();
  std::vector<Connection> stopped;
  std::thread other([&] { stopped = meet(place(1, 3, port), std::nullopt); });
  std::thread third([&] {
    Membership membership = place(2, 3, port);
    membership.longest_wait = kPatience;
    auto channel = ControlChannel::open(membership);
    CHECK(channel->exchange(std::string(1 << 24, 'x'))[1].empty());
    CHECK(channel->exchange("again") == Strings{"again", "", "again"});
  });
  Membership membership = place(0, 3, port);
  membership.longest_wait = kPatience;
  auto channel = ControlChannel::open(membership, std::move(listener));
  CHECK(channel->exchange("")[2].size() == 1 << 24);
  CHECK(channel->exchange("again") == Strings{"again", "", "again"});
  other.join();
  third.join();
}

namespace {

// A stranger to the job: sends this, and stays or leaves.
Connection stranger(std::uint16_t port, std::string_view bytes) {
  Connection connection = connect_to("localhost", port, Clock::now() + std::chrono::seconds(20));
  REQUIRE(static_cast<bool>(connection));
  if (!bytes.empty()) {
    REQUIRE(::send(connection.descriptor(), bytes.data(), bytes.size(), 0) ==
            static_cast<ssize_t>(bytes.size()));
  }
  return connection;
}

}  // namespace

TEST_CASE("strangers at the port are dropped, and keep no rank from joining") {
  using namespace std::string_literals;
  const std::string magic = "BLHS";  // as the first bytes of our frames have it
  const std::vector<std::string> greetings = {
      "",
      "GET / HTTP/1.0\r\n\r\n",
      std::string(64, '\377'),
      "\1\0\0\0"s,
      "\1\0\0\0"s + magic + std::string(7, '\377') + "\177",      // a frame without an end
      "\1\0\0\0"s + magic + "\4\0\0\0\0\0\0\0\377\377\377\377"s,  // a hello that is cut short
      "\1\0\0\0"s + magic + std::string(8, '\0')};
  Listener listener(0);
  const std::uint16_t port = listener.port();
  std::vector<Connection> held;
  for (int i = 0; i < 8; ++i) {
    for (const std::string& greeting : greetings) held.push_back(stranger(port, greeting));
  }
  std::thread other([port] {
    CHECK(ControlChannel::open(place(1, 2, port))->exchange("1") == Strings{"0", "1"});
  });
  const Clock::time_point begin = Clock::now();
  CHECK(ControlChannel::open(place(0, 2, port), std::move(listener))->exchange("0") ==
        Strings{"0", "1"});
  // One after the other, the silent ones would take two seconds each.
  CHECK(Clock::now() - begin < std::chrono::seconds(10));
  other.join();
}

TEST_CASE("a port that answers nothing takes no longer than a try may") {
  // The listener never accepts, and its queue is full: as behind a firewall that drops.
  Descriptor listening(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listening.get(), 0) == 0);
  socklen_t size = sizeof address;
  ::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const std::uint16_t port = ntohs(address.sin_port);
  std::vector<Connection> queue;
  const auto try_once = [&] {
    return connect_to("127.0.0.1", port, Clock::now(), std::chrono::milliseconds(100));
  };
  while (queue.size() < 100) {
    queue.push_back(try_once());
    if (!queue.back()) break;
  }
  REQUIRE(queue.size() < 100);
  const Clock::time_point begin = Clock::now();
  CHECK(!try_once());
  CHECK(Clock::now() - begin < std::chrono::seconds(5));
}

namespace {

// A port that a listener has, before one that is free.
struct Taken {
  Listener listener;
  std::uint16_t port;
};
Taken first_of_free_ports() {
  while (true) {
    Listener first(0);
    try {
      const Listener second(static_cast<std::uint16_t>(first.port() + 1));
      const std::uint16_t port = first.port();
      return {std::move(first), port};
    } catch (const Error&) {
    }
  }
}

// A job of two ranks that may meet on `ports` ports from `port` on.
void meet_near(std::uint16_t port, int ports) {
  const auto here = [&](std::int64_t rank) {
    Membership membership = place(rank, 2, port);
    membership.ports = ports;
    membership.job = "beside";
    return membership;
  };
  std::thread other([&] {
    CHECK(ControlChannel::open(here(1))->exchange("1") == Strings{"0", "1"});
  });
  CHECK(ControlChannel::open(here(0))->exchange("0") == Strings{"0", "1"});
  other.join();
}

}  // namespace

TEST_CASE("the job meets on the next port if another program has its own") {
  Taken taken = first_of_free_ports();
  // It takes connections, and is silent.
  meet_near(taken.port, 3);
}

TEST_CASE("the job meets on another port if another program or job answers") {
  Taken taken = first_of_free_ports();
  std::thread other_program([&taken] {
    Connection connection;
    taken.listener.accept(Clock::now() + std::chrono::seconds(30), connection);
    connection.send(1, "this is no shardlab, but a frame of its shape");
    connection.wait(Clock::now() + std::chrono::seconds(30));
  });
  meet_near(taken.port, 3);
  other_program.join();
}

TEST_CASE("jobs of one name that are told other ports do not meet, though they try the same") {
  Taken taken = first_of_free_ports();
  std::optional<Listener> next(std::in_place, static_cast<std::uint16_t>(taken.port + 1));
  const auto earlier = [port = next->port()](std::int64_t rank, std::optional<Listener> mine) {
    Membership membership = place(rank, 2, port);
    membership.job = "beside";
    return ControlChannel::open(membership, std::move(mine))->exchange(rank == 0 ? "a" : "b");
  };
  std::thread rank_zero([&] { CHECK(earlier(0, std::move(next)) == Strings{"a", "b"}); });
  meet_near(taken.port, 8);
  CHECK(earlier(1, std::nullopt) == Strings{"a", "b"});
  rank_zero.join();
}

TEST_CASE("rank 0 names the ports if all are taken") {
  Taken taken = first_of_free_ports();
  const std::string text = fmt::format("rank 0 cannot listen on port {}: ", taken.port);
  Membership membership = place(0, 2, taken.port);
  CHECK_THROWS_WITH(ControlChannel::open(membership), doctest::Contains(text.c_str()));
  Listener next(static_cast<std::uint16_t>(taken.port + 1));
  const std::string several =
      fmt::format("rank 0 cannot listen on port {} to {}: ", taken.port, taken.port + 1);
  membership.ports = 2;
  CHECK_THROWS_WITH(ControlChannel::open(membership), doctest::Contains(several.c_str()));
}
