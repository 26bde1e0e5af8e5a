// A row computes in one of three ways: as a view (new metadata on the same memory), as a program
// over other ops, or as a kernel of the device. Kernels trust their outputs' sizes; where
// placements have chosen them, they are compared first with the sizes that the local inputs imply,
// and a wrong rule becomes an error and no write behind the end of a tensor.
#include "dispatch/local_call.h"

#include <algorithm>

#include "base/error.h"
#include "base/memory_account.h"
#include "base/rank_context.h"
#include "kernels/kernel_id.h"
#include "kernels/pointwise.h"
#include "mesh/type_string.h"
#include "ops/core/derived.h"
#include "ops/core/meta.h"
#include "schema/list_element.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

LocalArg plain_local_arg(const Argument& argument) {
  struct Convert {
    LocalArg operator()(const std::monostate&) const { return std::monostate{}; }
    LocalArg operator()(const Scalar& value) const { return value; }
    LocalArg operator()(const Dims& value) const { return value; }
    LocalArg operator()(DType value) const { return value; }
    LocalArg operator()(const std::string& value) const { return value; }
    LocalArg operator()(const Generator&) const { return std::monostate{}; }
    LocalArg operator()(const ArgumentList& list) const {
      std::vector<double> values;
      for (const Argument& element : list) values.push_back(element.to_double());
      return values;
    }
    LocalArg operator()(const DTensor&) const { return std::monostate{}; }
    LocalArg operator()(const DTensorSpec*) const { return std::monostate{}; }
  };
  return std::visit(Convert{}, argument.variant());
}

// A list of one number where the op takes `size` of them applies to all: kernels get each.
void repeat_number(LocalArg& argument, std::int64_t size) {
  Dims* const numbers = std::get_if<Dims>(&argument);
  if (numbers == nullptr || numbers->size() != 1) return;
  numbers->assign(static_cast<std::size_t>(size), numbers->front());
}

boost::container::small_vector<LocalArg, 4> local_args(const LocalCall& call) {
  const OpDescriptor& op = call.row->op;
  boost::container::small_vector<LocalArg, 4> result;
  result.reserve(op.arguments.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    const Argument& argument = (*call.args)[i];
    if (const auto& type = op.arguments[i].type; !type.is_tensor()) {
      result.push_back(plain_local_arg(argument));
      if (type.list_size > 1) repeat_number(result.back(), type.list_size);
    } else if (argument.is_list()) {
      const std::size_t count = argument.list().size();
      const auto list = call.tensors.subspan(next, count);
      result.emplace_back(std::vector<Tensor>(list.begin(), list.end()));
      next += count;
    } else {
      const Tensor& tensor = call.tensors[next++];
      if (tensor.defined()) {
        result.emplace_back(tensor);
      } else {
        result.emplace_back(std::monostate{});
      }
    }
  }
  return result;
}

MetaList tensor_metas(const LocalCall& call) {
  MetaList metas;
  metas.reserve(call.tensors.size());
  std::size_t next = 0;
  for_each_tensor_slot(call.row->op, *call.args, [&](std::size_t, const Argument& argument) {
    const Tensor& tensor = call.tensors[next++];
    // A handle whose values were not kept still has its metadata.
    const bool given = tensor.defined() || (argument.is_tensor() && argument.tensor().defined());
    metas.push_back(given ? &tensor.meta() : nullptr);
  });
  return metas;
}

MetaArgs meta_args(const LocalCall& call) {
  return MetaArgs(call.row->op, *call.args, tensor_metas(call));
}

// The arguments of an in-place or out= row that take its results, in schema order.
LocalTensors written_tensors(const LocalCall& call) {
  LocalTensors written;
  std::size_t next = 0;
  for_each_tensor_slot(call.row->op, *call.args, [&](std::size_t i, const Argument&) {
    const Tensor& tensor = call.tensors[next++];
    if (takes_result(*call.row, i)) written.push_back(tensor);
  });
  return written;
}

