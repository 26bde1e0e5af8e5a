// A plan is a pure function of the program and the mesh. Plans place inputs and move a few values;
// everything else follows from the rules of ops.
#include "sim/remesh/plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "schema/op_row.h"
#include "sim/remesh/sequence_dims.h"
#include "trace/graph.h"

namespace shardlab {

namespace {

// Facts of each value, in one pass each. In order, through ops that keep features apart: the linear
// layers that it comes from; a residual stream comes from others, too. Back from the end: whether
// every value that is computed from it becomes the input of a linear layer.

/// The new form of a statement that has a weight.
enum class LayerCut : std::uint8_t {
  kNone,
  kColumn,    ///< rows of the weight, as torch stores it: its result is cut
  kRow,       ///< columns of the weight: its result is a pending sum
  kHead,      ///< as kColumn; the result is gathered for the loss
  kEmbedding  ///< rows of the table: its result is a pending sum
};

// Ops that take each feature by itself, heads of attention included: a cut passes through.
bool keeps_features(std::string_view bare) {
  static const std::vector<std::string_view> kOps = parts_of_text(
      "silu gelu relu relu6 leaky_relu elu celu selu mish tanh sigmoid hardswish hardtanh "
      "softplus square pow neg exp abs clamp dropout native_dropout to _to_copy contiguous "
      "clone alias type_as view reshape _unsafe_view flatten unflatten transpose permute t "
      "split split_with_sizes chunk unbind slice select unsqueeze squeeze expand "
      "repeat_interleave stack cat mul add sub div rsub scaled_dot_product_attention "
      "matmul bmm softmax masked_fill where view_as_complex view_as_real movedim swapaxes "
      "glu",
      " ");
  return std::ranges::find(kOps, bare) != kOps.end();
}

// A function of the program does, if all of its calls take each element by itself.
bool keeps_features(const Statement& one) {
  if (!one.function) return keeps_features(one.bare());
  const auto by_itself = [](const Statement& call) {
    return call.row != nullptr && std::holds_alternative<PointwiseRule>(call.row->rule);
  };
  return std::ranges::all_of(one.function->forward, by_itself) &&
         std::ranges::all_of(one.function->backward, by_itself);
}

class Cutter {
 public:
  explicit Cutter(const CallProgram& program) : program_(program) {
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      for (const std::int32_t v : program.statements[i].outs) maker_.emplace(v, i);
      for (const std::int32_t v : program.statements[i].takes) users_[v].push_back(i);
    }
  }

  std::map<std::size_t, LayerCut> cut() {
    const std::size_t count = program_.statements.size();
    for (std::size_t i = 0; i < count; ++i) note_others(i);
    for (std::size_t i = count; i-- > 0;) note_reach(i);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view op = program_.statements[i].bare();
      if (op == "linear" && has_weight(i, 1)) decide_linear(i);
      if (op == "embedding" && has_weight(i, 0) && program_.statements[i].takes.size() > 1) {
        decide_embedding(i);
      }
      note_layers(i);
    }
    return std::move(cuts_);
  }

 private:
  const Statement& statement(std::size_t i) const { return program_.statements[i]; }

  bool has_weight(std::size_t i, std::size_t operand) const {
    const Statement& one = statement(i);
    const CallInput* input =
        one.takes.size() > operand ? program_.input(one.takes[operand]) : nullptr;
    return input != nullptr && input->parameter && input->meta.shape.size() == 2;
  }

  bool is_linear(std::size_t i) const {
    return statement(i).bare() == "linear" && has_weight(i, 1);
  }

  // Whether a value comes from one that is no parameter, mask or table of positions, without a
  // linear layer between.
  bool others(std::int32_t value) const {
    if (maker_.contains(value)) return others_.contains(value);
    const CallInput* input = program_.input(value);
    return input != nullptr && input->batch && !is_mask(value);
  }

  void note_others(std::size_t i) {
    const Statement& one = statement(i);
    if (is_linear(i) || one.kind == StatementKind::kFactory) return;
    const bool has = !keeps_features(one) ||
                     std::ranges::any_of(one.takes, [&](std::int32_t v) { return others(v); });
    if (has) others_.insert(one.outs.begin(), one.outs.end());
  }

