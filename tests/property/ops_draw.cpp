#include <fmt/ranges.h>

#include <algorithm>

#include "tests/property/ops_case.h"

namespace shardlab::test {
namespace {

using Random = std::mt19937_64;

std::int64_t below(Random& random, std::int64_t end) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
}

/// One kind of pending reduction per tensor.
Placement draw_partial(Random& random, Fill fill) {
  if (fill == Fill::kIndex || fill == Fill::kCount) return Placement::partial(ReduceOp::kSum);
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kSum,
                               ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin};
  return Placement::partial(kOps[below(random, std::size(kOps))]);
}

Placements draw_placements(Random& random, std::size_t mesh_dims, const SampleInput& input) {
  if (input.given && !input.given->placed) return Placements(mesh_dims, Placement::replicate());
  const Placement partial = draw_partial(random, input.fill);
  Placements placements;
  for (std::size_t i = 0; i < mesh_dims; ++i) {
    const std::int64_t kind = below(random, 8);
    const auto tensor_dims = static_cast<std::int64_t>(input.shape.size());
    if (kind < 4 && tensor_dims > 0) {
      placements.push_back(Placement::shard(below(random, tensor_dims)));
    } else if (kind == 4 && input.fill != Fill::kBool) {
      placements.push_back(partial);
    } else {
      placements.push_back(Placement::replicate());
    }
  }
  return placements;
}

/// A small divisor, a root near zero, a power of a sum, a grid whose every step is rounded or a
/// result finer than its operands makes roundings larger than the strict judge allows, and a
/// distance has no slope where terms of a sum meet. verify-ops proves these ops, relative to the
/// largest element.
bool amplifies(const OpSample& sample) {
  constexpr std::string_view kOps[] = {"_cdist_backward",
                                       "_ctc_loss_backward",
                                       "_linalg_solve_ex",
                                       "_log_softmax_backward_data",
                                       "_softmax_backward_data",
                                       "cholesky_inverse",
                                       "cholesky_solve",
                                       "functional::l1_loss",
                                       "grid_sampler_2d",
                                       "linalg_inv_ex",
                                       "linalg_lu_solve",
                                       "linalg_qr",
                                       "lu_solve",
                                       "special_erfcx"};
  return std::ranges::find(kOps, std::string_view(sample.op)) != std::end(kOps);
}

std::string text_of(const Placements& placements) {
  std::string text;
  for (const Placement& placement : placements) {
    text += (text.empty() ? "" : " ") + to_string(placement);
  }
  return "(" + text + ")";
}

}  // namespace

Dims draw_ops_mesh(std::mt19937_64& random) {
  const Dims meshes[] = {{3}, {4}, {2, 2}, {2, 3}};
  return meshes[below(random, std::size(meshes))];
}

Placements draw_ops_placements(std::mt19937_64& random, std::size_t mesh_dims,
                               const SampleInput& input) {
  return draw_placements(random, mesh_dims, input);
}

std::string OpsCase::text() const {
  std::string text = fmt::format("{} of {}", sample->op, to_string(dtype));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format(" [{}]{}", fmt::join(sample->inputs[i].shape, ", "), text_of(inputs[i]));
  }
  for (const Argument& argument : sample->args) text += " " + argument.text();
  return text + fmt::format(" on [{}]{}, gradient {} into result {}, follow-up {}, values {}",
                            fmt::join(mesh, ", "), outsider ? " and an outsider" : "",
                            text_of(seed), output, static_cast<int>(follow_up), values);
}

OpsCase draw_ops_case(Random& random) {
  OpsCase one;
  const auto samples = op_samples();
  do {
    one.sample = &samples[static_cast<std::size_t>(
        below(random, static_cast<std::int64_t>(samples.size())))];
  } while (amplifies(*one.sample));
  one.mesh = draw_ops_mesh(random);
  for (const SampleInput& input : one.sample->inputs) {
    one.inputs.push_back(draw_placements(random, one.mesh.size(), input));
  }
  // Shards that the result does not have become replicas when it is placed.
  one.seed = draw_placements(random, one.mesh.size(), {{1, 1}, Fill::kReal});
  one.output = static_cast<std::size_t>(below(random, 3));
  one.follow_up = static_cast<FollowUp>(below(random, 3));
  one.outsider = below(random, 4) == 0;
  if (below(random, 4) == 0) one.dtype = DType::kBF16;
  // One step of bf16 may be a tenth of a turn: the slope of a cosine then has no meaning.
  const bool coarse = one.dtype == DType::kBF16;
  if (coarse && one.follow_up == FollowUp::kCosine) one.follow_up = FollowUp::kDouble;
  one.values = random() % 1000;
  return one;
}

std::vector<OpsCase> smaller(const OpsCase& one) {
  std::vector<OpsCase> cases;
  if (one.follow_up != FollowUp::kNone) {
    cases.push_back(one);
    cases.back().follow_up = FollowUp::kNone;
  }
  if (one.outsider) {
    cases.push_back(one);
    cases.back().outsider = false;
  }
  if (one.dtype != DType::kF32) {
    cases.push_back(one);
    cases.back().dtype = DType::kF32;
  }
  if (one.output != 0) {
    cases.push_back(one);
    cases.back().output = 0;
  }
  for (std::size_t dim = 0; dim < one.mesh.size() && one.mesh.size() > 1; ++dim) {
    OpsCase next = one;
    next.mesh.erase(dim);
    for (Placements& placements : next.inputs) placements.erase(dim);
    next.seed.erase(dim);
    cases.push_back(std::move(next));
  }
  const auto replicate = [&](auto member) {
    for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
      OpsCase next = one;
      Placement& placement = member(next)[dim];
      if (placement.is_replicate()) continue;
      placement = Placement::replicate();
      cases.push_back(std::move(next));
    }
  };
  replicate([](OpsCase& c) -> Placements& { return c.seed; });
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    replicate([i](OpsCase& c) -> Placements& { return c.inputs[i]; });
  }
  return cases;
}

}  // namespace shardlab::test
