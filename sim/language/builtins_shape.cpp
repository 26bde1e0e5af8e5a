// Shapes in terms of reshape, slice and expand, and statistics in terms of their general form.
#include <cmath>

#include "autograd/tape.h"
#include "sim/language/interpreter.h"

namespace shardlab {

namespace {

std::int64_t wrapped(std::int64_t dim, const DTensor& tensor, std::string_view function) {
  const auto dims = static_cast<std::int64_t>(tensor.ndim());
  if (dim < -dims || dim >= dims) {
    fail(ErrorKind::kValue, "{}: dim {} of {} dims", function, dim, dims);
  }
  return dim < 0 ? dim + dims : dim;
}

Value run_flatten(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("flatten", {"input", "start_dim=", "end_dim="}, std::move(call));
  const DTensor input = given.tensor("input");
  if (input.ndim() == 0) return in.call_op("reshape", {{input, make_tuple(Values{1})}, {}});
  const std::int64_t first = wrapped(given.integer_or("start_dim", 0), input, "flatten");
  const std::int64_t last = wrapped(given.integer_or("end_dim", -1), input, "flatten");
  if (first > last) fail(ErrorKind::kValue, "flatten: from dim {} to {}", first, last);
  Dims shape;
  std::int64_t joined = 1;
  for (std::int64_t dim = 0; dim < static_cast<std::int64_t>(input.ndim()); ++dim) {
    const std::int64_t size = input.shape()[static_cast<std::size_t>(dim)];
    if (dim < first || dim > last)
      shape.push_back(size);
    else
      joined *= size;
    if (dim == last) shape.push_back(joined);
  }
  return in.call_op("reshape", {{input, make_tuple(shape)}, {}});
}

Value run_narrow(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("narrow", {"input", "dim", "start", "length"}, std::move(call));
  const DTensor input = given.tensor("input");
  const std::int64_t dim = wrapped(given.integer("dim"), input, "narrow");
  const std::int64_t size = input.shape()[static_cast<std::size_t>(dim)];
  const std::int64_t start = given.integer("start");
  const std::int64_t length = given.integer("length");
  if (start < 0 || length < 0 || start > size - length) {
    fail(ErrorKind::kValue, "narrow: {} elements from {} of a dim of size {}", length, start, size);
  }
  return in.call_op("slice", {{input, dim, start, start + length, 1}, {}});
}

template <const char* kName, const char* kOp>
Value run_like(Interpreter& in, const Value*, CallValues call) {
  const Parameters given(kName, {"input", "other"}, std::move(call));
  return in.call_op(kOp, {{given.tensor("input"), make_tuple(given.tensor("other").shape())}, {}});
}
constexpr char kViewAs[] = "view_as";
constexpr char kView[] = "view";
constexpr char kReshapeAs[] = "reshape_as";
constexpr char kReshape[] = "reshape";
constexpr char kExpandAs[] = "expand_as";
constexpr char kExpand[] = "expand";

Value run_stack(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("stack", {"tensors", "dim="}, std::move(call));
  const Value dim = given.integer_or("dim", 0);
  if (in.has_op("stack")) return in.call_op("stack", {{given["tensors"], dim}, {}});
  Values parts;
  for (const Value& tensor : in.iterate(given["tensors"])) {
    parts.emplace_back(in.tensor_op("unsqueeze", {tensor, dim}));
  }
  return in.call_op("cat", {{make_list(std::move(parts)), dim}, {}});
}

Value run_detach(Interpreter&, const Value*, CallValues call) {
  return detach(Parameters("detach", {"input"}, std::move(call)).tensor("input"));
}

Value run_detach_here(Interpreter&, const Value*, CallValues call) {
  const DTensor input = Parameters("detach_", {"input"}, std::move(call)).tensor("input");
  detach_in_place(input);
  return input;
}

Value run_contiguous(Interpreter& in, const Value*, CallValues call) {
  const DTensor input = Parameters("contiguous", {"input"}, std::move(call)).tensor("input");
  if (in.has_op("contiguous")) return in.call_op("contiguous", {{input}, {}});
  const TensorMeta& meta = input.meta();
  if (is_contiguous(meta.shape, meta.stride)) return input;
  return in.call_op("clone", {{input}, {{"memory_format", "contiguous_format"}}});
}

// var(x, dim, unbiased, keepdim), var(x, unbiased), var(x, dim, correction=c).
Value variance(Interpreter& in, const std::string& name, CallValues call) {
  const bool flag = call.positional.size() == 2 && call.positional[1].is<bool>();
  std::vector<std::string_view> names = {"input", "dim=", "unbiased=", "keepdim=", "correction="};
  if (flag) names = {"input", "unbiased=", "dim=", "keepdim=", "correction="};
  const Parameters given(name, std::move(names), std::move(call));
  const double correction = given.has("correction")           ? given.number("correction")
                            : given.flag_or("unbiased", true) ? 1
                                                              : 0;
  const Value dim = given.has("dim") ? make_tuple(given.sizes("dim")) : Value();
  return in.call_op(name,
                    {{given.tensor("input"), dim},
                     {{"correction", correction}, {"keepdim", given.flag_or("keepdim", false)}}});
}

Value run_var(Interpreter& in, const Value*, CallValues call) {
  return variance(in, "var", std::move(call));
}

Value run_std(Interpreter& in, const Value*, CallValues call) {
  if (in.has_op("std")) return variance(in, "std", std::move(call));
  return in.call_op("sqrt", {{variance(in, "var", std::move(call))}, {}});
}

Value run_floor_divide(Interpreter& in, const Value*, CallValues call) {
  if (in.has_op("floor_divide")) return in.call_op("floor_divide", std::move(call));
  call.keywords.emplace_back("rounding_mode", std::string("floor"));
  return in.call_op("div", std::move(call));
}

Value run_norm(Interpreter& in, const Value*, CallValues call) {
  const Parameters given("norm", {"input", "p=", "dim=", "keepdim="}, std::move(call));
  const Value dim = given.has("dim") ? make_tuple(given.sizes("dim")) : Value();
  const Values arguments = {given.tensor("input"), given.number_or("p", 2), dim,
                            given.flag_or("keepdim", false)};
  return in.call_op("linalg_vector_norm", {arguments, {}});
}

}  // namespace

BuiltinTable shape_builtins() {
  static const Builtin kTable[] = {
      {"contiguous", run_contiguous},
      {"detach", run_detach},
      {"detach_", run_detach_here},
      {"expand_as", run_like<kExpandAs, kExpand>},
      {"flatten", run_flatten},
      {"floor_divide", run_floor_divide},
      {"narrow", run_narrow},
      {"norm", run_norm},
      {"reshape_as", run_like<kReshapeAs, kReshape>},
      {"stack", run_stack},
      {"std", run_std},
      {"var", run_var},
      {"view_as", run_like<kViewAs, kView>},
  };
  return kTable;
}

}  // namespace shardlab
