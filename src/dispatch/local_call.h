// local_call.h - running one row on local tensors: the one function that runs all kernels.
#pragma once

#include <boost/container/small_vector.hpp>

#include <span>

#include "schema/calls.h"
#include "schema/meta_args.h"
#include "schema/op_strategy.h"
#include "tensor/device.h"

namespace shardlab {

struct OpRow;

/// The local tensors of one call: few, so that they need no memory of their own.
using LocalTensors = boost::container::small_vector<Tensor, 4>;

/// One local call. `args` gives the plain values (adapted to this rank); tensors are taken from
/// `tensors`: all tensor arguments in schema order, lists flattened, undefined for None.
struct LocalCall {
  const OpRow* row = nullptr;
  const Arguments* args = nullptr;
  std::span<const Tensor> tensors;
  const LocalView* view = nullptr;  ///< for rows flagged kNeedsPosition
  RandomState random;               ///< for rows flagged kRandom
  /// The kernel that runs when it is not the row's own (masked lookups); kNone otherwise.
  KernelId kernel{};
  Device* device = nullptr;
  Calls* calls = nullptr;  ///< on plain tensors, for rows that a program computes
};

/// Whether a result is written to this argument. Further arguments that a row with out= writes
/// (batch norm its running statistics) are written by its kernel or program.
bool takes_result(const OpRow& row, std::size_t argument);

/// A value that was made in a KernelScope (base/memory_account.h), as one that counts from here on;
/// itself where it counts already.
Tensor counted(const Tensor& local);

/// Results of shape inference over the local tensors.
OutputMetas infer_local(const LocalCall& call);

/// Runs the call and returns its tensor results, Tensor[] flattened: views of the base for view
/// rows, the written arguments for in-place and out= rows, else new tensors of `metas` (absent ones
/// are undefined). `metas` are those that infer_local() gives.
LocalTensors run_local(const LocalCall& call, const OutputMetas& metas);

/// Runs the program that a user gave for the pieces of a decided call (OpColumns::on_pieces), and
/// returns its results as run_local() does.
///   fails  Value: its result is not pieces of these `metas`; with the error of the program
LocalTensors run_on_pieces(const LocalCall& call, const OutputSharding& decision,
                           const OutputMetas& metas);

/// Whether a kernel computes the row: it writes outputs of the sizes that it is given.
bool computed_by_kernel(const OpRow& row);

/// Checks a row that a kernel computes and whose `metas` placements chose.
///   fails  Internal: the local inputs make other sizes, and the kernel would write behind its
///          output
void check_output_sizes(const LocalCall& call, const OutputMetas& metas);

/// run_local behind that check.
LocalTensors run_placed(const LocalCall& call, const OutputMetas& metas);

/// Calls `visit(schema index, argument)` for every tensor slot in `args`, lists flattened, None
/// included, in schema order.
void for_each_tensor_slot(const OpDescriptor& op, const Arguments& args, auto visit) {
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    if (!op.arguments[i].type.is_tensor()) continue;
    if (args[i].is_list()) {
      for (const Argument& element : args[i].list()) visit(i, element);
    } else {
      visit(i, args[i]);
    }
  }
}

}  // namespace shardlab