// The call's arguments with its local tensors in place of handles.
Arguments with_locals(const LocalCall& call) {
  Arguments args = *call.args;
  std::size_t next = 0;
  const auto handle = [&] {
    const Tensor& tensor = call.tensors[next++];
    return tensor.defined() ? Argument(DTensor(tensor)) : Argument();
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!call.row->op.arguments[i].type.is_tensor()) continue;
    if (!args[i].is_list()) {
      args[i] = handle();
      continue;
    }
    ArgumentList list(args[i].list().size());
    for (Argument& element : list) element = handle();
    args[i] = std::move(list);
  }
  return args;
}

void append_tensors(const Argument& result, LocalTensors& outputs) {
  if (result.is_list()) {
    for (const Argument& element : result.list()) append_tensors(element, outputs);
  } else {
    outputs.push_back(result.is_tensor() ? result.tensor().local() : Tensor());
  }
}

// An out= tensor of another shape is replaced; the caller hands the new one to its handle.
void resize_outs(const LocalCall& call, const OutputMetas& metas, LocalTensors& outs) {
  for (std::size_t i = 0; i < outs.size() && i < metas.size(); ++i) {
    if (!outs[i].defined() || !metas[i].present) continue;
    if (outs[i].shape() == metas[i].meta.shape) continue;
    outs[i] = empty(*call.device, metas[i].meta.shape, outs[i].dtype());
  }
}

// The arguments that an in-place or out= op writes take the results of its program. Programs that
// write by themselves, for each element of a list, give these very tensors, or nothing.
LocalTensors stored(const LocalCall& call, const OutputMetas& metas, const LocalTensors& results) {
  LocalTensors written = written_tensors(call);
  if (call.row->out_variant()) resize_outs(call, metas, written);
  for (std::size_t i = 0; i < std::min(results.size(), written.size()); ++i) {
    if (results[i].storage() == written[i].storage()) continue;
    (*call.calls)("aten::copy_", {DTensor(written[i]), DTensor(results[i])});
  }
  return written;
}

// Errors name the local op and the op that it belongs to.
Results run_as_part_of(const LocalCall& call, const auto& program) {
  try {
    return program();
  } catch (Error& error) {
    if (error.find("op") != nullptr) {
      error.with("part of", OpSchema{call.row, *call.args, nullptr}.text());
    }
    throw;
  }
}

Results program_results(const LocalCall& call) {
  const OpRow& row = *call.row;
  const Arguments args = with_locals(call);
  const auto* program = std::get_if<ProgramFn>(&row.compute);
  return run_as_part_of(call, [&] {
    return program != nullptr ? (*program)(*call.calls, row, args)
                              : through_parts(*call.calls, row, args);
  });
}

// The kernel of each element of a list by itself. Sizes are those of `metas`: of an element whose
// piece is empty shape inference may refuse it while the kernel gives a neutral element.
LocalTensors run_elements(const LocalCall& call, const OpRow& element, const OutputMetas& metas) {
  const Arguments args = with_locals(call);
  LocalTensors outputs;
  for (std::size_t k = 0; k < metas.size(); ++k) {
    const Arguments own = element_arguments(*call.row, args, k);
    LocalTensors tensors;
    for_each_tensor_slot(element.op, own, [&](std::size_t, const Argument& tensor) {
      tensors.push_back(tensor.is_tensor() ? tensor.tensor().local() : Tensor());
    });
    const LocalCall one{.row = &element,
                        .args = &own,
                        .tensors = {tensors.data(), tensors.size()},
                        .device = call.device,
                        .calls = call.calls};
    outputs.push_back(run_local(one, {metas[k]}).front());
  }
  return outputs;
}

// Whether a kernel gives one new tensor for each element of the lists.
bool maps_lists(const OpRow& row, const OpRow* element) {
  return element != nullptr && !row.inplace() && element->op.returns.size() == 1 &&
         !element->op.returns[0].type.is_list && computed_by_kernel(*element) &&
         !element->has(kRandom) && !element->has(kNeedsPosition);
}

