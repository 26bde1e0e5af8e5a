// unwrap.h - from a call on handles to the schema that propagation sees (D-9 to D-17, D-56 to
// D-59).
#pragma once

#include <boost/container/small_vector.hpp>

#include "schema/calls.h"
#include "schema/op_schema.h"

namespace shardlab {

struct OpRow;

/// The tensors of a call in schema order, lists flattened, undefined handles for None.
struct TensorSlot {
  DTensor handle;
  std::size_t argument = 0;           ///< schema index
  const DTensorSpec* spec = nullptr;  ///< the handle's, or the replica a plain tensor counts as
};
/// A call in two forms: the schema for propagation, and the slots that the rank holds.
struct Unwrapped {
  OpSchema schema;
  boost::container::small_vector<TensorSlot, 4> slots;
  bool distributed = false;  ///< some tensor is a DTensor
};

/// The mesh of the first DTensor in schema order that is not a replicated number, keyword ones
/// included; of the first number if there are no others; null without a DTensor.
const MeshLayout* compute_mesh(const OpRow& row, const Arguments& args);

/// The compute mesh is that of the first DTensor in schema order, keyword ones included (D-11,
///
/// Fails with Runtime when plain tensors of more than one element are mixed in (D-58), or when
/// DTensors live on different meshes (O-35): a replicated number of one element counts as one on
/// each.
Unwrapped unwrap(const OpRow& row, const Arguments& args);

}  // namespace shardlab
