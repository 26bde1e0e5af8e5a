// An event of several nodes is decided at its first one, and judged after its last one.
#include "sim/replay/watch.h"

#include <algorithm>

#include "api/distribute.h"
#include "autograd/program.h"
#include "base/error.h"
#include "base/tensor_dim.h"
#include "mesh/local_shape.h"
#include "mesh/placement_dims.h"
#include "ops/loss/loss_parallel.h"
#include "propagate/propagator.h"
#include "redistribute/redistribute.h"
#include "sim/verify/global_value.h"
#include "tensor/device.h"
#include "trace/graph_meshes.h"

namespace shardlab {

namespace {

// Strides of a dense piece whose dims follow each other as those of the whole.
Dims strides_like(const Dims& shape, const Dims& whole_shape, const Dims& whole_stride) {
  std::vector<std::size_t> dims(shape.size());
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = i;
  std::ranges::stable_sort(
      dims, [&](std::size_t a, std::size_t b) { return whole_stride[a] < whole_stride[b]; });
  Dims strides(shape.size());
  std::int64_t step = 1, whole_step = 1;
  for (const std::size_t dim : dims) {
    if (whole_shape[dim] > 1 && whole_stride[dim] != whole_step) return contiguous_strides(shape);
    strides[dim] = step;
    step *= std::max<std::int64_t>(shape[dim], 1);
    whole_step *= whole_shape[dim];
  }
  return strides;
}

// An all-to-all is recorded as an all-gather, followed by a local cut (K-11).
std::string recorded_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "all_gather_into_tensor";
    case CollectiveKind::kAllToAll:
      return "shard_dim_alltoall";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter_tensor";
    default:
      return std::string(to_string(kind));
  }
}

bool has_rule(const RecordedEvent& event) { return event.distributed || is_move(event.kind); }

}  // namespace

Results loss_of_pieces(std::string_view op, const Arguments& args) {
  ProgramCalls& calls = program_calls();
  const auto alias = [&](const DTensor& x) { return calls.one("aten::alias", {x}); };
  const DTensor& first = args.at(0).tensor();
  if (op == "aten::_log_softmax") {
    return {log_softmax_of_pieces(calls, first, wrap_dim(args.at(1).to_int(), first.ndim()))};
  }
  if (op == "aten::_log_softmax_backward_data") return {alias(first)};
  if (op == "aten::nll_loss_forward") {
    const NllOfPieces result = nll_of_pieces(calls, args, first);
    const DTensor weight = alias(result.total_weight);
    const DTensorSpec& spec = *weight.spec();
    return {result.loss,
            calls
                .perform(ToLocalEvent{weight,
                                      spec.with(without_partials(spec.placements()), spec.order())})
                .at(0)};
  }
  const Arguments loss(args.begin() + 1, args.begin() + 6);
  return {nll_gradient_of_pieces(calls, loss, args.at(1).tensor(), args.at(6).tensor(), first)};
}

// Notes the moves and collectives of a call.
class Watch::Rule final : public Observer {
 public:
  explicit Rule(const MeshLayout& mesh) : mesh_(mesh) {}

  void begin() {
    seen = {};
    open = true;
    depth_ = 0;
  }

  void op_begins(const OpSchema&, const OutputSharding&) override { ++depth_; }
  void op_ends() override { --depth_; }
  void redistribution(const RedistributionRecord& record) override {
    if (!open || record.argument < 0 || depth_ != 1) return;
    seen.moves.push_back(
        {record.argument, record.source->placements(), record.target->placements()});
  }
  void collective(const CollectiveRecord& record) override {
    if (!open) return;
    RecordedCollective collective{.kind = recorded_name(record.kind), .dim = {}, .reduce = {}};
    // Another mesh may have a dim of that name along other ranks.
    const auto at = mesh_.coordinate_of(record.group.first_rank);
    const std::vector<std::int64_t> ranks = record.group.ranks();
    for (std::size_t dim = 0; at && dim < mesh_.ndim(); ++dim) {
      const bool along = record.group.size > 1 && mesh_.group_ranks(dim, *at) == ranks;
      if (along) collective.dim = static_cast<std::int64_t>(dim);
    }
    const bool reduces =
        record.kind == CollectiveKind::kAllReduce || record.kind == CollectiveKind::kReduceScatter;
    if (reduces) collective.reduce = to_string(record.op);
    seen.collectives.push_back(std::move(collective));
  }

  SeenRule seen;
  bool open = false;  // in a call whose rule is compared

 private:
  const MeshLayout& mesh_;  // of all ranks; a part of it has the same names
  int depth_ = 0;
};

