// ops_case.h - one op call with random placements: drawn from a seed, run forward and backward on
// simulated ranks, judged against the single-device run of the same call, made smaller when it
// fails.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "mesh/spec.h"
#include "propagate/propagator.h"
#include "schema/op_registry.h"
#include "sim/proof/read_samples.h"
#include "tensor/device.h"

namespace shardlab::test {

/// The op applied to a result before it is compared: a pending reduction must pass it.
enum class FollowUp : std::uint8_t { kNone, kDouble, kCosine };

struct OpsCase {
  const OpSample* sample = nullptr;
  Dims mesh;
  std::vector<Placements> inputs;
  Placements seed;         ///< of the gradient that flows into the result
  std::size_t output = 0;  ///< the floating result that it flows into
  FollowUp follow_up = FollowUp::kNone;
  bool outsider = false;      ///< rank 0 of the world is not in the mesh
  DType dtype = DType::kF32;  ///< of floating inputs
  std::uint64_t values = 0;
  std::string text() const;
};

/// Data that all cases share.
struct OpsSetting {
  OpsSetting();
  OpRegistry registry;
  Propagator propagator;
  std::unique_ptr<Device> device;
};

enum class OpsVerdict : std::uint8_t {
  kRight,
  kRefused,  ///< for a reason of the table in ops_refusals.cpp
  kWrong,
};
struct CaseResult {
  OpsVerdict verdict = OpsVerdict::kRight;
  std::string what;  ///< of a refusal: its reason
};

Dims draw_ops_mesh(std::mt19937_64& random);
Placements draw_ops_placements(std::mt19937_64& random, std::size_t mesh_dims,
                               const SampleInput& input);
OpsCase draw_ops_case(std::mt19937_64& random);
CaseResult run_ops_case(OpsSetting& setting, const OpsCase& one);
/// A factory's pieces on every rank against the whole of the single-device run, bitwise; empty when
/// equal. Shards of dims that the result has not are replicas.
std::string factory_fault(OpsSetting& setting, std::string_view op, const Arguments& args,
                          const Dims& mesh, Placements placements);
/// Cases with one thing made simpler.
std::vector<OpsCase> smaller(const OpsCase& one);

}  // namespace shardlab::test
