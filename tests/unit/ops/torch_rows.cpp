// One world of ranks for a row and a mesh; on it the program runs once for each way to place its
// inputs. A row that fails is named with the placements, and the others still run.
#include "tests/unit/ops/torch_rows.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "api/distribute.h"
#include "dispatch/all_ops.h"
#include "mesh/type_string.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/parser.h"
#include "tensor/host.h"
#include "tests/unit/dispatch/op_calls.h"
#include "tests/unit/dispatch/seen.h"
#include "tests/unit/redistribute/on_mesh.h"

namespace shardlab::test {

namespace {

struct Input {
  std::string name;
  Dims shape;
  DType dtype = DType::kF64;
  std::vector<double> values;
  bool has_gradient() const { return is_floating(dtype) || is_complex(dtype); }
};

std::vector<std::string> split(const std::string& text, const std::string& at) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(at, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + at.size();
  }
  return parts;
}

/// Numbers below 2 on multiples of 1/64, which every dtype of floats but f8 has; few are equal.
std::vector<double> input_values(DType dtype, std::int64_t count, std::int64_t input,
                                 std::int64_t limit) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count * (is_complex(dtype) ? 2 : 1); ++i) {
    const double wave = std::sin(1.7 * static_cast<double>(i) + 0.9 * static_cast<double>(input));
    if (dtype == DType::kBool) {
      values.push_back((i * i + input + i / 2) % 3 != 0 ? 1 : 0);
    } else if (is_integral(dtype)) {
      values.push_back(static_cast<double>((i * i + 3 * i + 2 * input) % limit));
    } else {
      values.push_back(std::floor(128 * wave + 0.5) / 64);
    }
  }
  return values;
}

std::vector<Input> read_inputs(const char* text) {
  const MeshLayout& none = *process_arena().layout({.shape = {1}, .names = {}, .ranks = {}});
  std::vector<Input> inputs;
  for (const std::string& part : split(text, "; ")) {
    const std::size_t blank = part.find(' '), below = part.find('<');
    const std::string type = part.substr(blank + 1, below - blank - 1);
    const ParsedType parsed = parse_type(type, none);
    const std::int64_t limit = below == std::string::npos ? 2 : std::stoll(part.substr(below + 1));
    const DType dtype = *parsed.dtype;
    inputs.push_back({part.substr(0, blank), parsed.shape, dtype,
                      input_values(dtype, product(parsed.shape),
                                   static_cast<std::int64_t>(inputs.size()), limit)});
  }
  return inputs;
}

/// The placement of each input, on one mesh.
using Placing = std::vector<std::string>;

std::string on(std::size_t mesh_dims, const std::string& first, const std::string& second) {
  return mesh_dims == 1 ? first : first + " " + second;
}

/// Each input alone along each dim and as a pending sum, and all together.
std::vector<Placing> placings(const std::vector<Input>& inputs, std::size_t mesh_dims) {
  const Placing whole(inputs.size(), on(mesh_dims, "R", "R"));
  std::vector<Placing> all{whole};
  std::size_t most = 0;
  for (std::size_t j = 0; j < inputs.size(); ++j) {
    most = std::max(most, inputs[j].shape.size());
    for (std::size_t dim = 0; dim < inputs[j].shape.size(); ++dim) {
      all.push_back(whole);
      const std::size_t last = inputs[j].shape.size() - 1;
      all.back()[j] = on(mesh_dims, fmt::format("S({})", dim), fmt::format("S({})", last));
    }
    if (inputs[j].has_gradient()) {
      all.push_back(whole);
      all.back()[j] = on(mesh_dims, "P(sum)", inputs[j].shape.empty() ? "R" : "S(0)");
    }
  }
  for (std::size_t dim = 0; dim < most && inputs.size() > 1; ++dim) {
    all.push_back(whole);
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      if (dim < inputs[j].shape.size())
        all.back()[j] = on(mesh_dims, fmt::format("S({})", dim), "R");
    }
  }
  return all;
}

std::string text_of(const Placing& placing) { return fmt::format("{}", fmt::join(placing, " ")); }

std::vector<double> numbers_of(const DTensor& x) {
  return read_doubles((x.distributed() ? full_tensor(x) : x).local());
}

/// Relative to 1 and the expected value, by the dtype's precision after a few steps.
double tolerance(DType dtype) {
  if (dtype == DType::kF16) return 4e-3;
  if (dtype == DType::kBF16) return 3e-2;
  return dtype == DType::kF32 || dtype == DType::kC64 ? 2e-5 : 4e-7;
}

bool near(double got, double expected, double within) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::abs(got - expected) <= within * (1 + std::abs(expected));
}

/// The differences from `expected` at `next` on, which moves past the compared numbers.
std::string differences(const std::string& what, const std::vector<double>& got, double within,
                        const std::vector<double>& expected, std::size_t& next) {
  const std::size_t from = next;
  next += got.size();
  if (next > expected.size()) {
    return fmt::format("{}: [{}], and only {} numbers are expected\n", what, fmt::join(got, ", "),
                       expected.size() - std::min(from, expected.size()));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (near(got[i], expected[from + i], within)) continue;
    return fmt::format("{} at {}: {}, not {}\n  [{}]\n", what, i, got[i], expected[from + i],
                       fmt::join(got, ", "));
  }
  return "";
}

