#include <doctest/doctest.h>

#include "base/error.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

struct Registered {
  OpRegistry registry;
  const OpRow& add(const char* schema) {
    OpRow row;
    row.op = parse_op_schema(schema);
    return registry.add(std::move(row));
  }
};

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.summary();
  }
  return "no error";
}

}  // namespace

TEST_CASE("arguments take schema order, defaults and their declared types") {
  Registered f;
  const OpRow& row = f.add(
      "f(Scalar x, int[2] size, float p=0.5, *, bool keep=False, int[1]? dim=None, "
      "str mode=\"none\", ScalarType? dtype=None) -> ()");
  const Arguments args = bind_arguments(row, {3, 4}, {{"dim", ArgumentList{1, 2}}, {"keep", true}});
  REQUIRE(args.size() == 7);
  CHECK(args[0] == Argument(3));
  CHECK(args[1] == Argument(Dims{4, 4}));  // one int for int[2]
  CHECK(args[2] == Argument(0.5));
  CHECK(args[3] == Argument(true));
  CHECK(args[4] == Argument(Dims{1, 2}));
  CHECK(args[5] == Argument("none"));
  CHECK(args[6].is_none());
  CHECK(bind_arguments(row, {3, Dims{1, 2}, 1})[2] == Argument(1.0));  // an int in place of a float
}

TEST_CASE("a wrong argument is refused by name") {
  Registered f;
  const OpRow& row = f.add("f(Scalar x, int n, *, ScalarType? dtype=None) -> ()");
  CHECK(refusal([&] { bind_arguments(row, {1}); }) == "aten::f: 'n' is missing");
  CHECK(refusal([&] { bind_arguments(row, {1, 2.5}); }) == "aten::f: 'n' is 2.5, must be int");
  CHECK(refusal([&] {
          bind_arguments(row, {1, 2}, {{"y", 1}});
        }) == "aten::f: has no argument 'y'");
  CHECK(refusal([&] { bind_arguments(row, {1, 2}, {{"n", 1}}); }) == "aten::f: 'n' is given twice");
  CHECK(refusal([&] {
          bind_arguments(row, {1, 2}, {{"dtype", 3}});
        }) == "aten::f: 'dtype' is 3, must be ScalarType?");
}

TEST_CASE("a call of a program is bound as Python does, and refused in the same words") {
  Registered f;
  const OpRow& row = f.add("f(Scalar self, int[2] dim, *, bool keepdim=False) -> ()");
  const auto python = [&](const GivenArguments& given) {
    return bind_arguments(row, given, BindRules::Style::kPython);
  };
  const Arguments args = python({{}, {{"input", 3}, {"axis", 1}, {"keepdims", true}}});
  CHECK(args[1] == Argument(Dims{1, 1}));
  CHECK(args[2] == Argument(true));
  CHECK(refusal([&] { python({{3}, {}}); }) == "aten::f: 'dim' is missing");
  CHECK(refusal([&] { bind_arguments(row, {3}); }) == "aten::f: 'dim' is missing");
  CHECK(refusal([&] {
          python({{3, 1, true}, {}});
        }) == "aten::f: takes at most 2 positional arguments, 3 are given");
}

TEST_CASE("a tensor that is not optional is not None") {
  Registered f;
  const OpRow& row = f.add("f(Tensor self, Tensor? other=None) -> Tensor");
  CHECK(refusal([&] { bind_arguments(row, {Argument()}); }) ==
        "aten::f: 'self' is None, must be Tensor");
  CHECK(bind_arguments(row, {2.0})[1].is_none());
}

TEST_CASE("an unknown op is Unsupported and names its neighbours") {
  Registered f;
  f.add("softmax.int(Tensor self, int dim) -> Tensor");
  const OpRow& row = f.add("relu(Tensor self) -> Tensor");
  CHECK(f.registry.find("aten.relu.default") == &row);
  CHECK(f.registry.find("aten::relu") == &row);
  try {
    f.registry.at("rellu");
    FAIL("an unknown op was found");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    CHECK(error.find("fix")->find("aten::relu") != std::string::npos);
  }
  CHECK(refusal([&] { f.add("relu(Tensor self) -> Tensor"); }) == "aten::relu is registered twice");
}

}  // namespace shardlab
