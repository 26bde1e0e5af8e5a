// dispatch_replay_test.cpp - recorded calls through the dispatcher, on plain tensors in a world of
// one rank: shape inference, argument binding, in-place and out= rules and kernels together.
//   dispatch_replay FACTS_FOLDER values|gradients
// `values`: every recorded call of a registered op gives the recorded shapes, dtypes and values, or
// fails as recorded. `gradients`: every recorded gradient case of an op that has one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "autograd/autograd.h"
#include "base/error.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kernel_id.h"
#include "propagate/propagator.h"
#include "sim/facts/check.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"
#include "tests/golden/kernels/agreement.h"
#include "tests/golden/kernels/value_cases.h"

using namespace shardlab;

namespace {

Argument argument_of(const LocalArg& value) {
  struct Convert {
    Argument operator()(std::monostate) const { return {}; }
    Argument operator()(const Tensor& tensor) const { return DTensor(tensor); }
    Argument operator()(const std::vector<Tensor>& tensors) const {
      ArgumentList list;
      for (const Tensor& tensor : tensors) {
        list.push_back(tensor.defined() ? Argument(DTensor(tensor)) : Argument());
      }
      return list;
    }
    Argument operator()(const std::vector<double>& numbers) const {
      return ArgumentList(numbers.begin(), numbers.end());
    }
    Argument operator()(const Scalar& number) const { return number; }
    Argument operator()(const Dims& ints) const { return ints; }
    Argument operator()(DType dtype) const { return dtype; }
    Argument operator()(const std::string& text) const { return text; }
  };
  return std::visit(Convert{}, value);
}

Arguments arguments_of(const OpRow& row, const ValueCase& value_case) {
  Arguments positional;
  for (const LocalArg& arg : value_case.args) positional.push_back(argument_of(arg));
  std::vector<std::pair<std::string, Argument>> keywords;
  for (const auto& [name, value] : value_case.kwargs) {
    keywords.emplace_back(name, argument_of(value));
  }
  return bind_arguments(row, std::move(positional), std::move(keywords));
}

template <typename Visit>
void for_each_flat(const Arguments& arguments, Visit visit) {
  for (const Argument& argument : arguments) {
    if (!argument.is_list()) {
      visit(argument);
    } else {
      for (const Argument& element : argument.list()) visit(element);
    }
  }
}

// What the case calls outputs: the results, or what an op without results wrote.
Arguments outputs_of(const OpRow& row, const ValueCase& value_case, const Arguments& args,
                     const Results& results) {
  Arguments flat;
  const auto keep = [&](const Argument& argument) { flat.push_back(argument); };
  if (!value_case.outputs_are_mutated) {
    for_each_flat(results, keep);
    return flat;
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (row.op.arguments[i].alias.write) for_each_flat({args[i]}, keep);
  }
  return flat;
}

// Empty when they agree.
std::string difference(const Argument& got, const RecordedOutput& expected, bool compare_values) {
  if (expected.scalar) {
    if (!got.is_scalar()) return "is no number";
    const bool same = got.scalar() == *expected.scalar;
    return same ? "" : fmt::format("is {}, not {}", got.text(), expected.scalar->text());
  }
  if (!expected.defined) return got.is_none() ? "" : "is " + got.text() + ", not None";
  if (!got.is_tensor()) return "is no tensor";
  const Tensor& tensor = got.tensor().local();
  if (tensor.shape() != expected.meta.shape || tensor.dtype() != expected.meta.dtype) {
    return fmt::format("is {}[{}], not {}[{}]", to_string(tensor.dtype()),
                       fmt::join(tensor.shape(), ", "), to_string(expected.meta.dtype),
                       fmt::join(expected.meta.shape, ", "));
  }
  std::string where;
  if (!compare_values || !expected.comparable) return {};
  return agreement(tensor, expected, where) == 0 ? where : std::string();
}

enum class Outcome { kPassed, kFailed, kSkipped };

// A gradient program that the tape can find: the row's, its base row's, or that of its parts.
bool has_gradient(const OpRow& row) {
  return row.gradient || (row.base != nullptr && row.base->gradient) || row.parts() != nullptr;
}

// What a mask chooses depends on data: refused by name.
bool indexes_by_mask(const OpRow& row, const ValueCase& value_case) {
  if (row.op.arguments.size() < 2 || row.op.arguments[1].name != "indices") return false;
  const Arguments args = arguments_of(row, value_case);
  return args[1].is_list() && std::ranges::any_of(args[1].list(), [](const Argument& index) {
           const bool given = index.is_tensor() && index.tensor().defined();
           return given &&
                  (index.tensor().dtype() == DType::kBool || index.tensor().dtype() == DType::kU8);
         });
}

bool numbers_a_dtype(const OpRow& row, const ValueCase& value_case) {
  for (std::size_t i = 0; i < value_case.args.size() && i < row.op.arguments.size(); ++i) {
    const bool number = std::holds_alternative<Scalar>(value_case.args[i]);
    if (number && row.op.arguments[i].type.kind == TypeKind::kDType) return true;
  }
  return false;
}

class Replay {
 public:
  Replay(std::string folder, const OpRegistry& registry, Device& device)
      : folder_(std::move(folder)), registry_(&registry), device_(&device) {}