/// A program and its inputs, on the running rank.
class Runner {
 public:
  /// `mesh`: null for plain tensors.
  Runner(const char* code, const std::vector<Input>& inputs, OpMesh* mesh, Placing placing)
      : program_(
            parse_program(std::make_shared<const SourceText>("row", std::string(code) + "\n"))),
        mesh_(mesh) {
    ProgramSetup setup;
    setup.program = &program_;
    static const Environment no_params;
    setup.params = &no_params;
    setup.registry = &all_ops();
    setup.layout = setup.reported =
        mesh == nullptr ? process_arena().layout({.shape = {1}, .names = {}, .ranks = {}})
                        : mesh->layout();
    setup.rank = current_rank().rank;
    setup.world_size = current_rank().world_size;
    std::vector<std::string> names;
    for (const Input& input : inputs) names.push_back(input.name);
    check_names(program_, no_params, names, all_ops());
    interpreter_.emplace(setup);
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      const Input& input = inputs[j];
      leaves_.push_back(placed(mesh == nullptr ? "" : placing[j], input));
      interpreter_->define(input.name, leaves_.back());
    }
  }

  void require_gradients() {
    for (const DTensor& leaf : leaves_) {
      if (is_floating(leaf.dtype()) || is_complex(leaf.dtype())) require_grad(leaf);
    }
  }
  /// The tensors of y.
  std::vector<DTensor> run() {
    interpreter_->run();
    const Value* y = interpreter_->find("y");
    if (y == nullptr) throw Error(ErrorKind::kValue, "the program gives y no value");
    std::vector<DTensor> tensors;
    if (const DTensor* one = y->get<DTensor>()) return {*one};
    for (const Value& item : items_of(*y)) tensors.push_back(item.as<DTensor>());
    return tensors;
  }
  /// Gradients of the loss that TorchRow describes, zeros where there are none.
  std::vector<std::vector<double>> gradients(const std::vector<DTensor>& results) {
    DTensor loss;
    std::int64_t next = 0;
    for (const DTensor& result : results) {
      const bool complex = is_complex(result.dtype());
      if (!complex && !is_floating(result.dtype())) continue;
      const DTensor real = complex ? call("aten::view_as_real", {result}) : result;
      Input weights{"", real.shape(), DType::kF64, {}};
      for (std::int64_t i = 0; i < real.numel(); ++i, ++next) {
        weights.values.push_back(static_cast<double>(next % 2 == 0 ? next + 1 : -(next + 1)));
      }
      const std::string whole = mesh_ != nullptr && mesh_->layout()->ndim() == 2 ? "R R" : "R";
      const DTensor weighed = sum(times(real, placed(whole, weights)));
      loss = loss.defined() ? call("aten::add.Tensor", {loss, weighed}) : weighed;
    }
    backward(loss);
    std::vector<std::vector<double>> all;
    for (const DTensor& leaf : leaves_) {
      if (!is_floating(leaf.dtype()) && !is_complex(leaf.dtype())) continue;
      const DTensor gradient = grad_of(leaf);
      const auto count =
          static_cast<std::size_t>(leaf.numel() * (is_complex(leaf.dtype()) ? 2 : 1));
      all.push_back(gradient.defined() ? numbers_of(gradient) : std::vector<double>(count, 0));
    }
    return all;
  }

 private:
  DTensor placed(const std::string& placement, const Input& input) {
    const Tensor whole = empty(cpu(), input.shape, input.dtype);
    write_doubles(whole, input.values);
    if (mesh_ == nullptr) return DTensor(whole);
    return distribute(whole, mesh_->spec(placement, input.shape, input.dtype));
  }

  const ast::Program program_;
  OpMesh* mesh_;
  std::optional<Interpreter> interpreter_;
  std::vector<DTensor> leaves_;
};

/// "S(0) R: nothing; R R: nothing" as a map from placements to sends.
std::map<std::string, std::string> expected_sends(const char* text) {
  std::map<std::string, std::string> sends;
  for (const std::string& part : split(text, "; ")) {
    const std::size_t colon = part.find(": ");
    sends[part.substr(0, colon)] = part.substr(colon + 2);
  }
  return sends;
}

std::string sent(const Seen& seen) {
  std::vector<std::string> kinds;
  for (const CollectiveRecord& record : seen.collectives) {
    kinds.emplace_back(to_string(record.kind));
  }
  return kinds.empty() ? "nothing" : fmt::format("{}", fmt::join(kinds, ", "));
}

