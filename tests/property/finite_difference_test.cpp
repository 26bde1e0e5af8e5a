// Gradients against differences: in the single-device run, in f64, the derivative of a weighted sum
// of an op's results with respect to an element is the change of the sum when the element changes.
// The differences need nothing of the tape. Elements are away from kinks and ties, where no
// difference shows the convention; those are in the recorded gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/tape.h"
#include "base/hash.h"
#include "schema/computation.h"
#include "schema/op_row.h"
#include "sim/proof/sample_call.h"
#include "sim/world/world.h"
#include "tensor/host.h"
#include "tests/property/ops_case.h"
#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab {
namespace {

using namespace test;

/// Elements of one input, and the loss's weights of results: drawn from the sample's place in the
/// list.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : random_(seed) {}

  /// Distinct, on no multiple of 1/64, and at least 1e-4 apart from each other.
  std::vector<double> reals(std::int64_t count, Fill fill) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) {
      const double fraction = static_cast<double>(random_() % 61) / 64;
      const double shift = 0.0123 + 0.0001 * static_cast<double>(drawn_++ % 37);
      values.push_back((fill == Fill::kUnit ? 0.125 + 0.75 * fraction : 4 * fraction - 2) + shift);
    }
    return values;
  }
  std::vector<std::int64_t> integers(std::int64_t count, std::int64_t limit) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit)));
    }
    return values;
  }

 private:
  std::mt19937_64 random_;
  std::int64_t drawn_ = 0;
};

/// Class weights and running statistics can't require a gradient, as in the reference: refused
/// (saved_test.cpp).
bool is_constant(const OpSample& sample, std::size_t slot) {
  const std::string_view op = sample.op;
  if (op.ends_with("nll_loss_forward")) return slot == 2;
  const bool norm = op.find("batch_norm") != op.npos && op.find("backward") == op.npos;
  return norm && (slot == 3 || slot == 4);
}

bool is_real(const SampleInput& input) {
  return input.fill == Fill::kReal || input.fill == Fill::kUnit;
}

/// Places the elements of an input, or of a weight (slot kWhole).
using Place = std::function<DTensor(std::size_t slot, const Dims& shape,
                                    const std::vector<double>& elements, DType dtype)>;
constexpr std::size_t kWhole = ~std::size_t{0};

class Probe {
 public:
  /// Without `place` on one device.
  Probe(const OpSample& sample, std::uint64_t seed, Place place = nullptr)
      : sample_(sample), numbers_(seed), place_(std::move(place)) {
    for (const SampleInput& input : sample.inputs) {
      const std::int64_t count = product(input.shape);
      reals_.emplace_back();
      integers_.emplace_back();
      if (is_real(input)) {
        reals_.back() = numbers_.reals(count, input.fill);
      } else if (input.given) {
        for (const double whole : read_doubles(input.given->make(Precision::kReference))) {
          integers_.back().push_back(static_cast<std::int64_t>(whole));
        }
      } else {
        integers_.back() = numbers_.integers(count, input.fill == Fill::kBool ? 2 : input.limit);
      }
    }
  }

  /// The first element whose derivative is another one; empty: none. `checked` counts elements.
  std::string fault(std::int64_t& checked) {
    return first_wrong(
        "gradient", by_tape(), {3e-6, 1e-6}, [&] { return loss(); }, checked);
  }

  /// The gradients, by input, of a weighted sum of the gradients of all elements: whole values.
  std::vector<std::vector<double>> second_gradients() const { return by_tape_twice(); }

  /// The same of a weighted sum of the gradients of all elements.
  std::string second_fault(std::int64_t& checked) {
    const auto sum = [&] { return sum_of_gradients(); };
    return first_wrong("second gradient", by_tape_twice(), {1e-5, 1e-5}, sum, checked);
  }

 private:
  static constexpr std::size_t kMostElements = 12;
  /// The distance that an element is moved to either side, and the error allowed in gradients of 1.
  struct Steps {
    double moved, allowed;
  };

