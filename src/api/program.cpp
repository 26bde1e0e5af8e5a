// One function for each kind of event; the functions that they call never make events.
#include "api/program.h"

#include <set>

#include "api/collectives.h"
#include "api/distribute.h"
#include "api/exchange.h"
#include "api/into_tensors.h"
#include "autograd/grad_node.h"
#include "autograd/on_tape.h"
#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/factory.h"
#include "mesh/local_shape.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// A generator in place of the rank's own, for rows that have no argument for one.
class DrawScope {
 public:
  explicit DrawScope(const Generator& generator) : generator_(generator) { swap(); }
  ~DrawScope() { swap(); }
  DrawScope& operator=(DrawScope&&) = delete;

 private:
  void swap() const {
    if (generator_ != nullptr) std::swap(*generator_, current_rank().random);
  }
  const Generator& generator_;
};

// A stack of numbers of several meshes, such as norms, is one of plain numbers: each is made whole
// on its own mesh.
std::optional<Arguments> with_plain_numbers(const OpRow& row, const Arguments& args) {
  if (row.op.base != "aten::stack" || !args[0].is_list()) return std::nullopt;
  std::set<const MeshLayout*> meshes;
  for (const Argument& entry : args[0].list()) {
    const DTensor& x = entry.tensor();
    if (x.ndim() > 0) return std::nullopt;
    if (x.distributed()) meshes.insert(x.spec()->layout());
  }
  if (meshes.size() < 2) return std::nullopt;
  ArgumentList plain;
  for (const Argument& entry : args[0].list()) {
    const DTensor& x = entry.tensor();
    if (!x.distributed()) {
      plain.push_back(entry);
      continue;
    }
    const DTensorSpec* whole = x.spec()->with(Placements(x.spec()->layout()->ndim()));
    plain.emplace_back(on_tape::to_local(on_tape::redistribute(x, whole, {}, {}), whole));
  }
  Arguments result = args;
  result[0] = std::move(plain);
  return result;
}

class PlainProgram final : public ProgramCalls {
 public:
  Results perform(const ProgramEvent& event) override {
    MeshRegistry* const meshes = current_rank().meshes;
    if (meshes != nullptr && !meshes->in_flight().empty()) check_in_flight(event);
    return std::visit([](const auto& one) { return run(one); }, event);
  }

 private:
  static Results run(const OpEvent& event) {
    const DrawScope draws(event.generator);
    if (event.row->info.needs_pytree) [[unlikely]] {
      if (const auto plain = with_plain_numbers(*event.row, *event.args)) {
        return recording_calls().call(*event.row, *plain);
      }
    }
    return recording_calls().call(*event.row, *event.args);
  }

  static Results run(const FactoryEvent& event) {
    ++current_rank().step;
    const DrawScope draws(event.generator);
    return {dispatch_factory(*event.row, *event.args, event.spec)};
  }

  static Results run(const DistributeEvent& event) {
    DTensor whole = event.value;
    if (event.source) {
      const MeshLayout* mesh = event.spec->layout();
      whole = DTensor(value_of_source(event.value.local(), mesh, *event.source));
      copy_marks(whole, event.value);
    }
    DTensor placed = distribute(whole, event.spec);
    if (event.value.requires_grad()) on_tape::require_grad(placed);
    return {std::move(placed)};
  }

  static Results run(const RedistributeEvent& event) {
    return {on_tape::redistribute(event.x, event.target, event.options, event.dtypes)};
  }
  static Results run(const FromLocalEvent& event) {
    return {on_tape::from_local(event.local, event.spec)};
  }
  static Results run(const ToLocalEvent& event) {
    return {on_tape::to_local(event.x, event.gradient)};
  }

  static Results run(const CollectiveEvent& event) {
    if (event.kind != CollectiveKind::kBarrier) return {exchanged(exchange_of(event), event.x)};
    event.group->barrier();
    return {};
  }

  static Results run(const CollectIntoEvent& event) {
    run_collect_into(event);
    return {};
  }
  static Results run(const WaitEvent& event) {
    run_wait(*event.work);
    return {};
  }

