// torch.distributed's collectives: they write the given tensors, and return None or a handle to
// wait for. The single-device run gives the result of one rank whose inputs all ranks share, so
// that reductions leave a tensor as it is.
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/filling.h"
#include "comm/observer.h"
#include "dispatch/plain_calls.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/values/object.h"

namespace shardlab {

namespace {

using Kind = CollectiveKind;

class WorkObject final : public Object {
 public:
  /// Null if there is nothing to wait for.
  explicit WorkObject(CollectiveWorkRef work) : work_(std::move(work)) {}
  std::string_view kind() const override { return "work"; }
  BuiltinTable members() const override { return work_methods(); }
  void wait() {
    if (work_ != nullptr) shardlab::wait(std::exchange(work_, nullptr));
  }
  bool done() const { return work_ == nullptr || is_done(*work_); }

 private:
  CollectiveWorkRef work_;
};

Value wait_for_work(Interpreter&, const Value* self, const Parameters&) {
  dynamic_cast<WorkObject&>(*self->as<ObjectValue>().object).wait();
  return true;
}

// The time of completion depends on the fabric: without one the answer comes after completion.
Value is_work_completed(Interpreter& in, const Value* self, CallValues) {
  return in.answer(
      [&] {
        auto& work = dynamic_cast<WorkObject&>(*self->as<ObjectValue>().object);
        in.note_effect("a poll");
        const bool done = work.done();
        if ((current_rank().mode & kModePolls) != 0) {
          if (done) work.wait();  // the tensor that it fills may be written from here on
          return Value(done);
        }
        if (Observer* const observer = observer_to_tell()) {
          observer->warning(fmt::format(
              "{}: is_completed() waits here, and is True; elsewhere it may be False, and the "
              "program go on otherwise: shardlab run --transport nonblocking",
              place_text(current_rank().position)));
        }
        work.wait();
        return Value(true);
      },
      true);
}

// Takes as many rows of `whole` as `piece` has elements, at `place`; the first rows if there are
// none there.
DTensor part_of(const DTensor& whole, const DTensor& piece, std::int64_t place) {
  const std::int64_t size = piece.numel();
  const std::int64_t parts = size == 0 ? 1 : whole.numel() / size;
  const std::int64_t first = (place < parts ? place : 0) * size;
  const DTensor elements = plain_calls().one("aten::reshape", {whole, Dims{-1}});
  return plain_calls().one("aten::slice.Tensor",
                           {elements, std::int64_t{0}, first, first + size, std::int64_t{1}});
}

void fill(const DTensor& out, const DTensor& value) {
  plain_calls().one("aten::copy_", {out, plain_calls().one("aten::reshape", {value, out.shape()})});
}

// Fills the rows that both have.
void fill_rows(const DTensor& out, const DTensor& value) {
  if (out.numel() == value.numel()) return fill(out, value);
  const std::int64_t rows = std::min(out.shape()[0], value.shape()[0]);
  const auto first_rows = [&](const DTensor& x) {
    return plain_calls().one("aten::slice.Tensor",
                             {x, std::int64_t{0}, std::int64_t{0}, rows, std::int64_t{1}});
  };
  fill(first_rows(out), first_rows(value));
}

// True when an output of a gather has a shape that fits only the pieces of several ranks.
bool has_shape_of_more_ranks(const CollectInto& what, std::int64_t ranks) {
  if (what.kind != Kind::kAllGather || what.outputs.size() != 1) return false;
  Dims shape = what.inputs.at(0).shape();
  const Dims& given = what.outputs[0].shape();
  if (shape.empty() || shape.size() != given.size() || shape == given) return false;
  shape[0] *= ranks;
  return shape != given;
}

// The result of a collective with the same input on every rank.
void fill_alone(const CollectInto& what, std::int64_t place) {
  const std::vector<DTensor>&in = what.inputs, &out = what.outputs;
  if (what.kind == Kind::kAllReduce || what.kind == Kind::kReduce ||
      what.kind == Kind::kBroadcast || in.empty()) {
    return;
  }
  if (what.kind == Kind::kAllToAll) {
    for (std::size_t i = 0; i < out.size(); ++i) fill_rows(out[i], in.at(i));
  } else if (what.kind == Kind::kScatter || what.kind == Kind::kReduceScatter) {
    const auto own = static_cast<std::size_t>(place);
    fill(out[0], in.size() > 1 ? in[own < in.size() ? own : 0] : part_of(in[0], out[0], place));
  } else if (out.size() > 1 || (!out.empty() && out[0].numel() == in[0].numel())) {
    for (const DTensor& each : out) fill(each, in[0]);
  } else if (!out.empty()) {
    for (std::int64_t i = 0; i * in[0].numel() < out[0].numel(); ++i) {
      fill(part_of(out[0], in[0], i), in[0]);
    }
  }
}

// Each rank's values go over those of the one before.
void warn_of_one_tensor(const std::vector<DTensor>& outputs) {
  Observer* const observer = observer_to_tell();
  for (std::size_t i = 1; observer != nullptr && i < outputs.size(); ++i) {
    const Tensor &one = outputs[i - 1].local(), &other = outputs[i].local();
    if (one.numel() == 0 || one.storage() != other.storage() || one.offset() != other.offset()) {
      continue;
    }
    return observer->warning(fmt::format(
        "{}: entries {} and {} of the list that is filled are one tensor, which keeps the last "
        "rank's values: make one for each rank, [torch.empty_like(t) for _ in range(n)]",
        place_text(current_rank().position), i - 1, i));
  }
}

Value performed(const DistCall& call, const CollectInto& what) {
  warn_of_one_tensor(what.outputs);
  const bool async = call.given().flag_or("async_op", false);
  CollectiveWorkRef work;
  if (call.interpreter().plain()) {
    if (has_shape_of_more_ranks(what, call.reported_size())) call.interpreter().note_other_shape();
    fill_alone(what, call.reported_place());
  } else if (async) {
    call.interpreter().note_effect("an asynchronous collective");
    work = kept_work(call.interpreter(), start_collect_into(what, call.group()));
  } else {
    collect_into(what, call.group());
  }
  if (!async) return call.nothing();
  return work_value(std::move(work));
}

/// A function with a tensor on each side, or a list of one for each rank: its parameters begin with
/// the output and the input, or with the one tensor that is both.
struct DistRow {
  Kind kind;
  std::string_view signature;
};
constexpr DistRow kAllReduceRow{Kind::kAllReduce,
                                "dist.all_reduce(tensor, op=, group=, async_op=)"};
constexpr DistRow kReduceRow{Kind::kReduce,
                             "dist.reduce(tensor, dst=, op=, group=, async_op=, group_dst=)"};
constexpr DistRow kBroadcastRow{Kind::kBroadcast,
                                "dist.broadcast(tensor, src=, group=, async_op=, group_src=)"};
constexpr DistRow kAllGatherRow{Kind::kAllGather,
                                "dist.all_gather(tensor_list, tensor, group=, async_op=)"};
constexpr DistRow kAllGatherIntoRow{
    Kind::kAllGather,
    "dist.all_gather_into_tensor(output_tensor, input_tensor, group=, async_op=)"};
constexpr DistRow kReduceScatterRow{
    Kind::kReduceScatter, "dist.reduce_scatter(output, input_list, op=, group=, async_op=)"};
constexpr DistRow kReduceScatterTensorRow{
    Kind::kReduceScatter, "dist.reduce_scatter_tensor(output, input, op=, group=, async_op=)"};
constexpr DistRow kAllToAllRow{
    Kind::kAllToAll, "dist.all_to_all(output_tensor_list, input_tensor_list, group=, async_op=)"};
constexpr DistRow kAllToAllSingleRow{Kind::kAllToAll,
                                     "dist.all_to_all_single(output, input, output_split_sizes=, "
                                     "input_split_sizes=, group=, async_op=)"};

template <const DistRow& row>
Value run_dist_row(Interpreter& in, const Value*, CallValues values) {
  const Signature signature(row.signature);
  const std::vector<std::string_view>& names = signature.parameters;
  const DistCall call(in, signature, std::move(values));
  const auto side = [&](std::string_view name) {
    return name.ends_with("list") ? call.tensors(name) : std::vector<DTensor>{call.tensor(name)};
  };
  const bool written = names[1].ends_with('=');
  CollectInto what{.kind = row.kind};
  if (written) what.inputs = what.outputs = side(names[0]);
  what.op = call.op();
  if (!call.takes_part()) return call.nothing();
  if (!written) {
    what.inputs = side(names[1]);
    what.outputs = side(names[0]);
  }
  if (row.kind == Kind::kReduce) what.root = call.root("dst", "group_dst", false);
  if (row.kind == Kind::kBroadcast) what.root = call.root("src", "group_src", false);
  what.send_rows = call.given().sizes_or("input_split_sizes", {});
  what.receive_rows = call.given().sizes_or("output_split_sizes", {});
  return performed(call, what);
}

// A list that only the root has. torch takes an empty one for none.
std::vector<DTensor> list_at_root(const DistCall& call, std::string_view name, bool is_root,
                                  std::string_view root) {
  const Value& given = call.given()[name];
  const bool none = given.is_none() || (given.is<ListValue>() && items_of(given).empty());
  if (is_root == !none) return none ? std::vector<DTensor>() : call.tensors(name);
  if (none) {
    call.refuse(fmt::format("give it one tensor for each rank there: {}=[...]", name),
                "rank {} is the {} and has no {}", call.interpreter().setup().rank, root, name);
  }
  call.refuse(fmt::format("give None elsewhere: {0}=[...] if rank == {0}_rank else None", name),
              "rank {} has a {} and is not the {}", call.interpreter().setup().rank, name, root);
}

Value dist_gather(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.gather(tensor, gather_list=, dst=, group=, async_op=, group_dst=)",
                      std::move(values));
  const DTensor x = call.tensor("tensor");
  if (!call.takes_part()) return call.nothing();
  const std::int64_t root = call.root("dst", "group_dst", true);
  return performed(call,
                   {.kind = Kind::kGather,
                    .inputs = {x},
                    .outputs = list_at_root(call, "gather_list", call.is(root), "destination"),
                    .root = root});
}

Value dist_scatter(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in,
                      "dist.scatter(tensor, scatter_list=, src=, group=, async_op=, group_src=)",
                      std::move(values));
  const DTensor x = call.tensor("tensor");
  if (!call.takes_part()) return call.nothing();
  const std::int64_t root = call.root("src", "group_src", true);
  return performed(call, {.kind = Kind::kScatter,
                          .inputs = list_at_root(call, "scatter_list", call.is(root), "source"),
                          .outputs = {x},
                          .root = root});
}

