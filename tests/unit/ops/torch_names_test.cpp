#include "ops/torch/torch_names.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "tests/support/local_tensor.h"

using namespace shardlab;

namespace {

const OpRegistry& all_rows() {
  static const OpRegistry registry = [] {
    OpRegistry all;
    register_all_ops(all);
    return all;
  }();
  return registry;
}

Argument table_of(std::int64_t rows) {
  const std::vector<double> values(static_cast<std::size_t>(rows), 0);
  return DTensor(local_tensor({rows, 1}, DType::kF32, values));
}

std::string call_text(std::string_view name, const GivenArguments& given) {
  const ResolvedCall call = resolve_torch_call(all_rows(), name, given);
  std::string text = call.row->name();
  for (const Argument& argument : call.args) text += " " + argument.text();
  return text;
}

std::string failure(std::string_view name, const GivenArguments& given) {
  try {
    return call_text(name, given);
  } catch (const Error& error) {
    return error.summary();
  }
}

}  // namespace

TEST_CASE("a torch name is a row and its arguments") {
  const Argument t = DTensor(Tensor());
  CHECK(call_text("mm", {{t, t}, {}}) == "aten::mm f32[] f32[]");
  CHECK(call_text("concat", {{ArgumentList{t, t}, 1}, {}}) == "aten::cat [f32[], f32[]] 1");
  CHECK(call_text("multiply_", {{t, t}, {}}) == "aten::mul_.Tensor f32[] f32[]");
  CHECK(call_text("dropout", {{t}, {}}) == "aten::dropout f32[] 0.5 True");
  CHECK(call_text("dropout", {{t, 0.25}, {{"training", false}}}) ==
        "aten::dropout f32[] 0.25 False");
  CHECK(call_text("dropout", {{t, 0.25, true}, {}}) == "aten::dropout f32[] 0.25 True");
  CHECK(call_text("silu", {{t}, {{"inplace", true}}}) == "aten::silu_ f32[]");
  CHECK(call_text("leaky_relu", {{t, 0.1}, {{"inplace", true}}}) == "aten::leaky_relu_ f32[] 0.1");
  CHECK(call_text("relu", {{t}, {{"inplace", false}}}) == "aten::relu f32[]");
  CHECK(call_text("half", {{t}, {}}) == "aten::to.dtype f32[] f16 False False None");
  CHECK(call_text("to", {{t, DType::kBF16}, {}}) == "aten::to.dtype f32[] bf16 False False None");
  CHECK(call_text("to", {{t, t}, {}}) == "aten::type_as f32[] f32[]");
  CHECK(call_text("floor_divide", {{t, t}, {}}) == "aten::floor_divide f32[] f32[]");
  CHECK(call_text("floor_divide", {{t, 2}, {}}) == "aten::floor_divide.Scalar f32[] 2");
  CHECK(call_text("max", {{t}, {}}) == "aten::max f32[]");
  CHECK(call_text("max", {{t, t}, {}}) == "aten::maximum f32[] f32[]");
  CHECK(call_text("max", {{t, 1}, {}}) == "aten::max.dim f32[] 1 False");
  CHECK(call_text("split", {{t, 2, 1}, {}}) == "aten::split.Tensor f32[] 2 1");
  CHECK(call_text("split", {{t, ArgumentList{1, 2}}, {{"dim", 1}}}) ==
        "aten::split_with_sizes f32[] [1, 2] 1");
  CHECK(call_text("norm", {{t}, {{"p", 1}, {"dim", -1}}}) ==
        "aten::linalg_vector_norm f32[] 1 [-1] False None");
  CHECK(call_text("var", {{t, 0}, {{"unbiased", false}}}) == "aten::var.dim f32[] [0] False False");
  CHECK(call_text("std", {{t, false}, {}}) == "aten::std f32[] False");
  CHECK(call_text("std", {{t}, {{"correction", 0}}}) == "aten::std.correction f32[] None 0 False");
}

