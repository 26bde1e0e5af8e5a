// optimizers.h - steps of SGD, Adam and AdamW over the rows that PyTorch's optimizers call: foreach
// ops for SGD, fused ones for Adam. Parameters are leaves, plain or distributed; the state of an
// optimizer for one (momentum, moments) is placed as the parameter is. Gradients that are placed in
// another way, or pending, are redistributed by the op: all ranks of the mesh call step() then. An
// optimizer belongs to one rank, as its parameters do, and shares ownership of them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "comm/process_group.h"
#include "mesh/dtensor.h"

namespace shardlab {

/// PyTorch's arguments and defaults; lr is a factor without unit.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< needs a momentum, and no dampening
  bool maximize = false;
};

class Sgd {
 public:
  ///   fails  Value: no parameters, one that requires no gradient or is not a leaf, options that
  ///          contradict each other
  explicit Sgd(std::vector<DTensor> parameters, const SgdOptions& options = {});
  /// Changes those parameters that have a gradient; nothing is recorded.
  void step(SourceLine place = {});
  /// x.grad = None for all of them.
  void zero_grad();

 private:
  std::vector<DTensor> parameters_;
  SgdOptions options_;
  std::vector<DTensor> momenta_;  ///< undefined before a parameter's first step
};

/// The decay of Adam's weights is part of the gradient, that of AdamW is separate.
enum class WeightDecay : std::uint8_t { kInGradient, kDecoupled };

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  std::optional<double> weight_decay = {};  ///< empty: 0 for Adam, 0.01 for AdamW
  bool amsgrad = false;
  bool maximize = false;
};

/// Adam, and as AdamW its other form.
class Adam {
 public:
  ///   fails  Value: no parameters, one that requires no gradient or is not a leaf
  explicit Adam(std::vector<DTensor> parameters, const AdamOptions& options = {},
                WeightDecay decay = WeightDecay::kInGradient);
  /// The same members as Sgd's.
  void step(SourceLine place = {});
  void zero_grad();

 private:
  /// The state of a parameter from its first step on.
  struct State {
    DTensor mean, square, largest_square, count;
  };

  std::vector<DTensor> parameters_;
  AdamOptions options_;
  WeightDecay decay_;
  std::vector<State> states_;
};

class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<DTensor> parameters, const AdamOptions& options = {})
      : Adam(std::move(parameters), options, WeightDecay::kDecoupled) {}
};

/// Returns the 2-norm of all gradients together, those of distributed parameters whole; if it is
/// larger than `most`, all are scaled down to that, in place, as torch.nn.utils.clip_grad_norm_
/// does it. `group`: its ranks hold different parts of plain gradients (ZeRO); null: plain ones
/// count once. All ranks of the meshes, and of the group, call it.
double clip_grad_norm_(const std::vector<DTensor>& parameters, double most,
                       ProcessGroup* group = nullptr, SourceLine place = {});

}  // namespace shardlab