  static Results run(const MeshEvent& event) {
    MeshRegistry& meshes = *current_rank().meshes;
    if (event.flattened.empty()) {
      meshes.construct(event.layout);
    } else {
      meshes.flatten(event.layout, event.flattened);
    }
    return {};
  }

  static Results run(const RequireGradEvent& event) {
    if (event.required) {
      on_tape::require_grad(event.x);
    } else {
      on_tape::require_no_grad(event.x);
    }
    return {};
  }

  static Results run(const DetachEvent& event) {
    if (!event.in_place) return {on_tape::detach(event.x)};
    on_tape::detach_in_place(event.x);
    return {event.x};
  }

  static Results run(const BackwardEvent& event) {
    if (event.inputs == nullptr) {
      on_tape::backward(event.loss, event.seed, event.graph);
      return {};
    }
    Results found;
    for (DTensor& gradient :
         on_tape::gradients(event.loss, *event.inputs, event.seed, event.graph)) {
      found.emplace_back(std::move(gradient));
    }
    return found;
  }

  static Results run(const DealEvent& event) { return {deal_partials(event.pieces, event.spec)}; }
  static Results run(const CheckPieceEvent& event) {
    return {DTensor(checked_piece(event.local.local(), event.mesh, *event.placements))};
  }
  static Results run(const ReadEvent&) { return {}; }
  static Results run(const SeedEvent& event) {
    (event.generator != nullptr ? *event.generator : current_rank().random) = {event.seed, 0};
    return {};
  }
  static Results run(const DropGradEvent& event) {
    on_tape::drop_grad(event.leaf);
    return {};
  }

  static Results run(const HookEvent& event) {
    *event.handle = on_tape::register_hook(event.x, *event.hook);
    return {};
  }
  static Results run(const HookGradientsEvent& event) {
    Results passed;
    for (DTensor& x : on_tape::hook_gradients(*event.tensors, event.missing, *event.hook)) {
      passed.emplace_back(std::move(x));
    }
    return passed;
  }
  static Results run(const FunctionEvent& event) {
    Results results;
    for (DTensor& x :
         on_tape::with_gradient(event.context, event.function, *event.arguments, *event.results)) {
      results.emplace_back(std::move(x));
    }
    return results;
  }
  static Results run(const RemoveHookEvent& event) {
    event.handle->take_off();
    return {};
  }

  // Every rank sends as much as this one; those that do not are reported as a mismatch.
  static std::vector<std::int64_t> equal_lengths(const ProcessGroup& group, std::int64_t length) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), length);
  }

  static std::vector<std::int64_t> chunk_lengths(const ProcessGroup& group, std::int64_t length) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < group.size(); ++i) {
      lengths.push_back(chunk_of(length, group.size(), i).size);
    }
    return lengths;
  }

  static Exchange exchange_of(const CollectiveEvent& event) {
    const ProcessGroup& group = *event.group;
    const auto length = [&](std::int64_t dim) {
      return event.x.local().size(static_cast<std::size_t>(dim));
    };
    Exchange exchange{event.kind, event.group, event.op, event.dim, event.split_dim, event.source};
    if (!event.sent.empty() || !event.received.empty()) {
      exchange.sent.assign(event.sent.begin(), event.sent.end());
      exchange.received.assign(event.received.begin(), event.received.end());
      return exchange;
    }
    if (event.kind == CollectiveKind::kAllGather) {
      exchange.received = equal_lengths(group, length(event.dim));
    } else if (event.kind == CollectiveKind::kReduceScatter) {
      exchange.sent = chunk_lengths(group, length(event.dim));
    } else if (event.kind == CollectiveKind::kAllToAll) {
      exchange.sent = chunk_lengths(group, length(event.split_dim));
      // Along the dim that is cut, each rank brings this rank's chunk of it.
      const bool same = event.split_dim == event.dim;
      const std::int64_t own = exchange.sent[static_cast<std::size_t>(group.rank())];
      exchange.received = equal_lengths(group, same ? own : length(event.dim));
    }
    return exchange;
  }
};

}  // namespace

ProgramCalls& plain_program() {
  static PlainProgram program;
  return program;
}

}  // namespace shardlab