Watch::Watch(const WatchPlace& place)
    : program_(place.program),
      graph_(place.graph),
      seen_(place.seen),
      rank_(place.rank),
      mesh_(place.mesh) {
  const bool rules = std::ranges::any_of(program_.events, has_rule);
  if (rank_ == 0 && rules) rule_ = std::make_unique<Rule>(*mesh_);
}

Watch::~Watch() = default;

Observer* Watch::observer() { return rule_.get(); }

bool Watch::begins(std::size_t node, ReplayState& state) {
  if (graph_.event_of[node] == program_.events.size()) return true;
  at_ = graph_.event_of[node];
  state_ = &state;
  if (graph_.graph.nodes[node].kind == NodeKind::kWait || graph_.edits.contains(node)) return true;
  if (!now().ran) runs_ = begin_event(state);
  return runs_;
}

bool Watch::begin_event(ReplayState& state) {
  const RecordedEvent& event = program_.events[at_];
  now().ran = true;
  if (event.place >= 0) {
    const RecordedPlace& place = program_.places[static_cast<std::size_t>(event.place)];
    current_rank().position = {place.file.c_str(), static_cast<std::int32_t>(place.line), 1};
  }
  if (is_recorded_send(event)) seen_.came_to(at_, true);
  using enum RecordedKind;
  if (event.kind == kInput || event.kind == kConstant) {
    give(event.out[0], state);
    return false;
  }
  if (event.kind == kAlias) {
    view(event, state);
    return false;
  }
  if (event.kind == kOfRanks) {
    const std::int32_t own = event.takes[rank_];
    state.put(event.out[0].id, own < 0 ? DTensor() : value(own, state));
    return false;
  }
  if (!is_played(program_, event)) return true;
  if (graph_.missing[at_] || !event.misfit.empty()) {
    if (!take_recorded(event, state)) forget(event, state);
    return false;
  }
  if (!has_operands(event, state)) {
    now().skipped = true;
    forget(event, state);
    return false;
  }
  if (!current_rank().device->shape_only()) note_sizes(event, state);
  before(at_, state);
  if (rule_ && has_rule(event)) rule_->begin();
  return true;
}

bool Watch::has_operands(const RecordedEvent& event, const ReplayState& state) const {
  bool all = true;
  for_each_operand(event, rank_,
                   [&](std::int32_t number) { all = all && value(number, state).defined(); });
  return all;
}

// A formula is that of the whole, as are elements of checkpoints; others in the file are of pieces.
void Watch::give(const EventValue& given, ReplayState& state) {
  Device& device = *current_rank().device;
  if (!given.whole()) {
    return state.put(given.id,
                     DTensor(recorded_tensor(device, program_, given, rank_, given.meta(rank_))));
  }
  GraphMeshes meshes(graph_.graph.meshes, static_cast<std::int64_t>(rank_), mesh_->arena());
  const DTensorSpec* spec = meshes.spec_of(given.type);
  const bool whole =
      !given.elements.empty() &&
      (given.elements[0].whole || given.elements[0].stored == RecordedElements::Stored::kFormula);
  if (whole || device.shape_only()) {
    const TensorMeta meta = contiguous_meta(given.type.shape, given.type.dtype);
    const Tensor tensor = recorded_tensor(device, program_, given, rank_, meta);
    state.put(given.id,
              program_calls().perform(DistributeEvent{DTensor(tensor), spec, {}}).at(0).tensor());
    return;
  }
  const auto here = spec->layout()->coordinate_of(static_cast<std::int64_t>(rank_));
  if (!here) return;
  const TensorMeta piece = contiguous_meta(local_shape(*spec, *here), given.type.dtype);
  state.put(given.id, DTensor(recorded_tensor(device, program_, given, rank_, piece), spec));
}

// The results of an op that cannot run, if the file has all of them: what was drawn, above all.
bool Watch::take_recorded(const RecordedEvent& event, ReplayState& state) {
  const std::vector<Given> given = given_by(event);
  const auto held = [](const Given& one) { return !one.value->elements.empty(); };
  if (!event.misfit.empty() || given.empty() || !std::ranges::all_of(given, held)) return false;
  Device& device = *current_rank().device;
  for (const Given& one : given) {
    const DTensor& before = value(one.value->id.id, state);
    const bool writes = one.written() || (is_in_place(event.op) && one.index == 0);
    if (!writes || !before.defined()) {
      give(*one.value, state);
    } else if (!device.shape_only()) {
      write_recorded(*one.value, before.local());
    }
  }
  return true;
}

// The elements that the file has take the place of those in a tensor.
void Watch::write_recorded(const EventValue& value, const Tensor& tensor) const {
  Device& device = *tensor.device();
  const TensorMeta meta = contiguous_meta(tensor.shape(), tensor.dtype());
  device.copy(tensor, recorded_tensor(device, program_, value, rank_, meta));
}

