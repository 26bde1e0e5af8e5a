// Messages about a wait that does not end, by the states that ranks report: worked out by hand for
// four ranks, of which rank 0 waits in the second call of the world.
#include "backends/process/silence.h"

#include <doctest/doctest.h>

#include "backends/process/watch.h"
#include "tests/support/local_tensor.h"

using namespace shardlab;
using namespace shardlab::process;
using Doing = Standing::Doing;

namespace {

const std::vector<std::int64_t> kAll = {0, 1, 2, 3};

std::string entered(std::uint64_t sequence, std::int64_t elements = 4, std::int32_t group = 0,
                    const std::vector<std::int64_t>& ranks = kAll) {
  const Tensor x = local_tensor({elements}, DType::kF32,
                                std::vector<double>(static_cast<std::size_t>(elements), 1));
  backends::Call call(CollectiveKind::kAllReduce);
  call.x = &x;
  call.position = {"a.toml", 7, 1};
  Writer writer;
  writer.all(Entrance{{group, sequence}, group == 0 ? "world" : "tp", ranks, true});
  EnteredCall::put(writer, call);
  return writer.take();
}

Standing in_call(std::uint64_t sequence, std::int64_t elements = 4) {
  return {Doing::kWaits, 3, "", entered(sequence, elements), sequence + 1};
}
Standing after_call(std::uint64_t sequence, double seconds) {
  return {Doing::kComputes, seconds, "", entered(sequence), sequence + 1};
}
Standing ended(std::uint64_t calls) {
  return {Doing::kEnded, 1, "the end of the run", calls > 0 ? entered(calls - 1) : "", calls};
}

using Standings = std::vector<std::optional<Standing>>;

Verdict verdict_of(Standings standings) {
  return verdict_on_wait({.rank = 0, .seconds = 3, .standing = {}}, std::move(standings));
}

const char* const kCall = "all_reduce(f32[4], sum) on group world, call 1";

}  // namespace

TEST_CASE("B-16 a rank that computes while others wait is told with its last call and the time") {
  const Verdict verdict = verdict_of({in_call(1), after_call(0, 3.25), in_call(1), in_call(1)});
  CHECK(verdict.kind == VerdictKind::kTimeout);
  CHECK(verdict.culprits == std::vector<std::int64_t>{1});
  CHECK(summary(verdict) == fmt::format("timeout: rank 0 waited 3 s for rank 1 in {}", kCall));
  CHECK(text(verdict) ==
        fmt::format("ranks 0,2,3: in {}, at a.toml:7, for 3.0 s, waiting for rank 1\n"
                    "rank 1: running for 3.2 s, after all_reduce(f32[4], sum) on group world, call "
                    "0, at a.toml:7",
                    kCall));
}

TEST_CASE("B-16 a process that does not answer is the culprit, whoever else is behind") {
  const Verdict verdict = verdict_of({in_call(1), after_call(0, 1), std::nullopt, in_call(1)});
  CHECK(verdict.kind == VerdictKind::kTimeout);
  CHECK(verdict.culprits == std::vector<std::int64_t>{2});
  CHECK(verdict.ranks[2].state == RankReport::State::kSilent);
  CHECK(text(verdict).find("rank 2: its process does not answer") != std::string::npos);
}

TEST_CASE("a rank that has ended without its call is a deadlock, not a matter of time") {
  const Verdict verdict = verdict_of({in_call(1), ended(1), in_call(1), after_call(0, 2)});
  CHECK(verdict.kind == VerdictKind::kDeadlock);
  CHECK(verdict.culprits == std::vector<std::int64_t>{1});
  CHECK(text(verdict).find("rank 1: ended") != std::string::npos);
}

TEST_CASE("B-16 an ended rank that loses patience first says what those say that miss it") {
  const Standings standings = {in_call(1), ended(1), in_call(1), in_call(1)};
  const Verdict expected = verdict_of(standings);
  for (const std::int64_t rank : {1, 2, 3}) {
    const LongWait wait{.rank = rank, .seconds = 3, .standing = {}};
    const Verdict verdict = verdict_on_wait(wait, standings);
    CHECK(summary(verdict) == summary(expected));
    CHECK(text(verdict) == text(expected));
  }
  // The end of a run that no rank misses in a call.
  const Verdict verdict = verdict_on_wait({.rank = 1, .seconds = 3, .standing = {}},
                                          {after_call(0, 3), ended(1), ended(1), ended(1)});
  CHECK(summary(verdict) == "timeout: rank 1 waited 3 s for rank 0 in the end of the run");
}

TEST_CASE("calls that cannot meet are a mismatch, also where nobody compared them") {
  const Verdict verdict = verdict_of({in_call(1), in_call(1, 5), in_call(1), in_call(1)});
  CHECK(verdict.kind == VerdictKind::kMismatch);
  CHECK(verdict.culprits == std::vector<std::int64_t>{1});
  CHECK(verdict.cause == "the ranks of group world entered all_reduce with different shapes");
}

TEST_CASE("nobody is accused if all are in the call, and the last are if ranks run ahead") {
  const Verdict all = verdict_of({in_call(1), in_call(1), in_call(1), in_call(1)});
  CHECK(all.culprits.empty());
  CHECK(summary(all) ==
        fmt::format("timeout: all ranks have entered {}, which has not ended for 3 s", kCall));
  const Verdict ahead =
      verdict_of({after_call(9, 1), after_call(2, 1), after_call(7, 1), after_call(2, 1)});
  CHECK(ahead.culprits == std::vector<std::int64_t>{1, 3});
}

TEST_CASE("a wait that is no collective misses whoever does something else") {
  const Standing starts{Doing::kWaits, 3, "the start of NCCL", "", 0};
  const Verdict verdict = verdict_of({starts, starts, after_call(0, 1), starts});
  CHECK(verdict.culprits == std::vector<std::int64_t>{2});
  CHECK(summary(verdict) == "timeout: rank 0 waited 3 s for rank 2 in the start of NCCL");
}

TEST_CASE("a wait is hopeless once a rank of its group has ended without its call") {
  LongWaits waits;
  waits.wait({.rank = 0, .seconds = 1, .standing = in_call(1)});
  CHECK(!waits.hopeless());
  waits.end(1, {{0, 2}});
  CHECK(!waits.hopeless());  // it came, and its part is on its way
  waits.end(3, {{0, 1}, {7, 5}});
  REQUIRE(waits.hopeless());
  CHECK(waits.hopeless()->rank == 0);
}

TEST_CASE("the end of a rank says nothing of waits of other groups") {
  LongWaits waits;
  Standing standing = in_call(4);
  standing.call = entered(4, 4, 2, {0, 2});
  waits.wait({.rank = 0, .seconds = 1, .standing = standing});
  waits.end(1, {});
  CHECK(!waits.hopeless());
  waits.end(2, {{2, 5}});
  CHECK(!waits.hopeless());
  waits.end(2, {{2, 4}});
  CHECK(waits.hopeless());
}

TEST_CASE("an inquiry is complete when all have answered; until then it says who is silent") {
  Inquiry inquiry(1, 2, {.rank = 0, .seconds = 3, .standing = in_call(1)});
  CHECK(inquiry.group() == 0);
  inquiry.answer(0, in_call(1));
  CHECK(!inquiry.complete());
  CHECK(inquiry.silent() == std::vector<std::int64_t>{1});
  CHECK(!inquiry.reports(1));
  inquiry.answer(1, {Doing::kReports, 1, "", "", 0});
  CHECK(inquiry.complete());
  CHECK(inquiry.silent().empty());
  CHECK(inquiry.reports(1));
}
