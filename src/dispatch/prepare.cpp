// An input whose spec is not the wanted one is redistributed by a cached plan; specs are interned,
// so that the comparison is one of pointers. A tensor that is written to is never moved, because
// its handle would keep the old placements.
#include "dispatch/prepare.h"

#include "mesh/type_string.h"
#include "propagate/propagator.h"
#include "redistribute/redistribute.h"
#include "schema/op_row.h"
#include "schema/schema_queries.h"

namespace shardlab {

std::string place_text(const RankContext& rank) {
  std::string text = fmt::format("rank {}, step {}", rank.rank, rank.step);
  const SourcePosition& at = rank.position;
  if (at.file == nullptr) return text;
  text += fmt::format(", {}:{}", at.file, at.line);
  if (at.column > 0) text += fmt::format(":{}", at.column);
  return text;
}

namespace {

class PlacementsText {
 public:
  void add(const OpDescriptor& op, std::size_t argument, const DTensorSpec& spec) {
    if (!text_.empty()) text_ += "   ";
    text_ += fmt::format("{} {}", op.arguments[argument].name, compact_text(&spec));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string placements_text(const Unwrapped& call) {
  PlacementsText text;
  for (const TensorSlot& slot : call.slots) {
    if (slot.spec != nullptr) text.add(call.schema.row->op, slot.argument, *slot.spec);
  }
  return text.take();
}

}  // namespace

bool has_context(const Error& error) {
  const auto has = [&](std::string_view part) { return error.find(part) != nullptr; };
  return has("op") && has("mesh") && has("placements") && has("at");
}

void add_context(Error& error, const Unwrapped& call) {
  error.with("op", call.schema.text())
      .with("mesh", call.schema.layout->text())
      .with("placements", placements_text(call))
      .with("at", place_text(current_rank()));
}

void add_context(Error& error, const OpRow& row, const Arguments& args) {
  error.with("op", OpSchema{&row, args, nullptr}.text()).with("at", place_text(current_rank()));
  const MeshLayout* layout = nullptr;
  PlacementsText text;
  for_each_tensor_slot(row.op, args, [&](std::size_t index, const Argument& argument) {
    if (!argument.is_tensor() || !argument.tensor().defined()) return;
    if (!argument.tensor().distributed()) return;
    layout = argument.tensor().spec()->layout();
    text.add(row.op, index, *argument.tensor().spec());
  });
  if (layout != nullptr) error.with("mesh", layout->text()).with("placements", text.take());
}

namespace {

bool sends(const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    if (!step.communicates() || plan.source->layout()->size(step.mesh_dims[0]) == 1) continue;
    return true;
  }
  return false;
}

// The row that takes the inputs as they are, and the reason why it is not a candidate; "" where
// there is none.
std::string why_not_as_given(const OpSchema& schema) {
  std::string given;
  for (const DTensorSpec* spec : schema.tensor_specs()) {
    given += (given.empty() ? "(" : ", ") + to_string(spec->placements());
  }
  for (const RejectedRow& rejected : current_rank().propagator->explain(schema).rejected) {
    if (rejected.row.starts_with(given + ") -> ")) {
      return fmt::format("{}: {}", rejected.reason, rejected.row);
    }
  }
  return "";
}

void check_implicit(const Unwrapped& call, const TensorSlot& slot, const Plan& plan) {
  const RankContext& rank = current_rank();
  if (rank.implicit != ImplicitRedistribution::kForbid) return;
  if (sends(plan)) {
    const auto& argument = call.schema.row->op.arguments[slot.argument];
    Error error(ErrorKind::kRuntime,
                fmt::format("{}: argument {} needs an implicit redistribution, which is forbidden",
                            call.schema.row->name(), argument.name));
    error.with("placements", fmt::format("{} {}", argument.name, plan.text()))
        .with("fix",
              fmt::format("redistribute {} to {} before this op, or set implicit = \"allow\"",
                          argument.name, type_string(*plan.target)));
    std::string rejected = why_not_as_given(call.schema);
    if (!rejected.empty()) error.with("rejected", std::move(rejected));
    throw error;
  }
}

// A masked lookup requires its indices as mask partials: every rank takes all of them and its
// kernel makes the mask. Nothing moves for that, so such mesh dims are required whole.
const DTensorSpec* wanted_pieces(const DTensorSpec* want) {
  Placements placements = want->placements();
  bool masked = false;
  for (Placement& placement : placements) {
    if (placement.kind != PlacementKind::kMaskPartial) continue;
    placement = Placement::replicate();
    masked = true;
  }
  return masked ? want->with(placements, want->order()) : want;
}

}  // namespace

InUse<OutputSharding> decide(const Unwrapped& call) {
  try {
    return current_rank().propagator->propagate(call.schema);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& other) {
    Error error(ErrorKind::kRuntime,
                fmt::format("{}: its sharding rule failed", call.schema.row->name()));
    throw error.caused_by(Error(ErrorKind::kInternal, other.what()));
  }
}

void check_implicit(const DTensor& x, const DTensorSpec* want) {
  const RankContext& rank = current_rank();
  const bool forbidden = rank.implicit == ImplicitRedistribution::kForbid;
  if (!forbidden || rank.pass != Pass::kForward) return;
  const InUse<Plan> plan = rank.propagator->plans().find(x.spec(), want);
  if (!sends(*plan)) return;
  throw Error(ErrorKind::kRuntime,
              "an op that others make up needs an implicit redistribution, which is forbidden")
      .with("placements", plan->text())
      .with("fix", fmt::format("redistribute {} to {} before this op, or set implicit = \"allow\"",
                               type_string(*x.spec()), type_string(*want)));
}

bool only_read(const OpRow& row, std::size_t argument) {
  return row.has(kReadsGradients) && row.op.arguments[argument].name == "grads";
}

LocalTensors prepare_inputs(const Unwrapped& call, const OutputSharding& decision,
                            const DeviceMesh& mesh) {
  const OpRow& row = *call.schema.row;
  const std::size_t positional = row.op.positional_count();
  LocalTensors locals;
  locals.reserve(call.slots.size());
  std::size_t next = 0;
  int index = -1;
  for (const TensorSlot& slot : call.slots) {
    ++index;
    if (!slot.handle.defined()) {
      locals.emplace_back();
      continue;
    }
    const DTensorSpec* want = slot.spec;
    if (slot.argument < positional) want = decision.inputs[next++];
    if (want != slot.spec && want->has_partial()) want = wanted_pieces(want);
    if (want == slot.spec || !mesh.participates()) {
      locals.push_back(slot.handle.local());
      continue;
    }
    const SchemaArgument& declared = row.op.arguments[slot.argument];
    if (declared.alias.write && !only_read(row, slot.argument)) {
      fail(ErrorKind::kRuntime,
           Fix{"redistribute it first, or use the op that returns a new tensor"},
           "{}: in-place would need {} to change its placements", row.name(), declared.name);
    }
    const InUse<Plan> plan = current_rank().propagator->plans().find(slot.spec, want);
    check_implicit(call, slot, *plan);
    locals.push_back(redistribute_local(slot.handle.local(), slot.spec, want, {.argument = index},
                                        slot.handle.impl()->extras.get()));
  }
  return locals;
}

Tensor outsider_value(const DTensorSpec& spec) {
  Device& device = *current_rank().device;
  Tensor value = empty(device, spec.ndim() == 0 ? Dims{} : Dims{0}, spec.dtype());
  if (spec.ndim() == 0 && !device.shape_only()) {
    const std::vector<std::byte> zero(static_cast<std::size_t>(item_bytes(spec.dtype())));
    device.write(value, zero.data());
  }
  return value;
}

}  // namespace shardlab
