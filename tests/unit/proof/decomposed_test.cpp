// Ops that are made of others, against one device: the claims of
// tests/golden/known_differences.toml about the placements that the reference recorded for them.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "sim/proof/op_proof.h"
#include "tests/facts/shape_call.h"

namespace shardlab {
namespace {

const ProofOptions kQuick{
    .meshes = {{3}, {2, 2}}, .backward = false, .of_one = {40, 40}, .of_several = {24, 24}};

OpProof proof_of(const char* op) {
  std::vector<const OpSample*> samples;
  for (const OpSample& sample : op_samples()) {
    if (&all_ops().at(sample.op) == &all_ops().at(op)) samples.push_back(&sample);
  }
  REQUIRE_MESSAGE(!samples.empty(), op);
  return OpProver(all_ops(), kQuick).prove(samples);
}

void is_right(const OpProof& proof) {
  CAPTURE(proof.op);
  if (proof.least) INFO(proof.least->what);
  CHECK(proof.wrong == 0);
  CHECK(proof.right > 0);
}

TEST_CASE("X-67 an op that others make up has one device's values where its parts are decided") {
  for (const char* op : {"_prelu_kernel",
                         "addmv",
                         "addr",
                         "aminmax",
                         "binary_cross_entropy",
                         "binary_cross_entropy_backward",
                         "binary_cross_entropy_with_logits",
                         "channel_shuffle",
                         "complex",
                         "count_nonzero",
                         "dist",
                         "elu_backward",
                         "fill.Scalar",
                         "floor_divide",
                         "glu",
                         "glu_backward",
                         "huber_loss",
                         "huber_loss_backward",
                         "isin.Tensor_Tensor",
                         "log_sigmoid_forward",
                         "masked_fill.Tensor",
                         "matmul",
                         "movedim.int",
                         "mse_loss",
                         "mse_loss_backward",
                         "mv",
                         "narrow_copy",
                         "permute_copy",
                         "pixel_shuffle",
                         "pixel_unshuffle",
                         "rms_norm",
                         "rrelu_with_noise_backward",
                         "rsub.Tensor",
                         "smooth_l1_loss",
                         "smooth_l1_loss_backward",
                         "soft_margin_loss",
                         "soft_margin_loss_backward",
                         "softplus_backward",
                         "squeeze_copy.dim",
                         "std_mean.correction",
                         "take",
                         "transpose_copy.int",
                         "unbind_copy.int",
                         "unsqueeze_copy"}) {
    is_right(proof_of(op));
  }
}

TEST_CASE("ops that the reference has no strategy for have one device's values") {
  for (const char* op : {"_adaptive_avg_pool3d_backward",
                         "_chunk_cat",
                         "_pdist_backward",
                         "addbmm",
                         "as_strided_scatter",
                         "avg_pool2d_backward",
                         "block_diag",
                         "col2im",
                         "hardshrink_backward",
                         "hardsigmoid_backward",
                         "hardtanh_backward",
                         "im2col",
                         "isin.Tensor_Tensor",
                         "linspace.Tensor_Tensor",
                         "log_sigmoid_backward",
                         "logspace.Tensor_Tensor",
                         "multi_margin_loss",
                         "multi_margin_loss_backward",
                         "multilabel_margin_loss_backward",
                         "polar",
                         "reflection_pad1d",
                         "reflection_pad2d_backward",
                         "renorm",
                         "replication_pad2d",
                         "replication_pad2d_backward",
                         "scatter_reduce.two",
                         "take",
                         "unfold",
                         "unfold_backward",
                         "where.ScalarOther"}) {
    is_right(proof_of(op));
  }
}

TEST_CASE("a mean of losses over uneven pieces is that of one device") {
  for (const char* op : {"binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss",
                         "mse_loss", "smooth_l1_loss", "soft_margin_loss"}) {
    is_right(proof_of(op));
  }
}

TEST_CASE("X-13 an operand written in place keeps its placements, or the call is refused") {
  const SampleInput values{{7, 5}, Fill::kReal}, mask{{7, 5}, Fill::kBool};
  const std::vector<OpSample> samples{
      {"masked_fill_.Tensor", {values, mask, {{}, Fill::kReal}}, {"$0", "$1", "$2"}},
      {"index_add_",
       {values, {{3}, Fill::kIndex, 7}, {{3, 5}, Fill::kReal}},
       {"$0", 0, "$1", "$2"}},
      {"cauchy_", {values}, {"$0"}}};
  for (const OpSample& sample : samples) {
    const OpProof proof = OpProver(all_ops(), kQuick).prove({&sample});
    is_right(proof);
    CHECK(proof.refused > 0);
  }
}

// The call on a mesh of four ranks without data.
ShapeCall called(Arena& arena, const char* op,
                 std::vector<std::pair<TensorMeta, Placement>> given) {
  const MeshLayout* layout = arena.layout({{4}, {}, {}});
  Arguments args;
  for (const auto& [meta, placement] : given) {
    args.emplace_back(arena.spec(layout, {placement}, meta));
  }
  const OpRow& row = all_ops().at(op);
  return call_on_shapes({&row, bind_arguments(row, std::move(args)), layout});
}

TEST_CASE("ops whose result depends on data are refused where there is none, with a way out") {
  Arena arena;
  const TensorMeta one = contiguous_meta(Dims{}, DType::kF32);
  const ShapeCall call = called(arena, "aten::item", {{one, Placement::replicate()}});
  REQUIRE(call.error);
  CHECK(call.error->kind() == ErrorKind::kUnsupported);
  CHECK(call.error->find("fix") != nullptr);
  const TensorMeta line = contiguous_meta(Dims{4}, DType::kF32);
  const TensorMeta mask = contiguous_meta(Dims{4}, DType::kBool);
  const auto unsupported = [&](const ShapeCall& refused) {
    REQUIRE(refused.error);
    CHECK(refused.error->kind() == ErrorKind::kUnsupported);
  };
  unsupported(called(arena, "aten::nonzero", {{line, Placement::replicate()}}));
  unsupported(called(arena, "aten::_unique2", {{line, Placement::shard(0)}}));
  unsupported(called(arena, "aten::masked_select",
                     {{line, Placement::replicate()}, {mask, Placement::replicate()}}));
}

TEST_CASE("K-14 a pending mean of integers, which no backend computes, is refused") {
  Arena arena;
  const Placement mean = Placement::partial(ReduceOp::kAvg);
  const ShapeCall call = called(arena, "aten::take",
                                {{contiguous_meta(Dims{8}, DType::kF32), Placement::replicate()},
                                 {contiguous_meta(Dims{4}, DType::kI64), mean}});
  REQUIRE(call.error);
  CHECK(call.error->kind() == ErrorKind::kValue);
}

TEST_CASE("X-67 a copy of a view gathers what the view cannot reach, and no more") {
  Arena arena;
  const TensorMeta meta = contiguous_meta(Dims{8, 1, 8, 1}, DType::kF32);
  const MeshLayout* layout = arena.layout({{2, 2}, {}, {}});
  const DTensorSpec* spec = arena.spec(layout, {Placement::shard(0), Placement::shard(3)}, meta);
  const OpRow& row = all_ops().at("aten::squeeze_copy");
  const ShapeCall call = call_on_shapes({&row, bind_arguments(row, {spec}), layout});
  REQUIRE(!call.error);
  REQUIRE(call.moves.size() == 1);
  const Placements kept{Placement::shard(0), Placement::replicate()};
  CHECK(call.moves[0].to->placements() == kept);
  CHECK(call.outputs.at(0)->placements() == kept);
}

TEST_CASE("D-19 a call on shapes tells what its parts move, and what they move again") {
  Arena arena;
  const Placement sum = Placement::partial(ReduceOp::kSum);
  const TensorMeta matrix = contiguous_meta(Dims{8, 16}, DType::kF32);
  const ShapeCall call =
      called(arena, "aten::mse_loss", {{matrix, sum}, {matrix, Placement::shard(0)}});
  REQUIRE(!call.error);
  REQUIRE(call.moves.size() == 1);
  CHECK(call.moves[0].input == std::size_t{0});
  CHECK(!call.moves[0].again);
  CHECK(call.moves[0].to->placements() == Placements{Placement::shard(0)});
  // A reduce_scatter of 8 x 16 floats: 6.6 + 3 * 2.7 + 512 B * 3/4 at 19.294 GB/s.
  CHECK(call.cost() == doctest::Approx(14.7185).epsilon(1e-4));
  CHECK(call.cost_once() == call.cost());
}

}  // namespace
}  // namespace shardlab
