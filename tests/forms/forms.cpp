// Calls of ops in the forms that verify-ops tries (sim/proof/sample_forms.h), on one device in f64,
// against PyTorch's answers: taken or refused, and with which numbers.
//
//     forms emit                       JSON, a line a form: arguments and elements for record.py
//     forms check RECORDED KNOWN       RECORDED: tests/golden/forms/forms.tsv.gz
//     forms check RECORDED KNOWN cuda-on-host   by the kernels of the CUDA device, on the host
//
// A line of RECORDED is the form, a tab, and "refused", or for each result its number of elements,
// their sum and the sum of each times 1 to 7 in turns. KNOWN lists forms that differ, with why;
// the check fails where one is missing there, and where one that is listed does not differ. Forms
// that the CUDA device does not take are counted.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>

#include "autograd/grad_mode.h"
#include "backends/cuda/cuda.h"
#include "base/text.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "propagate/propagator.h"
#include "schema/calls.h"
#include "schema/computation.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"
#include "sim/proof/sample_call.h"
#include "sim/proof/sample_forms.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"
#include "tensor/host.h"
#include "tests/support/host_table.h"

namespace {

using namespace shardlab;

constexpr std::size_t kMostForms = 12;
constexpr const char* kNotHere = "not on this device";

struct Form {
  std::string text;
  OpSample sample;
  const OpRow* row;
};

// Samples, too: they are forms of themselves.
std::vector<Form> all_forms() {
  std::map<const OpRow*, std::vector<const OpSample*>> by_row;
  std::vector<const OpRow*> rows;
  for (const OpSample& sample : op_samples()) {
    const OpRow* row = all_ops().find(sample.op);
    if (row == nullptr || row->has(kRandom) || sample.calls) continue;
    if (by_row[row].empty()) rows.push_back(row);
    by_row[row].push_back(&sample);
  }
  std::vector<Form> forms;
  std::set<std::string> seen;
  const auto add = [&](const OpSample& sample, const OpRow* row) {
    std::string text = form_text(sample, *row);
    if (seen.insert(text).second) forms.push_back({std::move(text), sample, row});
  };
  for (const OpRow* row : rows) {
    for (const OpSample* sample : by_row[row]) {
      OpSample whole = *sample;
      const Arguments defaults = row->defaults();
      for (std::size_t i = whole.args.size(); i < defaults.size(); ++i) {
        whole.args.push_back(defaults[i]);
      }
      add(whole, row);
    }
    for (const OpSample& form : forms_of(by_row[row], *row, kMostForms)) add(form, row);
  }
  return forms;
}

std::vector<DTensor> inputs_of(const OpSample& sample) {
  std::vector<DTensor> inputs;
  for (std::size_t slot = 0; slot < sample.inputs.size(); ++slot) {
    inputs.emplace_back(sample_input(sample, slot, 0, DType::kF64));
  }
  return inputs;
}

// "12 3.5 -7.25", complex numbers as two.
std::string print_of(const DTensor& value) {
  if (!value.defined()) return "none";
  double sum = 0, weighted = 0;
  const std::vector<double> numbers = read_doubles(value.local());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sum += numbers[i];
    weighted += numbers[i] * static_cast<double>(i % 7 + 1);
  }
  return fmt::format("{} {:.9g} {:.9g}", numbers.size(), sum, weighted);
}

// The answer of one device: "refused", or a print for each result.
std::string outcome_of(const OpSample& sample, std::string* why = nullptr) {
  try {
    const GradModeScope forward(false);
    const SampleValues out = call_sample(sample, inputs_of(sample), {}, 0, nullptr);
    std::vector<std::string> prints;
    for (const DTensor& value : out.values) prints.push_back(print_of(value));
    return text_of_list(prints, "; ");
  } catch (const Error& error) {
    if (why != nullptr) *why = error.summary();
    const bool on_cpu = current_rank().device->type() == "cpu";
    if (!on_cpu && error.kind() == ErrorKind::kUnsupported) return kNotHere;
    return error.kind() == ErrorKind::kInternal ? "defect: " + error.summary() : "refused";
  }
}

nlohmann::json json_of(const Argument& argument) {
  if (argument.is_none()) return nullptr;
  if (argument.is_ints()) {
    return std::vector<std::int64_t>(argument.ints().begin(), argument.ints().end());
  }
  if (argument.is_dtype()) return {{"dtype", to_string(argument.dtype())}};
  if (argument.is_list()) {
    nlohmann::json list = nlohmann::json::array();
    for (const Argument& element : argument.list()) list.push_back(json_of(element));
    return list;
  }
  if (argument.is_string()) {
    const std::string& text = argument.string();
    if (text.starts_with('$')) return {{"in", std::stoi(text.substr(1))}};
    return {{"text", text}};
  }
  if (!argument.is_scalar()) return {{"text", argument.text()}};
  switch (argument.scalar().category()) {
    case Category::kBool:
      return argument.to_bool();
    case Category::kInteger:
      return argument.to_int();
    default:
      return {{"float", json_number(argument.to_double())}};
  }
}