/// One run of a row; the differences from the expected results, one a line.
std::string run_once(const TorchRow& row, const std::vector<Input>& inputs, OpMesh* mesh,
                     const Placing& placing) {
  Runner runner(row.code, inputs, mesh, placing);
  if (!row.gradients.empty()) runner.require_gradients();
  std::vector<DTensor> results;
  std::string text;
  {
    const Seen seen;
    results = runner.run();
    const auto sends = expected_sends(row.sends);
    const auto known = sends.find(text_of(placing));
    if (mesh != nullptr && mesh->layout()->ndim() == 1 && known != sends.end() &&
        sent(seen) != known->second) {
      text += fmt::format("sends {}, not {}\n", sent(seen), known->second);
    }
  }
  std::string types;
  std::size_t next = 0;
  for (const DTensor& result : results) {
    TensorMeta meta = result.meta();
    types += (types.empty() ? "" : ", ") + type_string(meta);
    text += differences("value", numbers_of(result), tolerance(result.dtype()), row.values, next);
  }
  if (types != row.type) text += fmt::format("y is {}, not {}\n", types, row.type);
  if (next < row.values.size()) text += "y has too few elements\n";
  if (row.gradients.empty() || !text.empty()) return text;
  next = 0;
  std::size_t leaf = 0;
  for (const std::vector<double>& gradient : runner.gradients(results)) {
    while (!inputs[leaf].has_gradient()) ++leaf;
    text += differences("gradient of " + inputs[leaf].name, gradient,
                        4 * tolerance(inputs[leaf].dtype), row.gradients, next);
    ++leaf;
  }
  return text;
}

/// A placing whose sends a row lists is one of those that are tried.
void check_sends(const TorchRow& row, const std::vector<Placing>& tried) {
  std::vector<std::string> texts;
  for (const Placing& one : tried) texts.push_back(text_of(one));
  for (const auto& sends : expected_sends(row.sends)) {
    CHECK_MESSAGE(std::ranges::find(texts, sends.first) != texts.end(), sends.first);
  }
}

/// True when DTensor refuses so, too (T-63, V-7, D-34, D-48), which depends on the cuts of dims.
bool is_documented(const Error& error) {
  for (const char* words :
       {"cannot flatten dim", "cannot unflatten dim", "the view removes or reshapes dim",
        "which is sharded", "has no dim of its own in the view",
        "written in place, but the tensor would have to move", "terms on 2 ranks that reduce back",
        "terms on 4 ranks that reduce back"}) {
    if (error.summary().find(words) != std::string::npos) return true;
  }
  const std::string* rejected = error.find("rejected");
  return rejected != nullptr &&
         rejected->find("a tensor that is given by keyword would move") != std::string::npos;
}

std::string attempt(const TorchRow& row, const std::vector<Input>& inputs, OpMesh* mesh,
                    const Placing& placing, int& refused) {
  try {
    return run_once(row, inputs, mesh, placing);
  } catch (const Error& error) {
    if (mesh != nullptr && is_documented(error) && error.find("fix") != nullptr) {
      ++refused;
      return "";
    }
    const std::string* part = error.find("argument");
    return error.summary() + (part == nullptr ? "" : "; " + *part) + "\n";
  }
}

}  // namespace

void check_rows(std::span<const TorchRow> rows) {
  OpMesh line({4}), square({2, 2});
  for (const TorchRow& row : rows) {
    const std::vector<Input> inputs = read_inputs(row.inputs);
    std::string faults;
    int refused = 0;
    for (OpMesh* mesh : {&line, &square}) {
      mesh->run([&](RankContext& rank) {
        std::string here;
        int failed = 0, refused_here = 0;
        const auto keep = [&](const std::string& name, const std::string& text) {
          if (!text.empty() && ++failed <= 3) here += name + ": " + text;
        };
        if (mesh == &line) keep("plain", attempt(row, inputs, nullptr, {}, refused_here));
        for (const Placing& placing : placings(inputs, mesh->layout()->ndim())) {
          keep(text_of(placing), attempt(row, inputs, mesh, placing, refused_here));
        }
        if (rank.rank != 0) return;
        faults += here;
        refused += refused_here;
      });
    }
    INFO(std::string(row.code), "  # ", std::string(row.inputs));
    check_sends(row, placings(inputs, 1));
    CHECK_MESSAGE(faults.empty(), faults);
    CHECK(refused == row.refused);
  }
}

void check_refusals(std::span<const RefusedRow> rows) {
  OpMesh pair({2});
  for (const RefusedRow& row : rows) {
    const std::vector<Input> inputs = read_inputs(row.inputs);
    for (OpMesh* mesh : {static_cast<OpMesh*>(nullptr), &pair}) {
      std::string says = "no refusal";
      pair.run([&](RankContext& rank) {
        try {
          Runner(row.code, inputs, mesh, Placing(inputs.size(), "R")).run();
        } catch (const Error& error) {
          const std::string* fix = error.find("fix");
          if (rank.rank == 0) says = error.summary() + " | " + (fix == nullptr ? "no fix" : *fix);
        }
      });
      INFO(std::string(row.code), "  # ", std::string(row.inputs),
           std::string(mesh == nullptr ? ", plain" : ", on 2 ranks"));
      CHECK(says == std::string(row.says));
    }
  }
}

}  // namespace shardlab::test
