// The ranks to blame when ranks do not meet: the smaller part, all ranks if there is no majority,
// and the ranks of most pairs if calls agree and their pieces do not fit.
#include "backends/shared/meeting.h"

#include <doctest/doctest.h>

#include "tests/unit/shared/rounds.h"

using namespace shardlab;
using namespace shardlab::backends;
using shardlab::test::Round;

namespace {

using Kind = CollectiveKind;
using Ranks = std::vector<std::int64_t>;

// all_reduce of tensors of these sizes, one per rank; a negative one: the rank has not come.
void enter_all_reduce(Round& round, const Ranks& sizes) {
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      round.add_nobody();
    } else {
      round.add(Kind::kAllReduce, {size});
    }
  }
}

}  // namespace

TEST_CASE("B-5 the ranks that differ from the majority are named by their global numbers") {
  Round round;
  enter_all_reduce(round, {4, 4, 5, 4});
  const Ranks ranks = {12, 3, 7, 5};
  const Meeting meeting{ranks, "x", 8, round.calls()};
  CHECK(torn(meeting));
  CHECK(odd_ones(meeting) == Ranks{7});
  CHECK(cause_of(meeting) == "the ranks of group x entered all_reduce with different shapes");
}

TEST_CASE("B-5 without a majority everybody is named, also in three parts") {
  const Ranks ranks = {0, 1, 2, 3};
  Round halves;
  enter_all_reduce(halves, {4, 5, 4, 5});
  CHECK(odd_ones({ranks, "x", 0, halves.calls()}) == Ranks{0, 1, 2, 3});
  Round parts;
  enter_all_reduce(parts, {4, 5, 6, 4});
  CHECK(odd_ones({ranks, "x", 0, parts.calls()}) == Ranks{1, 2});
  Round each;
  enter_all_reduce(each, {4, 5, 6, 7});
  CHECK(odd_ones({ranks, "x", 0, each.calls()}) == Ranks{0, 1, 2, 3});
}

TEST_CASE("B-5 ranks that have not come take no part in the count") {
  const Ranks ranks = {0, 1, 2};
  Round round;
  enter_all_reduce(round, {4, -1, 4});
  const Meeting meeting{ranks, "x", 0, round.calls()};
  CHECK_FALSE(torn(meeting));
  CHECK(odd_ones(meeting) == Ranks{0, 2});  // all that have come
  Round nobody_first;
  enter_all_reduce(nobody_first, {-1, 4, 5});
  CHECK(torn({ranks, "x", 0, nobody_first.calls()}));
}

TEST_CASE("B-5 another collective outweighs another shape in what is said") {
  Round round;
  round.add(Kind::kAllReduce, {4});
  round.add(Kind::kAllReduce, {5});
  round.bare(Kind::kBarrier);
  const Ranks ranks = {0, 1, 2};
  CHECK(cause_of({ranks, "tp", 0, round.calls()}) ==
        "the ranks of group tp entered different collectives");
}

TEST_CASE("B-5 pieces that do not fit: the rank in most pairs is named") {
  Round round;
  const Ranks joined[] = {{1, 1, 1}, {1, 9, 1}, {1, 1, 1}};
  const Ranks cut[] = {{1, 1, 1}, {2, 1, 3}, {1, 1, 1}};
  for (std::size_t rank = 0; rank < 3; ++rank) {
    Call& call = round.add(Kind::kAllToAll, {6});
    call.lengths = round.lengths(cut[rank]);
    call.part = round.joined(joined[rank]);
  }
  const Ranks ranks = {4, 5, 6};
  const Meeting meeting{ranks, "x", 0, round.calls()};
  CHECK_FALSE(torn(meeting));
  CHECK(odd_ones(meeting) == Ranks{5});
  CHECK(cause_of(meeting) ==
        "the ranks of group x entered all_to_all with parts that do not fit together");
}

TEST_CASE("B-5 a rank's report says what it does, where, and for whom it waits") {
  Round round;
  enter_all_reduce(round, {4, -1, -1});
  Call& call = round.add(Kind::kAllReduce, {4});
  call.op_name = "aten::sum";
  call.position.file = "a.toml";
  call.position.line = 7;
  const Ranks ranks = {9, 8, 2, 5};
  RankReport report;
  describe({ranks, "dp", 3, round.calls()}, call, report);
  CHECK(report.what == "all_reduce(f32[4], sum)");
  CHECK(report.op == "aten::sum");
  CHECK(report.group == "dp");
  CHECK(report.call == 3);
  CHECK(report.where == "a.toml:7");
  CHECK(report.missing == Ranks{2, 8});  // ascending, for every order of the group
}

TEST_CASE("B-5 the verdict of a mismatch lists all ranks in ascending order") {
  Round round;
  enter_all_reduce(round, {4, 4, 5});
  const Ranks ranks = {6, 2, 4};
  const Verdict verdict = mismatch({ranks, "x", 1, round.calls()});
  CHECK(verdict.kind == VerdictKind::kMismatch);
  CHECK(verdict.culprits == Ranks{4});
  REQUIRE(verdict.ranks.size() == 3);
  CHECK(verdict.ranks[0].rank == 2);
  CHECK(verdict.ranks[1].rank == 4);
  CHECK(verdict.ranks[1].what == "all_reduce(f32[5], sum)");
  CHECK(verdict.ranks[2].rank == 6);
  for (const RankReport& report : verdict.ranks) {
    CHECK(report.state == RankReport::State::kWaits);
    CHECK(report.missing.empty());
  }
}

TEST_CASE("B-6 a deadlock misses those that have ended, else all that are awaited") {
  std::vector<RankReport> reports(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    reports[rank].rank = static_cast<std::int64_t>(rank);
    reports[rank].state = RankReport::State::kWaits;
  }
  reports[0].missing = {1, 3};
  reports[1].missing = {0};
  CHECK(missed(reports) == Ranks{0, 1, 3});
  reports[3].state = RankReport::State::kEnded;
  CHECK(missed(reports) == Ranks{3});
  reports[2].state = RankReport::State::kEnded;  // no rank waits for it
  CHECK(missed(reports) == Ranks{3});
}
