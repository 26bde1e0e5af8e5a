// replay_test.cpp - every recorded value case of an op that has a kernel must give its value.
//   kernel_replay FACTS_FOLDER [cpu|cuda|cuda-on-host]
// cuda-on-host runs the kernels of the CUDA device on the host. Cases that a device does not
// compute are counted apart. Each case runs twice, with its inputs as recorded and with turned
// strides. Tolerances are those of the facts' README; where only ten times the tolerance holds, the
// case counts as "loose".
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "backends/cuda/cuda.h"
#include "base/error.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kernel_id.h"
#include "kernels/promotion.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/files/text_lines.h"
#include "tensor/host.h"
#include "tests/facts/agreement.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/open_choice.h"
#include "tests/facts/value_case.h"
#include "tests/support/host_table.h"

using namespace shardlab;

namespace {

// A recorded op that is computed by one kernel, with the arguments of its schema. Null: another
// one.
const OpRow* replayed(const std::string& name) {
  const OpRow* row = all_ops().find(name);
  const bool here = row != nullptr && row->kernel() != KernelId::kNone && row->base == nullptr;
  return here ? row : nullptr;
}

LocalArg local_list(const ArgumentList& list) {
  std::vector<Tensor> tensors;
  std::vector<double> numbers;
  for (const Argument& element : list) {
    if (element.is_scalar()) {
      numbers.push_back(element.to_double());
    } else {
      tensors.push_back(element.is_tensor() ? element.tensor().local() : Tensor());
    }
  }
  if (!numbers.empty()) return numbers;
  return tensors;
}

LocalArg local_value(const Argument& argument) {
  if (argument.is_tensor()) return argument.tensor().local();
  if (argument.is_list()) return local_list(argument.list());
  const auto plain = [](const auto& value) -> LocalArg {
    if constexpr (std::is_constructible_v<LocalArg, decltype(value)>) {
      return value;
    } else {
      return std::monostate{};
    }
  };
  return std::visit(plain, argument.variant());
}

std::vector<LocalArg> arguments_of(const OpRow& row, const ValueCase& value_case) {
  std::vector<LocalArg> arguments;
  for (std::size_t i = 0; i < row.op.arguments.size(); ++i) {
    const auto named =
        std::ranges::find(value_case.kwargs, row.op.arguments[i].name,
                          [](const auto& keyword) -> const std::string& { return keyword.first; });
    if (i < value_case.args.size()) {
      arguments.push_back(local_value(value_case.args[i]));
    } else if (named != value_case.kwargs.end()) {
      arguments.push_back(local_value(named->second));
    } else {
      arguments.push_back(local_value(row.defaults()[i]));
    }
  }
  return arguments;
}

class Replay {
 public:
  Replay(std::string folder, std::unique_ptr<Device> device)
      : folder_(std::move(folder)), device_(std::move(device)) {}

  bool family(const std::string& name) {
    counts_ = {};
    for (const Layout layout : {Layout::kRecorded, Layout::kTurned}) {
      for (const std::string& line : read_lines(folder_ + "/" + name + ".jsonl.gz")) {
        const Json json = Json::parse(line);
        if (has_half_complex(json)) continue;
        ValueCase value_case = read_value_case(json, *device_, layout);
        replay(value_case);
      }
    }
    fmt::print("{:<18} {:>5} passed ({} loose), {} failed, {} skipped, {} not on this device\n",
               name, counts_.passed, counts_.loose, counts_.failed, counts_.skipped,
               counts_.unsupported);
    return counts_.failed == 0;
  }

 private:
  void replay(ValueCase& value_case) {
    const bool in_place = is_in_place(value_case);
    const std::string& base = value_case.derived.empty() ? value_case.op : value_case.derived;
    const OpRow* row = replayed(base);
    const bool out_variant = !value_case.derived.empty() && !in_place;
    if (row == nullptr || out_variant || !value_case.raises.empty() ||
        has_scalar_output(value_case) || differs_on_purpose(value_case.id)) {
      ++counts_.skipped;
      return;
    }
    std::string problem;
    try {
      problem = run(*row, value_case, in_place);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUnsupported && device_->type() != "cpu") {
        ++counts_.unsupported;
        return;
      }
      problem = error.text();
    }
    if (problem.empty()) {
      ++counts_.passed;
      return;
    }
    ++counts_.failed;
    fmt::print("  {}: {}\n", value_case.id, problem);
  }

  static bool has_scalar_output(const ValueCase& value_case) {
    return std::ranges::any_of(
        value_case.outputs, [](const RecordedOutput& output) { return output.scalar.has_value(); });
  }

  static bool is_in_place(const ValueCase& value_case) {
    const std::string name = value_case.op.substr(0, value_case.op.find('.'));
    return !value_case.derived.empty() && name.ends_with('_') && !name.ends_with("__");
  }

