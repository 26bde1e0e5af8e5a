// The arguments become tensors of a device that holds nothing; the call is then dispatched as every
// other one, so that an op made of others is propagated through them.
#include "tests/facts/shape_call.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "backends/fake/shape_device.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/all_ops.h"
#include "mesh/local_shape.h"
#include "plan/plan.h"
#include "propagate/propagator.h"
#include "schema/argument.h"
#include "schema/calls.h"
#include "sim/world/world.h"
#include "tensor/device.h"

namespace shardlab {
namespace {

class MoveObserver : public Observer {
 public:
  MoveObserver(const std::vector<DTensor>& inputs, std::vector<ShapeMove>& moves)
      : inputs_(inputs), moves_(moves) {}
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord&) override {}
  void placed(const PlacedRecord& record) override {
    if (record.kind != PlacedRecord::Kind::kRedistribute) return;
    ShapeMove move{.from = record.from.spec(), .to = record.to.spec()};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (same_value(inputs_[i], record.from)) move.input = i;
    }
    move.again = std::ranges::any_of(records_, [&](const PlacedRecord& before) {
      return same_value(before.from, record.from) && before.to.spec() == record.to.spec();
    });
    records_.push_back(record);
    moves_.push_back(move);
  }

 private:
  // An op gets handles of its own; the piece and the spec are those of the argument.
  static bool same_value(const DTensor& a, const DTensor& b) {
    return a.spec() == b.spec() && a.local().storage() == b.local().storage();
  }

  const std::vector<DTensor>& inputs_;
  std::vector<ShapeMove>& moves_;
  std::vector<PlacedRecord> records_;  // keep their values, so that no other gets the address
};

// Specs become pieces; nothing else changes.
Argument on_rank(const Argument& argument, std::vector<DTensor>& inputs) {
  if (argument.is_list()) {
    ArgumentList list;
    for (const Argument& element : argument.list()) list.push_back(on_rank(element, inputs));
    return list;
  }
  if (!argument.is_spec()) return argument;
  RankContext& rank = current_rank();
  const DTensorSpec* spec = argument.spec();
  const Coordinate coordinate = *spec->layout()->coordinate_of(rank.rank);
  inputs.emplace_back(empty(*rank.device, local_meta(*spec, coordinate)), spec);
  return inputs.back();
}

void add_outputs(const Argument& result, std::vector<const DTensorSpec*>& outputs) {
  if (result.is_tensor()) {
    const DTensor& tensor = result.tensor();
    outputs.push_back(tensor.defined() ? tensor.spec() : nullptr);
  } else if (result.is_list()) {
    for (const Argument& element : result.list()) add_outputs(element, outputs);
  } else if (result.is_none()) {
    outputs.push_back(nullptr);
  }
}

void call_on_rank(const OpSchema& schema, ShapeCall& call) {
  std::vector<DTensor> inputs;
  Arguments arguments;
  for (const Argument& argument : schema.args) arguments.push_back(on_rank(argument, inputs));
  MoveObserver observer(inputs, call.moves);
  const ObserverScope observed(observer);
  for (const Argument& result : recording_calls().call(*schema.row, arguments)) {
    add_outputs(result, call.outputs);
  }
}

}  // namespace

double ShapeCall::cost() const {
  double sum = 0;
  for (const ShapeMove& move : moves) sum += redistribute_cost(*move.from, *move.to, PlanOptions{});
  return sum;
}

double ShapeCall::cost_once() const {
  ShapeCall once;
  std::ranges::copy_if(moves, std::back_inserter(once.moves),
                       [](const ShapeMove& move) { return !move.again; });
  return once.cost();
}

ShapeCall call_on_shapes(const OpSchema& schema) {
  const std::unique_ptr<Device> device = make_shape_device();
  Propagator propagator(all_ops(), PlanOptions{});
  propagator.set_advice(false);
  WorldOptions options;
  options.ranks = schema.layout->size();
  options.backend = "fake";
  options.layout = schema.layout;
  options.device = [&](std::int64_t) -> Device& { return *device; };
  options.propagator = &propagator;
  options.plans = &propagator.plans();
  ShapeCall call;
  const WorldResult result =
      run_world(std::move(options), RankBody([&](RankContext& rank, const RunsFor& runs) {
                  rank.meshes->construct(schema.layout);
                  ShapeCall own;
                  call_on_rank(schema, runs.index == 0 ? call : own);
                }));
  if (!result.ok()) call.error = result.merged();
  return call;
}

}  // namespace shardlab
