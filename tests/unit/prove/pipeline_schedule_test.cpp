// Pipeline schedules as CSV: what is refused, how messages are added, what is held at a time.
#include "sim/prove/pipeline_schedule.h"

#include <doctest/doctest.h>

#include "tests/support/schedule_text.h"

namespace shardlab {
namespace {

std::string first_refused(std::string_view csv) {
  const CheckedSchedule checked = check_schedule(read_pipeline_schedule(csv, Receives::kEarly));
  if (checked.refused.empty()) return "";
  const RefusedAction& one = checked.refused.front();
  return std::to_string(one.rank) + ' ' + std::to_string(one.index) + ' ' + one.action + ": " +
         one.reason;
}

TEST_CASE("B-41 computations get their messages where torch puts them") {
  const std::string compute = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  CHECK(csv_of(read_pipeline_schedule(compute, Receives::kEarly)) ==
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\n");
  CHECK(csv_of(read_pipeline_schedule("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n", Receives::kEarly)) ==
        "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n");
}

TEST_CASE("B-41 deferred receives are placed before a send to their sender, or at their use") {
  const std::string compute =
      "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n"
      "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n";
  // The lowering of torch 2.15.
  CHECK(csv_of(read_pipeline_schedule(compute, Receives::kDeferred)) ==
        "0UNSHARD,2UNSHARD,0F0,0SEND_F0,0F1,2RECV_F0,0SEND_F1,2F0,2RECV_F1,"
        "2SEND_F0,2F1,2SEND_F1,2RECV_B0,2B0,2WAIT_SEND_F0,2SEND_B0,2RECV_B1,"
        "2B1,2WAIT_SEND_F1,2SEND_B1,2REDUCE_GRAD,2WAIT_REDUCE_GRAD,2RESHARD,"
        "0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,0REDUCE_GRAD,"
        "0WAIT_REDUCE_GRAD,0RESHARD,2WAIT_SEND_B0,2WAIT_SEND_B1\n"
        "1UNSHARD,3UNSHARD,1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,"
        "3RECV_F0,3F0,3B0,3SEND_B0,3RECV_F1,3F1,3B1,3SEND_B1,3REDUCE_GRAD,"
        "3WAIT_REDUCE_GRAD,3RESHARD,1RECV_B0,1B0,1WAIT_SEND_F0,1SEND_B0,1RECV_B1,"
        "1B1,1WAIT_SEND_F1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1RESHARD,"
        "3WAIT_SEND_B0,3WAIT_SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\n");
}

TEST_CASE("B-41 a schedule that cannot be is refused with its rank, place and reason") {
  CHECK(first_refused("0F0,0B0,0B1\n") == "0 2 0B1: backward before forward");
  CHECK(first_refused("0F0,0W0\n") == "0 1 0W0: weight gradient before input gradient");
  CHECK(first_refused("0SEND_F0,0F0,0WAIT_SEND_F0\n1RECV_F0,1F0\n") ==
        "0 0 0SEND_F0: sent before it is computed");
  CHECK(first_refused("0F0,0SEND_F0,0SEND_F0,0WAIT_SEND_F0\n1RECV_F0,1F0\n") ==
        "0 2 0SEND_F0: sent twice");
  CHECK(first_refused("0F0,0SEND_F0,0WAIT_SEND_F0\n1RECV_F0,1RECV_F0,1F0\n") ==
        "1 1 1RECV_F0: received twice");
  CHECK(first_refused("0F0,1F0,0B0,1B0\n") == "0 2 0B0: its input is computed nowhere before it");
  CHECK(first_refused("0F0,0SEND_B0\n1F0\n") ==
        "0 1 0SEND_B0: there is no such stage on the other side");
}

TEST_CASE("B-41 a rank holds the activations of microbatches that have no backward yet") {
  const auto live = [](std::string_view csv) {
    return check_schedule(read_pipeline_schedule(csv, Receives::kEarly)).live;
  };
  CHECK(live("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n") == std::vector<std::int64_t>{2, 1});
  CHECK(live("0F0,0I0,0W0,0F1,0I1,0W1\n") == std::vector<std::int64_t>{1});
  CHECK(live("0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n") ==
        std::vector<std::int64_t>{2, 2});
}

}  // namespace
}  // namespace shardlab
