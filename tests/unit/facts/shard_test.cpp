// Recorded sequences with their inputs placed in every way: right rules are found right, wrong ones
// are not.
#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "ops/core/factor_rule.h"
#include "schema/op_registry.h"
#include "sim/files/json_value.h"
#include "tests/facts/sequence_sample.h"
#include "tests/facts/shard_table.h"

namespace shardlab {
namespace {

// "[{...}, {...}]" are inputs of f32, each with its shape and elements.
std::string sequence_line(const std::string& inputs, const std::string& calls,
                          const std::string& outputs) {
  return R"({"id": "made#0", "opinfo": "made", "variant": "", "sample": 0, "random": false, )"
         R"("inputs": )" +
         inputs + R"(, "calls": )" + calls + R"(, "outputs": )" + outputs + "}";
}

std::string input(const std::string& shape, const std::string& data) {
  return R"({"t": {"shape": )" + shape + R"(, "dtype": "f32", "data": )" + data + "}}";
}

std::string call(const std::string& op, const std::string& args, const std::string& shape) {
  return R"({"op": ")" + op + R"(", "args": )" + args + R"(, "kwargs": {}, "out": [{"shape": )" +
         shape + R"(, "dtype": "f32"}]})";
}

std::string output(const std::string& from, const std::string& shape, const std::string& data) {
  return R"({"from": )" + from + R"(, "t": {"shape": )" + shape + R"(, "dtype": "f32", "data": )" +
         data + "}}";
}

OpProof proof_of(const std::string& line, const OpRegistry& registry = all_ops()) {
  CallSequence sequence = read_sequence(Json::parse(line));
  for (SequenceCall& each : sequence.calls) each.row = registry.find(each.op);
  const OpSample sample = sample_of(std::make_shared<const CallSequence>(std::move(sequence)));
  return OpProver(registry, shard_options(4096, 0)).prove({&sample});
}

// (x * y).sum(), of three rows.
std::string product_line() {
  return sequence_line("[" + input("[3, 2]", "[1.1, 2.2, 3.3, 4.4, 5.5, 6.6]") + ", " +
                           input("[2]", "[0.7, -0.3]") + "]",
                       "[" + call("aten.mul.Tensor", R"([{"in": 0}, {"in": 1}])", "[3, 2]") + ", " +
                           call("aten.sum.dim_IntList", R"([{"ref": 0}, [0]])", "[2]") + "]",
                       "[" + output(R"({"ref": 1})", "[2]", "[6.93, -3.96]") + "]");
}

TEST_CASE("V-23 a sequence gives what one device gives, whole, cut and pending") {
  const OpProof proof = proof_of(product_line());
  CHECK(proof.wrong == 0);
  CHECK(proof.refused == 0);
  // On 4 and on 3 ranks R, S(0), S(1) and the reductions, of averages those of four: 7 x 6 and
  // 6 x 5; 3 rows are cut evenly on 3 ranks, 2 nowhere.
  CHECK(proof.right == proof.tried);
  CHECK(proof.even.tried() + proof.uneven.tried() == proof.tried);
  CHECK(proof.uneven.right > 0);
  CHECK(proof.even.right > 0);
}

TEST_CASE("V-23 a rule that lets two pending sums be multiplied is found wrong") {
  OpRegistry registry;
  register_all_ops(registry);
  registry.set_rule("aten::mul.Tensor", PointwiseRule{"sss"});
  const OpProof proof = proof_of(product_line(), registry);
  CHECK(proof.wrong > 0);
  REQUIRE(proof.least);
  CHECK(proof.least->sample == 0);
}

TEST_CASE("V-23 even shards are those that every cut divides") {
  const std::string line =
      sequence_line("[" + input("[4]", "[1, 2, 3, 4]") + "]",
                    "[" + call("aten.neg.default", R"([{"in": 0}])", "[4]") + "]",
                    "[" + output(R"({"ref": 0})", "[4]", "[-1, -2, -3, -4]") + "]");
  const OpProof proof = proof_of(line);
  // Uneven: S(0) on 3 ranks. Elsewhere 2 cuts of 4 are even.
  CHECK(proof.uneven.tried() == 1);
  CHECK(proof.wrong == 0);
}

TEST_CASE("V-23 writes of a sequence to its inputs last for one placing") {
  const std::string line =
      sequence_line("[" + input("[4]", "[1, 2, 3, 4]") + ", " + input("[1]", "[1.5]") + "]",
                    "[" + call("aten.add_.Tensor", R"([{"in": 0}, {"in": 1}])", "[4]") + "]",
                    "[" + output(R"({"in": 0})", "[4]", "[2.5, 3.5, 4.5, 5.5]") + "]");
  const OpProof proof = proof_of(line);
  CHECK(proof.wrong == 0);
  CHECK(proof.refused == 0);
  CHECK(proof.even.moved > 0);  // a pending sum does not take a whole number
}

TEST_CASE("V-23 a refusal that asks for a redistribution is followed, and told") {
  const std::string line =
      sequence_line("[" + input("[2, 3]", "[1, 2, 3, 4, 5, 6]") + "]",
                    "[" + call("aten.view.default", R"([{"in": 0}, [6]])", "[6]") + "]",
                    "[" + output(R"({"ref": 0})", "[6]", "[1, 2, 3, 4, 5, 6]") + "]");
  const OpProof proof = proof_of(line);
  CHECK(proof.wrong == 0);
  CHECK(proof.refused == 0);
  CHECK(proof.uneven.moved > 0);
  CHECK(!proof.moved.empty());
}

TEST_CASE(
    "V-23 an operand moved for an in-place write is moved under all of its numbers, or not at "
    "all") {
  const auto line = [](const std::string& view, const std::string& args) {
    return sequence_line("[" + input("[4]", "[1, 2, 3, 4]") + "]",
                         "[" + call(view, args, "[4]") + ", " +
                             call("aten.add_.Scalar", R"([{"ref": 0}, 1.5])", "[4]") + "]",
                         "[" + output(R"({"in": 0})", "[4]", "[2.5, 3.5, 4.5, 5.5]") + "]");
  };
  const OpProof same = proof_of(line("aten.alias.default", R"([{"in": 0}])"));
  CHECK(same.wrong == 0);
  CHECK(same.refused == 0);
  CHECK(same.even.moved > 0);
  const OpProof view = proof_of(line("aten.as_strided.default", R"([{"in": 0}, [4], [1]])"));
  CHECK(view.wrong == 0);
}

TEST_CASE("V-23 an op without a row is refused on every mesh, by name") {
  const std::string line = sequence_line("[" + input("[1]", "[1]") + "]",
                                         "[" + call("aten.nothing.default", "[]", "[1]") + "]",
                                         "[" + output(R"({"ref": 0})", "[1]", "[1]") + "]");
  const OpProof proof = proof_of(line);
  CHECK(proof.refused == proof.tried);
  REQUIRE(proof.reasons.size() == 1);
  CHECK(proof.reasons.begin()->first.find("aten.nothing.default") != std::string::npos);
}

TEST_CASE("V-23 the table counts OpInfos, and those that ran in every placement") {
  OpProof whole, some, none;
  whole.op = "whole";
  whole.tried = whole.right = whole.even.right = 2;
  some.op = "some";
  some.tried = 2;
  some.right = some.even.right = 1;
  some.refused = some.uneven.refused = 1;
  some.reasons["it cannot"] = 1;
  none.op = "none";
  none.tried = none.wrong = none.even.wrong = 1;
  ShardTable table;
  table.proofs = {whole, some, none};
  table.opinfos = {{"whole", {}}, {"some", {}}, {"none", {}}};
  CHECK(table.any_wrong());
  CHECK(table.share_in_every_placement() == doctest::Approx(100.0 / 3));
  const Json json = table.json();
  CHECK(json["even"]["right"] == 2);
  CHECK(json["even"]["wrong"] == 1);
  CHECK(json["uneven"]["refused"] == 1);
  CHECK(table.text().find("refused 1 times: it cannot\n  some\n") != std::string::npos);
}

}  // namespace
}  // namespace shardlab