TEST_CASE("a function that torch writes in Python is a row of its own, called as torch does") {
  const Argument t = DTensor(Tensor());
  CHECK(call_text("softsign", {{t}, {}}) == "functional::softsign f32[]");
  CHECK(call_text("normalize", {{t}, {{"dim", -1}}}) ==
        "functional::normalize f32[] 2.0 [-1] 1e-12");
  CHECK(call_text("logsigmoid", {{t}, {}}) == "aten::log_sigmoid f32[]");
  CHECK(call_text("dropout2d", {{t}, {}}) == "aten::feature_dropout f32[] 0.5 True");
  CHECK(call_text("tensordot", {{t, t}, {}}) == "aten::tensordot f32[] f32[] [-2, -1] [0, 1]");
  CHECK(call_text("tensordot", {{t, t}, {{"dims", Dims{1, 0}}}}) ==
        "aten::tensordot f32[] f32[] [1] [0]");
  CHECK(call_text("tensordot", {{t, t, ArgumentList{Dims{0, 1}, Dims{2, 1}}}, {}}) ==
        "aten::tensordot f32[] f32[] [0, 1] [2, 1]");
  CHECK(call_text("hstack", {{ArgumentList{t, t}}, {}}) == "aten::hstack [f32[], f32[]]");
  CHECK(call_text("cartesian_prod", {{t, t}, {}}) == "aten::cartesian_prod [f32[], f32[]]");
  CHECK(resolve_torch_call(all_rows(), "einsum", {{"i,i->", t, t}, {}}).args[1].list().size() == 2);
  CHECK(call_text("hsplit", {{t, 2}, {}}) == "aten::hsplit.int f32[] 2");  // not after element 2
  CHECK(call_text("hsplit", {{t, Dims{2}}, {}}) == "aten::hsplit.array f32[] [2]");
  CHECK(call_text("max_pool2d", {{t, 2}, {}}) ==
        "aten::max_pool2d f32[] [2, 2] [] [0, 0] [1, 1] False");
  CHECK(call_text("max_pool2d", {{t, 2}, {{"return_indices", true}}}) ==
        "functional::max_pool2d f32[] [2, 2] None [0, 0] [1, 1] False True");
  CHECK(call_text("norm", {{t, "fro"}, {}}) == "functional::norm f32[] \"fro\" None False None");
  CHECK(failure("tensordot", {{t, t, Dims{1, 0, 2}}, {}}) ==
        "tensordot: dims is [1, 0, 2]; it must be a number, or a list of dims for each tensor");
}

TEST_CASE("losses take torch's word for a reduction, in torch's place") {
  const Argument t = DTensor(Tensor());
  CHECK(call_text("mse_loss", {{t, t}, {}}) == "aten::mse_loss f32[] f32[] 1");
  CHECK(call_text("mse_loss", {{t, t}, {{"reduction", "none"}}}) == "aten::mse_loss f32[] f32[] 0");
  CHECK(call_text("cross_entropy", {{t, t}, {{"reduction", "sum"}, {"ignore_index", 3}}}) ==
        "aten::cross_entropy_loss f32[] f32[] None 2 3 0.0");
  CHECK(call_text("nll_loss", {{t, t}, {}}) == "aten::nll_loss_nd f32[] f32[] None 1 -100");
  CHECK(call_text("mse_loss", {{t, t}, {{"weight", t}}}) ==
        "functional::mse_loss f32[] f32[] None None \"mean\" f32[]");
  CHECK(call_text("mse_loss", {{t, t}, {{"weight", Argument()}}}) ==
        "aten::mse_loss f32[] f32[] 1");
  CHECK(failure("mse_loss", {{t, t}, {{"reduction", "avg"}}}) ==
        "mse_loss: reduction is 'avg'; it must be 'mean', 'sum' or 'none'");
}

TEST_CASE("the padding index of an embedding counts from the end, and is -1 where there is none") {
  const Argument ids = DTensor(Tensor());
  const Argument table = table_of(5);
  const std::string call = "aten::embedding f32[5, 1] f32[] ";
  CHECK(call_text("embedding", {{ids, table}, {}}) == call + "-1 False False");
  CHECK(call_text("embedding", {{ids, table, -2}, {}}) == call + "3 False False");
  CHECK(call_text("embedding", {{ids, table}, {{"padding_idx", 0}}}) == call + "0 False False");
  CHECK(failure("embedding", {{ids, table, 5}, {}}) ==
        "embedding: padding_idx is 5, the table has 5 rows");
  CHECK(failure("embedding", {{ids, table_of(0), 0}, {}}) ==
        "embedding: padding_idx is 0, the table has 0 rows");
}

TEST_CASE("names of torch run their op, with the module in front or without") {
  const auto texts = [](std::string_view name) {
    std::vector<std::string> rows;
    for (const OpRow* row : rows_of_torch_name(all_rows(), name)) rows.push_back(row->name());
    return rows;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts("F.cross_entropy") == Texts{"aten::cross_entropy_loss"});
  CHECK(texts("torch.nn.functional.normalize") == Texts{"functional::normalize"});
  CHECK(texts("torch.linalg.det") == Texts{"aten::linalg_det", "aten::linalg_det.out"});
  CHECK(texts("kl_div") == Texts{"functional::kl_div", "aten::kl_div"});
  CHECK(texts("F.crossentropy").empty());
}

TEST_CASE("every name that is known is a call of a row") {
  for (const std::string& name : torch_names(all_rows())) {
    CAPTURE(name);
    CHECK(is_torch_name(all_rows(), name));
  }
  CHECK_FALSE(is_torch_name(all_rows(), "rellu"));
  CHECK_FALSE(is_torch_name(all_rows(), ""));
}
