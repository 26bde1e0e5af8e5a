// op_schema.h - one call as propagation sees it (O-19 to O-43): an op, its arguments with specs in
// place of tensors, and the key of its stored decision. Rank-invariant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/argument.h"
#include "schema/op_descriptor.h"

namespace shardlab {

struct OpRow;

/// O-20: the arguments of a call, besides tensors, that decide its sharding.
struct RuntimeSchemaInfo {
  int static_argnum = 100;                 ///< first positional index whose plain values count
  std::vector<std::string> static_kwargs;  ///< keyword names whose values count
  bool needs_pytree = false;               ///< lists of tensors are looked into
};

/// A value: made per call, and copied into the cache on a miss.
struct OpSchema {
  const OpRow* row = nullptr;
  /// Schema order, defaults filled in. Every tensor is replaced by its spec (a plain one by a
  /// replicated spec, D-57); lists of tensors hold specs or None.
  Arguments args;
  const MeshLayout* layout = nullptr;  ///< the compute mesh (D-11)

  /// The argument of this name. Fails with Internal when the op has none.
  const Argument& arg(std::string_view name) const;
  /// Specs of positional arguments in order, lists flattened, None left out (O-22).
  std::vector<const DTensorSpec*> tensor_specs() const;
  /// Specs of keyword-only arguments (out=), which are never redistributed (D-34).
  std::vector<const DTensorSpec*> keyword_tensor_specs() const;

  /// O-29 with X-17: (index, value) of tensors, of plain values from static_argnum on, and of the
  /// static keywords.
  std::uint64_t key_hash() const;
  /// True when one decision serves both calls.
  bool same_key(const OpSchema& other) const;
  /// "aten::mm(self f32[64@x, 32], mat2 f32[32, 16@y])": the op line of error messages.
  std::string text() const;
};

}  // namespace shardlab
