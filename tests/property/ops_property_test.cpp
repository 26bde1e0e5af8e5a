#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

#include "kernels/kernel_id.h"
#include "ops/core/derived.h"
#include "schema/computation.h"
#include "schema/op_row.h"
#include "tests/property/ops_case.h"
#include "tests/property/ops_refusals.h"
#include "tests/property/strict.h"

namespace shardlab {
namespace {

using namespace test;

OpsCase shrink(OpsSetting& setting, OpsCase failing) {
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (const OpsCase& next : smaller(failing)) {
      if (run_ops_case(setting, next).verdict != OpsVerdict::kWrong) continue;
      failing = next;
      shrunk = true;
      break;
    }
  }
  return failing;
}

TEST_CASE("W-13 K-22 K-30 D-30 any legal placement of an op's inputs gives one device's values") {
  constexpr std::uint64_t kSeed = 20251122;
#ifdef __SANITIZE_THREAD__
  constexpr int kCases = 1000;  // it makes them twenty times slower
#else
  constexpr int kCases = 10000;
#endif
  OpsSetting setting;
  std::mt19937_64 random(kSeed);
  std::map<OpsVerdict, int> counts;
  std::map<std::string, int> refused;
  std::map<std::string, bool> reported;
  for (int number = 0; number < kCases; ++number) {
    const OpsCase one = draw_ops_case(random);
    const CaseResult result = run_ops_case(setting, one);
    ++counts[result.verdict];
    if (result.verdict == OpsVerdict::kRefused) ++refused[result.what];
    if (result.verdict != OpsVerdict::kWrong || reported[one.sample->op]) continue;
    reported[one.sample->op] = true;
    const OpsCase least = shrink(setting, one);
    FAIL_CHECK("seed " << kSeed << ", case " << number << ": " << one.text() << "\n  "
                       << result.what << "\nsmallest: " << least.text() << "\n  "
                       << run_ops_case(setting, least).what);
  }
  for (const RefusalReason& row : refusal_reasons()) {
    const std::string reason = row.reason;
    MESSAGE(refused[reason] << " refused: " << reason);
    CHECK_MESSAGE(refused[reason] <= row.most, reason);
  }
  MESSAGE(counts[OpsVerdict::kRight] << " right, " << counts[OpsVerdict::kRefused] << " refused, "
                                     << counts[OpsVerdict::kWrong] << " wrong");
  CHECK(counts[OpsVerdict::kRight] > kCases / 2);
}

TEST_CASE("a value may be off by its roundings, or four times what one device is off") {
  const auto value = [](double number) {
    return GlobalValue{contiguous_meta(Dims{1}, DType::kBF16), {number}, {}};
  };
  const auto right = [&](double got, double single) {
    return strict_difference(value(got), value(single), value(1), false).empty();
  };
  CHECK(right(1.06, 1));
  CHECK_FALSE(right(1.07, 1));
  CHECK(right(1.39, 1.1));
  CHECK_FALSE(right(1.41, 1.1));
  CHECK_FALSE(right(std::nan(""), 1.1));
}

TEST_CASE("X-40 a factory's values depend neither on mesh nor on placements") {
  struct Factory {
    const char* op;
    Arguments args;
  };
  const Factory factories[] = {{"arange", {7}},
                               {"arange.start_step", {1.0, 3.0, 0.3}},
                               {"eye", {5}},
                               {"eye.m", {7, 3}},
                               {"full", {Dims{7, 5}, 3}},
                               {"linspace", {0.0, 1.0, 7}},
                               {"ones", {Dims{0, 5}}},
                               {"zeros", {Dims{}}},
                               {"rand", {Dims{7, 5}}},
                               {"randn", {Dims{7, 5}}},
                               {"randn", {Dims{1}}},
                               {"randint", {9, Dims{7, 5}}},
                               {"randn", {Dims{5, 3, 2}}}};
  OpsSetting setting;
  std::mt19937_64 random(7);
  for (int number = 0; number < 1000; ++number) {
    const Factory& factory = factories[random() % std::size(factories)];
    const Dims mesh = draw_ops_mesh(random);
    const Placements placements =
        draw_ops_placements(random, mesh.size(), {{1, 1, 1}, Fill::kReal});
    const std::string fault = factory_fault(setting, factory.op, factory.args, mesh, placements);
    CHECK_MESSAGE(fault.empty(), factory.op << ": " << fault);
  }
}

/// Rows that run but have no sample, and why.
bool needs_no_sample(const OpRow& row) {
  if (row.inplace() || row.out_variant()) return true;
  if (!row.runs()) return true;               // decides layouts only
  if (!row.op.returns_tensor()) return true;  // answers with a number, or writes
  if (row.has(kDataDependent)) return true;   // ranks outside the mesh do not know its shape
  if (row.has(kRandom) && row.parts() != nullptr) return true;  // draws others in f64 than in f32
  if (is_derived(row)) return true;                             // of an op that has one
  if (row.opaque()) return true;  // takes cut classes only: has unit tests
  // No sample is complex, or of 8 bits, or has sizes as data.
  for (const char* op : {"aten::_fft_c2c", "aten::_fft_c2r", "aten::_int_mm", "aten::_scaled_mm",
                         "aten::gru.data", "aten::imag", "aten::istft", "aten::lstm.data",
                         "aten::rnn_relu.data", "aten::rnn_tanh.data", "aten::view_as_real"}) {
    if (row.name() == op) return true;
  }
  // Signs are free, matrices have to be positive definite or symmetric, pivots have to fit.
  for (const char* op :
       {"aten::_linalg_eigh", "aten::_linalg_svd", "aten::linalg_cholesky",
        "aten::linalg_cholesky_ex", "aten::linalg_eig", "aten::linalg_eigh", "aten::linalg_eigvals",
        "aten::linalg_eigvalsh", "aten::linalg_ldl_factor", "aten::linalg_ldl_solve",
        "aten::linalg_lu_solve", "aten::linalg_matrix_sqrth", "aten::linalg_svd", "aten::svd"}) {
    if (row.name() == op) return true;
  }
  if (row.has(kIndependentLists) && row.base != nullptr) return true;  // of an op that has one
  if (std::string_view(row.why).starts_with("another name of")) return true;  // the same
  for (const SchemaArgument& argument : row.op.arguments) {
    if (argument.type.is_tensor()) return false;
  }
  return true;  // factories have a test of their own
}

// Samples beyond op_samples() are placed by verify-ops alone: calls made by a function of the
// sample, and tensors given by keyword that must not move.
TEST_CASE("every op that runs has a sample") {
  OpsSetting setting;
  std::set<const OpRow*> sampled;
  for (const OpSample& sample : all_samples()) {
    if (const OpRow* row = setting.registry.find(sample.op)) sampled.insert(row);
  }
  for (const OpRow* row : setting.registry.rows()) {
    // Overloads for numbers run the kernel of those for tensors.
    const bool same_kernel =
        row->kernel() != KernelId{} && std::ranges::any_of(sampled, [row](const OpRow* other) {
          return other->kernel() == row->kernel() && other->op.base == row->op.base;
        });
    const bool covered = needs_no_sample(*row) || sampled.contains(row) || same_kernel;
    CHECK_MESSAGE(covered, row->name());
  }
}

}  // namespace
}  // namespace shardlab
