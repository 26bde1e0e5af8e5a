// Programs of steps whose end on each fabric is known by hand.
#include "sim/prove/steps.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/prove/promise.h"

namespace shardlab {
namespace {

using Steps = std::vector<RankStep>;

Operation send_to(std::int32_t peer, std::int32_t tag = 0) {
  return {.kind = Operation::Kind::kSend, .peer = peer, .tag = tag};
}
Operation receive_from(std::int32_t peer, std::int32_t tag = 0) {
  return {.kind = Operation::Kind::kReceive, .peer = peer, .tag = tag};
}
Operation collective(std::int32_t group) { return {.group = group}; }
RankStep post(std::vector<Operation> posts) { return {.posts = std::move(posts)}; }
RankStep waiting(std::vector<std::int32_t> needs) { return {.needs = std::move(needs)}; }

RankSteps program_of(std::vector<Steps> ranks, std::vector<std::vector<std::int64_t>> groups = {}) {
  if (groups.empty()) {
    groups.emplace_back();
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      groups[0].push_back(static_cast<std::int64_t>(rank));
    }
  }
  return {.groups = std::move(groups), .ranks = std::move(ranks)};
}

// "...xxx": the transports on which it hangs, in their order.
std::string hangs_on(const RankSteps& program, bool lazy_groups = false) {
  std::string text;
  for (const Transport transport : kTransports) {
    const bool ends =
        run_steps(program, {.transport = transport, .buffers = 0, .lazy_groups = lazy_groups})
            .ends();
    text += ends ? '.' : 'x';
  }
  return text;
}

Steps head_on(std::int32_t rank) {
  return {post({send_to(1 - rank)}), post({receive_from(1 - rank)}), waiting({0, 1})};
}

TEST_CASE("B-40 steps hang on the fabrics whose queues hold them up, and on no other") {
  // Sends head on, then receives.
  CHECK(hangs_on(program_of({head_on(0), head_on(1)})) == "..xxxx");
  // The same as one batch, and with the receive first on one side.
  const Steps batch0 = {post({send_to(1), receive_from(1)}), waiting({0})};
  const Steps batch1 = {post({send_to(0), receive_from(0)}), waiting({0})};
  CHECK(hangs_on(program_of({batch0, batch1})) == "......");
  const Steps turned = {post({receive_from(0)}), post({send_to(0)}), waiting({0, 1})};
  CHECK(hangs_on(program_of({head_on(0), turned})) == "......");
  // Waits before the receive: only a buffer helps.
  const auto waits_first = [](std::int32_t rank) -> Steps {
    return {post({send_to(1 - rank)}), waiting({0}), post({receive_from(1 - rank)}), waiting({2})};
  };
  CHECK(hangs_on(program_of({waits_first(0), waits_first(1)})) == ".xxxxx");
  // Two groups in two orders.
  const std::vector<std::vector<std::int64_t>> groups = {{0, 1}, {0, 1}};
  const Steps one = {post({collective(0)}), post({collective(1)}), waiting({0, 1})};
  const Steps other = {post({collective(1)}), post({collective(0)}), waiting({0, 1})};
  CHECK(hangs_on(program_of({one, other}, groups)) == "....xx");
  CHECK(hangs_on(program_of({one, one}, groups)) == "......");
  // In a batch collectives keep their order.
  const Steps both = {post({collective(0), collective(1)}), waiting({0})};
  CHECK(hangs_on(program_of({both, other}, groups)) == "....xx");
  // Tags are channels of their own, but not queues.
  const Steps tags = {post({send_to(1, 7)}), post({send_to(1, 8)}), waiting({0, 1})};
  const Steps tags_turned = {post({receive_from(0, 8)}), post({receive_from(0, 7)}),
                             waiting({0, 1})};
  CHECK(hangs_on(program_of({tags, tags_turned})) == "..xxxx");
}

Steps ring(std::int32_t rank, bool synchronizes) {
  Steps steps = {post({send_to((rank + 1) % 3)}), post({receive_from((rank + 2) % 3)}),
                 waiting({0, 1})};
  if (synchronizes) steps.insert(steps.begin() + 1, RankStep{.synchronizes = true});
  if (synchronizes) steps.back().needs = {0, 2};
  return steps;
}

TEST_CASE("B-40 communicators made at first use, and a host that synchronizes, hold ranks up") {
  const RankSteps plain = program_of({ring(0, false), ring(1, false), ring(2, false)});
  CHECK(hangs_on(plain) == "...xxx");
  CHECK(hangs_on(plain, true) == "..xxxx");
  const RankSteps hidden = program_of({ring(0, true), ring(1, true), ring(2, true)});
  CHECK(hangs_on(hidden) == "..xxxx");
}

TEST_CASE("B-40 the least number of buffers, and none where a receive waits") {
  CHECK(least_buffers(program_of({head_on(0), head_on(1)})) == 1);
  const Steps twice = {post({send_to(1)}), post({send_to(1)}), post({receive_from(1)}),
                       waiting({0, 1, 2})};
  const Steps back = {post({send_to(0)}), post({receive_from(0)}), post({receive_from(0)}),
                      waiting({0, 1, 2})};
  CHECK(least_buffers(program_of({twice, back})) == 1);
  const Steps late = {post({send_to(1)}), post({send_to(1)}), post({send_to(1)}),
                      post({receive_from(1)}), waiting({3})};
  const Steps sends_last = {post({send_to(0)}), post({receive_from(0)}), post({receive_from(0)}),
                            post({receive_from(0)}), waiting({1, 2, 3})};
  CHECK(least_buffers(program_of({late, sends_last})) == 1);
  const Steps waits = {post({receive_from(1)}), waiting({0}), post({send_to(1)})};
  const Steps too = {post({receive_from(0)}), waiting({0}), post({send_to(0)})};
  CHECK(least_buffers(program_of({waits, too})) == std::nullopt);
  CHECK(least_buffers(program_of({{post({send_to(1)})}, {post({receive_from(0)})}})) == 0);
}

TEST_CASE("B-40 a hang is told as a circle of ranks, or as the rank that never comes") {
  RankSteps program = program_of({head_on(0), head_on(1), {}});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < 3; ++i) {
      program.ranks[rank][i].text = std::string(1, "SRW"[i]) + std::to_string(rank);
    }
  }
  Promise promise{.asked = {Transport::kGroupQueue}, .steps = program};
  promise.file = "p.toml";
  promise.run(false);
  CHECK(promise.kind() == Promise::Kind::kHangs);
  CHECK(promise.text() ==
        "hangs where a group has one queue (NCCL, group created eagerly); runs on buffered, "
        "nonblocking, and with 1 buffered message a pair\n"
        "  rank 0  S0  stands before R0\n"
        "  rank 1  S1  stands before R1\n"
        "also: hangs where a pair has one queue (NCCL, communicators made at first use)\n"
        "also: hangs where a device has one queue (NCCL, several communicators)\n"
        "also: hangs where each call waits (send and recv, or a host that synchronizes)\n"
        "next: shardlab run --transport group_queue p.toml\n");
  const StepsOutcome lost =
      run_steps(program_of({{post({receive_from(1)}), waiting({0})}, {}}), {});
  REQUIRE(lost.stuck.size() == 1);
  CHECK(lost.stuck[0].rank == 0);
  CHECK(lost.chain.back().rank == 1);
  CHECK(lost.chain.back().step == -1);
}