  template <typename Value>
  std::string first_wrong(std::string_view what, const std::vector<std::vector<double>>& gradients,
                          Steps steps, const Value& value, std::int64_t& checked) {
    for (std::size_t slot = 0; slot < reals_.size(); ++slot) {
      if (is_constant(sample_, slot)) continue;
      const std::size_t step = 1 + reals_[slot].size() / kMostElements;
      for (std::size_t i = 0; i < reals_[slot].size(); i += step) {
        const double wanted = by_difference(slot, i, steps.moved, value);
        const double got = gradients[slot][i];
        ++checked;
        if (std::fabs(wanted - got) <= steps.allowed * std::max(1.0, std::fabs(wanted))) continue;
        return fmt::format("input {} element {}: the {} is {}, differences give {}", slot, i, what,
                           got, wanted);
      }
    }
    return {};
  }

  DTensor input(std::size_t slot) const {
    const SampleInput& input = sample_.inputs[slot];
    const DType dtype = is_real(input)              ? DType::kF64
                        : input.fill == Fill::kBool ? DType::kBool
                                                    : DType::kI64;
    if (place_) {
      const std::vector<std::int64_t>& given = integers_[slot];
      return place_(slot, input.shape,
                    is_real(input) ? reals_[slot] : std::vector<double>(given.begin(), given.end()),
                    dtype);
    }
    const Tensor tensor = empty(*current_rank().device, input.shape, dtype);
    if (is_real(input)) {
      write_doubles(tensor, reals_[slot]);
    } else {
      write_integers(tensor, integers_[slot]);
    }
    return DTensor(tensor);
  }

  std::vector<DTensor> results(std::vector<DTensor> inputs) const {
    Calls& calls = recording_calls();
    if (calls.find(sample_.op).inplace()) inputs[0] = calls.one("aten::clone", {inputs[0]});
    const std::uint32_t constant = calls.find(sample_.op).gradient_reads().constant_results;
    std::vector<DTensor> real;
    std::size_t index = 0;
    for (DTensor& result : tensors_of(calls(sample_.op, filled_in(sample_.args, inputs)))) {
      const bool counts = index >= 32 || (constant >> index & 1) == 0;
      if (is_floating(result.dtype()) && counts) real.push_back(std::move(result));
      ++index;
    }
    return real;
  }

  /// Weights of a result's elements.
  static std::vector<double> weights(std::size_t result, std::int64_t count) {
    return Numbers(1000 + result).reals(count, Fill::kReal);
  }