void Watch::view(const RecordedEvent& event, ReplayState& state) {
  const DTensor& base = value(event.takes[0], state);
  if (!base.defined()) return;
  const TensorMeta meta = event.out[0].meta(rank_);
  const std::int64_t offset = event.offsets[event.offsets.size() == 1 ? 0 : rank_];
  std::int64_t last = offset;
  for (std::size_t i = 0; i < meta.shape.size(); ++i) {
    last += (std::max<std::int64_t>(meta.shape[i], 1) - 1) * meta.stride[i];
  }
  const Tensor& whole = base.local();
  const auto bytes = static_cast<std::int64_t>(whole.storage()->buffer()->size_bytes());
  const std::int64_t held = bytes / item_bytes(meta.dtype);
  if (offset < 0 || last >= std::max<std::int64_t>(held, 1)) {
    refuse_event(program_, event,
                 fmt::format("a view beyond the memory of value {}", event.takes[0]));
  }
  state.put(event.out[0].id, DTensor(whole.as_view(meta, offset)));
}

std::optional<Results> Watch::run(std::size_t node, const Arguments& args) {
  if (!of_loss_parallel(program_.events[at_])) return std::nullopt;
  return loss_of_pieces(graph_.graph.nodes[node].name, args);
}

void Watch::made(std::size_t node, Results& results) {
  const RecordedEvent& event = program_.events[at_];
  const std::vector<GraphResult>& named = graph_.graph.nodes[node].results;
  const bool own = is_played(program_, event) && !named.empty() && !event.out.empty() &&
                   named[0].value == event.out[0].id;
  if (!own) return;
  for_each_tensor(results, [](DTensor& x) {
    if (x.defined() && x.local().pending()) x.local().wait();
  });
  if (rule_ && rule_->open) {
    for_each_tensor(results, [&](DTensor& x) {
      auto& placements = rule_->seen.placements.emplace_back();
      if (x.defined() && x.distributed()) placements = x.spec()->placements();
    });
    keep_rule();
  }
  restore(event, results);
  settle(event, results, *state_);
}

void Watch::keep_rule() {
  if (!rule_ || !rule_->open) return;
  seen_.at(at_).rule = std::move(rule_->seen);
  rule_->open = false;
}

// If our placements differ from the recorded ones, the recorded ones count for later calls.
void Watch::restore(const RecordedEvent& event, Results& results) const {
  std::size_t index = 0;
  for_each_tensor(results, [&](DTensor& x) {
    if (index >= event.out.size()) return;
    const EventValue& out = event.out[index++];
    if (!out.whole() || !x.defined() || !x.distributed()) return;
    if (out.type.placements.size() != x.spec()->layout()->ndim()) return;
    const DTensorSpec* recorded = x.spec()->with(out.type.placements);
    if (recorded == x.spec() || recorded->shape() != out.type.shape) return;
    const DTensorSpec* whole = x.spec()->with(Placements(x.spec()->layout()->ndim()));
    const DTensor full = redistribute_tensor(x, whole);
    x = recorded->has_partial() ? distribute(full.local(), recorded)
                                : redistribute_tensor(full, recorded);
  });
}

// Memory of its own is laid out as it was recorded, since views depend on it.
void Watch::settle(const RecordedEvent& event, Results& results, const ReplayState& state) const {
  Device& device = *current_rank().device;
  std::size_t index = 0;
  for_each_tensor(results, [&](DTensor& x) {
    if (index >= event.out.size()) return;
    const EventValue& out = event.out[index++];
    if (out.id.id < 0 || !x.defined()) return;
    const Tensor& ours = x.local();
    TensorMeta meta = out.meta(rank_);
    if (ours.shape().size() != meta.shape.size()) return;
    if (out.whole()) {
      meta = {ours.shape(), strides_like(ours.shape(), meta.shape, meta.stride), ours.dtype()};
    }
    if (ours.shape() != meta.shape || ours.dtype() != meta.dtype || ours.stride() == meta.stride) {
      return;
    }
    bool shared = false;
    for_each_operand(event, rank_, [&](std::int32_t number) {
      shared = shared || value(number, state).local().storage() == ours.storage();
    });
    if (shared) return;
    Tensor laid = empty(device, meta);
    if (!device.shape_only()) device.copy(laid, ours);
    x = DTensor(laid, x.spec());
  });
}

