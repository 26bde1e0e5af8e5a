// A plan is a pure function of the program and the mesh. Plans place what is given and move a few
// values; everything else follows from the rules of ops.
#include "sim/capture/step_plan.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/fix.h"
#include "base/nearest.h"
#include "base/text_of_list.h"
#include "sim/capture/tensor_parallel.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_placing(const std::string& text, const std::string& why) {
  fail(ErrorKind::kValue,
       Fix{"--place 'layers.*.wq.weight=[_@tp, _]', or --place 'layers.*.wo:out=[_, _, _]'"},
       "--place {}: {}", text, why);
}

// "*" stands for any text.
bool fits(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  for (std::size_t skip = star; skip <= text.size(); ++skip) {
    if (fits(pattern.substr(star + 1), text.substr(skip))) return true;
  }
  return false;
}

// At commas that stand in no parentheses.
std::vector<std::string> dims_in(std::string_view text) {
  std::vector<std::string> dims;
  int depth = 0;
  std::string dim;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      dims.push_back(std::move(dim));
      dim.clear();
    } else if (c != ' ') {
      dim += c;
    }
  }
  if (!dim.empty() || !dims.empty()) dims.push_back(std::move(dim));
  return dims;
}

// "_@(dp,tp)": dp, then tp.
std::vector<std::string> cuts_in(const std::string& dim, const StepMesh& mesh,
                                 const std::string& text) {
  std::vector<std::string> names;
  const std::size_t at = dim.find('@');
  if (at == std::string::npos) return names;
  std::string rest = dim.substr(at + 1);
  std::erase(rest, '(');
  std::erase(rest, ')');
  names = dims_in(rest);
  for (const std::string& name : names) {
    if (std::ranges::find(mesh, name, &StepMeshDim::name) != mesh.end()) continue;
    refuse_placing(text, fmt::format("the mesh has no dim '{}'", name));
  }
  return names;
}

class Planner {
 public:
  Planner(const StepProgram& program, const StepMesh& mesh) : program_(program), mesh_(mesh) {
    for (const StepInput& input : program.inputs) {
      plan_.cuts[input.value].resize(input.meta.shape.size());
    }
  }

  StepPlan plan(const std::string& name, const std::vector<StepPlacing>& placings) {
    if (!name.empty()) apply(name);
    for (const StepPlacing& placing : placings) place(placing);
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
  }

  // Views flatten a batch, which an uneven cut does not allow.
  void cut_batches(const Names& names) {
    for (const std::string& name : names) {
      const std::int64_t size = std::ranges::find(mesh_, name, &StepMeshDim::name)->size;
      std::int64_t left = 0;
      for (const StepInput& input : program_.inputs) {
        if (!input.batch) continue;
        std::int64_t& rows = rows_.emplace(input.value, input.meta.shape[0]).first->second;
        if (rows % size != 0) left = rows;
        if (rows % size != 0) continue;
        rows /= size;
        plan_.cuts[input.value][0].push_back(name);
      }
      if (left == 0) continue;
      plan_.notes.push_back(fmt::format(
          "the batch is whole over {}: {} rows are not cut evenly in {}", name, left, size));
    }
  }

  static void append(Names& to, const Names& names) {
    to.insert(to.end(), names.begin(), names.end());
  }

