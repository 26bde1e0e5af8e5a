// Pairs of stored recordings of one program, of which one is wrong or cut in another way.
#include "sim/replay/blame_recordings.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>

#include "tests/unit/replay/stored.h"

using namespace shardlab;
using test::stored;

TEST_CASE("B-32 the first value that another program made wrong is named, with its mending edit") {
  const RecordedProgram right = stored("mistakes/tp_one");
  const RecordingBlame healthy = blame_recordings(right, stored("mistakes/tp_none"));
  CHECK(healthy.compared > 50);
  CHECK(healthy.wrong.empty());
  const RecordingBlame blame = blame_recordings(right, stored("mistakes/tp_no_sum_of_down"));
  REQUIRE(blame.found());
  CHECK(blame.wrong[0].point.name == "blocks.1.down");
  CHECK(!blame.wrong[0].follows);
  REQUIRE(!blame.edits.empty());
  CHECK(blame.edits[0].text.starts_with("dist.all_reduce(y)"));
}

TEST_CASE("B-32 a program is like itself where ranks have events of their own, or no backward") {
  for (const char* name : {"ranks/pipeline_2__2.15.0", "ranks/ring_4__2.15.0"}) {
    CAPTURE(name);
    const RecordedProgram program = stored(name);
    const RecordingBlame blame = blame_recordings(program, program);
    CHECK(blame.compared > 0);
    CHECK(!blame.found());
  }
}

TEST_CASE("B-32 pieces held twice, sums that clipping hides, and factors of the loss are named") {
  const RecordingBlame twice =
      blame_recordings(stored("mistakes/tp_one"), stored("mistakes/tp_same_piece"));
  REQUIRE(!twice.wrong.empty());
  CHECK(twice.wrong[0].point.name == "blocks.1.up.weight");
  const RecordedProgram right = stored("mistakes/clip_one");
  CHECK(!blame_recordings(right, stored("mistakes/clip_none")).found());
  const RecordingBlame hidden = blame_recordings(right, stored("mistakes/clip_sum_hidden"));
  REQUIRE(!hidden.wrong.empty());
  CHECK(hidden.wrong[0].point.op == "c10d.allreduce_.default");
  const RecordingBlame scaled = blame_recordings(right, stored("mistakes/clip_times_ranks"));
  REQUIRE(!scaled.edits.empty());
  CHECK(scaled.edits[0].text.starts_with("loss = loss * 0.5"));
}