  bool is_mask(std::int32_t value) const {
    const auto users = users_.find(value);
    return users != users_.end() && std::ranges::all_of(users->second, [&](std::size_t i) {
             return (statement(i).kind == StatementKind::kDropout ||
                     statement(i).kind == StatementKind::kChosen ||
                     statement(i).kind == StatementKind::kAttention) &&
                    statement(i).mask == value;
           });
  }

  // The linear layers that results come from: some, all of them cut by columns.
  void note_layers(std::size_t i) {
    const Statement& one = statement(i);
    Layers all;
    if (is_linear(i)) {
      const auto cut = cuts_.find(i);
      all = {true, cut == cuts_.end() || cut->second != LayerCut::kColumn};
    } else if (one.kind != StatementKind::kFactory && keeps_features(one)) {
      for (const std::int32_t v : one.takes) {
        const Layers& from = layers_[v];
        all = {all.any || from.any, all.other_cuts || from.other_cuts};
      }
    }
    for (const std::int32_t v : one.outs) layers_.try_emplace(v, all);
  }

  // Values from which all that is computed is, feature by feature, an input of linear layers.
  void note_reach(std::size_t i) {
    for (const std::int32_t value : statement(i).outs) {
      const auto users = users_.find(value);
      if (users == users_.end()) continue;
      const bool all = std::ranges::all_of(users->second, [&](std::size_t user) {
        return is_linear(user) ? statement(user).takes[0] == value : passes(user, value);
      });
      if (all) reaching_.insert(value);
    }
  }

  bool passes(std::size_t i, std::int32_t value) const {
    const Statement& one = statement(i);
    if (one.outs.empty() || !keeps_features(one)) return false;
    const auto is_other = [&](std::int32_t v) { return v != value && others(v); };
    if (std::ranges::any_of(one.takes, is_other)) return false;
    bool reached = false;  // one of the parts of a split may be left unused
    for (const std::int32_t v : one.outs) {
      if (!users_.contains(v)) continue;
      if (!reaching_.contains(v)) return false;
      reached = true;
    }
    return reached;
  }

  // The result is used by the loss, and not by another layer.
  bool ends(std::int32_t value, int depth = 0) const {
    const auto users = users_.find(value);
    if (users == users_.end() || depth > 6) return false;
    return std::ranges::any_of(users->second, [&](std::size_t i) {
      const std::string_view op = statement(i).bare();
      if (op.find("loss") != std::string::npos || op.find("log_softmax") != std::string::npos) {
        return true;
      }
      const bool passes = op == "view" || op == "reshape" || op == "flatten" || op == "to" ||
                          op == "slice" || op == "contiguous" || op == "transpose";
      return passes && !statement(i).outs.empty() && ends(statement(i).outs[0], depth + 1);
    });
  }

  void decide_linear(std::size_t i) {
    const std::int32_t x = statement(i).takes[0];
    const Layers& from = layers_[x];
    if (!others(x) && from.any && !from.other_cuts) {
      cuts_[i] = LayerCut::kRow;
    } else if (reaching_.contains(statement(i).outs[0])) {
      cuts_[i] = LayerCut::kColumn;
    } else if (ends(statement(i).outs[0])) {
      cuts_[i] = LayerCut::kHead;
    }
  }

  // A table of words, which batches, or parts of them, index; positions are few.
  void decide_embedding(std::size_t i) {
    std::int32_t index = statement(i).takes.at(1);
    for (auto made = maker_.find(index); made != maker_.end(); made = maker_.find(index)) {
      const Statement& maker = statement(made->second);
      if (maker.takes.empty() || maker.takes[0] == index) return;
      index = maker.takes[0];
    }
    const CallInput* input = program_.input(index);
    if (input != nullptr && input->batch) cuts_[i] = LayerCut::kEmbedding;
  }

  const CallProgram& program_;
  std::unordered_map<std::int32_t, std::size_t> maker_;               // by value
  std::unordered_map<std::int32_t, std::vector<std::size_t>> users_;  // by value
  struct Layers {
    bool any = false, other_cuts = false;
  };
  std::unordered_set<std::int32_t> others_, reaching_;  // values
  std::unordered_map<std::int32_t, Layers> layers_;     // by value
  std::map<std::size_t, LayerCut> cuts_;
};

// Cuts of layers, by index of the statement.
std::map<std::size_t, LayerCut> tensor_parallel_cuts(const CallProgram& program) {
  return Cutter(program).cut();
}