  // Whole for each use, and only there.
  void shard_parameters(const Names& names) {
    if (names.empty()) return;
    for (const StepInput& input : program_.inputs) {
      if (input.parameter && !input.meta.shape.empty()) {
        append(plan_.cuts[input.value][0], names);
      }
    }
    std::string whole;
    for (const std::string& name : names) {
      whole += fmt::format("{}{}=R", whole.empty() ? "" : ", ", name);
    }
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      for (const std::size_t v : program_.statements[i].takes) {
        const StepInput* input = program_.input(v);
        if (input != nullptr && input->parameter && !input->meta.shape.empty()) {
          plan_.before[{i, v}] = whole;
        }
      }
    }
  }

  void cut_input(std::size_t value, std::size_t dim, const std::string& name) {
    const auto found = plan_.cuts.find(value);
    if (found == plan_.cuts.end() || dim >= found->second.size()) return;
    Names& cuts = found->second[dim];
    if (std::ranges::find(cuts, name) == cuts.end()) cuts.push_back(name);
  }

  void cut_layers(const std::string& tp, bool sequence) {
    const std::string whole = tp + "=R", between = sequence ? tp + "=S(1)" : whole;
    const std::map<std::size_t, LayerCut> cuts = tensor_parallel_cuts(program_);
    for (const auto& [i, cut] : cuts) {
      const StepStatement& one = program_.statements[i];
      if (cut == LayerCut::kEmbedding) {
        cut_input(one.takes[0], 0, tp);
        plan_.after[i] = between;
        continue;
      }
      cut_input(one.takes[1], cut == LayerCut::kRow ? 1 : 0, tp);
      if (one.takes.size() > 2 && cut != LayerCut::kRow) cut_input(one.takes[2], 0, tp);
      if (one.takes.size() > 2 && cut == LayerCut::kRow) plan_.bias_behind.push_back(i);
      if (cut == LayerCut::kRow) plan_.after[i] = between;
      if (cut == LayerCut::kHead) plan_.after[i] = whole;
      // Forward nothing where it is whole already; backward the sum of the ranks' gradients.
      if (cut != LayerCut::kRow) plan_.before[{i, one.takes[0]}] = whole;
    }
    gather_heads(cuts, tp);
  }

  // Heads that ranks cannot share out evenly are whole on each.
  void gather_heads(const std::map<std::size_t, LayerCut>& cuts, const std::string& tp) {
    const std::int64_t ranks = mesh_.back().size;
    std::set<std::size_t> features;  // values whose last dim is cut
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const StepStatement& one = program_.statements[i];
      const auto cut = cuts.find(i);
      if (cut != cuts.end() && cut->second == LayerCut::kColumn) features.insert(one.outs[0]);
      if (one.takes.empty() || one.outs.empty() || !features.contains(one.takes[0])) continue;
      const Dims from = program_.shape_of(one.takes[0]), to = program_.shape_of(one.outs[0]);
      if (from.empty() || to.empty()) continue;
      if (to.size() <= from.size()) {
        if (to.back() == from.back()) features.insert(one.outs[0]);
        continue;
      }
      std::size_t first = to.size();
      for (std::int64_t inside = 1; first > 0 && inside < from.back();) inside *= to[--first];
      if (first < to.size() && to[first] % ranks != 0) plan_.before[{i, one.takes[0]}] = tp + "=R";
    }
  }

  void place(const StepPlacing& placing) {
    bool any = false;
    if (placing.of == StepPlacing::Of::kTensor) {
      for (const StepInput& input : program_.inputs) {
        if (!fits(placing.pattern, input.recorded)) continue;
        any = true;
        place_input(input, placing);
      }
    } else {
      for (const Json& event : program_.recording->events) {
        if (event.at("k") != "module" || !fits(placing.pattern, module_of(event))) continue;
        any = place_module(event, placing) || any;
      }
    }
    if (any) return;
    Names known;
    for (const StepInput& input : program_.inputs) known.push_back(input.recorded);
    fail(ErrorKind::kValue, Fix{suggest(placing.pattern, known)},
         "--place {}: nothing in the program is called so", placing.text);
  }

  void place_input(const StepInput& input, const StepPlacing& placing) {
    if (placing.dims.size() != input.meta.shape.size()) {
      refuse_placing(placing.text,
                     fmt::format("{} has {} dims: [{}]", input.recorded, input.meta.shape.size(),
                                 text_of_list(input.meta.shape, ", ")));
    }
    for (std::size_t dim = 0; dim < placing.dims.size(); ++dim) {
      plan_.cuts[input.value][dim] = cuts_in(placing.dims[dim], mesh_, placing.text);
    }
  }

  // The layout as redistribute() takes it, by mesh dim.
  std::string moved_to(const StepPlacing& placing) const {
    std::string text;
    for (const StepMeshDim& mesh_dim : mesh_) {
      std::string placement = "R";
      for (std::size_t dim = 0; dim < placing.dims.size(); ++dim) {
        const Names cuts = cuts_in(placing.dims[dim], mesh_, placing.text);
        if (std::ranges::find(cuts, mesh_dim.name) != cuts.end())
          placement = fmt::format("S({})", dim);
      }
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", mesh_dim.name, placement);
    }
    return text;
  }

  bool place_module(const Json& event, const StepPlacing& placing) {
    const bool input = placing.of == StepPlacing::Of::kModuleInput;
    const Json values = event.value(input ? "in" : "out", Json::array());
    if (values.empty()) return false;
    const auto value = values.at(0).get<std::size_t>();
    const auto first = event.at("c").at(0).get<std::size_t>();
    const auto last = event.at("c").at(1).get<std::size_t>();
    bool any = false;
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const StepStatement& one = program_.statements[i];
      const auto call = one.event->value("c", Json());
      const bool inside = call.is_number() && call >= first && call < last;
      if (input && inside && std::ranges::find(one.takes, value) != one.takes.end()) {
        plan_.before[{i, value}] = moved_to(placing);
        any = true;
      }
      if (!input && inside && !one.outs.empty() && one.outs[0] == value) {
        plan_.after[i] = moved_to(placing);
        any = true;
      }
    }
    return any;
  }

  const StepProgram& program_;
  const StepMesh& mesh_;
  std::map<std::size_t, std::int64_t> rows_;  // of batches, as far as they are cut
  StepPlan plan_;
};

}  // namespace

StepPlacing parse_placing(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse_placing(text, "not NAME=[...]");
  StepPlacing placing{.pattern = text.substr(0, equals), .dims = {}, .text = text};
  for (const auto& [end, of] : {std::pair{":in", StepPlacing::Of::kModuleInput},
                                std::pair{":out", StepPlacing::Of::kModuleOutput}}) {
    if (!placing.pattern.ends_with(end)) continue;
    placing.of = of;
    placing.pattern.resize(placing.pattern.size() - std::string_view(end).size());
  }
  std::string type = text.substr(equals + 1);
  std::erase(type, ' ');
  if (type.size() < 2 || type.front() != '[' || type.back() != ']') {
    refuse_placing(text, "no layout in brackets, one entry for each dim");
  }
  placing.dims = dims_in(std::string_view(type).substr(1, type.size() - 2));
  return placing;
}

const std::vector<std::string>& plan_names() {
  static const std::vector<std::string> kNames = {"megatron", "sequence", "fsdp",
                                                  "hsdp",     "fsdp+tp",  "replicate"};
  return kNames;
}

StepPlan plan_of(const StepProgram& program, const StepMesh& mesh, const std::string& name,
                 const std::vector<StepPlacing>& placings) {
  return Planner(program, mesh).plan(name, placings);
}

}  // namespace shardlab