  void values(const std::string& family) {
    replay(family, &Replay::value_skip, &Replay::value_problem);
  }
  void gradients() { replay("grads", &Replay::gradient_skip, &Replay::gradient_problem); }

  bool good() const { return failed_ == 0; }

 private:
  using Skip = const char* (*)(const OpRow& row, const ValueCase& value_case);
  using Problem = std::string (*)(const OpRow& row, const ValueCase& value_case);

  void replay(const std::string& family, Skip skip, Problem problem) {
    std::map<std::string, int> counts;
    int passed = 0, failed = 0, skipped = 0;
    const auto visit = [&](ValueCase& value_case) {
      const OpRow* row = registry_->find(value_case.op);
      const char* reason = row == nullptr ? "not registered" : skip(*row, value_case);
      if (reason != nullptr) {
        ++counts[reason];
        ++skipped;
        return;
      }
      std::string found;
      try {
        found = problem(*row, value_case);
      } catch (const Error& error) {
        found = error.summary();
      }
      ++(found.empty() ? passed : failed);
      if (!found.empty()) fmt::print("  {}: {}\n", value_case.id, found);
    };
    for_each_value_case(folder_ + "/" + family + ".jsonl.gz", *device_, Layout::kRecorded, visit);
    fmt::print("{:<18} {:>5} passed, {} failed, {} skipped", family, passed, failed, skipped);
    for (const auto& [reason, count] : counts) fmt::print("; {} {}", count, reason);
    fmt::print("\n");
    failed_ += failed;
  }

  static const char* value_skip(const OpRow& row, const ValueCase& value_case) {
    if (row.has(kIncomplete)) return "incomplete";
    if (!row.runs()) return "no kernel";
    if (indexes_by_mask(row, value_case)) return "an index by a mask";
    if (numbers_a_dtype(row, value_case)) return "a dtype written as a number";
    return differs_on_purpose(value_case.id) ? "recorded value is wrong" : nullptr;
  }

  static std::string value_problem(const OpRow& row, const ValueCase& value_case) {
    if (!value_case.raises.empty()) return refusal_problem(row, value_case);
    const Arguments args = arguments_of(row, value_case);
    const Results results = plain_calls().call(row, args);
    if (row.op.returns.empty() && !value_case.outputs_are_mutated) return {};
    const Arguments outputs = outputs_of(row, value_case, args, results);
    if (outputs.size() != value_case.outputs.size()) {
      return fmt::format("{} results, not {}", outputs.size(), value_case.outputs.size());
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const RecordedOutput& expected = value_case.outputs[i];
      if (value_case.emulated && !expected.comparable) continue;
      const std::string& op = value_case.derived.empty() ? value_case.op : value_case.derived;
      const Argument got = value_case.emulated ? unpadded(outputs[i], expected) : outputs[i];
      const std::string found = difference(got, expected, !is_undetermined(op, i));
      if (!found.empty()) return fmt::format("output {} {}", i, found);
    }
    return {};
  }

  // Kernels of GPUs store some results in blocks of the last dim, which the formula does not have.
  static Argument unpadded(const Argument& got, const RecordedOutput& expected) {
    if (!got.is_tensor() || expected.meta.shape.empty()) return got;
    return plain_calls().one("aten::slice.Tensor", {got, -1, 0, expected.meta.shape.back()});
  }

  static std::string refusal_problem(const OpRow& row, const ValueCase& value_case) {
    const auto kind = error_of([&] { plain_calls().call(row, arguments_of(row, value_case)); });
    if (!kind) return "did not raise " + value_case.raises;
    // What shape inference refuses is Value here, whatever the reference's class.
    if (*kind == ErrorKind::kValue || same_error(value_case.raises, *kind)) return {};
    return fmt::format("raised {}, not {}", to_string(*kind), value_case.raises);
  }

  static const char* gradient_skip(const OpRow& row, const ValueCase& value_case) {
    if (row.has(kIncomplete)) return "incomplete";
    const bool none = std::ranges::none_of(value_case.grad_outputs, &Tensor::defined);
    if (none) return "no gradient flows in";
    if (indexes_by_mask(row, value_case)) return "an index by a mask";
    if (differs_on_purpose(value_case.id)) return "recorded value is wrong";
    return has_gradient(row) ? nullptr : "no gradient for this op";
  }