// A row whose local computation is a program, or the parts of a composite op.
LocalTensors run_program(const LocalCall& call, const OutputMetas& metas) {
  const OpRow& row = *call.row;
  if (const OpRow* element = element_row(row); maps_lists(row, element)) {
    return run_elements(call, *element, metas);
  }
  LocalTensors outputs;
  {
    // Inside one op only the results count, as of a kernel.
    const KernelScope scope;
    for (const Argument& result : program_results(call)) append_tensors(result, outputs);
  }
  for (Tensor& output : outputs) output = counted(output);
  if (row.inplace() || row.out_variant()) return stored(call, metas, outputs);
  if (outputs.size() != metas.size()) {
    fail(ErrorKind::kInternal, "{}: its local program gave {} results, its metadata function {}",
         row.name(), outputs.size(), metas.size());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!metas[i].present) continue;
    const TensorMeta& meta = metas[i].meta;
    // Sizes of a result without elements follow from the placements alone.
    const bool none = outputs[i].defined() && outputs[i].numel() == 0 && product(meta.shape) == 0;
    if (none && outputs[i].shape() != meta.shape && outputs[i].dtype() == meta.dtype) {
      outputs[i] = empty(*call.device, meta);
    }
    if (outputs[i].defined() && outputs[i].shape() == meta.shape &&
        outputs[i].dtype() == meta.dtype) {
      continue;
    }
    fail(ErrorKind::kInternal, Fix{"make both agree for pieces of every size, empty ones included"},
         "{}: its local program gave {} as result {}, its metadata function {}", row.name(),
         outputs[i].defined() ? type_string(outputs[i].meta()) : "None", i, type_string(meta));
  }
  return outputs;
}

// Calls of a program inside of an op are not part of the user's program: nothing records or wraps
// them.
class InsideOp {
 public:
  InsideOp() : rank_(current_rank()), calls_(rank_.calls), mode_(rank_.mode) {
    rank_.calls = rank_.own_calls;
    rank_.mode &= ~std::uint32_t{kModeAutograd};
  }
  ~InsideOp() {
    rank_.calls = calls_;
    rank_.mode |= mode_ & kModeAutograd;
  }
  InsideOp& operator=(InsideOp&&) = delete;

 private:
  RankContext& rank_;
  ProgramCalls* calls_;
  std::uint32_t mode_;
  KernelScope counts_;  // inside one op only the results count, as of a kernel
};

// In messages.
std::string local_program(const OpRow& row) {
  const auto* rule = std::get_if<FactorRule>(&row.rule);
  return fmt::format("{}: the local program of {}", row.name(),
                     rule == nullptr ? "its rule" : fmt::format("the rule {}", rule->text));
}

[[noreturn]] void refuse_piece(const LocalCall& call, std::size_t i, const OutputMeta& wanted,
                               const std::string& given) {
  const std::string expected = wanted.present ? type_string(wanted.meta) : "None";
  fail(Fix{"return this rank's piece as the rule places the result, of every size: pieces may be "
           "shorter than others, and empty"},
       "{} gave {} as result {}, the piece of this rank is {}", local_program(*call.row), given, i,
       expected);
}

// A result that shares an operand's memory becomes a copy: writing to one is not writing to both.
Tensor piece_of(const LocalCall& call, std::size_t i, const Argument& result,
                const OutputMeta& wanted) {
  if (!result.is_tensor() || !result.tensor().defined()) {
    if (!wanted.present && (result.is_none() || result.is_tensor())) return {};
    refuse_piece(call, i, wanted, result.is_tensor() ? "None" : result.text());
  }
  const DTensor& given = result.tensor();
  const bool fits = !given.distributed() && wanted.present &&
                    given.local().shape() == wanted.meta.shape &&
                    given.dtype() == wanted.meta.dtype;
  if (!fits) refuse_piece(call, i, wanted, type_string(given));
  const auto shares = [&](const Tensor& operand) {
    return operand.defined() && operand.storage() == given.local().storage();
  };
  if (std::ranges::none_of(call.tensors, shares)) return given.local();
  return call.calls->one("aten::clone", {given}).local();
}

