// Wrong rules must be found, right ones must not; a row that was taken away is missed.
#include "sim/proof/op_proof.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/collectives.h"
#include "api/groups.h"
#include "dispatch/all_ops.h"
#include "dispatch/plain_calls.h"
#include "ops/core/expression.h"
#include "ops/core/factor_rule.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/proof/proof_text.h"

namespace shardlab {
namespace {

struct Proven {
  Proven() { register_all_ops(registry); }

  OpProof of(std::string_view op, ProofOptions options = {}) const {
    std::vector<const OpSample*> samples;
    for (const OpSample& sample : all_samples()) {
      if (&registry.at(sample.op) == &registry.at(op)) samples.push_back(&sample);
    }
    REQUIRE(!samples.empty());
    return OpProver(registry, std::move(options)).prove(samples);
  }

  OpRegistry registry;
};

bool misses(const OpProof& proof, std::string_view row) {
  return std::ranges::find(proof.missing, row) != proof.missing.end();
}

TEST_CASE(
    "rules that are right are found right, forward and backward, on uneven and empty pieces") {
  const Proven proven;
  for (const char* op : {"mm", "add.Tensor", "_softmax", "cat", "embedding", "native_layer_norm"}) {
    const OpProof proof = proven.of(op);
    CAPTURE(op);
    CHECK(proof.wrong == 0);
    CHECK(proof.right > proof.tried / 2);
    CHECK(proof.silent > 0);
    CHECK(proof.right + proof.refused == proof.tried);
  }
}

TEST_CASE(
    "all placings of two matrices on a mesh of one dim: whole, two cuts and four reductions") {
  const Proven proven;
  const std::int64_t samples =
      std::ranges::count(op_samples(), std::string_view("mm"), &OpSample::op);
  CHECK(proven.of("mm", {.meshes = {{3}}}).tried == samples * 7 * 7);
  CHECK(proven.of("mm", {.meshes = {{3}}, .of_one = {20, 20}}).tried == samples * 20);
}

// exp of a matrix keeps a whole, its two cuts, a largest and a least value. Sums and means it does
// not, under none of the result's seven placements.
TEST_CASE("rows are judged: those that are kept, and all results of those that are not") {
  const Proven proven;
  const OpSample exp{"exp", {{{7, 5}}}, {"$0"}};
  for (const std::vector<Dims>& meshes : {std::vector<Dims>{{3}}, {{3}, {2, 2}}}) {
    const OpProof proof =
        OpProver(proven.registry, {.meshes = meshes, .backward = false}).prove({&exp});
    CHECK(proof.rows_judged == 5 + 2 * 7);
  }
}

// A sum, off by `declared` on ranks, and by `reference` where they compute in f64.
OpSample sum_off_by(double declared, double reference) {
  OpSample sample{"a sum that is off", {{{7, 2}}}, {}};
  sample.calls = [=](const SampleRun& run) {
    const double by = run.layout == nullptr                    ? 0
                      : run.precision == Precision::kReference ? reference
                                                               : declared;
    const DTensor sum = plain_calls().one("aten::sum", {run.inputs[0]});
    return std::vector<DTensor>{plain_calls().one("aten::add.Scalar", {sum, by})};
  };
  return sample;
}

TEST_CASE(
    "V-23 a value beyond the envelope that is right in f64 is amplified rounding, no mistake") {
  const Proven proven;
  const auto wrong = [&](const OpSample& sample) {
    const OpProof proof =
        OpProver(proven.registry, {.meshes = {{3}}, .missing = false}).prove({&sample});
    CHECK(proof.tried == 7);
    CHECK(proof.right + proof.wrong == proof.tried);
    return proof.wrong;
  };
  CHECK(wrong(sum_off_by(0, 0)) == 0);
  CHECK(wrong(sum_off_by(0.25, 0)) == 0);
  CHECK(wrong(sum_off_by(0.25, 0.25)) == 7);
  CHECK(wrong(sum_off_by(0.25, 1e-6)) == 7);
  OpSample moved{"a value that was only moved, and is off", {{{7, 2}}}, {}};
  moved.calls = [](const SampleRun& run) {
    const bool off = run.layout != nullptr && run.precision == Precision::kDeclared;
    const DTensor turned = plain_calls().one("aten::t", {run.inputs[0]});
    return std::vector<DTensor>{plain_calls().one("aten::add.Scalar", {turned, off ? 0.25 : 0})};
  };
  CHECK(wrong(moved) == 3);  // pending reductions are rounded
}

TEST_CASE("a rule that cuts the dim it computes along is wrong, and a command shows it") {
  Proven proven;
  set_factor_rule(proven.registry, "aten::_softmax", "ab->ab");
  const OpProof proof = proven.of("_softmax");
  CHECK(proof.wrong > 0);
  REQUIRE(proof.least);
  CHECK(proof.least->mesh == Dims{2});
  CHECK(placing_text(proof.least->placing).starts_with("S("));
  CHECK(proof.least->what.starts_with("result 0 "));
}

TEST_CASE("V-23 a rule with whole dims, dims that pass and operands that are linear is proven") {
  const auto wrong = [](const char* op, const char* rule) {
    Proven proven;
    set_factor_rule(proven.registry, fmt::format("aten::{}", op), rule);
    const OpProof proof = proven.of(op, {.meshes = {{2}, {3}}});
    CHECK(proof.right > 0);
    return proof.wrong > 0;
  };
  CHECK_FALSE(wrong("mm", "mk,kn->mn; linear_in=(0, 1)"));
  CHECK_FALSE(wrong("mm", "m_,_n->mn; linear_in=()"));
  CHECK(wrong("mm", "mk,kn->mn; linear_in=((0, 1),)"));  // a product of sums
  CHECK_FALSE(wrong("_softmax", "__->__; linear_in=()"));
  CHECK(wrong("_softmax", "...->...; linear_in=()"));  // cut along the dim it computes along
}

// log_softmax of pieces, for dim 0 or 1: the largest and the sum are those of all pieces, unless
// the sum is forgotten.
Results log_softmax_of_pieces(const OnPieces& call, bool adds_up) {
  Calls& calls = call.calls;
  const std::int64_t dim = call.args[1].to_int() == 0 ? 0 : 1;
  const std::vector<ProcessGroup*> groups = groups_of(call, dim == 0 ? 'a' : 'b');
  const Expression x(calls, call.args[0].tensor());
  Dims row = x.value().shape();
  row[static_cast<std::size_t>(dim)] = 1;
  const DTensor lowest =
      calls.one("aten::new_full", {x.value(), row, -std::numeric_limits<double>::infinity()});
  const DTensor all = calls.one("aten::cat", {ArgumentList{lowest, x.value()}, dim});
  DTensor most = calls.one("aten::amax", {all, Dims{dim}, true});
  for (ProcessGroup* group : groups) most = all_reduce(most, ReduceOp::kMax, *group);
  const Expression less = x - Expression(calls, most);
  DTensor total =
      calls.one("aten::sum.dim_IntList", {less.of("aten::exp").value(), Dims{dim}, true});
  for (ProcessGroup* group : groups) {
    if (adds_up) total = all_reduce(total, ReduceOp::kSum, *group);
  }
  const Expression logarithm = Expression(calls, total).of("aten::log");
  return {Argument((less - logarithm).value())};
}

TEST_CASE("a local program that talks to other ranks is right on pieces of every size") {
  Proven proven;
  set_factor_rule(proven.registry, "aten::_log_softmax", "ab->ab",
                  {[](const OnPieces& call) { return log_softmax_of_pieces(call, true); }, "ab"});
  const OpProof proof = proven.of("_log_softmax");
  CHECK(proof.wrong == 0);
  CHECK(proof.right == proof.tried);
  CHECK(proof.uneven.right > 100);
}

TEST_CASE("a local program that forgets a collective is wrong, and its smallest call is shown") {
  Proven proven;
  set_factor_rule(proven.registry, "aten::_log_softmax", "ab->ab",
                  {[](const OnPieces& call) { return log_softmax_of_pieces(call, false); }, "ab"});
  const OpProof proof = proven.of("_log_softmax");
  CHECK(proof.wrong > 0);
  REQUIRE(proof.least);
  CHECK(proof.least->mesh == Dims{2});
  CHECK(placing_text(proof.least->placing) == "S(0)");
  CHECK(proof.least->what.starts_with("result 0 "));
}

TEST_CASE("terms of a sum that pass an op which is not linear are wrong") {
  Proven proven;
  proven.registry.set_rule("aten::exp", proven.registry.at("aten::neg").rule);
  const OpProof proof = proven.of("exp", {.meshes = {{3}}});
  CHECK(proof.wrong ==
        3 * 4);  // samples that have elements, and reductions, of which neg turns two
  CHECK(placing_text(proof.least->placing) == "P(sum)");
}

TEST_CASE("V-23 an operand that an op writes and does not return is compared as well") {
  Proven proven;
  const ProofOptions options{.meshes = {{2}}, .backward = false};
  CHECK(proven.of("_foreach_sigmoid_", options).wrong == 0);
  // It returns nothing: the wrong values are in the list that it was given.
  proven.registry.set_rule("aten::_foreach_sigmoid_",
                           proven.registry.at("aten::_foreach_neg").rule);
  const OpProof proof = proven.of("_foreach_sigmoid_", options);
  REQUIRE(proof.wrong > 0);
  CHECK(placing_text(proof.least->placing).find("P(") != std::string::npos);
  // It returns its results, and writes running statistics as well.
  CHECK(proven.of("_native_batch_norm_legit", options).wrong == 0);
}

TEST_CASE("V-23 a rule whose gradient alone is wrong is found by its backward, and not without") {
  Proven proven;
  proven.registry.set_rule("aten::tanh_backward", proven.registry.at("aten::add.Tensor").rule);
  CHECK(proven.of("tanh", {.meshes = {{2}}, .backward = false}).wrong == 0);
  const OpProof proof = proven.of("tanh", {.meshes = {{2}}});
  REQUIRE(proof.wrong > 0);
  CHECK(proof.least->what.starts_with("gradient 0 "));
  // Asked about alone, the call gets every gradient, too: here a pending sum is the wrong one.
  const auto sample = std::ranges::find(op_samples(), std::string_view("tanh"), &OpSample::op);
  OpProver prover(proven.registry);
  CHECK(prover.check(*sample, {2}, {{Placement::replicate()}}).starts_with("gradient 0 "));
  CHECK(OpProver(all_ops()).check(*sample, {2}, {{Placement::replicate()}}).empty());
}

TEST_CASE(
    "a row that a rule does not offer is missing; one that holds on even pieces alone is not") {
  Proven proven;
  CHECK(!misses(proven.of("neg"), "P(sum) -> P(sum)"));
  proven.registry.set_rule("aten::neg", proven.registry.at("aten::cos").rule);
  const OpProof proof = proven.of("neg");
  CHECK(proof.wrong == 0);
  CHECK(misses(proof, "P(sum) -> P(sum)"));
  CHECK(misses(proof, "P(avg) -> P(avg)"));
  // The mean of means is the mean if all ranks have as many rows.
  CHECK(!misses(proven.of("mean"), "S(0) -> P(avg)"));
}

TEST_CASE("every sample is a call that one device takes, and most of them have a gradient") {
  const ProofOptions one_rank{.meshes = {{1}}, .of_one = {1, 1}, .missing = false};
  OpProver prover(all_ops(), one_rank);
  for (const OpSample& sample : all_samples()) {
    CAPTURE(std::string(sample.op));
    const OpProof proof = prover.prove({&sample});
    CHECK(proof.unproven == "");
  }
}

TEST_CASE("an op whose sample one device refuses is not proven") {
  const OpSample sample{"mm", {{{3, 4}}, {{5, 4}}}, {std::string("$0"), std::string("$1")}};
  const OpProof proof = OpProver(all_ops()).prove({&sample});
  CHECK(proof.unproven.find("mm") != std::string::npos);
  CHECK(proof_text({proof}, false).find("; 1 ops are not proven") != std::string::npos);
}

TEST_CASE("an input without a gradient is named, the others are differentiated") {
  const Proven proven;
  const OpProof proof = proven.of("binary_cross_entropy", {.meshes = {{2}}});
  CHECK(proof.right > proof.refused);
  REQUIRE(proof.without_gradient.size() == 1);
  CHECK(proof.without_gradient.begin()->ends_with("weight"));
}

TEST_CASE("placings are written and read") {
  const OpSample sample{"mm", {{{3, 4}}, {{4, 5}}}, {}};
  const Placing placing = parse_placing("S(0) P(avg),  R SS(1, 2)", sample, 2);
  CHECK(placing_text(placing) == "S(0) P(avg), R SS(1,2)");
  for (const char* text : {"S(0) R", "S(0), R", "S(0) R, X R"}) {
    CHECK_THROWS_AS(parse_placing(text, sample, 2), Error);
  }
}

}  // namespace
}  // namespace shardlab
