// The mesh of a call is that of the first distributed tensor in schema order, also in a list or as
// a keyword argument; all others must be on the same one, or replicated numbers. Plain
// tensors become replicas only where that cannot be a mistake: with one element, or where the
// program allows it (D-56 to D-59). Locals and specs stay in two parallel lists, because decisions
// may depend on specs alone.
#include "dispatch/unwrap.h"

#include <algorithm>

#include "base/rank_context.h"
#include "base/text.h"
#include "comm/observer.h"
#include "dispatch/local_call.h"
#include "kernels/kernel_id.h"
#include "mesh/seen_mesh.h"
#include "redistribute/between_meshes.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_mixed(const OpRow& row, const SchemaArgument& argument,
                               const DTensor& plain) {
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: plain and distributed tensors are mixed", row.name()))
      .with("argument", fmt::format("{} is the plain tensor {}", argument.name, type_string(plain)))
      .with("fix",
            "distribute(...) it or build it with from_local(...); see sim/README.md#mixed-tensors");
}

// D-56: [1] may be meant as a piece of something longer.
void warn_about_one_element(const OpRow& row, const SchemaArgument& argument,
                            const DTensor& plain) {
  const RankContext& rank = current_rank();
  if (plain.ndim() != 1 || plain.numel() != 1 || (rank.mode & kModeObserve) == 0) return;
  rank.observer->warning(
      fmt::format("{}: {} is the plain tensor {} and counts as a replica; a 0-dim tensor or an "
                  "explicit DTensor says so",
                  row.name(), argument.name, type_string(plain)));
}

const DTensorSpec* replica_spec(const OpRow& row, const SchemaArgument& argument,
                                const DTensor& plain, const MeshLayout* layout) {
  const bool allowed = plain.numel() == 1 || current_rank().mixed == MixedTensors::kReplicate;
  if (!allowed) refuse_mixed(row, argument, plain);
  warn_about_one_element(row, argument, plain);
  return layout->arena().spec(layout, Placements(layout->ndim()), plain.meta());
}

// The move that puts the other tensor next to the first one: cut alike where it has the shape.
[[noreturn]] void refuse_meshes(const OpRow& row, const DTensorSpec& first, const DTensor& other,
                                const SchemaArgument& argument) {
  const DTensorSpec& from = *other.spec();
  const MeshLayout* mesh = first.layout();
  Placements placements(mesh->ndim());
  if (first.shape() == from.shape()) placements = without_partials(first.placements());
  const DTensorSpec* target = mesh->arena().spec(mesh, placements, from.meta());
  std::vector<std::string> texts;
  for (const Placement& placement : placements) texts.push_back(to_string(placement));
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: the inputs live on different meshes", row.name()))
      .with("mesh", fmt::format("{}; {} is on {}", text_with_ranks(*mesh), argument.name,
                                text_with_ranks(*from.layout())))
      .with("fix", fmt::format("move it first: with x the other input, {}.redistribute("
                               "x.device_mesh, [{}]) moves {} a rank",
                               argument.name, text_of_list(texts, ", "),
                               bytes_text(bytes_between(from, *target))));
}

bool is_number(const DTensorSpec& spec) { return spec.is_replicated() && spec.numel() == 1; }

// A replicated number counts as one on every mesh, where this rank holds it. The observer hears of
// an implicit redistribution without a plan.
const DTensorSpec* spec_on(const OpRow& row, const SchemaArgument& argument, const DTensor& number,
                           const DTensorSpec& first, std::size_t slot) {
  const MeshLayout* mesh = first.layout();
  const std::int64_t rank = current_rank().rank;
  const bool lacks = mesh->coordinate_of(rank) && !number.spec()->layout()->coordinate_of(rank);
  if (!is_number(*number.spec()) || lacks) refuse_meshes(row, first, number, argument);
  const DTensorSpec* target = mesh->arena().spec(mesh, Placements(mesh->ndim()), number.meta());
  if (Observer* const observer = observer_to_tell()) {
    observer->redistribution({.source = number.spec(),
                              .target = target,
                              .argument = static_cast<int>(slot),
                              .position = current_rank().position});
  }
  return target;
}