TEST_CASE("B-40 ranks of which not all steps are known are told as a circle of waits") {
  // Groups of two of three ranks; each rank waits in the group with the next one. Rank 3 has no
  // part in it.
  const auto stands = [](std::int32_t group) -> Steps {
    return {post({collective(group)}), waiting({0})};
  };
  RankSteps program = program_of({stands(0), stands(1), stands(2), {}}, {{0, 1}, {1, 2}, {2, 0}});
  const auto ranks_told = [&] {
    std::string text;
    for (const WaitLink& link : run_steps(program, {}).chain) {
      text += fmt::format("{}{} ", link.rank, link.begins ? "" : "!");
    }
    return text;
  };
  CHECK(ranks_told() == "0 1! ");  // rank 1 ends behind its wait, and never comes
  program.cut_short = true;
  CHECK(ranks_told() == "0 1 2 ");
}

TEST_CASE("B-40 a message that reaches the receive of another one is found where nothing hangs") {
  RankStep first = post({send_to(1)}), second = first, got = post({receive_from(0)}), last = got;
  first.labels = {"F0"};
  second.labels = {"F1"};
  got.labels = {"F1"};
  last.labels = {""};
  const RankSteps program = program_of({{first, second}, {got, last}});
  const std::vector<WrongMessage> wrong = wrong_messages(program);
  REQUIRE(wrong.size() == 1);
  CHECK(wrong[0].sent == "F0");
  CHECK(wrong[0].received == "F1");
  CHECK(wrong[0].place == 0);
  CHECK(hangs_on(program) == "......");
}

RankStep receive_from_any() {
  RankStep step = post({receive_from(1)});
  step.any = true;
  return step;
}

// The ways in which receives from any rank are met, and the transports on which one of them hangs.
std::string ways_of(const RankSteps& program, std::int64_t most = 100) {
  Promise promise;
  promise.meet(most, [&](Transport transport, const std::vector<std::size_t>& way) {
    return meet_steps(program, {.transport = transport}, way);
  });
  std::string text = fmt::format("{}{}", promise.tried->leaves, promise.tried->all ? "" : "+");
  for (const auto& [transport, outcome] : promise.outcomes) {
    if (!outcome.ends()) text += fmt::format(" {}", to_string(transport));
  }
  return text;
}

TEST_CASE("B-40 receives from any rank of known steps are met in every way") {
  const auto steps = [](const std::vector<RankStep>& posts) {
    Steps all;
    for (const RankStep& one : posts) {
      all.push_back(one);
      all.push_back(waiting({static_cast<std::int32_t>(all.size()) - 1}));
    }
    return all;
  };
  const RankStep to0 = post({send_to(0)}), to1 = post({send_to(1)}), to2 = post({send_to(2)}),
                 from0 = post({receive_from(0)}), from1 = post({receive_from(1)}),
                 from2 = post({receive_from(2)}), any = receive_from_any();
  // It ends if rank 2 is met first.
  CHECK(ways_of(program_of({steps({any, from1}), steps({to0}), steps({to0})})) ==
        "1 buffered nonblocking blocking");
  // Its healthy twins: any of both, or a receive that names the other one.
  CHECK(ways_of(program_of({steps({any, any}), steps({to0}), steps({to0})})) == "2");
  CHECK(ways_of(program_of({steps({from2, any}), steps({to0}), steps({to0})})) == "1");
  // A buffer lets rank 1 come first.
  const RankSteps buffers =
      program_of({steps({to2, to1}), steps({from0, to2}), steps({any, from1})});
  CHECK(ways_of(buffers) == "2 buffered");
  // Nobody sends.
  CHECK(ways_of(program_of({steps({any}), {}})) == "1 buffered nonblocking blocking");
  // Three senders in six orders, of which not all are run.
  const RankSteps many =
      program_of({steps({any, any, any}), steps({to0}), steps({to0}), steps({to0})});
  CHECK(ways_of(many) == "6");
  CHECK(ways_of(many, 2) == "2+");
}

}  // namespace
}  // namespace shardlab