Results given_by_user(const LocalCall& call, const OutputSharding& decision) {
  const Arguments args = with_locals(call);
  return run_as_part_of(call, [&] {
    return (*call.row->on_pieces)({*call.calls, *call.row, args, decision});
  });
}

LocalTensors run_view(const LocalCall& call) {
  LocalTensors outputs;
  const Tensor& base = call.tensors.front();
  try {
    for (ViewResult& view : call.row->view()(base, meta_args(call))) {
      Tensor result = base.as_view(std::move(view.meta), view.offset);
      outputs.push_back(std::move(result));
    }
  } catch (const OutOfRange& error) {
    refuse_short_operands(*call.row, error);
  }
  return outputs;
}

// Pointwise kernels compute half types in f32 and would hand on more digits than their results
// have: an out= tensor of another dtype takes results that were rounded to their own. Reductions
// add up in the dtype of the out= tensor, as in the reference.
bool rounds_first(const LocalCall& call, KernelId kernel, const LocalTensors& outs) {
  if (!call.row->out_variant() || call.row->base == nullptr || call.device->shape_only()) {
    return false;
  }
  if (!is_pointwise(kernel)) return false;
  return std::ranges::any_of(call.tensors, [&](const Tensor& tensor) {
    return tensor.defined() && tensor.dtype() != outs[0].dtype();
  });
}

LocalTensors run_kernel(const LocalCall& call, KernelId kernel, const OutputMetas& metas) {
  const OpRow& row = *call.row;
  LocalTensors outputs;
  if (row.inplace() || row.out_variant()) {
    outputs = written_tensors(call);
    if (row.out_variant()) resize_outs(call, metas, outputs);
  } else {
    outputs.reserve(metas.size());
    for (const OutputMeta& output : metas) {
      outputs.push_back(output.present ? empty(*call.device, output.meta) : Tensor());
    }
  }
  LocalTensors rounded;
  if (rounds_first(call, kernel, outputs)) {
    const KernelScope scope;
    const OutputMetas own = unwritten_metas(row, *call.args, tensor_metas(call));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      rounded.push_back(empty(*call.device, outputs[i].shape(), own[i].meta.dtype));
    }
  }
  const LocalTensors& written = rounded.empty() ? outputs : rounded;
  const auto args = local_args(call);
  call.device->run({.kernel = kernel,
                    .args = {args.data(), args.size()},
                    .outputs = {written.data(), written.size()},
                    .view = call.view,
                    .random = call.random});
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    (*call.calls)("aten::copy_", {DTensor(outputs[i]), DTensor(rounded[i])});
  }
  return outputs;
}

}  // namespace

LocalTensors run_on_pieces(const LocalCall& call, const OutputSharding& decision,
                           const OutputMetas& metas) {
  const OpRow& row = *call.row;
  LocalTensors outputs;
  {
    const InsideOp inside;
    const Results results = given_by_user(call, decision);
    if (results.size() != metas.size()) {
      fail(Fix{"return a piece of each result"}, "{} gave {} results, the op has {}",
           local_program(row), results.size(), metas.size());
    }
    for (std::size_t i = 0; i < metas.size(); ++i) {
      outputs.push_back(piece_of(call, i, results[i], metas[i]));
    }
  }
  for (Tensor& output : outputs) output = counted(output);
  return row.inplace() || row.out_variant() ? stored(call, metas, outputs) : outputs;
}

bool computed_by_kernel(const OpRow& row) {
  return row.view() == nullptr && !row.computed_by_program();
}