class Planner {
 public:
  Planner(const CallProgram& program, const PlanMesh& mesh)
      : program_(program), mesh_(mesh), sequence_(sequence_dims(program)) {
    for (const CallInput& input : program.inputs) {
      plan_.cuts[input.value].resize(input.meta.shape.size());
    }
  }

  MeshPlan plan(const std::string& name, const PlanLayouts& layouts) {
    if (!name.empty()) {
      apply(name);
    } else if (program_.recording->ranks > 1) {
      place_as_recorded();
    }
    apply_layouts(program_, mesh_, layouts, plan_);
    place_states();
    return std::move(plan_);
  }

 private:
  using Names = std::vector<std::string>;

  Names dims(std::size_t from, std::size_t to) const {
    Names names;
    for (std::size_t i = from; i < to; ++i) names.push_back(mesh_[i].name);
    return names;
  }

  void apply(const std::string& name) {
    if (std::ranges::find(plan_names(), name) == plan_names().end()) {
      fail(ErrorKind::kValue, Fix{suggest(name, plan_names())}, "--plan {}: no such plan", name);
    }
    const std::size_t all = mesh_.size();
    const bool tensor = name == "megatron" || name == "sequence" || name == "fsdp+tp";
    if (tensor) cut_layers(mesh_.back().name, name == "sequence");
    if (name == "fsdp") shard_parameters(dims(0, all));
    if (name == "hsdp") shard_parameters(dims(all > 1 ? 1 : 0, all));
    if (name == "fsdp+tp") shard_parameters(dims(0, all - 1));
    cut_batches(dims(0, tensor ? all - 1 : all));
    gather_normalized();
  }

