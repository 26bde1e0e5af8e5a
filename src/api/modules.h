// modules.h - parts of a model that own parameters, as torch.nn.Module, for programs in C++.
//
//   struct Mlp : Module {
//     Linear up, down;
//     Mlp(std::int64_t width, std::int64_t hidden) : up(width, hidden), down(hidden, width) {
//       add("up", up);
//       add("down", down);
//     }
//     DTensor forward(Operand x) const { return down.forward(gelu(up.forward(x))); }
//   };
//
// Parameters are made on a rank, plain and equal on all ranks, as leaves that require a gradient;
// shard() places them on a mesh. Names are torch's, "up.weight". A module belongs to one rank and
// is never moved: it holds the addresses of parameters and parts. Keep many of a kind in a
// std::deque, or behind std::unique_ptr.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/parallel.h"

namespace shardlab {

class Module {
 public:
  virtual ~Module() = default;
  Module& operator=(Module&&) = delete;

  /// With their names: the module's own in the order in which they were added, then those of its
  /// parts. One that is undefined (a bias that is not there) is left out; one that is registered
  /// twice is listed once.
  std::vector<std::pair<std::string, DTensor>> named_parameters() const;
  /// The same without names, as an optimizer takes them.
  std::vector<DTensor> parameters() const;
  /// x.grad = None for all of them.
  void zero_grad() const;
  /// Replaces parameters by new leaves, by name: those of shard(), or loaded ones. Others stay.
  ///   fails  Value: a name that no parameter has, another shape
  void replace(const NamedTensors& parameters, SourceLine place = {});

 protected:
  Module() = default;
  // Called by constructors. The parameter or part is a member of the derived class.
  ///   fails  Value: a name that is empty, has a dot, or exists already
  void add(std::string name, DTensor& parameter);
  void add(std::string name, Module& part);

 private:
  struct Slot {
    std::string name;
    DTensor* parameter;
  };
  std::vector<Slot> slots(const std::string& prefix) const;
  void check_name(const std::string& name) const;

  std::vector<Slot> own_;
  std::vector<std::pair<std::string, Module*>> parts_;
};

/// Places every parameter by the first pattern that its name matches, the others replicated, as
/// shard() of NamedTensors does; they become new leaves.
void shard(Module& module, const MeshLayout* mesh, const std::vector<ShardPattern>& patterns,
           SourceLine place = {});

enum class Bias : std::uint8_t { kNo, kYes };

/// x @ weight^T + bias. Both are drawn from (-1/sqrt(in), 1/sqrt(in)), as torch draws them.
class Linear : public Module {
 public:
  Linear(std::int64_t in, std::int64_t out, Bias with = Bias::kYes);
  DTensor forward(Operand x) const;
  DTensor weight;  ///< [out, in]
  DTensor bias;    ///< [out], or undefined
};

/// Rows of a table, drawn from the normal distribution.
class Embedding : public Module {
 public:
  Embedding(std::int64_t count, std::int64_t width);
  DTensor forward(Operand indices) const;
  DTensor weight;  ///< [count, width]
};

/// Over the last dim, of this size.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(std::int64_t width, double eps = 1e-5);
  DTensor forward(Operand x) const;
  DTensor weight;  ///< [width], ones
  DTensor bias;    ///< [width], zeros

 private:
  double eps_;
};

/// Over the last dim, of this size; without `eps` with that of the dtype.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(std::int64_t width, std::optional<double> eps = std::nullopt);
  DTensor forward(Operand x) const;
  DTensor weight;  ///< [width], ones

 private:
  std::optional<double> eps_;
};

}  // namespace shardlab