nlohmann::json json_of(const DTensor& input) {
  nlohmann::json data = nlohmann::json::array();
  for (const double number : read_doubles(input.local())) data.push_back(json_number(number));
  return {{"dtype", to_string(input.dtype())},
          {"shape", std::vector<std::int64_t>(input.shape().begin(), input.shape().end())},
          {"data", std::move(data)}};
}

void emit(const std::vector<Form>& forms) {
  for (const Form& form : forms) {
    nlohmann::json line = {{"form", form.text}, {"op", form.row->name()}};
    for (const Argument& argument : form.sample.args) line["args"].push_back(json_of(argument));
    line["inputs"] = nlohmann::json::array();
    for (const DTensor& input : inputs_of(form.sample)) line["inputs"].push_back(json_of(input));
    std::printf("%s\n", json_line(line).c_str());
  }
}

// Up to rounding of f64. Choices that a decomposition leaves open are listed.
bool agree(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  std::string x, y;
  while (true) {
    const bool more = static_cast<bool>(left >> x), also = static_cast<bool>(right >> y);
    if (more != also) return false;
    if (!more) return true;
    char *end_x = nullptr, *end_y = nullptr;
    const double p = std::strtod(x.c_str(), &end_x), q = std::strtod(y.c_str(), &end_y);
    if (end_x == x.c_str() || end_y == y.c_str()) {
      if (x != y) return false;
      continue;
    }
    const bool same =
        std::isnan(p) ? std::isnan(q) : p == q || std::abs(p - q) <= 1e-6 * (1 + std::abs(q));
    if (!same) return false;
  }
}

std::map<std::string, std::string> table_of(const std::string& path) {
  std::map<std::string, std::string> table;
  for (const std::string& line : read_lines(path)) {
    const std::size_t tab = line.find('\t');
    if (line.empty() || line[0] == '#') continue;
    table[line.substr(0, tab)] = tab == std::string::npos ? "" : line.substr(tab + 1);
  }
  return table;
}

int check(const std::vector<Form>& forms, const std::string& recorded, const std::string& listed) {
  const auto torch = table_of(recorded), known = table_of(listed);
  std::int64_t taken = 0, refused = 0, unrecorded = 0, differ = 0, wrong = 0, elsewhere = 0;
  std::set<std::string> met;
  for (const Form& form : forms) {
    const auto row = torch.find(form.text);
    if (row == torch.end()) {
      ++unrecorded;
      continue;
    }
    (row->second == "refused" ? refused : taken)++;
    std::string why;
    const std::string ours = outcome_of(form.sample, &why);
    const bool same = agree(ours, row->second);
    const bool excused = known.contains(form.text);
    if (excused) met.insert(form.text);
    elsewhere += ours == kNotHere;
    if (ours == kNotHere) continue;
    differ += !same;
    if (same != excused) continue;
    ++wrong;
    std::printf("%s\n    %s\n    torch %s\n    ours  %s %s\n", form.text.c_str(),
                same ? "is listed as a difference and is none" : "differs", row->second.c_str(),
                ours.c_str(), why.c_str());
  }
  for (const auto& [text, why] : known) {
    if (met.contains(text)) continue;
    ++wrong;
    std::printf("%s\n    is listed as a difference, and is no form\n", text.c_str());
  }
  std::printf(
      "%lld forms that torch takes and %lld that it refuses: %lld differ, %zu of them known; "
      "%lld are not recorded, %lld not on this device\n",
      static_cast<long long>(taken), static_cast<long long>(refused),
      static_cast<long long>(differ), known.size(), static_cast<long long>(unrecorded),
      static_cast<long long>(elsewhere));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || (words[0] == "check" && words.size() != 3 && words.size() != 4)) {
    std::fprintf(stderr, "usage: forms emit | forms check RECORDED KNOWN [cuda-on-host]\n");
    return 2;
  }
  std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  if (words.size() == 4) {
    device = cuda::make_cuda_device(cuda::host_table(), 0, cuda::HostFallback::kRefuse);
  }
  WorldOptions options;
  Propagator propagator(all_ops(), PlanOptions{});
  options.ranks = 1;
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  options.device = [&](std::int64_t) -> Device& { return *device; };
  World world(std::move(options));
  int code = 0;
  world
      .run([&](RankContext&) {
        const std::vector<Form> forms = all_forms();
        if (words[0] == "emit") return emit(forms);
        code = check(forms, words[1], words[2]);
      })
      .rethrow();
  return code;
}
