// The table of schema texts: names of rows are found, names that ATen does not have are refused.
#include "schema/aten_schemas.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "schema/op_descriptor.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

TEST_CASE("M-1 the schema of an op is found by its name, first and last of the table included") {
  CHECK(aten_schema("aten::add.Tensor") ==
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  CHECK(aten_schema("add.Tensor") == aten_schema("aten::add.Tensor"));
  CHECK(aten_schema("mm") == "aten::mm(Tensor self, Tensor mat2) -> Tensor");
  for (const char* name : {"aten::__and__.Scalar", "prims::view_of", "prims::zeta"}) {
    CAPTURE(name);
    CHECK(parse_op_schema(aten_schema(name)).name() == name);
  }
}

TEST_CASE("M-1 an op that ATen does not have is an error of the table that names it") {
  for (const char* name :
       {"", "aaa", "aten::add", "add.tensor", "mm.default", "prims::zzz", "zz"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(aten_schema(name), Error);
  }
}

TEST_CASE("every registered op of ATen can be called: something computes it") {
  for (const OpRow* row : all_ops().rows()) {
    CAPTURE(row->name());
    CHECK(row->runs());
  }
}

TEST_CASE(
    "M-1 a schema lives as long as its descriptor, whatever becomes of the text it was read") {
  std::string text = "my::scaled(Tensor(a!)?[] x, int[2]? sizes=None) -> Tensor(a! -> *)";
  const OpDescriptor op = OpDescriptor(parse_op_schema(text));
  const std::string expected = text;
  text.assign(text.size(), '?');
  CHECK(op.text() == expected);
  CHECK(op.arguments[0].type.spelling() == "Tensor?[]");
  CHECK(op.arguments[1].type.spelling() == "int[2]?");
  CHECK(op.arguments[1].default_text == "None");
}

}  // namespace
}  // namespace shardlab
