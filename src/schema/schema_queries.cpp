// The accessors of O-1 to O-46 with the failures that they prescribe. Each reads one call,
// candidate or decision and changes nothing.
#include "schema/schema_queries.h"

#include <algorithm>

#include "base/error.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

void collect_metas(const Argument& value, std::vector<TensorMeta>& metas) {
  if (value.is_spec()) {
    metas.push_back(value.spec()->meta());
  } else if (value.is_list()) {
    for (const Argument& element : value.list()) collect_metas(element, metas);
  }
}

class Replacement {
 public:
  explicit Replacement(std::span<const DTensorSpec* const> suggested) : suggested_(suggested) {}
  void apply(Argument& value) {
    if (value.is_spec()) {
      if (next_ < suggested_.size()) value = suggested_[next_];
      ++next_;
      return;
    }
    if (!value.is_list()) return;
    ArgumentList list = value.list();
    for (Argument& element : list) apply(element);
    value = std::move(list);
  }
  std::size_t used() const { return next_; }

 private:
  std::span<const DTensorSpec* const> suggested_;
  std::size_t next_ = 0;
};

}  // namespace

std::string compact_text(const DTensorSpec* spec) {
  return spec == nullptr ? "None" : order_text(spec->placements(), spec->order());
}

std::string compact_text(OutputSpecs specs) {
  std::string text = "(";
  for (std::size_t i = 0; i < specs.size(); ++i) {
    text += (i > 0 ? ", " : "") + compact_text(specs[i]);
  }
  return text + ")";
}

std::string compact_text(const Argument& value) {
  if (value.is_none()) return "None";
  if (value.is_spec()) return compact_text(value.spec());
  if (!value.is_list()) {
    fail(ErrorKind::kRuntime, Fix{"pass the spec of a tensor, or a list of them"},
         "{} is not a spec", value.text());
  }
  std::string text = "(";
  for (const Argument& element : value.list()) {
    text += (text.size() > 1 ? ", " : "") + compact_text(element);
  }
  return text + ")";
}

const DTensorSpec* single_output(const OpSpec& candidate) {
  if (candidate.outputs.size() != 1 || candidate.outputs[0] == nullptr) {
    fail(Fix{"read `outputs` of the candidate"},
         "the candidate has the output specs {}; it must have exactly one",
         compact_text(OutputSpecs(candidate.outputs)));
  }
  return candidate.outputs[0];
}

const MeshLayout* mesh_of(const OpSpec& candidate) {
  if (candidate.outputs.empty()) {
    fail(Fix{"add a spec to `outputs` of the candidate"},
         "a candidate without outputs has no mesh");
  }
  check_invariant(candidate.outputs[0] != nullptr, "the first output of a candidate has a spec");
  return candidate.outputs[0]->layout();
}

const DTensorSpec* input_of(const OpSpec& candidate, std::size_t index) {
  if (index >= candidate.inputs.size()) {
    fail(ErrorKind::kInternal, "input {} of {} was asked for", index, candidate.inputs.size());
  }
  return candidate.inputs[index];
}

void check_candidate(const OpSpec& candidate) {
  const MeshLayout* layout = nullptr;
  for (const auto* specs : {&candidate.outputs, &candidate.inputs}) {
    for (const DTensorSpec* spec : *specs) {
      if (spec == nullptr) continue;
      check_invariant(layout == nullptr || layout == spec->layout(),
                      "all specs of a candidate are on one mesh");
      layout = spec->layout();
    }
  }
  check_invariant(
      candidate.input_costs.empty() || candidate.input_costs.size() == candidate.inputs.size(),
      "a candidate has a price for every input");
}

void check_strategy(const OpStrategy& strategy) {
  check_invariant(!strategy.candidates.empty(), "a strategy has candidates");
  for (const OpSpec& candidate : strategy.candidates) {
    check_candidate(candidate);
    check_invariant(mesh_of(candidate) == mesh_of(strategy), "candidates are on one mesh");
  }
}

std::int64_t max_num_shards(const OpStrategy& strategy) {
  std::int64_t most = 0;
  for (const OpSpec& candidate : strategy.candidates) {
    most = std::max(most, single_output(candidate)->num_shards());
  }
  return most;
}

const MeshLayout* mesh_of(const OpStrategy& strategy) {
  check_invariant(!strategy.candidates.empty(), "a strategy has candidates");
  return mesh_of(strategy.candidates[0]);
}

const Dims& shape_of(const OpStrategy& strategy) {
  mesh_of(strategy);
  return strategy.candidates[0].outputs[0]->shape();
}

const MeshLayout* child_mesh(const TupleStrategy& strategy, std::size_t index) {
  check_invariant(index < strategy.children.size(), "a tuple strategy has this child");
  return mesh_of(strategy.children[index]);
}

const MeshLayout* mesh_from_args(const OpSchema& schema, MeshCheck check) {
  const std::size_t count = std::min(schema.args.size(), schema.row->op.positional_count());
  const Argument first = count > 0 ? schema.args[0] : Argument();
  const MeshLayout* mesh = nullptr;
  if (first.is_spec()) {
    mesh = first.spec()->layout();
  } else if (first.is_list() && !first.list().empty()) {
    check_invariant(first.list()[0].is_spec(), "a list of tensors starts with one");
    mesh = first.list()[0].spec()->layout();
  } else {
    fail(Fix{"pass at least one distributed tensor"},
         "{}: the call {} has no distributed tensor to take the mesh from", schema.row->name(),
         schema.text());
  }
  if (check == MeshCheck::kFirstOnly) return mesh;
  for (std::size_t i = 1; i < count; ++i) {
    if (!schema.args[i].is_spec() || schema.args[i].spec()->layout() == mesh) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: the inputs live on different meshes", schema.row->name()))
        .with("mesh",
              fmt::format("{} and {}", mesh->text(), schema.args[i].spec()->layout()->text()))
        .with("fix", "build both from one mesh");
  }
  return mesh;
}

bool tensor_like(const Argument& value) {
  if (value.is_spec()) return true;
  if (!value.is_list()) return false;
  return std::any_of(value.list().begin(), value.list().end(), tensor_like);
}

const TensorMeta& meta_of(const DTensorSpec* spec) {
  check_invariant(spec != nullptr, "metadata was asked of no spec");
  return spec->meta();
}

std::vector<TensorMeta> inference_metas(const OpSchema& schema) {
  std::vector<TensorMeta> metas;
  for (const Argument& value : schema.args) collect_metas(value, metas);
  return metas;
}

OpSchema rewrapped(const OpSchema& call, std::span<const DTensorSpec* const> suggested) {
  OpSchema result = call;
  Replacement replacement(suggested);
  const std::size_t count = std::min(call.args.size(), call.row->op.positional_count());
  for (std::size_t i = 0; i < count; ++i) replacement.apply(result.args[i]);
  if (replacement.used() != suggested.size()) {
    fail(ErrorKind::kInternal, "{}: {} specs were suggested for {} tensors", call.row->name(),
         suggested.size(), replacement.used());
  }
  return result;
}

OpSchema redistributed_schema(const OpSchema& call, const OutputSharding& sharding) {
  return sharding.needs_redistribute ? rewrapped(call, sharding.inputs) : call;
}

const MeshLayout* mesh_of(const OutputSharding& sharding) {
  if (sharding.outputs.empty() || sharding.outputs[0] == nullptr) {
    fail(Fix{"set `outputs` of the decision first"},
         "a decision without a first output spec has no mesh");
  }
  return sharding.outputs[0]->layout();
}

}  // namespace shardlab
