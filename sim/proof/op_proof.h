// op_proof.h - the proof that an op under its sharding rule gives the values of one device, for
// every way to place its inputs.
//
// A call is made with inputs that are placed in each way on a mesh of simulated ranks, forward and
// backward; results and gradients, put together by the definition of placements alone
// (sim/verify/global_value.h), are compared with the same call on one device: bit for bit if
// elements are moved or computed one by one, else by the rule of scenarios/README.md, section 7. A
// mesh that does not divide the sample's sizes leaves some ranks with less and some with nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/proof/sample_runner.h"

namespace shardlab {

struct ProofOptions {
  /// Meshes that the inputs are placed on.
  std::vector<Dims> meshes = {{2}, {3}, {4}, {5}, {2, 2}, {2, 3}, {2, 2, 2}};
  bool backward = true;
  /// Placings on each mesh of one dim, which are all of an op with up to 4 inputs, and of several.
  PlacingCount of_one{4096, 512}, of_several{128, 128};
  std::uint64_t seed = 0;  ///< of values and of draws
  bool missing = true;     ///< look for placings that could do without communication
  /// Forms of its samples' calls (sample_forms.h) that an op is tried in, each on a few placings of
  /// form_meshes.
  std::size_t most_forms = 0;
  std::vector<Dims> form_meshes = {{2}, {2, 2}};
  PlacingCount of_forms{4, 4};
};

/// One call whose result differs from one device's.
struct WrongCall {
  std::string op;
  Dims mesh;
  Placing placing;
  std::string what;
  std::size_t sample = 0;  ///< its index among those that were given
  std::string form;        ///< of the call (form_text), if it is none of the samples
};

/// Placings of one kind.
struct ProofTally {
  std::int64_t right = 0, refused = 0, wrong = 0;
  std::int64_t moved = 0;  ///< of those that are right: after a redistribution that a refusal asks
  std::int64_t tried() const { return right + refused + wrong; }
};

/// The forms of calls that an op was tried in.
struct FormTally {
  std::int64_t forms = 0;
  std::int64_t refused = 0;  ///< of forms, by one device
  std::int64_t calls = 0, wrong = 0;
};

/// The findings about the calls of one op.
struct OpProof {
  std::string op;
  std::int64_t tried = 0;
  std::int64_t right = 0;
  std::int64_t silent = 0;  ///< of those that are right: forward sent nothing
  std::int64_t wrong = 0;
  std::int64_t refused = 0;
  ProofTally even, uneven;  ///< the same, by whether all cuts give pieces of one size
  std::map<std::string, std::int64_t> reasons;  ///< of refusals, how often
  std::map<std::string, std::int64_t> moved;    ///< the same of those that were moved
  std::optional<WrongCall> least;               ///< the wrong one on the smallest mesh
  /// "one device refuses a sample: ..", forward too: such an op is not proven. "": it is.
  std::string unproven;
  /// Reasons why inputs that may have a gradient have none.
  std::set<std::string> without_gradient;
  /// "S(0), R -> S(0)": sent something or was refused on every mesh of one dim, and would be right
  /// with the op on the pieces alone.
  std::vector<std::string> missing;
  /// Rows on meshes of one dim, placements of the inputs and of one result, that were found to be
  /// right or not to be: offered and silent ones, and those that were looked for.
  std::int64_t rows_judged = 0;
  FormTally forms;  ///< in addition to the calls of samples; a fault counts in both
};

/// Proves the rules of one registry. Not thread-safe; several may run side by side.
class OpProver {
 public:
  /// `registry` outlives it and is complete.
  explicit OpProver(const OpRegistry& registry, ProofOptions options = {})
      : registry_(registry),
        options_(std::move(options)),
        runner_(registry, options_.backward, options_.seed) {}

  /// All samples are calls of one op.
  OpProof prove(const std::vector<const OpSample*>& samples);
  /// One call: its fault, "" if there is none.
  ///   fails  as the call does
  std::string check(const OpSample& sample, const Dims& mesh, const Placing& placing);

 private:
  struct Tried;
  void prove_forms(OpProof& proof, const std::vector<OpSample>& forms, const OpRow& row);
  std::string fault_of(const OpSample& sample, const Dims& mesh, const Placing& placing,
                       const MeshRun& run, std::size_t number);
  bool count(OpProof& proof, const OpSample& called, const Tried& tried, const MeshRun& run);

  const OpRegistry& registry_;
  ProofOptions options_;
  SampleRunner runner_;
};

}  // namespace shardlab