  double loss() const {
    std::vector<DTensor> inputs;
    for (std::size_t slot = 0; slot < reals_.size(); ++slot) inputs.push_back(input(slot));
    double sum = 0;
    const std::vector<DTensor> outputs = results(std::move(inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<double> values = read_doubles(outputs[i].local());
      const std::vector<double> weight = weights(i, outputs[i].numel());
      for (std::size_t j = 0; j < values.size(); ++j) sum += weight[j] * values[j];
    }
    return sum;
  }

  template <typename Function>
  double by_difference(std::size_t slot, std::size_t element, double step, Function function) {
    double& number = reals_[slot][element];
    const double before = number;
    number = before + step;
    const double above = function();
    number = before - step;
    const double below = function();
    number = before;
    return (above - below) / (2 * step);
  }

  /// Indexed by input; zeros where no gradient is defined.
  std::vector<std::vector<double>> by_tape() const {
    std::vector<DTensor> inputs, leaves;
    for (std::size_t slot = 0; slot < reals_.size(); ++slot) {
      inputs.push_back(input(slot));
      if (!is_real(sample_.inputs[slot]) || is_constant(sample_, slot)) continue;
      require_grad(inputs[slot]);
    }
    const std::vector<DTensor> outputs = results(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      const Tensor seed = empty(*current_rank().device, outputs[i].shape(), outputs[i].dtype());
      write_doubles(seed, weights(i, outputs[i].numel()));
      const DTensor weighed =
          recording_calls().one("aten::mul.Tensor", {outputs[i], DTensor(seed)});
      const DTensor part = recording_calls().one("aten::sum", {weighed});
      leaves.push_back(
          leaves.empty() ? part : recording_calls().one("aten::add.Tensor", {leaves.back(), part}));
    }
    if (!leaves.empty()) backward(leaves.back());
    std::vector<std::vector<double>> gradients;
    for (std::size_t slot = 0; slot < reals_.size(); ++slot) {
      const DTensor gradient = grad_of(inputs[slot]);
      gradients.push_back(gradient.defined() ? read_doubles(gradient.local())
                                             : std::vector<double>(reals_[slot].size()));
    }
    return gradients;
  }

  static DTensor weighed_sum(const DTensor& x, const DTensor& weight) {
    const DTensor product = recording_calls().one("aten::mul.Tensor", {x, weight});
    return recording_calls().one("aten::sum", {product});
  }
  DTensor drawn(std::size_t which, const DTensor& like) const {
    if (place_ && like.distributed()) {
      return place_(kWhole, like.shape(), weights(which, like.numel()), like.dtype());
    }
    const Tensor made = empty(*current_rank().device, like.shape(), like.dtype());
    write_doubles(made, weights(which, like.numel()));
    return DTensor(made);
  }
  static void add_to(DTensor& sum, const DTensor& term) {
    sum = sum.defined() ? recording_calls().one("aten::add.Tensor", {sum, term}) : term;
  }

  /// Weighted sum of the gradients of a loss that is quadratic in the results; undefined if there
  /// is none. `inputs` require gradients.
  DTensor weighed_gradients(const std::vector<DTensor>& inputs, Graph graph) const {
    DTensor loss;
    const std::vector<DTensor> outputs = results(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      const DTensor weight =
          recording_calls().one("aten::add.Tensor", {drawn(i, outputs[i]), outputs[i]});
      add_to(loss, weighed_sum(outputs[i], weight));
    }
    DTensor sum;
    if (!loss.defined()) return sum;
    std::vector<DTensor> wanted;
    for (const DTensor& x : inputs) {
      if (x.requires_grad()) wanted.push_back(x);
    }
    const std::vector<DTensor> found = gradients(loss, wanted, {}, graph);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].defined()) add_to(sum, weighed_sum(found[i], drawn(100 + i, found[i])));
    }
    return sum;
  }

  std::vector<DTensor> leaves() const {
    std::vector<DTensor> made;
    for (std::size_t slot = 0; slot < reals_.size(); ++slot) {
      made.push_back(input(slot));
      if (is_real(sample_.inputs[slot]) && !is_constant(sample_, slot)) require_grad(made.back());
    }
    return made;
  }

  double sum_of_gradients() const {
    const DTensor sum = weighed_gradients(leaves(), Graph::kFree);
    return sum.defined() ? read_doubles(sum.local())[0] : 0;
  }

  std::vector<std::vector<double>> by_tape_twice() const {
    const std::vector<DTensor> inputs = leaves();
    const DTensor sum = weighed_gradients(inputs, Graph::kCreate);
    if (sum.defined() && sum.requires_grad()) backward(sum);
    std::vector<std::vector<double>> found;
    for (std::size_t slot = 0; slot < reals_.size(); ++slot) {
      const DTensor gradient = grad_of(inputs[slot]);
      found.push_back(gradient.defined() ? read_doubles(full_tensor(gradient).local())
                                         : std::vector<double>(reals_[slot].size()));
    }
    return found;
  }

  const OpSample& sample_;
  Numbers numbers_;
  Place place_;
  std::vector<std::vector<double>> reals_;
  std::vector<std::vector<std::int64_t>> integers_;
};

/// Calls that differences cannot judge, by op; all others are checked.
struct Exempt {
  std::string_view op;
  bool (*is)(const OpSample& sample);
  const char* why;
};
bool weighs(const OpSample& sample) { return sample.inputs.size() > 2; }
constexpr const char* kWeight = "the weight has no gradient, as in the reference";
constexpr const char* kFactors = "the factors beside the result have no gradient";
constexpr const char* kRounded = "the sample's result is f32, and differences of it are rounded";
constexpr const char* kStatistics = "the statistics are taken to be those of the input";
constexpr const char* kRank = "a step of a share may pass a rank; recorded gradients check it";
constexpr const char* kSoftmax =
    "log-probabilities count as those of a softmax, as in the reference";