bool Watch::failed(std::size_t node, const Error& error, ReplayState& state) {
  if (graph_.event_of[node] == program_.events.size()) return false;
  if (graph_.edits.contains(node)) return true;
  const RecordedEvent& event = program_.events[at_];
  // No memory ends the replay. The other ranks of a collective have failed as well, or will wait
  // for this one.
  if (error.kind() == ErrorKind::kRuntime) return false;
  if (rule_) rule_->open = false;
  runs_ = false;
  // With shapes alone a number that is read from a tensor is not known; the file has its shape.
  if (program_.shapes_only && error.kind() == ErrorKind::kUnsupported) {
    now().supposed = true;
    suppose(event, state);
    return true;
  }
  now().error = error;
  forget(event, state);
  return true;
}

void Watch::suppose(const RecordedEvent& event, ReplayState& state) {
  GraphMeshes meshes(graph_.graph.meshes, static_cast<std::int64_t>(rank_), mesh_->arena());
  Device& device = *current_rank().device;
  for (const EventValue& out : event.out) {
    if (out.id.id < 0 || value(out.id.id, state).defined()) continue;
    if (!out.whole()) {
      state.put(out.id, DTensor(empty(device, contiguous_meta(out.type.shape, out.type.dtype))));
      continue;
    }
    const DTensorSpec* spec = meshes.spec_of(out.type);
    const auto here = spec->layout()->coordinate_of(static_cast<std::int64_t>(rank_));
    if (!here) continue;
    state.put(out.id, DTensor(empty(device, local_shape(*spec, *here), out.type.dtype), spec));
  }
}

// Values that the event returns, or writes to, are unknown from now on.
void Watch::forget(const RecordedEvent& event, ReplayState& state) {
  const bool in_place = is_in_place(event.op);
  for (const Given& one : given_by(event)) {
    const DTensor written = value(one.value->id.id, state);
    state.put(one.value->id, {});
    if (!written.defined() || (!one.written() && !in_place)) continue;
    // Memory that is written is that of its views, too.
    for (const std::int32_t number : sharing(written, state)) state.put({number}, {});
  }
}

std::vector<std::int32_t> Watch::sharing(const DTensor& value, const ReplayState& state) {
  const Storage* memory = value.local().storage().get();
  std::vector<std::int32_t>& numbers = by_memory_[memory];
  std::erase_if(numbers, [&](std::int32_t number) {
    const DTensor& one = this->value(number, state);
    return !one.defined() || one.local().storage().get() != memory;
  });
  return numbers;
}

void Watch::note_sizes(const RecordedEvent& event, const ReplayState& state) {
  if (written_.empty()) return;
  for_each_operand(event, rank_, [&](std::int32_t number) {
    if (written_.erase(number) == 0) return;
    const DTensor& x = value(number, state);
    SeenSize size{.number = number, .size = 0, .adds_up = x.distributed()};
    const Coordinate here =
        x.distributed() ? *x.spec()->layout()->coordinate_of(current_rank().rank) : Coordinate{};
    const bool again = x.distributed() && representative(*x.spec(), here) != here;
    if (!again) size.size = Fingerprint(x.local()).sizes[0];
    now().sizes.push_back(size);
  });
}

void Watch::note_write(std::int32_t number, const ReplayState& state) {
  written_.erase(number);
  for (const std::int32_t other : sharing(value(number, state), state)) {
    if (other != number) written_.insert(other);
  }
}

// The recorded random numbers take the place of those that are drawn here.
void Watch::note_values(const RecordedEvent& event, ReplayState& state) {
  Device& device = *current_rank().device;
  const bool played = is_played(program_, event);
  const bool in_place = is_in_place(event.op);
  std::size_t index = 0;
  for (const Given& one : given_by(event)) {
    const std::size_t at = index++;
    const DTensor& ours = value(one.value->id.id, state);
    if (!ours.defined()) continue;
    if (played && !one.value->elements.empty() && !device.shape_only()) {
      write_recorded(*one.value, ours.local());
    }
    std::vector<std::int32_t>& numbers = by_memory_[ours.local().storage().get()];
    if (std::ranges::find(numbers, one.value->id.id) == numbers.end()) {
      numbers.push_back(one.value->id.id);
    }
    seen_.add(at_, at, rank_, ours);
    if (one.written() || (in_place && one.index == 0)) note_write(one.value->id.id, state);
  }
}

void Watch::ended(std::size_t node, ReplayState& state) {
  if (!graph_.last_on(node, static_cast<std::int32_t>(rank_))) return;
  const RecordedEvent& event = program_.events[at_];
  keep_rule();
  const SeenOnRank& seen = now();
  const bool came = !seen.skipped && !seen.error && !graph_.missing[at_] && event.misfit.empty();
  if (came && event.error.empty()) {
    note_values(event, state);
  } else if (came) {
    forget(event, state);
  }
  if (!is_recorded_send(event)) seen_.came_to(at_, false);
  after(at_, state);
}

}  // namespace shardlab
