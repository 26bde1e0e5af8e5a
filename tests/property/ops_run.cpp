#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "api/distribute.h"
#include "autograd/autograd.h"
#include "comm/device_mesh.h"
#include "dispatch/all_ops.h"
#include "dispatch/factory.h"
#include "dispatch/plain_calls.h"
#include "kernels/cpu_kernels.h"
#include "mesh/type_string.h"
#include "plan/plan.h"
#include "schema/argument.h"
#include "schema/binder.h"
#include "schema/calls.h"
#include "schema/computation.h"
#include "schema/op_row.h"
#include "sim/log/marks.h"
#include "sim/proof/sample_call.h"
#include "sim/world/world.h"
#include "tensor/cpu_device.h"
#include "tensor/host.h"
#include "tests/property/ops_case.h"
#include "tests/property/ops_refusals.h"
#include "tests/property/strict.h"

namespace shardlab::test {
namespace {

enum class Precision { kDeclared, kReference };

DType floats_of(const OpsCase& one, Precision precision) {
  return precision == Precision::kReference ? DType::kF64 : one.dtype;
}

DTensor followed_up(const DTensor& x, FollowUp follow_up) {
  if (is_integral(x.dtype())) return x;
  switch (follow_up) {
    case FollowUp::kDouble:
      return recording_calls().one("aten::mul.Scalar", {x, 2.0});
    case FollowUp::kCosine:
      return recording_calls().one("aten::cos", {x});
    case FollowUp::kNone:
      break;
  }
  return x;
}

/// The way from a plain value to the call's tensor: kept as it is in the single-device run, placed
/// on a mesh in the others. `slot` is an input, or the number of inputs for the incoming gradient.
using Place = std::function<DTensor(const Tensor& value, std::size_t slot)>;

/// Results, then gradients of the floating inputs (undefined: none).
std::vector<DTensor> evaluate(const OpsCase& one, Precision precision, const Place& place) {
  Calls& calls = recording_calls();
  const OpRow& row = calls.find(one.sample->op);
  const bool differentiable = has_gradient(row);
  std::vector<DTensor> inputs, leaves;
  for (std::size_t i = 0; i < one.sample->inputs.size(); ++i) {
    inputs.push_back(place(sample_input(*one.sample, i, one.values, floats_of(one, precision)), i));
    if (!differentiable || is_integral(inputs[i].dtype())) continue;
    require_grad(inputs[i]);
    leaves.push_back(inputs[i]);
  }
  if (row.inplace()) inputs[0] = calls.one("aten::clone", {inputs[0]});
  std::vector<DTensor> results =
      tensors_of(calls(one.sample->op, filled_in(one.sample->args, inputs)));
  std::vector<DTensor> roots;
  for (DTensor& result : results) {
    result = followed_up(result, one.follow_up);
    if (result.requires_grad()) roots.push_back(result);
  }
  if (roots.empty()) return results;
  const DTensor root = roots[one.output % roots.size()];
  const Tensor seed = sample_gradient(root.shape(), one.values, floats_of(one, precision));
  for (const DTensor& grad : gradients(root, leaves, place(seed, inputs.size()))) {
    results.push_back(grad);
  }
  return results;
}

WorldOptions world_options(OpsSetting& setting, std::int64_t ranks) {
  WorldOptions options;
  options.ranks = ranks;
  options.device = [&](std::int64_t) -> Device& { return *setting.device; };
  options.seed = 11;
  options.propagator = &setting.propagator;
  options.plans = &setting.propagator.plans();
  return options;
}

struct Alone {
  std::vector<DTensor> values;
  bool drew = false;  ///< random numbers, which in f64 are others
};

Alone on_one_device(OpsSetting& setting, const OpsCase& one, Precision precision) {
  Alone alone;
  run_world(world_options(setting, 1), [&](RankContext& rank) {
    const std::uint64_t before = rank.random.offset;
    alone.values =
        evaluate(one, precision, [](const Tensor& value, std::size_t) { return DTensor(value); });
    alone.drew = rank.random.offset != before;
  }).rethrow();
  return alone;
}

/// The gradient's placements were drawn for any shape: dims it has not, it cannot be cut along.
/// Terms of a mean hold n times the value, which bf16 may have to round.
DTensor placed(const OpsCase& one, const MeshLayout* layout, const Tensor& value,
               std::size_t slot) {
  Placements placements = slot < one.inputs.size() ? one.inputs[slot] : one.seed;
  for (Placement& placement : placements) {
    if (placement.is_shard() && placement.dim >= static_cast<std::int64_t>(value.dim())) {
      placement = Placement::replicate();
    }
    if (one.dtype == DType::kBF16 && placement.is_partial(ReduceOp::kAvg)) {
      placement = Placement::partial(ReduceOp::kSum);
    }
  }
  return distribute(value, layout->arena().spec(layout, placements, value.meta()));
}

/// Indexed by the row-major place in the mesh.
std::vector<std::vector<DTensor>> on_mesh(OpsSetting& setting, const OpsCase& one,
                                          const MeshLayout* layout) {
  std::vector<std::vector<DTensor>> results(static_cast<std::size_t>(layout->size()));
  const std::int64_t world = layout->size() + (one.outsider ? 1 : 0);
  run_world(world_options(setting, world), [&](RankContext& rank) {
    rank.meshes->construct(layout);
    Marks marks(nullptr);
    const ObserverScope observed(marks);
    auto mine = evaluate(one, Precision::kDeclared, [&](const Tensor& value, std::size_t slot) {
      return placed(one, layout, value, slot);
    });
    if (const auto coordinate = layout->coordinate_of(rank.rank)) {
      results[static_cast<std::size_t>(layout->index_of(*coordinate))] = std::move(mine);
    }
  }).rethrow();
  return results;
}

/// Ranks 0, 1, ..., or 1, 2, ... with an outsider.
const MeshLayout* layout_of(const OpsCase& one) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(product(one.mesh)));
  std::iota(ranks.begin(), ranks.end(), one.outsider ? 1 : 0);
  return process_arena().layout({one.mesh, {}, ranks});
}