// D-15, strict: its elements would pass for numbers.
[[noreturn]] void refuse_list(const OpRow& row, std::size_t argument) {
  throw Error(ErrorKind::kInternal,
              fmt::format("{}: argument {}, {}, is a list of distributed tensors, but the op is "
                          "registered without tree handling",
                          row.name(), argument, row.op.arguments[argument].name))
      .with("op", row.op.text())
      .with("fix", "register it with needs_pytree in its RuntimeSchemaInfo");
}

// A recorded call keeps for its gradient only the values that its row names.
void check_reads_no_values(const OpRow& row, std::size_t argument) {
  const KernelId kernel = row.kernel();
  const bool likeness =
      kernel == KernelId::kZeros || kernel == KernelId::kOnes || kernel == KernelId::kFill;
  if (likeness && !row.inplace()) return;
  fail(ErrorKind::kInternal,
       "{}: {} has no values; the row whose gradient calls it does not say that it reads them",
       row.name(), row.op.arguments[argument].name);
}

bool has_distributed(const ArgumentList& list) {
  return std::ranges::any_of(list, [](const Argument& element) {
    return element.is_tensor() && element.tensor().defined() && element.tensor().distributed();
  });
}

// The tensor whose mesh is that of the call: the first that is not a replicated number, else the
// first. A number that is written keeps the call on its mesh.
const DTensorSpec* leading_spec(const OpRow& row, const Arguments& args) {
  const DTensorSpec* number = nullptr;
  const auto leads = [&](const Argument& argument, std::size_t index) {
    if (!argument.is_tensor() || !argument.tensor().defined()) return false;
    const DTensorSpec* spec = argument.tensor().spec();
    if (spec == nullptr) return false;
    if (!is_number(*spec) || takes_result(row, index)) return true;
    if (number == nullptr) number = spec;
    return false;
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!row.op.arguments[i].type.is_tensor()) continue;
    if (leads(args[i], i)) return args[i].tensor().spec();
    if (!args[i].is_list()) continue;
    const auto found = std::ranges::find_if(
        args[i].list(), [&](const Argument& element) { return leads(element, i); });
    if (found != args[i].list().end()) return found->tensor().spec();
  }
  return number;
}

}  // namespace

const MeshLayout* compute_mesh(const OpRow& row, const Arguments& args) {
  const DTensorSpec* spec = leading_spec(row, args);
  return spec == nullptr ? nullptr : spec->layout();
}

Unwrapped unwrap(const OpRow& row, const Arguments& args) {
  Unwrapped result;
  const DTensorSpec* const first = leading_spec(row, args);
  const MeshLayout* layout = first == nullptr ? nullptr : first->layout();
  result.distributed = layout != nullptr;
  result.schema.row = &row;
  result.schema.layout = layout;
  result.slots.reserve(args.size());
  const auto take = [&](std::size_t index, const Argument& argument) -> const DTensorSpec* {
    const SchemaArgument& declared = row.op.arguments[index];
    TensorSlot slot{.handle = {}, .argument = index, .spec = nullptr};
    if (argument.is_tensor() && argument.tensor().defined()) {
      slot.handle = argument.tensor();
      if (!slot.handle.local().defined()) check_reads_no_values(row, index);
      if (layout != nullptr) {
        slot.spec = slot.handle.distributed() ? slot.handle.spec()
                                              : replica_spec(row, declared, slot.handle, layout);
        if (slot.spec->layout() != layout) {
          slot.spec = spec_on(row, declared, slot.handle, *first, result.slots.size());
        }
      }
    }
    const DTensorSpec* spec = slot.spec;
    result.slots.push_back(std::move(slot));
    return spec;
  };
  const auto add = [](auto& list, const DTensorSpec* spec) {
    spec != nullptr ? list.emplace_back(spec) : list.emplace_back();
  };
  if (!result.distributed) {
    for_each_tensor_slot(
        row.op, args, [&](std::size_t index, const Argument& argument) { take(index, argument); });
    return result;
  }
  result.schema.args.reserve(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!row.op.arguments[i].type.is_tensor()) {
      result.schema.args.push_back(args[i]);
    } else if (args[i].is_list()) {
      if (!row.info.needs_pytree && has_distributed(args[i].list())) refuse_list(row, i);
      ArgumentList specs;
      specs.reserve(args[i].list().size());
      for (const Argument& element : args[i].list()) add(specs, take(i, element));
      result.schema.args.emplace_back(std::move(specs));
    } else {
      add(result.schema.args, take(i, args[i]));
    }
  }
  return result;
}

}  // namespace shardlab