  // Mesh dims are known by their names.
  void place_as_recorded() {
    std::vector<std::string> missing;
    const auto name_of = [&](const ValueType& type, std::size_t mesh_dim) {
      const GraphMesh& on = program_.recording->meshes[static_cast<std::size_t>(type.mesh)];
      std::string name = dim_name(on, mesh_dim);
      const bool known = std::ranges::count(mesh_, name, &PlanMeshDim::name) > 0;
      if (!known && std::ranges::count(missing, name) == 0) missing.push_back(name);
      return name;
    };
    for (const CallInput& input : program_.inputs) {
      if (input.type->mesh < 0) continue;
      for (std::size_t mesh_dim = 0; mesh_dim < input.type->placements.size(); ++mesh_dim) {
        name_of(*input.type, mesh_dim);
      }
      const OrderedPlacements cut = ordered(*input.type);
      for (std::size_t dim = 0; dim < input.type->shape.size(); ++dim) {
        for (const std::size_t mesh_dim :
             cutting_order(cut.placements, cut.order, static_cast<std::int64_t>(dim))) {
          plan_.cuts[input.value][dim].push_back(name_of(*input.type, mesh_dim));
        }
      }
    }
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const RecordedEvent& event = *program_.statements[i].event;
      if (event.kind != RecordedKind::kRedistribute) continue;
      const ValueType& type = event.out[0].type;
      for (std::size_t mesh_dim = 0; mesh_dim < type.placements.size(); ++mesh_dim) {
        plan_.after[i].emplace_back(name_of(type, mesh_dim), type.placements[mesh_dim]);
      }
    }
    if (missing.empty()) return;
    fail(ErrorKind::kValue,
         Fix{"name these dims too, of any size; or let --plan place everything anew"},
         "{}: its tensors are on mesh dims that --mesh lacks: {}", program_.recording->path,
         text_of_list(missing, ", "));
  }

  OrderedPlacements ordered(const ValueType& type) const {
    const GraphMesh& on = program_.recording->meshes[static_cast<std::size_t>(type.mesh)];
    const bool strided = std::ranges::any_of(type.placements, &Placement::is_strided_shard);
    if (!strided) return {type.placements, type.order};
    if (const auto decoded = decode_strided(type.placements, on.shape)) return *decoded;
    fail(ErrorKind::kUnsupported, Fix{"let --plan place everything anew"},
         "{}: no order of mesh dims gives the strided shards {}", program_.recording->path,
         to_string(type.placements));
  }

  // In training, the statistics of batch norm are those of the whole batch.
  void gather_normalized() {
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const Statement& one = program_.statements[i];
      const std::string_view bare = one.bare();
      if (bare != "batch_norm" && bare != "native_batch_norm") continue;
      if (number_of(one, "training") == 0) continue;
      plan_.before[{i, one.takes[0]}] = whole_over(dims(0, mesh_.size()));
    }
  }

  static Moved whole_over(const Names& names) {
    Moved whole;
    for (const std::string& name : names) whole.emplace_back(name, Placement::replicate());
    return whole;
  }

  // Views flatten a batch, which an uneven cut does not allow.
  void cut_batches(const Names& names) {
    for (const std::string& name : names) {
      const std::int64_t size = std::ranges::find(mesh_, name, &PlanMeshDim::name)->size;
      std::int64_t left = 0;
      for (const CallInput& input : program_.inputs) {
        const std::size_t dim = batch_dim(input);
        if (!input.batch || dim >= input.meta.shape.size()) continue;
        std::int64_t& rows = rows_.emplace(input.value, input.meta.shape[dim]).first->second;
        if (rows % size != 0) left = rows;
        if (rows % size != 0) continue;
        rows /= size;
        plan_.cuts[input.value][dim].push_back(name);
      }
      if (left == 0) continue;
      plan_.notes.push_back(fmt::format(
          "the batch is whole over {}: {} rows are not cut evenly in {}", name, left, size));
    }
  }

  // Behind the sequence, if that comes first in a batch of this program.
  std::size_t batch_dim(const CallInput& input) const {
    return std::ranges::any_of(program_.inputs, [&](const CallInput& one) {
      const auto dim = sequence_.find(one.value);
      return one.batch && dim != sequence_.end() && dim->second.dim == 0 &&
             !input.meta.shape.empty() && one.meta.shape[0] == input.meta.shape[0];
    });
  }

  // The dim that `sequence` cuts.
  SequenceDim sequence_dim(std::int32_t value) const {
    const auto found = sequence_.find(value);
    if (found != sequence_.end()) return found->second;
    const Dims shape = program_.shape_of(value);
    return {1, shape.size() < 2 ? 0 : shape[1]};
  }

  // Whole for each use, and only there.
  void shard_parameters(const Names& names) {
    if (names.empty()) return;
    for (const CallInput& input : program_.inputs) {
      if (!input.parameter || input.meta.shape.empty()) continue;
      Names& rows = plan_.cuts[input.value][0];
      rows.insert(rows.end(), names.begin(), names.end());
    }
    const Moved whole = whole_over(names);
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const Statement& one = program_.statements[i];
      for (const std::int32_t v : one.takes) {
        if (is_in_place(one.op) && v == one.takes[0]) continue;  // it writes to it
        const CallInput* input = program_.input(v);
        if (input != nullptr && input->parameter && !input->meta.shape.empty()) {
          plan_.before[{i, v}] = whole;
        }
      }
    }
  }

  void cut_layers(const std::string& tp, bool sequence) {
    const Moved whole = whole_over({tp});
    const std::map<std::size_t, LayerCut> cuts = tensor_parallel_cuts(program_);
    for (const auto& [i, cut] : cuts) {
      const Statement& one = program_.statements[i];
      const SequenceDim cut_dim = sequence_dim(one.outs[0]);
      const auto dim = static_cast<std::int64_t>(cut_dim.dim);
      const bool parted = sequence && cut_dim.length > 0 && cuts_evenly(cut_dim);
      const Moved between = parted ? Moved{{tp, Placement::shard(dim)}} : whole;
      if (cut == LayerCut::kEmbedding) {
        plan_.cut(one.takes[0], 0, tp);
        plan_.after[i] = between;
        continue;
      }
      plan_.cut(one.takes[1], cut == LayerCut::kRow ? 1 : 0, tp);
      if (one.takes.size() > 2 && cut != LayerCut::kRow) plan_.cut(one.takes[2], 0, tp);
      if (one.takes.size() > 2 && cut == LayerCut::kRow) plan_.bias_behind.push_back(i);
      if (cut == LayerCut::kRow) plan_.after[i] = between;
      if (cut == LayerCut::kHead) plan_.after[i] = whole;
      // Forward nothing if it is whole already; backward the sum of the ranks' gradients.
      if (cut != LayerCut::kRow) plan_.before[{i, one.takes[0]}] = whole;
    }
    gather_heads(cuts, tp);
  }

  // Activations over the last mesh dim: layers flatten them, which an uneven cut does not allow.
  bool cuts_evenly(const SequenceDim& cut) {
    const PlanMeshDim& dim = mesh_.back();
    if (cut.length % dim.size == 0) return true;
    const std::string note =
        fmt::format("activations are whole over {}: {} places of dim {} are not cut evenly in {}",
                    dim.name, cut.length, cut.dim, dim.size);
    if (std::ranges::find(plan_.notes, note) == plan_.notes.end()) plan_.notes.push_back(note);
    return false;
  }

  // Heads that ranks cannot share out evenly are whole on each.
  void gather_heads(const std::map<std::size_t, LayerCut>& cuts, const std::string& tp) {
    const std::int64_t ranks = mesh_.back().size;
    std::set<std::int32_t> features;  // values whose last dim is cut
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const Statement& one = program_.statements[i];
      const auto cut = cuts.find(i);
      if (cut != cuts.end() && cut->second == LayerCut::kColumn) features.insert(one.outs[0]);
      if (one.takes.empty() || one.outs.empty() || !features.contains(one.takes[0])) continue;
      const Dims from = program_.shape_of(one.takes[0]), to = program_.shape_of(one.outs[0]);
      if (from.empty() || to.empty()) continue;
      if (to.size() <= from.size()) {
        const std::string_view bare = one.bare();
        const bool parts = bare == "split" || bare == "split_with_sizes" || bare == "chunk";
        if (to.back() == from.back() || parts) features.insert(one.outs.begin(), one.outs.end());
        continue;
      }
      std::size_t first = to.size();
      for (std::int64_t inside = 1; first > 0 && inside < from.back();) inside *= to[--first];
      if (first < to.size() && (to[first] % ranks != 0 || is_taken_apart(one.outs[0], first))) {
        plan_.before[{i, one.takes[0]}] = whole_over({tp});
      }
    }
  }

  // The dim of the value is unbound, or an entry of it selected: queries, keys and values of one
  // layer. The cut of such a dim would leave each of them on one rank.
  bool is_taken_apart(std::int32_t value, std::size_t dim) const {
    return std::ranges::any_of(program_.statements, [&](const Statement& one) {
      if (one.takes.empty() || one.outs.empty() || one.takes[0] != value) return false;
      const auto rank = static_cast<std::int64_t>(program_.shape_of(value).size());
      const auto at = [&](std::int64_t named) {
        return static_cast<std::size_t>(named < 0 ? named + rank : named);
      };
      const std::string_view bare = one.bare();
      if (bare == "unbind" || bare == "select") {
        return at(static_cast<std::int64_t>(number_of(one, "dim").value_or(0))) == dim;
      }
      const GraphArgument* dims = bare == "permute" ? argument_of(one, "dims") : nullptr;
      const auto* order = dims == nullptr ? nullptr : std::get_if<Dims>(&dims->value);
      if (order == nullptr) return false;
      const auto now = std::ranges::find(*order, dim, at);
      return is_taken_apart(one.outs[0], static_cast<std::size_t>(now - order->begin()));
    });
  }

  // The state that an optimizer keeps of a parameter has the parameter's placements.
  void place_states() {
    std::map<std::string_view, const CallInput*> parameters;
    for (const CallInput& input : program_.inputs) {
      if (input.parameter) parameters[input.recorded] = &input;
    }
    for (const CallInput& state : program_.inputs) {
      const std::string_view name = state.recorded;
      for (std::size_t at = 0; (at = name.find('.', at + 1)) != std::string_view::npos;) {
        const auto parameter = parameters.find(name.substr(0, at));
        const bool own =
            parameter != parameters.end() && parameter->second->meta.shape == state.meta.shape;
        if (own) plan_.cuts[state.value] = plan_.cuts[parameter->second->value];
      }
    }
  }

  const CallProgram& program_;
  const PlanMesh& mesh_;
  std::map<std::int32_t, SequenceDim> sequence_;  // by value
  std::map<std::int32_t, std::int64_t> rows_;     // of batches, as far as they are cut
  MeshPlan plan_;
};

}  // namespace

const std::vector<std::string>& plan_names() {
  static const std::vector<std::string> kNames = {"megatron", "sequence", "fsdp",
                                                  "hsdp",     "fsdp+tp",  "replicate"};
  return kNames;
}

MeshPlan plan_of(const CallProgram& program, const PlanMesh& mesh, const std::string& name,
                 const PlanLayouts& layouts) {
  return Planner(program, mesh).plan(name, layouts);
}

}  // namespace shardlab