bool takes_result(const OpRow& row, std::size_t argument) {
  const SchemaArgument& declared = row.op.arguments[argument];
  return declared.alias.write && (declared.is_out || !row.out_variant());
}

Tensor counted(const Tensor& local) {
  if (!local.defined() || local.storage()->counted()) return local;
  return Tensor(local.storage()->copy(), local.meta(), local.offset());
}

OutputMetas infer_local(const LocalCall& call) {
  if (call.row->meta == nullptr) {
    fail(ErrorKind::kUnsupported, Fix{"give its row a metadata function: `meta`"},
         "{}: no shapes can be inferred, its row has no metadata function", call.row->name());
  }
  return infer_metas(*call.row, *call.args, tensor_metas(call));
}

namespace {

// A factory writes the value of each position of its outputs, whatever they are.
bool makes_positions(const OpRow& row) {
  return row.has(kNeedsPosition) &&
         std::ranges::none_of(row.op.arguments, [](const SchemaArgument& argument) {
           return argument.type.is_tensor() && !argument.is_out;
         });
}

bool has_empty_piece(const LocalCall& call) {
  return std::ranges::any_of(
      call.tensors, [](const Tensor& tensor) { return tensor.defined() && tensor.numel() == 0; });
}

bool has_elements(const OutputMetas& metas) {
  return std::ranges::any_of(metas, [](const OutputMeta& output) {
    return output.present && product(output.meta.shape) > 0;
  });
}

}  // namespace

// Kernels read sizes from their inputs and write outputs that the placements have sized: where both
// disagree, or the row's metadata refuses the rank's pieces, a rule is wrong, and a kernel would
// read or write beyond its memory. Shape inference may refuse pieces without elements; nothing is
// read of these.
void check_output_sizes(const LocalCall& call, const OutputMetas& metas) {
  if (call.row->meta == nullptr || !computed_by_kernel(*call.row)) return;
  if (makes_positions(*call.row)) return;
  OutputMetas made;
  try {
    made = infer_local(call);
  } catch (const Error& error) {
    // An out-variant is given the sizes of the whole, which its kernel does not read.
    const bool sized_by_out = call.row->base != nullptr && call.row->out_variant();
    if (sized_by_out || has_empty_piece(call) || !has_elements(metas)) return;
    fail(ErrorKind::kInternal,
         Fix{"correct the op's sharding rule: it takes inputs that are cut apart"},
         "{}: the pieces of this rank do not fit together: {}", call.row->name(), error.summary());
  }
  for (std::size_t i = 0; i < std::min(made.size(), metas.size()); ++i) {
    if (!made[i].present || !metas[i].present || made[i].meta.shape == metas[i].meta.shape) {
      continue;
    }
    fail(ErrorKind::kInternal,
         Fix{"correct the op's sharding rule: its output is not placed as its inputs are"},
         "{}: the placements make result {} [{}] on this rank, its inputs make it [{}]",
         call.row->name(), i, text_of_list(metas[i].meta.shape, ", "),
         text_of_list(made[i].meta.shape, ", "));
  }
}

LocalTensors run_local(const LocalCall& call, const OutputMetas& metas) {
  const OpRow& row = *call.row;
  if (row.view() != nullptr) return run_view(call);
  if (row.computed_by_program()) return run_program(call, metas);
  const KernelId kernel = call.kernel != KernelId::kNone ? call.kernel : row.kernel();
  // A row that computes nothing has only shapes.
  if (kernel == KernelId::kNone && !call.device->shape_only()) {
    fail(ErrorKind::kUnsupported, Fix{"shardlab ops lists the ops that run"},
         "{}: no kernel for this op", row.name());
  }
  return run_kernel(call, kernel, metas);
}

LocalTensors run_placed(const LocalCall& call, const OutputMetas& metas) {
  check_output_sizes(call, metas);
  return run_local(call, metas);
}

}  // namespace shardlab
