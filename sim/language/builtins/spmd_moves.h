// spmd_moves.h - moves of plain tensors along one mesh dim, from one type to another, with the
// gradient that the two types tell. Private to the builtins.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "comm/process_group.h"
#include "mesh/dtensor.h"
#include "sim/language/values/value.h"
#include "sim/types/spmd_type.h"

namespace shardlab {

struct SpmdMove {
  std::string name;                   ///< of the function, for messages
  ProcessGroup* group = nullptr;      ///< null on one device, which has all pieces in one tensor
  std::int64_t ranks = 1, place = 0;  ///< of the group and of this rank, as the program sees them
  SpmdType from, to;
  bool keeps_bytes = false;  ///< reinterpret: the meaning changes with the type
  /// The dim on which V is stacked, and taken apart.
  std::int64_t stack_dim = 0;
  /// Lengths of the ranks' pieces along the dim that is put together or cut; of an all_to_all along
  /// the dim that it cuts, and `received` along the other. Empty: equal ones are put together, and
  /// those of Shard are cut.
  Dims lengths, received;
  /// Types of the elements on their way and of the result, then those of the gradient.
  std::optional<DType> carried, given, carries_back;
};

/// Fails with Value: "convert(R to S(0)) of f32[3]: what", and the fix.
[[noreturn]] void refuse_move(const DTensor& x, const SpmdMove& move, const std::string& what,
                              const std::string& fix);

/// x as `move` gives it; every rank of the group calls this. Its gradient makes the move from the
/// type of the result's gradient to that of the operand's: P where that is R, R where that is P.
///   fails  Value: lengths that do not fit x; a gradient whose sum would be of 16 bits unasked
DTensor moved_as(const DTensor& x, const SpmdMove& move);

/// A type as a program writes it, of a tensor of `ndim` dims. Fails with Value: it is none.
SpmdType type_in(const Value& value, std::size_t ndim, std::string_view function);
/// The dim of `mesh` that a name or a group along it means. Fails with Value: it is none of them.
std::size_t mesh_dim_of(const MeshLayout& mesh, const Value& axis, std::string_view function);

}  // namespace shardlab
