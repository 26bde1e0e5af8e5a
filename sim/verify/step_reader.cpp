// An op is read as its kernel took it: operands that it had redistributed are replaced by the
// results of the redistribution, which is a step of its own. A step whose results are pending is
// handed over once they have settled: reading them earlier would wait where the program does not.
// Memory held for the judge does not count as the rank's.
#include "sim/verify/step_reader.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/memory_account.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/local_call.h"
#include "mesh/type_string.h"
#include "redistribute/redistribute.h"
#include "schema/call_record.h"
#include "schema/op_row.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

// Zeros in place of a tensor whose values were not kept: gradients read only its shape, dtype and
// placements.
DTensor without_values(const DTensor& x) {
  const UncountedScope scope;
  Device& device = *current_rank().device;
  const Tensor local = empty(device, x.local().shape(), x.local().dtype());
  const std::vector<std::byte> zeros(static_cast<std::size_t>(local.size_bytes()));
  device.write(local, zeros.data());
  return DTensor(local, x.spec());
}

// For `part`, a handle of its own to the value as it is now; a pending one is left as it is.
DTensor held(const DTensor& x, StepPart& part) {
  if (!x.defined()) return {};
  if (!x.local().defined()) return without_values(x);
  const bool pending = x.local().pending();
  part.unsettled = part.unsettled || pending;
  DTensor copy(pending ? x.local() : x.local().snapshot(), x.spec());
  const std::shared_ptr<const TensorExtras>& extras = x.impl()->extras;
  if (extras && extras->mask.defined()) {
    copy.impl()->extras = std::make_shared<TensorExtras>(TensorExtras{extras->mask.snapshot()});
  }
  return copy;
}

template <typename List>
List all_held(const List& list, StepPart& part) {
  List copy = list;
  for_each_tensor(copy, [&](DTensor& tensor) { tensor = held(tensor, part); });
  return copy;
}

const MeshLayout* mesh_of(const Arguments& arguments) {
  const MeshLayout* layout = nullptr;
  for_each_tensor(arguments, [&](const DTensor& tensor) {
    if (layout == nullptr && tensor.defined() && tensor.distributed()) {
      layout = tensor.spec()->layout();
    }
  });
  return layout;
}

bool settled(const StepPart& part) {
  bool all = true;
  const auto visit = [&](const DTensor& tensor) {
    if (tensor.defined() && tensor.local().pending()) all = false;
  };
  for_each_tensor(part.args, visit);
  for_each_tensor(part.results, visit);
  return all;
}

// Values that were pending become snapshots: the rank may still write to them.
void hold_settled(StepPart& part) {
  if (!part.unsettled) return;
  part.unsettled = false;
  part.args = all_held(part.args, part);
  part.results = all_held(part.results, part);
}

}  // namespace

StepReader::StepReader(std::int64_t rank, Observer* next, TakePart take)
    : ForwardingObserver(next), rank_(rank), take_(std::move(take)) {}

StepPart StepReader::new_part(PartKind kind) {
  const RankContext& rank = current_rank();
  StepPart part;
  part.kind = kind;
  part.position = rank.position;
  part.pass = rank.pass;
  part.order = order_++;
  return part;
}

void StepReader::call_begins(const CallRecord& call) {
  ForwardingObserver::call_begins(call);
  let_go();
  Frame& frame = frames_.emplace_back();
  frame.layout = mesh_of(*call.args);
  if (frame.layout == nullptr) return;
  StepPart& part = frame.part.emplace(new_part(PartKind::kOp));
  part.row = call.row;
  part.random = call.random;
  const bool writes = call.row->inplace() || call.row->out_variant();
  if (writes) {
    for_each_tensor_slot(call.row->op, *call.args, [&](std::size_t i, const Argument& argument) {
      if (!call.row->op.arguments[i].alias.write || !argument.is_tensor()) return;
      if (argument.tensor().local().pending()) argument.tensor().local().wait();
      frame.written.push_back(argument.tensor());
    });
    flush();  // before a read value changes
  }
  for_each_tensor(*call.args, [&](const DTensor& tensor) {
    if (!part.missed) part.missed = aliases_.missed_by(tensor, part.position);
  });
  part.args = all_held(*call.args, part);
}

void StepReader::note_writes(const Frame& frame) {
  if (frame.written.empty()) return;
  StepPlace place{.position = frame.part->position,
                  .pass = frame.part->pass,
                  .op = frame.part->row->name(),
                  .operands = type_string(frame.written.front()),
                  .order = frame.part->order};
  for (const DTensor& tensor : frame.written) aliases_.written(tensor, place);
}

void StepReader::call_ends(const CallRecord& call) {
  ForwardingObserver::call_ends(call);
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  if (frame.layout == nullptr) {
    // A factory has no operand with the layout of its result.
    frame.layout = mesh_of(*call.results);
    if (frame.layout == nullptr) return;
    StepPart& part = frame.part.emplace(new_part(PartKind::kOp));
    part.row = call.row;
    part.random = call.random;
    part.args = all_held(*call.args, part);
  }
  StepPart& part = *frame.part;
  if (frame.written.empty()) {
    part.results = all_held(*call.results, part);
  } else {
    for (const DTensor& tensor : frame.written) part.results.emplace_back(held(tensor, part));
  }
  aliases_.note(call);
  note_writes(frame);
  if (made_inside(frame, *call.results)) return;  // by calls that are steps of their own
  for_each_tensor(*call.results, [&](const DTensor& tensor) { note_inner(tensor); });
  deliver(frame.layout, std::move(part));
}