  // Sum over the results of <result, its gradient>: a loss with exactly these gradients.
  static DTensor loss_of(const Results& results, const std::vector<Tensor>& grads) {
    Calls& calls = recording_calls();
    DTensor loss;
    std::size_t next = 0;
    for_each_flat(results, [&](const Argument& result) {
      const std::size_t index = next++;
      if (!result.is_tensor() || !grads[index].defined()) return;
      const DTensor weighted =
          calls.one("aten::mul.Tensor", {result, Argument(DTensor(grads[index]))});
      const DTensor sum = calls.one("aten::sum", {weighted});
      loss = loss.defined() ? calls.one("aten::add.Tensor", {loss, sum}) : sum;
    });
    return loss;
  }

  static std::string gradient_problem(const OpRow& row, const ValueCase& value_case) {
    const Arguments args = arguments_of(row, value_case);
    std::vector<DTensor> tensors;
    for_each_flat(args, [&](const Argument& argument) {
      if (argument.is_tensor()) tensors.push_back(argument.tensor());
    });
    std::vector<DTensor> inputs;
    for (const auto& [index, expected] : value_case.grad_inputs) {
      require_grad(tensors.at(index));
      inputs.push_back(tensors[index]);
    }
    const Results results = recording_calls().call(row, args);
    if (!same_choice(value_case, results)) return {};
    const DTensor loss = loss_of(results, value_case.grad_outputs);
    if (!loss.requires_grad()) return every_gradient_is_none(value_case);
    const std::vector<DTensor> grads = shardlab::gradients(loss, inputs);
    std::size_t next = 0;
    for (const auto& [index, expected] : value_case.grad_inputs) {
      const DTensor& grad = grads[next++];
      const std::string found = gradient_difference(grad, expected);
      if (!found.empty()) return fmt::format("gradient of tensor {} {}", index, found);
    }
    return {};
  }

  // What a definition leaves open (the signs of vectors) decides the gradients of what it is given
  // to: those of another choice are others. Finite differences judge them.
  static bool same_choice(const ValueCase& value_case, const Results& results) {
    Arguments flat;
    for_each_flat(results, [&](const Argument& result) { flat.push_back(result); });
    for (std::size_t i = 0; i < std::min(flat.size(), value_case.outputs.size()); ++i) {
      if (!value_case.grad_outputs[i].defined() || !is_undetermined(value_case.op, i)) continue;
      if (!difference(flat[i], value_case.outputs[i], true).empty()) return false;
    }
    return true;
  }

  static std::string every_gradient_is_none(const ValueCase& value_case) {
    for (const auto& [index, expected] : value_case.grad_inputs) {
      if (expected.defined) return fmt::format("tensor {} has no gradient", index);
    }
    return {};
  }

  // No gradient and a gradient of zeros are the same.
  static std::string gradient_difference(const DTensor& grad, const RecordedOutput& expected) {
    const auto is_zero = [](const std::complex<double>& x) { return x == 0.0; };
    if (!expected.defined) {
      if (!grad.defined()) return {};
      RecordedOutput zero{.meta = grad.local().meta(), .comparable = true};
      zero.values.resize(static_cast<std::size_t>(grad.numel()));
      return difference(Argument(grad), zero, true);
    }
    if (!grad.defined()) {
      return std::ranges::all_of(expected.values, is_zero) ? "" : "is missing";
    }
    return difference(Argument(grad), expected, true);
  }

  std::string folder_;
  const OpRegistry* registry_;
  Device* device_;
  int failed_ = 0;
};

constexpr const char* kFamilies[] = {
    "conv_pool",       "creation", "fft",    "foreach",   "index",
    "linalg",          "matmul",   "misc",   "norm_loss", "pointwise_binary",
    "pointwise_unary", "prims",    "random", "reduce",    "sort_scan",
    "special",         "views"};

}  // namespace

int main(int argc, char** argv) {
  const bool gradients = argc == 3 && std::strcmp(argv[2], "gradients") == 0;
  if (argc != 3 || (!gradients && std::strcmp(argv[2], "values") != 0)) {
    std::fputs("usage: dispatch_replay FACTS_FOLDER values|gradients\n", stderr);
    return 2;
  }
  OpRegistry registry;
  register_all_ops(registry);
  Propagator propagator(registry, PlanOptions{});
  const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  WorldOptions options;
  options.schedule.kind = SchedulerKind::kThreads;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  bool good = true;
  run_world(options, [&](RankContext&) {
    Replay replay(argv[1], registry, *device);
    if (gradients) {
      replay.gradients();
    } else {
      for (const char* family : kFamilies) replay.values(family);
    }
    good = replay.good();
  }).rethrow();
  return good ? 0 : 1;
}