  // Empty when every output agrees.
  std::string run(const OpRow& row, const ValueCase& value_case, bool in_place) {
    const auto arguments = arguments_of(row, value_case);
    std::vector<Tensor> outputs;
    for (const RecordedOutput& output : value_case.outputs) {
      if (!output.defined) {
        outputs.push_back(Tensor());
      } else {
        outputs.push_back(in_place ? std::get<Tensor>(arguments[0]) : empty(*device_, output.meta));
      }
    }
    device_->run({row.kernel(), arguments, outputs, nullptr, {7, 0}});
    double needed = 1;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!value_case.outputs[i].comparable || is_open(row, i)) continue;
      const auto found = disagreement(outputs[i], value_case.outputs[i], {}, needed);
      const std::string& op = value_case.derived.empty() ? value_case.op : value_case.derived;
      if (!found || differs_by_limits(op, outputs[i], value_case.outputs[i])) continue;
      if (differs_by_rounding(row, op, value_case, outputs, i)) continue;
      return fmt::format("output {}{} is {}, not {}", i, found->where, found->got, found->expected);
    }
    if (needed > 1) ++counts_.loose;
    return {};
  }

  // Half precision is judged by the same kernel in f64.
  bool differs_by_rounding(const OpRow& row, const std::string& op, const ValueCase& value_case,
                           const std::vector<Tensor>& outputs, std::size_t output) {
    if (!is_half(outputs[output].dtype())) return false;
    std::vector<LocalArg> arguments = arguments_of(row, value_case);
    for (LocalArg& argument : arguments) {
      if (auto* tensor = std::get_if<Tensor>(&argument)) *tensor = widened(*tensor);
    }
    std::vector<Tensor> wide;
    for (const Tensor& result : outputs) {
      const bool half = result.defined() && is_half(result.dtype());
      wide.push_back(half ? empty(*device_, result.shape(), DType::kF64) : result);
    }
    device_->run({row.kernel(), arguments, wide, nullptr, {7, 0}});
    return is_nearer(outputs[output], value_case.outputs[output], wide[output]) ||
           differs_by_places(op, outputs[output], wide[output]);
  }

  Tensor widened(const Tensor& tensor) {
    if (!tensor.defined() || !is_half(tensor.dtype())) return tensor;
    const Tensor wide = empty(*device_, tensor.shape(), DType::kF64);
    write_doubles(wide, read_doubles(tensor));
    return wide;
  }

  struct Counts {
    int passed = 0, loose = 0, failed = 0, skipped = 0, unsupported = 0;
  };

  std::string folder_;
  std::unique_ptr<Device> device_;
  Counts counts_;
};

struct PromotionCase {
  enum class Kind { kDims, kZeroDim, kNumber };
  struct Operand {
    Kind kind;
    DType dtype;  // of a number: the one it has by itself
  };

  std::string op;
  Operand operands[2];
  DType result;
};

// [dtype, number of dims], or ["python_int", ..] for a number.
PromotionCase::Operand promoted_operand(const Json& json) {
  using Kind = PromotionCase::Kind;
  const auto name = json[0].get<std::string>();
  if (name == "python_bool") return {Kind::kNumber, DType::kBool};
  if (name == "python_int") return {Kind::kNumber, DType::kI64};
  if (name == "python_float") return {Kind::kNumber, DType::kF32};
  if (name == "python_complex") return {Kind::kNumber, DType::kC64};
  return {json[1].get<int>() > 0 ? Kind::kDims : Kind::kZeroDim, dtype_of(json[0])};
}

std::vector<PromotionCase> read_promotions(const std::string& path) {
  std::vector<PromotionCase> cases;
  for (const Json& json : Json::parse(read_text(path))) {
    cases.push_back({json.at("op").get<std::string>(),
                     {promoted_operand(json.at("a")), promoted_operand(json.at("b"))},
                     dtype_of(json.at("out"))});
  }
  return cases;
}

bool promotions_agree(const std::string& path) {
  int passed = 0, failed = 0;
  for (const PromotionCase& pair : read_promotions(path)) {
    Promotion promotion;
    for (const auto& [kind, dtype] : pair.operands) {
      if (kind == PromotionCase::Kind::kNumber) {
        promotion.add_number(category_of(dtype));
      } else {
        promotion.add_tensor(dtype, kind == PromotionCase::Kind::kDims);
      }
    }
    const DType met = promotion.result();
    const DType got = pair.op == "aten.div.Tensor" ? float_dtype(met) : met;
    if (got == pair.result) {
      ++passed;
      continue;
    }
    ++failed;
    fmt::print("  {} of {} and {} is {}, not {}\n", pair.op, to_string(pair.operands[0].dtype),
               to_string(pair.operands[1].dtype), to_string(got), to_string(pair.result));
  }
  fmt::print("{:<18} {:>5} passed, {} failed\n", "promotion", passed, failed);
  return failed == 0;
}

std::unique_ptr<Device> make_device(std::string_view name) {
  constexpr auto kRefuse = cuda::HostFallback::kRefuse;
  if (name == "cpu") return make_cpu_device(cpu_kernel_table());
  if (name == "cuda-on-host") return cuda::make_cuda_device(cuda::host_table(), 0, kRefuse);
  if (name == "cuda") return cuda::make_cuda_device(0, kRefuse);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<Device> device =
      argc == 2 || argc == 3 ? make_device(argc == 2 ? "cpu" : argv[2]) : nullptr;
  if (!device) {
    std::fputs("usage: kernel_replay FACTS_FOLDER [cpu|cuda|cuda-on-host]\n", stderr);
    return 2;
  }
  Replay replay(argv[1], std::move(device));
  bool good = promotions_agree(std::string(argv[1]) + "/promotion.json.gz");
  for (const char* family :
       {"creation", "index", "linalg", "matmul", "misc", "norm_loss", "pointwise_binary",
        "pointwise_unary", "random", "reduce", "sort_scan", "views"}) {
    good = replay.family(family) && good;
  }
  return good ? 0 : 1;
}