void StepReader::note_inner(const DTensor& made) {
  if (frames_.empty() || !frames_.back().part) return;
  Frame& around = frames_.back();
  if (!around.part->row->opaque()) return;
  const bool whole = !made.local().defined() || made.local().pending();
  around.inner.push_back(
      {made.impl(), whole ? made : DTensor(made.local().snapshot(), made.spec())});
}

bool StepReader::made_inside(const Frame& frame, const Results& results) {
  bool all = !frame.inner.empty();
  for_each_tensor(results, [&](const DTensor& tensor) {
    all = all && std::ranges::any_of(frame.inner, [&](const Made& made) {
            if (made.handle != tensor.impl()) return false;
            if (made.value.is_same(tensor)) return true;
            return tensor.local().defined() &&
                   made.value.local().storage()->buffer() == tensor.local().storage()->buffer();
          });
  });
  return all;
}

void StepReader::call_fails() {
  ForwardingObserver::call_fails();
  frames_.pop_back();
  moving_ = false;
}

void StepReader::placed(const PlacedRecord& record) {
  ForwardingObserver::placed(record);
  moving_ = false;
  if (record.kind == PlacedRecord::Kind::kCollected) return;  // collective_ends has more
  const bool moved = record.kind == PlacedRecord::Kind::kRedistribute;
  if (moved && record.from.spec()->layout() != record.to.spec()->layout()) return;  // of two meshes
  const bool takes = moved && record.argument >= 0;
  note_inner(record.to);
  if (takes && !frames_.empty() && frames_.back().part) {
    StepPart& part = *frames_.back().part;
    int slot = 0;
    const auto replace = [&](Argument& argument) {
      if (slot++ == record.argument) argument = held(record.to, part);
    };
    for (std::size_t i = 0; i < part.args.size(); ++i) {
      if (!part.row->op.arguments[i].type.is_tensor()) continue;
      if (!part.args[i].is_list()) {
        replace(part.args[i]);
      } else {
        for (Argument& element : std::get<ArgumentList>(part.args[i].variant())) replace(element);
      }
    }
  }
  StepPart part = new_part(PartKind::kPlaced);
  part.placing = record.kind;
  part.missed = aliases_.missed_by(record.from, part.position);
  part.args.emplace_back(held(record.from, part));
  part.results.emplace_back(held(record.to, part));
  const bool labels =
      record.kind == PlacedRecord::Kind::kFromLocal || record.kind == PlacedRecord::Kind::kToLocal;
  if (labels && !left_) {
    const DTensor& on_mesh = record.to.distributed() ? record.to : record.from;
    const bool same =
        record.kind == PlacedRecord::Kind::kToLocal && on_mesh.spec()->is_replicated();
    if (!same) {
      left_ = part;
      left_->args.clear();
      left_->results.clear();
    }
  }
  const DTensorSpec* spec = record.to.distributed() ? record.to.spec() : record.from.spec();
  if (spec != nullptr) deliver(spec->layout(), std::move(part));
}

void StepReader::collective_ends(const CollectiveCall& call) {
  ForwardingObserver::collective_ends(call);
  if (moving_ || !frames_.empty()) return;  // part of a step
  StepPart part = new_part(PartKind::kCollective);
  part.collective = call;
  part.collective.input = {};
  part.collective.result = {};
  if (!left_) left_ = part;
  if (is_message(call.kind)) return;  // between two ranks: the group's others have no part
  // Some have an input on their source only, some a result on their destination only.
  part.args.emplace_back(call.input.defined() ? held(DTensor(call.input), part) : DTensor());
  part.results.emplace_back(call.result.defined() ? held(DTensor(call.result), part) : DTensor());
  StepKey key;
  key.group.assign(call.group->ranks().begin(), call.group->ranks().end());
  const std::int64_t number = numbers_[key]++;
  key.number = number;
  hand_over(key, static_cast<std::size_t>(call.group->rank()), std::move(part));
}

void StepReader::deliver(const MeshLayout* layout, StepPart&& part) {
  const std::optional<Coordinate> coordinate = layout->coordinate_of(rank_);
  if (!coordinate) return;
  StepKey key{.layout = layout, .number = 0};
  key.number = numbers_[key]++;
  hand_over(key, static_cast<std::size_t>(layout->index_of(*coordinate)), std::move(part));
}

void StepReader::hand_over(const StepKey& key, std::size_t index, StepPart&& part) {
  if (waiting_.empty() && settled(part)) {
    hold_settled(part);
    take_(key, index, std::move(part));
  } else {
    waiting_.push_back({key, index, std::move(part)});
    flush();
  }
}

void StepReader::flush() {
  while (!waiting_.empty() && settled(waiting_.front().part)) {
    Delivery delivery = std::move(waiting_.front());
    waiting_.pop_front();
    hold_settled(delivery.part);
    take_(delivery.key, delivery.index, std::move(delivery.part));
  }
}

void StepReader::let_go() {
  flush();
  aliases_.let_go();
}

void StepReader::finish() {
  for (Delivery& delivery : waiting_) {
    for_each_tensor(delivery.part.results, [](DTensor& tensor) {
      if (tensor.defined()) tensor.local().wait();
    });
  }
  flush();
}

void StepReader::redistribution(const RedistributionRecord& record) {
  ForwardingObserver::redistribution(record);
  if (record.plan == nullptr) return;  // a number of another mesh, or a move there
  let_go();
  moving_ = true;
}

void StepReader::collective(const CollectiveRecord& record) {
  if (!moving_ && frames_.empty()) let_go();
  ForwardingObserver::collective(record);
}

}  // namespace shardlab