constexpr const char* kBounded = "rows are bounded in place, which no gradient sees";
constexpr const char* kPivots = "pivots have to fit";
constexpr const char* kSteps = "steps have the gradient of a line, as in the reference";
constexpr Exempt kExempt[] = {
    {"aten::_pdist_backward", [](const OpSample&) { return true; },
     "a point's distance from itself has no slope; the reference has no such gradient"},
    {"aten::_ctc_loss", [](const OpSample&) { return true; }, kSoftmax},
    {"aten::_ctc_loss_backward", [](const OpSample&) { return true; },
     "drawn numbers are no sums of alignments, and give NaN"},
    {"aten::_log_softmax_backward_data", [](const OpSample&) { return true; }, kRounded},
    {"aten::_softmax_backward_data", [](const OpSample&) { return true; }, kRounded},
    {"aten::ctc_loss.IntList", [](const OpSample&) { return true; }, kSoftmax},
    {"aten::ctc_loss.Tensor", [](const OpSample&) { return true; }, kSoftmax},
    {"functional::embedding", [](const OpSample&) { return true; }, kBounded},
    {"functional::embedding_bag", [](const OpSample& sample) { return sample.args.size() > 3; },
     kBounded},
    {"aten::cholesky_inverse", [](const OpSample&) { return true; },
     "a drawn triangle has an inverse too large for differences"},
    {"aten::linalg_lu_solve", [](const OpSample&) { return true; }, kPivots},
    {"aten::linalg_cond.p_str", [](const OpSample&) { return true; },
     "inverses of small numbers lose what differences tell; recorded gradients check it"},
    {"aten::lu_solve", [](const OpSample&) { return true; }, kPivots},
    {"aten::lu_unpack", [](const OpSample&) { return true; }, kPivots},
    {"aten::nanquantile", [](const OpSample&) { return true; }, kRank},
    {"aten::quantile", [](const OpSample&) { return true; }, kRank},
    {"aten::nll_loss_backward", [](const OpSample&) { return true; },
     "the sum of weights that is passed is taken to be that of the targets, as in the reference"},
    {"aten::_linalg_det", [](const OpSample&) { return true; }, kFactors},
    {"aten::_linalg_slogdet", [](const OpSample&) { return true; }, kFactors},
    {"aten::_linalg_solve_ex", [](const OpSample&) { return true; }, kFactors},
    {"aten::native_batch_norm_backward", [](const OpSample&) { return true; }, kStatistics},
    {"aten::native_layer_norm_backward", [](const OpSample&) { return true; }, kStatistics},
    {"aten::binary_cross_entropy", weighs, kWeight},
    {"aten::binary_cross_entropy_with_logits", weighs, kWeight},
    {"aten::nll_loss2d_forward", weighs, kWeight},
    {"aten::dropout", [](const OpSample&) { return true; }, "draws its result"},
    {"aten::embedding", [](const OpSample& sample) { return sample.args.size() > 2; },
     "the row of padding gets no gradient"},
    {"aten::view.dtype", [](const OpSample&) { return true; }, "reinterprets bits"},
    {"aten::fake_quantize_per_tensor_affine_cachemask", [](const OpSample&) { return true; },
     kSteps},
    {"aten::fake_quantize_per_channel_affine_cachemask", [](const OpSample&) { return true; },
     kSteps},
};