struct MistakeByHand {
  const char *folder, *mistake, *name, *op, *what, *edit;
};
constexpr MistakeByHand kMistakesByHand[] = {
    {"tied", "first_piece", "Model", "aten.view.default", "ranks hold the same piece of it", ""},
    {"tied", "scaled_piece", "", "aten.view.default", "2 times A's", "gradient = gradient * 0.5"},
    {"tied", "down_not_reduced", "", "aten.linear.default", "their sum", "dist.all_reduce(y)"},
    {"tied", "bias_of_each_rank", "", "aten.linear.default", "their sum", "y = y - 1 * b"},
    {"tied_stages", "not_reduced", "table.grad", "backward()", "no collective adds", "dist.all"},
    {"bucket", "bound_times_ranks", "", "aten.mul.Tensor", "2 times A's value; aten.clamp", "y ="},
    {"accumulated", "no_sync", "out.bias.grad", "backward()", "outside of no_sync()", "dist."},
    {"zigzag", "own_mask", "attention", "aten.ge.Tensor", "no part of A's value", ""},
    {"exchanged", "not_divided", "1.up.grad", "", "2 times A's value", ""},
    {"hooked", "not_sent", "3.weight", "", "rank 0 has A's", ""},
    {"hooked", "not_divided", "", "c10d.allreduce_.default", "2 times A's", "gradient = "},
    {"halo", "not_sent_back", "4.conv", "aten.convolution_backward.default", "no part", ""},
    {"counted", "own_mean", "", "aten.sum.default", "counted.py:67) takes it as the whole", ""},
    {"scaled", "too_large", "", "aten.unflatten_dense_tensors.default", "2 times A's", "y = y"},
    {"step", "left_out", "leaf[2 of 3].grad", "backward()", "by _c10d_functional", "dist.all"},
    {"step", "twice", "", "aten.mul.Tensor", "2 times A's value", "y = y * 0.5"},
    {"leaves", "own_rate", "leaf[4 of 5].grad", "aten.mul_.Tensor", "of each rank's own", ""},
    {"leaf_stages", "own", "leaf[3 of 4].grad", "aten.mul_.Tensor", "2 times A's", "gradient = "},
    {"leaf_experts", "router", "leaf[1 of 5].grad", "backward()", "their sum", "dist.all_red"},
    {"micro_batches", "not_divided", "", "aten.div.Tensor", "it is 2 times A's", "loss = loss"},
    {"words", "copy_not_reduced", "2", "aten.mm.default", "their sum", "dist.all_reduce(grad"},
    {"words", "copy_of_all", "", "c10d.allreduce_.default", "over other", "group=[0, 1] "},
    {"words", "other_ranks", "", "c10d.allreduce_.default", "over other", "group=[0, 2] "},
    {"words", "sum_of_own", "", "aten.sum.dim_IntList", "words.py:86) takes", "dist.all_red"},
    {"words", "largest_of_own", "", "aten.amax.default",
     "the largest over groups such as ranks 0, 1", "dist.all_reduce(y, op"},
    {"words", "norm_of_own", "", "aten.add.Tensor", "words.py:105) takes", "dist.all_red"},
    {"words", "counted_twice", "", "aten.sum.default", "words.py:102) takes it as", ""},
    {"words", "norm_of_all", "", "c10d.allreduce_.default", "over other", "group=[0, 1] "},
    {"flat", "not_added", "3.bias.grad", "backward()", "no collective adds", "dist.all_red"},
    {"flat", "norm_of_own", "", "aten.sum.default", "flat.py:41) takes it", "dist.all_red"},
    {"flat", "one_not_written", "3.bias", "", "have it as it was before the step", ""},
    {"no_names", "bias", "", "aten.sum.dim_IntList", "their sum", "dist.all_reduce(gradient)"},
    {"no_names", "not_divided", "", "aten.div.Tensor", "16 times A's", "loss = loss * 0.06"},
    {"features", "own_gradient", "", "c10d.allgather_.default", "rank's own part", "dist.all"},
    {"features", "no_gradient", "", "c10d.allgather_.default", "no gradient comes back", ""},
    {"features", "center_summed", "center", "", "5 of 5 elements differ", ""},
    {"columns", "own_bias", "down_bias.grad", "aten.mul_.Tensor", "rank 0 has A's", ""},
    {"sequence", "largest", "", "c10d._reduce_scatter_base_.default", "by max", "op=dist.Red"},
    {"sequence", "pieces_reduced", "", "c10d.allreduce_.default", "it reduces them",
     "without c10d"},
    {"sequence", "norm_of_own", "", "aten.div.Tensor", "sequence.py:90) takes",
     "dist.all_reduce(y)    # of the result of aten.add.Tensor"},
    {"sequence", "bias_before", "1", "aten.linear.default", "sequence.py:68) takes", ""},
    {"rounds", "norm_of_own", "", "aten.add.Tensor", "such as ranks 0, 1",
     "dist.all_reduce(y, group"},
    {"rounds", "not_kept", "layers.2.2", "aten.detach.default", "not what A's call takes", ""},
    {"rounds", "drawn_by_replica", "layers.0.1.weight", "", "36 of 36 elements differ", ""},
    {"tables", "other_labels", "", "aten.index.Tensor", "the same piece of it", ""},
    {"tables", "dense_divided", "bottom.0.weight.grad", "aten.div_.Tensor", "before this line",
     "gradient = gradient * 3    # of the result of aten.div_.Tensor, tables.py:87, and of 5"},
    {"tables", "divided_late", "tables.t0.weight.grad", "aten.div_.Tensor", "0.333333 times",
     "gradient = gradient * 3    # of the result of aten.div_.Tensor, tables.py:94, and of 10"},
    {"replicas", "not_divided", "head.bias.grad", "", "their sum is 4 times", "loss = loss * 0.5"},
    {"owners", "not_reduced", "", "aten.clamp_.default", "26 of 27 elements differ", ""},
    {"unsent", "not_sent", "0.weight", "", "rank 1 has it as it was before the step", ""},
    {"sent", "not_divided", "", "aten.nll_loss_forward.default", "is 4 times A's", "loss = loss"},
    {"gathered", "gathered_averaged", "", "aten.slice.Tensor", "0.333333 times A's", "gradient = "},
    {"gathered", "running_of_rank", "left.1", "aten.var.correction", "not what A's call takes", ""},
    {"gathered", "norm_summed_twice", "", "c10d.allreduce_.default", "adds them up",
     "without c10d"},
    {"own_experts", "not_reduced", "moe.router.weight.grad", "backward()", "their sum", "dist.all"},
    {"ring", "not_rescaled", "out", "", "no part of A's value", ""},
    {"contrast", "same_labels", "", "aten.add.Tensor", "contrast.py:51) takes it as", ""},
    {"shared_heads", "averaged", "attn.k.grad", "aten.div_.Tensor", "0.5 times A's", "gradient = "},
    {"trust_ratio", "own_norm", "", "aten.sum.default", "lamb.py:36) takes it", "dist.all_red"},
};

TEST_CASE("B-32 programs by hand: right ones are not accused, wrong ones by their own line") {
  std::set<std::string> seen;
  for (const MistakeByHand& row : kMistakesByHand) {
    CAPTURE(std::string(row.folder) + "/" + row.mistake);
    const auto of = [&](auto name) {
      return stored(fmt::format("mistakes/{}/{}", row.folder, name));
    };
    const RecordedProgram right = of("one");
    if (seen.insert(row.folder).second) CHECK(!blame_recordings(right, of("none")).found());
    const RecordingBlame blame = blame_recordings(right, of(row.mistake));
    REQUIRE(!blame.wrong.empty());
    CHECK(blame.wrong[0].point.name == row.name);
    CHECK(blame.wrong[0].point.op == row.op);
    CHECK(blame.wrong[0].what.find(row.what) != std::string::npos);
    CHECK(blame.same_names);
    REQUIRE(blame.edits.empty() == (row.edit[0] == '\0'));
    if (!blame.edits.empty()) CHECK(blame.edits[0].text.starts_with(row.edit));
  }
}

TEST_CASE("B-32 every value of a right program is found in A, though ranks lack calls of others") {
  for (const char* folder : {"leaves", "replicas"}) {
    const auto of = [&](auto name) { return stored(fmt::format("mistakes/{}/{}", folder, name)); };
    const RecordingBlame blame = blame_recordings(of("one"), of("none"));
    CHECK(!blame.found());
    CHECK(blame.on_the_way == 0);
  }
  for (const char* folder : {"padded", "sent_in_halves"}) {
    const auto of = [&](auto name) { return stored(fmt::format("mistakes/{}/{}", folder, name)); };
    CHECK(!blame_recordings(of("one"), of("none")).found());
  }
  // A gradient that a hook writes is looked at once, as in A.
  const RecordedProgram right = stored("mistakes/hooked/one");
  CHECK(blame_recordings(right, stored("mistakes/hooked/not_divided")).compared ==
        blame_recordings(right, stored("mistakes/hooked/none")).compared);
}
