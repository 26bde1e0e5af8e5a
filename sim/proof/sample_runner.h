// sample_runner.h - calls of samples: on one device, and on meshes of simulated ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "propagate/propagator.h"
#include "sim/proof/expected_call.h"
#include "sim/proof/placings.h"
#include "sim/world/world.h"
#include "tensor/device.h"

namespace shardlab {

class OpRegistry;

/// The results of one device, for a gradient of each result that may have one.
struct Expected {
  std::vector<ExpectedCall> by_root;
  std::unique_ptr<Error> error;               ///< the call is refused there, too
  bool only_in_f64 = false;                   ///< refused in reference precision alone
  bool marked = true;                         ///< the exact results are known
  std::vector<bool> leaves;                   ///< by slot
  std::vector<std::string> without_gradient;  ///< the reason why some inputs are no leaves

  std::size_t roots() const {
    return std::max<std::size_t>(1, by_root.empty() ? 0 : by_root[0].roots);
  }
};

/// The results of one rank for one call.
struct CallOutcome {
  std::vector<DTensor> values;
  std::unique_ptr<Error> error;
  bool sent = false;  ///< by the call itself, not by its backward
  std::string moved;  ///< the refusal of a call before it got replicas
};

/// Calls of one sample on one mesh, and pieces that they share.
struct MeshRun {
  /// A rank's inputs, by slot, each made once for each way to place it.
  using Pieces = std::vector<std::vector<std::pair<Placements, DTensor>>>;

  const MeshLayout* layout;
  const Expected& expected;
  Precision precision;
  std::size_t first;  ///< the number of the first placing, which chooses the incoming gradient
  std::vector<std::vector<CallOutcome>> outcomes;  ///< by rank, by placing
  std::vector<Pieces> pieces;                      ///< by rank
  /// A rank's pieces of incoming gradients, each made once for each way to place it.
  std::vector<std::vector<std::pair<const DTensorSpec*, Tensor>>> gradients;
};

/// Nothing has run. `expected` outlives it.
MeshRun run_on(const Dims& mesh, const OpSample& sample, const Expected& expected,
               Precision precision = Precision::kDeclared);
/// Calls of one placing until each result had each gradient that may flow into it.
std::size_t turns_of(const Expected& expected, std::size_t mesh_dims);

/// Runs samples with the rows of a registry. Not thread-safe.
class SampleRunner {
 public:
  /// `registry` outlives it. `seed`: of values and of draws.
  SampleRunner(const OpRegistry& registry, bool backward, std::uint64_t seed);
  ~SampleRunner();

  /// An input that the op has no gradient for, if others have one, is left out and named.
  Expected on_one_device(const OpSample& sample);
  /// Runs these placings; their outcomes replace the earlier ones.
  void perform(const OpSample& sample, std::span<const Placing> placings, MeshRun& run);
  /// A rank's piece of an input.
  const DTensor& piece(MeshRun& run, std::size_t rank, const OpSample& sample, std::size_t slot,
                       const Placements& placements) const;
  /// On the rank of a world of one.
  void run_alone(const std::function<void()>& body);

 private:
  class Sent;

  WorldOptions world_options(std::int64_t ranks);
  World& world_of(const MeshLayout* layout);
  bool may_be_leaf(const OpSample& sample, std::size_t slot) const;
  SampleValues alone(const OpSample& sample, const std::vector<bool>& is_leaf, std::size_t root,
                     Precision precision) const;
  Expected with_leaves(const OpSample& sample, std::vector<bool> leaves);
  DTensor placed(const Tensor& whole, Fill fill, const MeshLayout* layout,
                 const Placements& placements, std::uint64_t slot) const;
  DTensor gradient(MeshRun& run, std::size_t rank, const DTensor& result, std::size_t number) const;
  void call_on_rank(MeshRun& mesh, std::size_t rank, const OpSample& sample, const Placing& placing,
                    std::size_t number, Sent& sent) const;
  std::size_t perform_from(std::size_t begin, const OpSample& sample,
                           std::span<const Placing> placings, MeshRun& run);

  const OpRegistry& registry_;
  bool backward_;
  std::uint64_t seed_;
  Propagator propagator_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> alone_;
  std::vector<std::pair<const MeshLayout*, std::unique_ptr<World>>> worlds_;
};

}  // namespace shardlab
