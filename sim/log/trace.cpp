// The observer of one rank: counts always, events if a report will print them. An event copies the
// plan and the decision, since caches may drop theirs.
#include "sim/log/trace.h"

#include <algorithm>

#include "base/hash.h"
#include "base/rank_context.h"
#include "comm/call.h"
#include "comm/filling.h"
#include "schema/call_record.h"

namespace shardlab {

namespace {

// Metadata of the tensors among `arguments`; false if one of them is distributed.
bool plain_metas(const auto& arguments, std::vector<TensorMeta>& metas) {
  bool plain = true;
  for (const Argument& argument : arguments) {
    if (argument.is_list()) plain = plain_metas(argument.list(), metas) && plain;
    if (!argument.is_tensor() || !argument.tensor().defined()) continue;
    plain = plain && !argument.tensor().distributed();
    metas.push_back(argument.tensor().meta());
  }
  return plain;
}

}  // namespace

int moving_steps(const Plan& plan) {
  const MeshLayout& layout = *plan.source->layout();
  const auto moves = [&](const PlanStep& step) {
    return step.communicates() && std::ranges::any_of(step.mesh_dims, [&](std::size_t dim) {
             return layout.size(dim) > 1;
           });
  };
  return static_cast<int>(std::ranges::count_if(plan.steps, moves));
}

// A vector grows by copies of elements that may throw when they move, which the type of arguments
// does not rule out; a copy of an event is slow.
TraceEvent& Trace::add(TraceEvent::Kind kind) {
  if (events_.size() == events_.capacity()) {
    std::vector<TraceEvent> larger;
    larger.reserve(std::max<std::size_t>(64, 2 * events_.size()));
    std::ranges::move(events_, std::back_inserter(larger));
    events_ = std::move(larger);
  }
  TraceEvent& event = events_.emplace_back();
  event.kind = kind;
  event.depth = depth_;
  event.pass = current_rank().pass;
  event.position = current_rank().position;
  return event;
}

void Trace::call_begins(const CallRecord& call) {
  static_cast<void>(call);
  ++calls_;
  if (progress_ == nullptr) return;
  progress_->line.store(current_rank().position.line, std::memory_order_relaxed);
  progress_->calls.fetch_add(1, std::memory_order_relaxed);
}

// Ops inside of another one are not recorded by themselves.
void Trace::call_ends(const CallRecord& call) {
  --calls_;
  if (calls_ > 0 || depth_ > 0 || detail_ != TraceDetail::kEvents) return;
  if ((current_rank().mode & kModeFilling) != 0) return;
  LocalOp op{.row = call.row, .inputs = {}, .outputs = {}};
  if (!plain_metas(*call.args, op.inputs) || !plain_metas(*call.results, op.outputs)) return;
  add(TraceEvent::Kind::kLocal).local = std::make_shared<const LocalOp>(std::move(op));
}

void Trace::op_begins(const OpSchema& schema, const OutputSharding& sharding) {
  counts_.calls = hash_mix(counts_.calls, reinterpret_cast<std::uintptr_t>(schema.row));
  if (detail_ == TraceDetail::kEvents) {
    TraceEvent& event = add(TraceEvent::Kind::kOp);
    event.schema = schema;
    event.decision = std::make_shared<const OutputSharding>(sharding);
  }
  ++depth_;
}

void Trace::redistribution(const RedistributionRecord& record) {
  // A number of another mesh has no plan.
  if (record.argument >= 0 && (record.plan == nullptr || communicates(*record.plan))) {
    ++implicit_count_;
  }
  if (detail_ != TraceDetail::kEvents) return;
  TraceEvent& event = add(TraceEvent::Kind::kRedistribution);
  event.redistribution = record;
  if (record.plan == nullptr) return;
  event.plan = std::make_shared<const Plan>(*record.plan);
  event.redistribution.plan = event.plan.get();
}

void Trace::collective(const CollectiveRecord& record) {
  const auto kind = static_cast<std::size_t>(record.kind);
  if (record.kind == CollectiveKind::kRecv && record.peer < 0) ++counts_.from_any;
  if (current_rank().pass == Pass::kForward) {
    ++counts_.forward[kind];
    counts_.forward_bytes += record.sent_bytes;
  } else {
    ++counts_.backward[kind];
    counts_.backward_bytes += record.sent_bytes;
  }
  if (gives_tensor(record.kind) && record.kind != CollectiveKind::kPermute) {  // their end is known
    entered_ = Entered{record.sent_bytes, current_rank().pass, events_.size()};
  }
  if (detail_ == TraceDetail::kEvents) add(TraceEvent::Kind::kCollective).collective = record;
}

void Trace::collective_ends(const CollectiveCall& call) {
  static_cast<void>(call);
  entered_.reset();
}

void Trace::ends_early() {
  if (!entered_) return;
  double& bytes = entered_->pass == Pass::kForward ? counts_.forward_bytes : counts_.backward_bytes;
  bytes -= entered_->bytes;
  if (entered_->event >= events_.size()) return;
  events_[entered_->event].completed = false;
  events_[entered_->event].collective.sent_bytes = 0;
}

void Trace::collective_waits(const CollectiveRecord& record) {
  if (detail_ == TraceDetail::kEvents) add(TraceEvent::Kind::kWait).collective = record;
}

void Trace::warning(const std::string& text) {
  if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end()) {
    warnings_.push_back(text);
  }
}

}  // namespace shardlab