/// Rows without a sample that could be checked.
constexpr std::string_view kUnchecked[] = {
    "aten::_fft_c2c",  // of complex numbers; the programs over it are checked
    // Steps: recorder_test.py checks them with PyTorch.
    "aten::fake_quantize_per_tensor_affine_cachemask",
    "aten::fake_quantize_per_channel_affine_cachemask",
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "aten::_fft_c2r",
    "aten::_ctc_loss", "aten::_ctc_loss.Tensor",  // recorded gradients check them
    "aten::_linalg_det",   // as above; recorded gradients check it and its kin
    "aten::_linalg_eigh",  // the signs of vectors are free; recorded gradients check it
    "aten::_linalg_slogdet", "aten::_linalg_solve_ex",
    "aten::_linalg_svd",     // as eigh
    "aten::segment_reduce",  // its lengths do not move; gradients of torch check it
    // The same for these; recorded gradients check them.
    "aten::_log_softmax_backward_data", "aten::_softmax_backward_data", "aten::cholesky_inverse",
    "aten::linalg_lu_solve", "aten::lu_unpack", "aten::nll_loss_backward",
    // The same for these; the second gradients of the norms check them.
    "aten::native_batch_norm_backward", "aten::native_layer_norm_backward",
    "aten::acosh",  // of numbers above 1; recorded gradients check it
    "aten::arccosh",
    "aten::linalg_eig",          // as eigh
    "aten::linalg_cholesky_ex",  // of positive definite matrices; recorded gradients check it
    "aten::view.dtype",          // as above
    "aten::view_as_real",        // of complex numbers: complex_gradients_test
    "shardlab::loss_parallel",   // takes cut classes only
};

bool is_exempt(const OpRow& row, const OpSample& sample) {
  return row.has(kRandom) || std::ranges::any_of(kExempt, [&](const Exempt& entry) {
           return entry.op == row.name() && entry.is(sample);
         });
}

/// In place and out= variants have the gradient of the op itself.
bool is_variant(const OpRow& row) {
  return row.inplace() || row.out_variant() || row.base != nullptr;
}

std::uint64_t seed_of(const std::string& op) {
  std::uint64_t seed = 0;
  for (const char letter : op) seed = hash_mix(seed, static_cast<std::uint64_t>(letter));
  return seed;
}

/// On one device, each sample of an op with a gradient that differences can check, except ops that
/// write lists: a leaf is not written. Lists are written by ops without another form.
template <typename Visit>
void probe_samples(OpsSetting& setting, const Visit& visit) {
  WorldOptions options;
  options.device = [&](std::int64_t) -> Device& { return *setting.device; };
  options.propagator = &setting.propagator;
  options.plans = &setting.propagator.plans();
  run_world(options, [&](RankContext&) {
    std::map<std::string, std::uint64_t> seeds;  // of an op: a new one changes no other's numbers
    for (const OpSample& sample : op_samples()) {
      const OpRow& row = setting.registry.at(sample.op);
      const bool writes_list = row.inplace() && row.op.arguments[0].type.is_list;
      if (!has_gradient(row) || is_exempt(row, sample) || writes_list) continue;
      visit(row, Probe(sample, ++seeds.try_emplace(sample.op, seed_of(sample.op)).first->second));
    }
  }).rethrow();
}

TEST_CASE("every gradient is what differences say, in f64 on one device") {
  OpsSetting setting;
  std::set<const OpRow*> checked;
  std::map<std::string, std::string> faults;
  std::int64_t elements = 0;
  probe_samples(setting, [&](const OpRow& row, Probe probe) {
    const std::int64_t before = elements;
    try {
      const std::string fault = probe.fault(elements);
      if (!fault.empty()) faults.emplace(row.name(), fault);
    } catch (const Error& error) {
      faults.emplace(row.name(), error.text());
    }
    if (elements > before) checked.insert(&row);
  });
  for (const auto& [op, fault] : faults) FAIL_CHECK(op << ": " << fault);
  for (const OpRow* row : setting.registry.rows()) {
    if (!row->gradient || is_variant(*row) || row->has(kRandom)) continue;
    if (std::ranges::find(kUnchecked, row->name()) != std::end(kUnchecked)) continue;
    const auto same_program = [row](const OpRow* other) {
      return other->gradient.program == row->gradient.program;
    };
    CHECK_MESSAGE(std::ranges::any_of(checked, same_program),
                  row->name() << " has a gradient that nothing checks");
  }
  MESSAGE(checked.size() << " rows, " << elements << " elements");
}

/// Ops whose gradient is one op without a gradient, which is refused with its name: as in the
/// reference.
constexpr std::string_view kOnce[] = {"aten::_scaled_dot_product_cudnn_attention",
                                      "aten::_scaled_dot_product_efficient_attention",
                                      "aten::_scaled_dot_product_flash_attention"};