std::string judge(const std::vector<DTensor>& pieces, const DTensor& single,
                  const DTensor& reference, bool marked) {
  if (!pieces[0].defined() || !single.defined()) {
    return pieces[0].defined() == single.defined() ? "" : "is defined in one run only";
  }
  if (!pieces[0].distributed()) return "is a plain tensor";
  std::vector<AssemblyFault> faults;
  const DTensorSpec& spec = *pieces[0].spec();
  const GlobalValue value = assemble(spec, pieces, faults);
  if (!faults.empty()) return fmt::format("{}: {}", type_string(spec), faults[0].what);
  const bool exact =
      marked && !spec.has_partial() &&
      std::ranges::all_of(pieces, [](const DTensor& piece) { return is_exact(piece); });
  const std::string what =
      strict_difference(value, whole_value(single.local()), whole_value(reference.local()), exact);
  return what.empty() ? what : fmt::format("{}: {}", type_string(spec), what);
}

}  // namespace

OpsSetting::OpsSetting() : propagator(registry, PlanOptions{}) {
  register_all_ops(registry);
  device = make_cpu_device(cpu_kernel_table());
}

namespace {

// The error of the single-device run, if it refuses the call: then every placement has to refuse
// it.
std::optional<Error> refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

CaseResult both_refuse(const Error& alone, const std::optional<Error>& on_mesh) {
  if (on_mesh && on_mesh->kind() == alone.kind()) return {};
  return {OpsVerdict::kWrong, "one device refuses: " + alone.text()};
}

}  // namespace

CaseResult run_ops_case(OpsSetting& setting, const OpsCase& one) {
  const MeshLayout* layout = layout_of(one);
  if (const auto alone = refusal_of([&] { on_one_device(setting, one, Precision::kDeclared); })) {
    return both_refuse(*alone, refusal_of([&] { on_mesh(setting, one, layout); }));
  }
  try {
    const Alone alone = on_one_device(setting, one, Precision::kDeclared);
    const std::vector<DTensor>& single = alone.values;
    const std::vector<DTensor> reference =
        alone.drew ? single : on_one_device(setting, one, Precision::kReference).values;
    const auto ranks = on_mesh(setting, one, layout);
    for (std::size_t i = 0; i < single.size(); ++i) {
      std::vector<DTensor> pieces;
      for (const auto& results : ranks) pieces.push_back(results.at(i));
      const std::string what = judge(pieces, single[i], reference.at(i), one.sample->marked);
      if (!what.empty()) return {OpsVerdict::kWrong, fmt::format("value {} {}", i, what)};
    }
  } catch (const Error& error) {
    const OpRow& row = setting.registry.at(one.sample->op);
    const RefusalReason* refusal = refusal_reason(row, one, error);
    if (refusal != nullptr) return {OpsVerdict::kRefused, refusal->reason};
    return {OpsVerdict::kWrong, error.text()};
  }
  return {};
}

std::string factory_fault(OpsSetting& setting, std::string_view op, const Arguments& args,
                          const Dims& mesh, Placements placements) {
  const OpRow& row = setting.registry.at(op);
  const Arguments bound = bind_arguments(row, args);
  DTensor single;
  run_world(world_options(setting, 1), [&](RankContext&) {
    single = plain_calls().call(row, bound)[0].tensor();
  }).rethrow();
  for (Placement& placement : placements) {
    const bool lacking =
        placement.is_shard() && placement.dim >= static_cast<std::int64_t>(single.ndim());
    if (lacking || placement.is_partial()) placement = Placement::replicate();
  }
  const MeshLayout* layout = process_arena().layout({mesh, {}, {}});
  const DTensorSpec* spec = process_arena().spec(layout, placements, single.meta());
  std::vector<DTensor> pieces(static_cast<std::size_t>(layout->size()));
  std::vector<std::uint64_t> offsets(pieces.size());
  run_world(world_options(setting, layout->size()), [&](RankContext& rank) {
    rank.meshes->construct(layout);
    pieces[static_cast<std::size_t>(rank.rank)] = dispatch_factory(row, bound, spec);
    offsets[static_cast<std::size_t>(rank.rank)] = rank.random.offset;
  }).rethrow();
  const std::uint64_t drawn = row.has(kRandom) ? static_cast<std::uint64_t>(single.numel()) : 0;
  if (std::ranges::count(offsets, drawn) != layout->size()) return "random states went apart";
  return judge(pieces, single, single, true);
}

}  // namespace shardlab::test
