#include "schema/op_descriptor.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace shardlab {

TEST_CASE("M-1 a schema text is read and printed back") {
  const char* const texts[] = {
      "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
      "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
      "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, "
      "ScalarType? dtype=None) -> Tensor",
      "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, SymInt dim=0) -> Tensor(a)[]",
      "aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> "
      "Tensor",
      "aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) "
      "max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
      "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other, *, Scalar alpha=1) -> ()",
      "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
  };
  for (const char* text : texts) CHECK(parse_op_schema(text).text() == text);
}

TEST_CASE("M-1 parts of a schema") {
  const OpDescriptor op = parse_op_schema(
      "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) "
      "max_values) -> (Tensor(a!) values, Tensor(b!) indices)");
  CHECK(op.name() == "aten::max.dim_max");
  CHECK(op.positional_count() == 3);
  CHECK(op.arguments[2].default_text == "False");
  CHECK(op.arguments[3].is_out);
  CHECK(op.arguments[4].alias.marks == "b!");
  CHECK(op.returns[1].name == "indices");
  const SchemaType indices =
      parse_op_schema("f(Tensor?[] i, int[2] k, int[1]? d) -> ()").arguments[0].type;
  CHECK(indices.is_list);
  CHECK(indices.elements_optional);
  CHECK_FALSE(indices.is_optional);
}

TEST_CASE("X-3 in-place, out and views follow the annotations, not the names") {
  CHECK(parse_op_schema("relu_(Tensor(a!) self) -> Tensor(a!)").is_inplace());
  CHECK_FALSE(
      parse_op_schema("__irshift__.Scalar(Tensor self, Scalar other) -> Tensor").is_inplace());
  CHECK(parse_op_schema("_foreach_zero_(Tensor(a!)[] self) -> ()").is_inplace());
  const OpDescriptor out = parse_op_schema(
      "tanh_backward.grad_input(Tensor grad_output, Tensor output, *, Tensor(a!) "
      "grad_input) -> Tensor(a!)");
  CHECK(out.is_out_variant());
  CHECK_FALSE(out.is_inplace());
  CHECK_FALSE(parse_op_schema("view_without(Tensor layout) -> Tensor").is_out_variant());
  CHECK(parse_op_schema("t(Tensor(a) self) -> Tensor(a)").is_view());
  CHECK_FALSE(parse_op_schema("t_(Tensor(a!) self) -> Tensor(a!)").is_view());
}

TEST_CASE("O-27, X-16 kinds of returns") {
  CHECK(parse_op_schema("f(Tensor x) -> (Tensor, Tensor)").returns_tuple_of_tensors());
  CHECK(parse_op_schema("f(Tensor x) -> Tensor[]").returns_list_of_tensors());
  CHECK(parse_op_schema("f(Tensor x) -> (Tensor, Tensor)").returns_tensor());
  CHECK_FALSE(parse_op_schema("f(Tensor x) -> ()").returns_tensor());
  CHECK_FALSE(parse_op_schema("f(Tensor x) -> bool").returns_tensor());
}

TEST_CASE("a malformed schema is refused with the place") {
  for (const char* text : {"", "f", "f(Tensor x", "f(Tensor x) Tensor", "f(Tensor) -> Tensor",
                           "f(Tensor x) -> Tensor extra more"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_op_schema(text), Error);
  }
}

}  // namespace shardlab