// An asynchronous barrier waits at once.
Value dist_barrier(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.barrier(group=, async_op=, device_ids=, timeout=)",
                      std::move(values));
  if (!call.takes_part()) return call.nothing();
  barrier(call.group());
  if (!call.given().flag_or("async_op", false)) return call.nothing();
  return work_value(nullptr);
}

}  // namespace

CollectiveWorkRef kept_work(Interpreter& in, CollectiveWorkRef work) {
  std::erase_if(in.posted_works(), [](const auto& one) { return one.expired(); });
  in.posted_works().push_back(work);
  return work;
}

Value run_synchronize(Interpreter& in, const Value*, CallValues) {
  if (in.plain()) return {};
  RankContext& rank = current_rank();
  rank.mode |= kModeSynchronizes;
  for (const auto& one : in.posted_works()) {
    const CollectiveWorkRef work = one.lock();
    if (work == nullptr || is_done(*work)) continue;
    if ((rank.mode & kModeQueues) != 0) shardlab::wait(work);
  }
  rank.mode &= ~kModeSynchronizes;
  return {};
}

Value work_value(CollectiveWorkRef work) {
  return ObjectValue{std::make_shared<WorkObject>(std::move(work))};
}

BuiltinTable dist_builtins() {
  constexpr Member kCalled = Member::kMethod;
  static const Builtin kTable[] = {
      {"P2POp", run_p2p_op, kCalled, true},
      {"all_gather", run_dist_row<kAllGatherRow>, kCalled, true},
      {"all_gather_into_tensor", run_dist_row<kAllGatherIntoRow>, kCalled, true},
      {"all_gather_object", run_all_gather_object, kCalled, true},
      {"all_gather_single", run_dist_row<kAllGatherIntoRow>, kCalled, true},
      {"all_reduce", run_dist_row<kAllReduceRow>, kCalled, true},
      {"all_to_all", run_dist_row<kAllToAllRow>, kCalled, true},
      {"all_to_all_single", run_dist_row<kAllToAllSingleRow>, kCalled, true},
      {"barrier", dist_barrier, kCalled, true},
      {"batch_isend_irecv", run_batch_isend_irecv, kCalled, true},
      {"broadcast", run_dist_row<kBroadcastRow>, kCalled, true},
      {"broadcast_object_list", run_broadcast_object_list, kCalled, true},
      {"gather", dist_gather, kCalled, true},
      {"gather_object", run_gather_object, kCalled, true},
      {"irecv", run_irecv, kCalled, true},
      {"isend", run_isend, kCalled, true},
      {"recv", run_recv, kCalled, true},
      {"reduce", run_dist_row<kReduceRow>, kCalled, true},
      {"reduce_scatter", run_dist_row<kReduceScatterRow>, kCalled, true},
      {"reduce_scatter_single", run_dist_row<kReduceScatterTensorRow>, kCalled, true},
      {"reduce_scatter_tensor", run_dist_row<kReduceScatterTensorRow>, kCalled, true},
      {"scatter", dist_scatter, kCalled, true},
      {"scatter_object_list", run_scatter_object_list, kCalled, true},
      {"send", run_send, kCalled, true},
  };
  return kTable;
}

BuiltinTable work_methods() {
  static const Builtin kTable[] = {
      {"is_completed", is_work_completed},
      {"wait", "(timeout=)", wait_for_work},
  };
  return kTable;
}

}  // namespace shardlab
