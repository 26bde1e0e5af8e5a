// lone_tensors.h - names that only one of two checkpoints has: the tensors of the other with the
// same elements, and what makes A's of B's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/checkpoint/edited.h"

namespace shardlab {

/// A name that only one has.
struct LoneTensor {
  std::string name, type;
  bool in_a = true;
  std::string same = {};  ///< the tensor of the other with equal elements, or "q + k + v", one
                          ///< behind the other; empty: none
  std::string near = {};  ///< a name of the other that is like it; empty: none
  std::optional<Edit> edit =
      {};  ///< of B, that gives the tensor of A, or takes away what A has not
};

/// Tensors by name, and those of A by their elements.
struct KnownTensors {
  using ByHash = std::map<std::uint64_t, std::vector<const MadeTensor*>>;
  std::map<std::string, const MadeTensor*> in_a, in_b;
  ByHash by_hash, constant;  ///< one value all over is no sign of where it is from

  /// Tensors of A with these elements that are wanted, 64 at most; null: all are.
  std::vector<const MadeTensor*> same_in_a(
      const MadeTensor& tensor, const ByHash& hashes,
      const std::function<bool(const MadeTensor&)>& wanted = nullptr) const;
};

/// Its elements are read by blocks if it is not edited.
std::uint64_t hash_of(const MadeTensor& tensor);

/// Whether type and shape are equal.
bool alike(const MadeTensor& a, const MadeTensor& b);

/// The same edits of these tensors, which they name as they are called: one in place of those of
/// all layers, and none that fits another tensor, too.
std::vector<Edit> folded(const std::vector<Edit>& edits, const MadeTensors& tensors);

/// Fills in `same`, `near` and `edit`. `differing`: names of both whose elements differ.
void look_for_names(const KnownTensors& known, const MadeTensors& b,
                    const std::set<std::string>& differing, std::vector<LoneTensor>& lone);

}  // namespace shardlab