TEST_CASE("the gradient of a gradient is what differences of the gradient say, or it is refused") {
  OpsSetting setting;
  std::map<std::string, std::string> faults, refused;
  std::int64_t elements = 0;
  std::set<const OpRow*> checked;
  probe_samples(setting, [&](const OpRow& row, Probe probe) {
    try {
      const std::string fault = probe.second_fault(elements);
      if (!fault.empty()) faults.emplace(row.name(), fault);
      checked.insert(&row);
    } catch (const Error& error) {
      auto& into = error.kind() == ErrorKind::kUnsupported ? refused : faults;
      into.emplace(row.name(), error.text());
    }
  });
  for (const auto& [op, fault] : faults) FAIL_CHECK(op << ": " << fault);
  for (const auto& row : refused) {
    const auto& op = row.first;
    const auto& why = row.second;
    const bool known = std::ranges::find(kOnce, op) != std::end(kOnce);
    CHECK_MESSAGE(known, op << " has a gradient, but not a second one: " << why);
    CHECK(why.find(": no gradient for this op") != why.npos);
  }
  for (const std::string_view op : kOnce) CHECK_MESSAGE(refused.contains(std::string(op)), op);
  MESSAGE(checked.size() << " rows, " << elements << " elements, " << refused.size() << " refused");
}

/// The place where the second gradients of two runs differ; empty: nowhere.
std::string parting(const std::vector<std::vector<double>>& alone,
                    const std::vector<std::vector<double>>& cut) {
  for (std::size_t slot = 0; slot < alone.size(); ++slot) {
    double largest = 1;
    for (const double number : alone[slot]) largest = std::max(largest, std::fabs(number));
    for (std::size_t i = 0; i < alone[slot].size(); ++i) {
      if (std::fabs(alone[slot][i] - cut[slot][i]) <= 1e-9 * largest) continue;
      return fmt::format("input {} element {}: {}, one device has {}", slot, i, cut[slot][i],
                         alone[slot][i]);
    }
  }
  return {};
}

TEST_CASE("the gradient of a gradient is that of one device, whichever dims of inputs are cut") {
  OpsSetting setting;
  OpMesh mesh(setting.registry, {2});
  std::map<std::string, std::string> faults, refused;
  std::int64_t right = 0;
  mesh.run([&](RankContext& rank) {
    std::uint64_t seed = 0;
    for (const OpSample& sample : op_samples()) {
      const OpRow& row = setting.registry.at(sample.op);
      if (!has_gradient(row) || is_exempt(row, sample) || row.inplace()) continue;
      if (std::ranges::find(kOnce, row.name()) != std::end(kOnce)) continue;
      const std::vector<std::vector<double>> alone = Probe(sample, ++seed).second_gradients();
      for (const std::size_t first : {0, 1}) {
        const Place place = [&](std::size_t slot, const Dims& shape,
                                const std::vector<double>& elements, DType dtype) {
          const bool cut = slot != kWhole && !shape.empty();
          return mesh.place(cut ? fmt::format("S({})", (first + slot) % shape.size()) : "R", shape,
                            elements, dtype);
        };
        try {
          const std::string fault = parting(alone, Probe(sample, seed, place).second_gradients());
          if (rank.rank != 0) continue;
          right += fault.empty() ? 1 : 0;
          if (!fault.empty()) faults.emplace(row.name(), fault);
        } catch (const Error& error) {
          if (rank.rank == 0) refused.emplace(row.name(), error.text());
        }
      }
    }
  });
  for (const auto& [op, fault] : faults) FAIL_CHECK(op << ": " << fault);
  // Views that would have to move their input, as forward refuses them.
  for (const auto& row : refused) {
    const auto& op = row.first;
    const auto& why = row.second;
    const bool by_view = why.find("sharded") != why.npos || why.find("cut unevenly") != why.npos;
    CHECK_MESSAGE(by_view, op << ": " << why);
  }
  CHECK(refused.size() <= 24);
  MESSAGE(right << " right, " << refused.size() << " refused");
}

}  // namespace
}  // namespace shardlab
