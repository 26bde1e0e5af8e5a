#include "backends/process/control_channel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

TEST_CASE("what processes exchange arrives by rank, uneven and empty parts too") {
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

TEST_CASE("what is gathered arrives on one process only") {
  in_job(3, [](std::int64_t rank, auto& channel) {
    for (const std::int64_t root : {0, 2}) {
      const Strings got = channel->gather("from " + std::to_string(rank), root);
      if (rank == root) CHECK(got == Strings{"from 0", "from 1", "from 2"});
      if (rank != root) CHECK(got.empty());
    }
  });
}

TEST_CASE("B-7: a failure reaches every process with its reason, and the next run is sound again") {
  in_job(4, [](std::int64_t rank, auto& channel) {
    channel->begin_run();
    CHECK(!channel->failed());
    channel->exchange("all have begun");
    if (rank == 2) channel->tell_failed(failure_of(2, "the wheel came off"));
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

TEST_CASE("B-7: of several failures the first to reach rank 0 is everybody's") {
  std::vector<Verdict> verdicts(4);
  in_job(4, [&](std::int64_t rank, auto& channel) {
    channel->begin_run();
    channel->tell_failed(failure_of(rank, "all at once"));
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

TEST_CASE("where nobody listens, rank 0 is the one that is missing") {
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
void meet_beside(std::uint16_t port, int ports) {
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

TEST_CASE("where another program has the port, the job meets on the next one") {
  Taken taken = first_of_free_ports();
  // It takes connections, and says nothing.
  meet_beside(taken.port, 3);
}

TEST_CASE("where another program answers, or another job's rank 0, the job meets beside it") {
  Taken taken = first_of_free_ports();
  std::thread other_program([&taken] {
    Connection connection;
    taken.listener.accept(Clock::now() + std::chrono::seconds(30), connection);
    connection.send(1, "this is no shardlab, but a frame of its shape");
    connection.wait(Clock::now() + std::chrono::seconds(30));
  });
  meet_beside(taken.port, 3);
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
  meet_beside(taken.port, 8);
  CHECK(earlier(1, std::nullopt) == Strings{"a", "b"});
  rank_zero.join();
}

TEST_CASE("where all ports are taken, rank 0 says which") {
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
