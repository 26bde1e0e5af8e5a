// dist_calls.h - common parts of the functions of torch.distributed: the group of a call and a rank
// in it, and the result of a call.
#pragma once

#include <string>
#include <string_view>

#include "api/collectives.h"
#include "comm/process_group.h"
#include "sim/language/run/interpreter.h"

namespace shardlab {

/// The number of ranks of a group as the program sees it, and this rank's place among them.
std::int64_t reported_size(const Interpreter& in, const GroupValue& group);
std::int64_t reported_place(const Interpreter& in, const GroupValue& group);

/// One call of a function of torch.distributed, whose signature lives as long as the process.
class DistCall {
 public:
  /// The function's parameters, as torch has them. Those that name a rank may vary between ranks;
  /// all others are settled.
  DistCall(Interpreter& interpreter, const Signature& signature, CallValues call);

  const Parameters& given() const { return given_; }
  Interpreter& interpreter() const { return in_; }
  /// Whether this rank takes part. A rank that does not does nothing, as in torch.
  bool takes_part() const { return !group_.outside; }
  ProcessGroup& group() const;
  /// The number of ranks of the group, as the program sees it.
  std::int64_t reported_size() const { return shardlab::reported_size(in_, group_); }
  /// This rank's place among them, as the program sees it.
  std::int64_t reported_place() const { return shardlab::reported_place(in_, group_); }
  /// The place in the group of the rank that `global`, a rank of the world, or `in_group` names; if
  /// neither does, that of rank 0 of the world, if `has_default`.
  ///   fails  Value: none or both are given; a rank that is not in the group
  std::int64_t root(std::string_view global, std::string_view in_group, bool has_default) const;
  /// Whether this is the rank at that place.
  bool is(std::int64_t place) const { return reported_place() == place; }
  ReduceOp op() const;
  DTensor tensor(std::string_view name) const { return given_.tensor(name); }
  /// A list with one tensor for each rank.
  ///   fails  Value: something else
  std::vector<DTensor> tensors(std::string_view name) const;
  /// None, which remembers that this function returned it.
  Value nothing() const { return ast::None{name_}; }

  template <typename... Args>
  [[noreturn]] void refuse(const std::string& fix, fmt::format_string<Args...> format,
                           Args&&... args) const {
    refuse_with(fix, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  [[noreturn]] void refuse_with(const std::string& fix, const std::string& what) const;

  Interpreter& in_;
  std::string_view name_;
  Parameters given_;
  GroupValue group_;
};

/// Notes it among the interpreter's posted_works().
CollectiveWorkRef kept_work(Interpreter& in, CollectiveWorkRef work);
/// dist.pipeline_schedule(file, defer=False): the rows of a pipeline schedule.
///   fails  Value: no such file; a schedule that is refused
Value run_pipeline_schedule(Interpreter& in, const Value*, CallValues values);
/// torch.cuda.synchronize(): waits for all of them, where the device has queues.
Value run_synchronize(Interpreter& in, const Value*, CallValues values);
/// A handle with wait() and is_completed(); null: there is nothing to wait for.
Value work_value(CollectiveWorkRef work);

// Messages; see dist_builtins().
Value run_send(Interpreter& in, const Value*, CallValues values);
Value run_recv(Interpreter& in, const Value*, CallValues values);
Value run_isend(Interpreter& in, const Value*, CallValues values);
Value run_irecv(Interpreter& in, const Value*, CallValues values);
Value run_p2p_op(Interpreter& in, const Value*, CallValues values);
Value run_batch_isend_irecv(Interpreter& in, const Value*, CallValues values);

// Objects; see dist_builtins().
Value run_all_gather_object(Interpreter& in, const Value*, CallValues values);
Value run_broadcast_object_list(Interpreter& in, const Value*, CallValues values);
Value run_gather_object(Interpreter& in, const Value*, CallValues values);
Value run_scatter_object_list(Interpreter& in, const Value*, CallValues values);

}  // namespace shardlab
