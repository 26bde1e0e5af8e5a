// replay_test.cpp - every recorded value case of an op that has a kernel must give its value.
//   kernel_replay FACTS_FOLDER [cpu|cuda|cuda-on-host]
// cuda-on-host runs the kernels of the CUDA device on the host. What a device does not compute is
// counted apart.
// Each case runs twice, with its inputs as recorded and with turned strides. Tolerances are those
// of the facts' README; where only ten times the tolerance holds, the case counts as "loose".
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "backends/cuda/cuda.h"
#include "backends/cuda/host_table.h"
#include "base/error.h"
#include "kernels/cpu_kernels.h"
#include "kernels/promotion.h"
#include "tests/golden/kernels/agreement.h"
#include "tests/golden/kernels/replayed_ops.h"
#include "tests/golden/kernels/value_cases.h"

using namespace shardlab;

namespace {

struct Parameter {
  std::string name;
  std::string fallback;  // empty: required or None
};

std::vector<Parameter> parameters_of(const ReplayedOp& op) {
  std::vector<Parameter> parameters;
  std::istringstream words(op.parameters);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    parameters.push_back(equals == std::string::npos
                             ? Parameter{word, ""}
                             : Parameter{word.substr(0, equals), word.substr(equals + 1)});
  }
  return parameters;
}

LocalArg default_value(const std::string& text) {
  if (text.empty()) return std::monostate{};
  if (text == "True" || text == "False") return Scalar(text == "True");
  if (text == "[]") return Dims{};
  if (text[0] == '\'') return text.substr(1, text.size() - 2);
  if (text.find('.') != std::string::npos) return Scalar(std::stod(text));
  return Scalar(static_cast<std::int64_t>(std::stoll(text)));
}

std::vector<LocalArg> arguments_of(const ReplayedOp& op, const ValueCase& value_case) {
  const auto parameters = parameters_of(op);
  std::vector<LocalArg> arguments;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto named = value_case.kwargs.find(parameters[i].name);
    if (i < value_case.args.size()) {
      arguments.push_back(value_case.args[i]);
    } else if (named != value_case.kwargs.end()) {
      arguments.push_back(named->second);
    } else {
      arguments.push_back(default_value(parameters[i].fallback));
    }
  }
  return arguments;
}

class Replay {
 public:
  Replay(std::string folder, std::unique_ptr<Device> device)
      : folder_(std::move(folder)), device_(std::move(device)) {
    for (const ReplayedOp& op : replayed_ops()) ops_[op.name] = &op;
  }

  bool family(const std::string& name) {
    counts_ = {};
    for (const Layout layout : {Layout::kRecorded, Layout::kTurned}) {
      for_each_value_case(folder_ + "/" + name + ".jsonl.gz", *device_, layout,
                          [this](ValueCase& value_case) { replay(value_case); });
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
    const auto op = ops_.find(base);
    const bool out_variant = !value_case.derived.empty() && !in_place;
    if (op == ops_.end() || out_variant || !value_case.raises.empty() ||
        value_case.has_scalar_output() || differs_on_purpose(value_case.id)) {
      ++counts_.skipped;
      return;
    }
    std::string problem;
    try {
      problem = run(*op->second, value_case, in_place);
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

  static bool is_in_place(const ValueCase& value_case) {
    const std::string name = value_case.op.substr(0, value_case.op.find('.'));
    return !value_case.derived.empty() && name.back() == '_';
  }

  // Empty when every output agrees.
  std::string run(const ReplayedOp& op, const ValueCase& value_case, bool in_place) {
    const auto arguments = arguments_of(op, value_case);
    std::vector<Tensor> outputs;
    for (const RecordedOutput& output : value_case.outputs) {
      if (!output.defined) {
        outputs.push_back(Tensor());
      } else {
        outputs.push_back(in_place ? std::get<Tensor>(arguments[0]) : empty(*device_, output.meta));
      }
    }
    device_->run({op.kernel, arguments, outputs, nullptr, {7, 0}});
    double needed = 1;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!value_case.outputs[i].comparable || is_undetermined(value_case.op, i)) continue;
      std::string where;
      const double factor = agreement(outputs[i], value_case.outputs[i], where);
      if (factor == 0) return fmt::format("output {} {}", i, where);
      needed = std::max(needed, factor);
    }
    if (needed > 1) ++counts_.loose;
    return {};
  }

  struct Counts {
    int passed = 0, loose = 0, failed = 0, skipped = 0, unsupported = 0;
  };

  std::string folder_;
  std::unique_ptr<Device> device_;
  std::map<std::string, const ReplayedOp*> ops_;
  Counts counts_;
};

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
  std::unique_ptr<Device> device = argc == 2 || argc == 3 ? make_device(argc == 2 ? "cpu" : argv[2])
                                                          : nullptr;
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
