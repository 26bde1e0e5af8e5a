#include "sim/types/rules.h"

#include <doctest/doctest.h>

#include "sim/types/einsum_type.h"

using namespace shardlab;

namespace {

SpmdType type_named(std::string_view text) { return *parse_spmd_type(text); }

// "I" or "refused"; a small letter is a type of an operand that gets no gradient.
std::string op_type(std::string_view op, std::string_view letters, bool number = false) {
  std::vector<TypedOperand> operands;
  for (const char letter : letters) {
    const bool small = letter >= 'a';
    const char large = static_cast<char>(small ? letter - 'a' + 'A' : letter);
    operands.push_back({type_named({&large, 1}), !small});
  }
  const TypeAnswer answer = type_of_op(op, operands, number);
  return answer.type ? to_string(*answer.type) : "refused";
}

}  // namespace

TEST_CASE("V-41 replicas for the same work meet others only where they get no gradient") {
  CHECK(op_type("add", "II") == "I");
  CHECK(op_type("add", "ii") == "I");
  CHECK(op_type("add", "iR") == "R");
  CHECK(op_type("add", "rI") == "I");
  CHECK(op_type("mul", "iP") == "P");
  CHECK(op_type("add", "iv") == "V");
  for (const char* letters : {"IR", "IV", "IP", "iIR"}) CHECK(op_type("mul", letters) == "refused");
}

TEST_CASE("V-41 terms pass what is linear in them, and do not meet values that vary") {
  for (const char* op : {"add", "sub_", "cat", "neg", "sum", "mean", "select"}) {
    CHECK(op_type(op, "PP") == "P");
    CHECK(op_type(op, "PR") == "refused");
    CHECK(op_type(op, "P", true) == "refused");
  }
  for (const char* op : {"mul", "matmul", "einsum"}) {
    CHECK(op_type(op, "PR") == "P");
    CHECK(op_type(op, "RP") == "P");
    CHECK(op_type(op, "PP") == "refused");
    CHECK(op_type(op, "P", true) == "P");
    CHECK(op_type(op, "PV") == "refused");
  }
  CHECK(op_type("div", "PR") == "P");
  CHECK(op_type("div", "RP") == "refused");
  CHECK(op_type("addmm", "PPR") == "P");
  CHECK(op_type("addmm", "RPR") == "refused");
  CHECK(op_type("baddbmm", "rri") == "refused");
  CHECK(op_type("addmv", "iii") == "I");
  for (const char* op : {"relu", "getitem", "dropout", "linear", "unknown"}) {
    CHECK(op_type(op, "P") == "refused");
    CHECK(op_type(op, "V") == "V");
  }
  CHECK(op_type("ones", "") == "R");
}

TEST_CASE("V-41 a refusal names the move that helps") {
  const TypedOperand same[] = {{SpmdType::same_work()}, {SpmdType::varying()}};
  CHECK(type_of_op("mul", same, false).help.find("convert(src=I, dst=R)") != std::string::npos);
  const TypedOperand terms[] = {{SpmdType::term()}};
  CHECK(type_of_op("relu", terms, false).help.find("reduce_scatter") != std::string::npos);
}

TEST_CASE("V-41 a write keeps the type of its target") {
  CHECK_FALSE(refused_write(SpmdType::term(), true, SpmdType::term()));
  CHECK(refused_write(SpmdType::replicated(), true, SpmdType::varying()));
  CHECK_FALSE(refused_write(SpmdType::replicated(), false, SpmdType::varying()));
  CHECK(refused_write(SpmdType::varying(), false, SpmdType::replicated()));
  CHECK(refused_write(SpmdType::same_work(), false, SpmdType::replicated()));
}

TEST_CASE("V-41 a move goes between the types of its table, from the type that the tensor has") {
  const auto type = [](TypedMove move, const char* own, TypeMode mode) {
    const TypeAnswer answer = type_of_move(move, type_named(own), mode);
    return answer.type ? to_string(*answer.type) : "refused";
  };
  const auto strict = TypeMode::kStrict, local = TypeMode::kLocal;
  const TypedMove scatter{"reduce_scatter", type_named("P"), type_named("S(1)")};
  CHECK(type(scatter, "P", strict) == "S(1)");
  CHECK(type(scatter, "P", local) == "V");
  CHECK(type(scatter, "V", local) == "V");  // taken for terms, to be judged by value
  CHECK(type(scatter, "R", local) == "refused");
  const TypedMove gather{"all_gather", type_named("S(0)"), type_named("R")};
  CHECK(type(gather, "S(1)", local) == "R");
  CHECK(type(gather, "S(1)", strict) == "refused");
  const TypedMove zeros{"convert", type_named("I"), type_named("P")};
  CHECK(type(zeros, "I", local) == "refused");
  CHECK(type({"convert", zeros.src, zeros.dst, true}, "I", local) == "P");
  CHECK(type_of_move({"convert", type_named("P"), type_named("R")}, SpmdType::term(), local)
            .help.find("all_reduce") != std::string::npos);
}

TEST_CASE("V-41 a loss begins backward where it is P or I") {
  for (const char* text : {"P", "I"}) CHECK_FALSE(refused_loss(type_named(text)));
  for (const char* text : {"R", "V", "S(0)"}) CHECK(refused_loss(type_named(text)));
}

TEST_CASE("V-41 an einsum text says where a cut goes and which operands may be terms") {
  const auto type = [](const char* text, const LinearIn& linear_in,
                       std::initializer_list<const char*> operands) {
    SpmdTypes types;
    for (const char* operand : operands) types.push_back(type_named(operand));
    const EinsumText parsed = parse_einsum(text);
    std::vector<std::size_t> ndims;
    for (const std::string& operand : parsed.operands) {
      ndims.push_back(operand.find("...") == std::string::npos ? operand.size()
                                                               : operand.size() - 1);
    }
    const TypeAnswer answer = type_of_einsum(without_ellipsis(parsed, ndims), linear_in, types);
    return answer.type ? to_string(*answer.type) : "refused";
  };
  const LinearIn each{{0}, {1}}, both{{0, 1}};
  CHECK(type("mk,kn->mn", each, {"S(0)", "R"}) == "S(0)");
  CHECK(type("mk,kn->mn", each, {"S(1)", "S(0)"}) == "P");
  CHECK(type("mk,kn->mn", each, {"S(1)", "R"}) == "refused");
  CHECK(type("mk,kn->mn", each, {"S(0)", "S(1)"}) == "refused");
  CHECK(type("_k,kn->n", each, {"S(0)", "R"}) == "refused");
  CHECK(type("mk,kn->mn", each, {"P", "R"}) == "P");
  CHECK(type("mk,kn->mn", each, {"P", "P"}) == "refused");
  CHECK(type("mk,kn->mn", {}, {"P", "R"}) == "refused");
  CHECK(type("m,m->m", both, {"P", "P"}) == "P");
  CHECK(type("m,m->m", both, {"P", "R"}) == "refused");
  CHECK(type("...k,k->...", each, {"S(1)", "R"}) == "S(1)");  // two dims for the dots
  CHECK_THROWS_AS(parse_einsum("ab"), Error);
  CHECK_THROWS_AS(parse_einsum("a1->a"), Error);
  CHECK_THROWS_AS(parse_einsum("a->b"), Error);
}
