// A plan is a pure function of the program and the mesh. Plans place inputs and move a few values;
// everything else follows from the rules of ops.
#include "sim/capture/step_plan.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/fix.h"
#include "base/nearest.h"
#include "base/text_of_list.h"
#include "sim/capture/sequence_dims.h"
#include "sim/capture/tensor_parallel.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_placing(const std::string& text, const std::string& why) {
  fail(ErrorKind::kValue,
       Fix{"--place 'layers.*.wq.weight=[_@tp, _]', or --place 'layers.*.wo:out=[_, _, _]'"},
       "--place {}: {}", text, why);
}

// "*" matches any text.
bool fits(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  for (std::size_t skip = star; skip <= text.size(); ++skip) {
    if (fits(pattern.substr(star + 1), text.substr(skip))) return true;
  }
  return false;
}

// At commas outside of parentheses.
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
  Planner(const StepProgram& program, const StepMesh& mesh)
      : program_(program), mesh_(mesh), sequence_(sequence_dims(program)) {
    for (const StepInput& input : program.inputs) {
      plan_.cuts[input.value].resize(input.meta.shape.size());
    }
  }

  StepPlan plan(const std::string& name, const StepLayouts& layouts) {
    if (!name.empty()) apply(name);
    for (const StepStyle& style : layouts.styles) apply(style);
    for (const StepPlacing& placing : layouts.placings) place(placing);
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

  // In training, the statistics of batch norm are those of the whole batch.
  void gather_normalized() {
    constexpr std::size_t kTraining = 5;
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const StepStatement& one = program_.statements[i];
      const std::string bare = bare_op(one.op);
      if (bare != "batch_norm" && bare != "native_batch_norm") continue;
      const Json& given = one.event->at("args");
      if (given.size() > kTraining && given.at(kTraining) == false) continue;
      plan_.before[{i, one.takes[0]}] = whole_over(dims(0, mesh_.size()));
    }
  }

  static std::string whole_over(const Names& names) {
    std::string whole;
    for (const std::string& name : names) {
      whole += fmt::format("{}{}=R", whole.empty() ? "" : ", ", name);
    }
    return whole;
  }

  // Views flatten a batch, which an uneven cut does not allow.
  void cut_batches(const Names& names) {
    for (const std::string& name : names) {
      const std::int64_t size = std::ranges::find(mesh_, name, &StepMeshDim::name)->size;
      std::int64_t left = 0;
      for (const StepInput& input : program_.inputs) {
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
  std::size_t batch_dim(const StepInput& input) const {
    return std::ranges::any_of(program_.inputs, [&](const StepInput& one) {
      const auto dim = sequence_.find(one.value);
      return one.batch && dim != sequence_.end() && dim->second == 0 &&
             one.meta.shape[0] == input.meta.shape[0];
    });
  }

  // The dim that `sequence` cuts.
  std::size_t sequence_dim(std::size_t value) const {
    const auto found = sequence_.find(value);
    return found == sequence_.end() ? 1 : found->second;
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
    const std::string whole = whole_over(names);
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const StepStatement& one = program_.statements[i];
      for (const std::size_t v : one.takes) {
        if (is_in_place(one.op) && v == one.takes[0]) continue;  // it writes to it
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

  void uncut_input(std::size_t value, const std::string& name) {
    const auto found = plan_.cuts.find(value);
    if (found == plan_.cuts.end()) return;
    for (Names& cuts : found->second) std::erase(cuts, name);
  }

  void cut_layers(const std::string& tp, bool sequence) {
    const std::string whole = tp + "=R";
    const std::map<std::size_t, LayerCut> cuts = tensor_parallel_cuts(program_);
    for (const auto& [i, cut] : cuts) {
      const StepStatement& one = program_.statements[i];
      const std::size_t dim = sequence_dim(one.outs[0]);
      const bool parted = sequence && cuts_evenly(program_.shape_of(one.outs[0]), dim);
      const std::string between = parted ? fmt::format("{}=S({})", tp, dim) : whole;
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
      // Forward nothing if it is whole already; backward the sum of the ranks' gradients.
      if (cut != LayerCut::kRow) plan_.before[{i, one.takes[0]}] = whole;
    }
    gather_heads(cuts, tp);
  }

  // Activations over the last mesh dim: layers flatten them, which an uneven cut does not allow.
  bool cuts_evenly(const Dims& shape, std::size_t cut) {
    if (shape.size() < 2) return true;
    const StepMeshDim& dim = mesh_.back();
    if (shape[cut] % dim.size == 0) return true;
    const std::string note =
        fmt::format("activations are whole over {}: {} places of dim {} are not cut evenly in {}",
                    dim.name, shape[cut], cut, dim.size);
    if (std::ranges::find(plan_.notes, note) == plan_.notes.end()) plan_.notes.push_back(note);
    return false;
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
        const std::string bare = bare_op(one.op);
        const bool parts = bare == "split" || bare == "split_with_sizes" || bare == "chunk";
        if (to.back() == from.back() || parts) features.insert(one.outs.begin(), one.outs.end());
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
        if (!fits(placing.pattern, input.recorded) && !fits(placing.pattern, input.name)) continue;
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
    for (const StepInput& input : program_.inputs) {
      known.push_back(input.user == nullptr ? input.recorded : input.name);
    }
    fail(ErrorKind::kValue, Fix{suggest(placing.pattern, known)},
         "--place {}: nothing in the program is called so", placing.text);
  }

  // The state that an optimizer keeps of a parameter has the parameter's placements.
  void place_states() {
    std::map<std::string_view, const StepInput*> parameters;
    for (const StepInput& input : program_.inputs) {
      if (input.parameter) parameters[input.recorded] = &input;
    }
    for (const StepInput& state : program_.inputs) {
      const std::string_view name = state.recorded;
      for (std::size_t at = 0; (at = name.find('.', at + 1)) != std::string_view::npos;) {
        const auto parameter = parameters.find(name.substr(0, at));
        const bool own =
            parameter != parameters.end() && parameter->second->meta.shape == state.meta.shape;
        if (own) plan_.cuts[state.value] = plan_.cuts[parameter->second->value];
      }
    }
  }

  // A style of parallelize_module, of all modules that it names.
  void apply(const StepStyle& style) {
    const std::string tp = style.dim.empty() ? mesh_.back().name : style.dim;
    if (std::ranges::find(mesh_, tp, &StepMeshDim::name) == mesh_.end()) {
      refuse_style(style, fmt::format("the mesh has no dim '{}'", tp));
    }
    bool any = false;
    for (const Json& event : program_.recording->events) {
      if (event.at("k") != "module" || !fits(style.module, module_of(event))) continue;
      any = true;
      if (style.name == "ColwiseParallel" || style.name == "RowwiseParallel") {
        cut_layer(style, module_of(event), tp);
      } else {
        move_around(style, event, tp);
      }
    }
    if (any) return;
    Names known;
    for (const Json& event : program_.recording->events) {
      if (event.at("k") == "module") known.push_back(module_of(event));
    }
    fail(ErrorKind::kValue, Fix{suggest(style.module, known)}, "{}: no module is called {}",
         style.file, style.module);
  }

  [[noreturn]] static void refuse_style(const StepStyle& style, const std::string& why) {
    fail(ErrorKind::kValue,
         Fix{"\"layers.*.wo\" = { style = \"RowwiseParallel\", output_layouts = \"Shard(1)\" }"},
         "{}: {} {}: {}", style.file, style.module, style.name, why);
  }

  // "Shard(-1)" of a value, as redistribute() takes it.
  std::string layout_of(const StepStyle& style, const std::string& text, std::size_t value) const {
    if (text == "Replicate" || text == "Replicate()") return "R";
    std::int64_t dim = 0;
    const auto ndim = static_cast<std::int64_t>(program_.shape_of(value).size());
    const char* begin = text.data() + 6;
    const char* end = text.data() + text.size();
    const bool shard = text.starts_with("Shard(") && text.ends_with(")") &&
                       std::from_chars(begin, end - 1, dim).ptr == end - 1 && dim >= -ndim &&
                       dim < ndim;
    if (!shard) {
      refuse_style(style, fmt::format("'{}' is no layout of a tensor of {} dims", text, ndim));
    }
    return fmt::format("S({})", dim < 0 ? dim + ndim : dim);
  }

  void cut_layer(const StepStyle& style, const std::string& path, const std::string& tp) {
    const bool columns = style.name == "ColwiseParallel";
    bool any = false;
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const StepStatement& one = program_.statements[i];
      const std::string bare = bare_op(one.op);
      const bool table = bare == "embedding", linear = bare == "linear";
      if ((!table && !linear) || module_of(*one.event) != path || one.takes.size() < 2) continue;
      any = true;
      const std::size_t weight = one.takes[linear ? 1 : 0], x = one.takes[linear ? 0 : 1];
      // The last style that names a module counts.
      for (const std::size_t v : one.takes) uncut_input(v, tp);
      std::erase(plan_.bias_behind, i);
      cut_input(weight, linear == columns ? 0 : 1, tp);
      const bool bias = one.takes.size() > 2;
      if (bias && columns) cut_input(one.takes[2], 0, tp);
      if (bias && !columns) plan_.bias_behind.push_back(i);
      const bool features = linear && !columns;  // of the input they are cut
      const std::string wanted = style.options.contains("desired_input_layouts")
                                     ? style.options.at("desired_input_layouts")
                                 : features ? "Shard(-1)"
                                            : "Replicate";
      plan_.before[{i, x}] = tp + "=" + layout_of(style, wanted, x);
      const auto given = style.options.find("output_layouts");
      const std::string output = given != style.options.end() ? given->second
                                 : columns                    ? "Shard(-1)"
                                                              : "Replicate";
      plan_.after[i] = tp + "=" + layout_of(style, output, one.outs[0]);
    }
    if (!any) refuse_style(style, "the module has no linear layer or table of its own");
  }

  // Layouts of a module's inputs or outputs, one after the other; None leaves it.
  void move_around(const StepStyle& style, const Json& event, const std::string& tp) {
    const bool output = style.name == "PrepareModuleOutput";
    const char* key = output ? "desired_output_layouts" : "desired_input_layouts";
    std::vector<std::string> wanted = {"Shard(1)"};  // of SequenceParallel
    if (style.name != "SequenceParallel") {
      if (!style.options.contains(key)) refuse_style(style, fmt::format("no {}", key));
      wanted = dims_in(style.options.at(key));
    } else if (style.options.contains("sequence_dim")) {
      wanted = {fmt::format("Shard({})", style.options.at("sequence_dim"))};
    }
    const Json& values = list_at(event, output ? "out" : "in");
    for (std::size_t i = 0; i < std::min(values.size(), wanted.size()); ++i) {
      if (wanted[i] == "None") continue;
      const auto value = values.at(i).get<std::size_t>();
      move_value(event, value, output, tp + "=" + layout_of(style, wanted[i], value));
    }
  }

  // Moves a value before the calls of a module that take it, or after the one that returns it.
  bool move_value(const Json& event, std::size_t value, bool output, const std::string& moved) {
    const auto first = event.at("c").at(0).get<std::size_t>();
    const auto last = event.at("c").at(1).get<std::size_t>();
    bool any = false;
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const StepStatement& one = program_.statements[i];
      const auto call = one.event->value("c", Json());
      if (!call.is_number() || call < first || call >= last) continue;
      if (!output && std::ranges::find(one.takes, value) != one.takes.end()) {
        plan_.before[{i, value}] = moved;
        any = true;
      }
      if (output && !one.outs.empty() && one.outs[0] == value) {
        plan_.after[i] = moved;
        any = true;
      }
    }
    return any;
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
    const Json& values = list_at(event, input ? "in" : "out");
    if (values.empty()) return false;
    return move_value(event, values.at(0).get<std::size_t>(), !input, moved_to(placing));
  }

  const StepProgram& program_;
  const StepMesh& mesh_;
  std::map<std::size_t, std::size_t> sequence_;  // the sequence's dim, by value
  std::map<std::size_t, std::int64_t> rows_;     // of batches, as far as they are cut
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

namespace {

// A text, a number, or a list of texts, as one text.
std::string option_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  std::string all;
  if (const auto* list = node.as_array()) {
    for (const auto& item : *list) all += (all.empty() ? "" : ", ") + option_text(item);
  }
  return all;
}

StepStyle style_of(const std::string& path, const std::string& module, const toml::node& node) {
  StepStyle style{.file = path,
                  .module = module,
                  .name = node.value_or(std::string()),
                  .options = {},
                  .dim = {}};
  if (const auto* table = node.as_table()) {
    static const std::vector<std::string> kOptions = {"style",
                                                      "input_layouts",
                                                      "desired_input_layouts",
                                                      "output_layouts",
                                                      "desired_output_layouts",
                                                      "sequence_dim",
                                                      "dim"};
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      if (std::ranges::find(kOptions, name) == kOptions.end()) {
        fail(ErrorKind::kValue, Fix{suggest(name, kOptions)}, "{}: {} has a key '{}'", path, module,
             name);
      }
      style.options[name] = option_text(value);
    }
    style.name = style.options["style"];
    style.dim = style.options["dim"];
  }
  static const std::vector<std::string> kStyles = {"ColwiseParallel", "RowwiseParallel",
                                                   "SequenceParallel", "PrepareModuleInput",
                                                   "PrepareModuleOutput"};
  if (std::ranges::find(kStyles, style.name) == kStyles.end()) {
    fail(ErrorKind::kValue, Fix{suggest(style.name, kStyles)}, "{}: {} has the style '{}'", path,
         module, style.name);
  }
  return style;
}

}  // namespace

void read_layouts(const std::string& path, StepLayouts& layouts) {
  toml::table file;
  try {
    file = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::kValue, Fix{"[modules] and [weights], see sim/record_torch/README.md"},
         "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  const std::string dim = file["dim"].value_or(std::string());
  for (const auto& [key, node] : file) {
    const std::string section(key.str());
    const auto* table = node.as_table();
    const bool known = table != nullptr && (section == "modules" || section == "weights");
    if (section == "dim") continue;
    if (!known) {
      fail(ErrorKind::kValue, Fix{"[modules] and [weights], see sim/record_torch/README.md"},
           "{}: no section '{}'", path, section);
    }
    for (const auto& [name, value] : *table) {
      const std::string of(name.str());
      if (section == "weights") {
        layouts.placings.push_back(parse_placing(of + "=" + value.value_or(std::string())));
        continue;
      }
      layouts.styles.push_back(style_of(path, of, value));
      if (layouts.styles.back().dim.empty()) layouts.styles.back().dim = dim;
    }
  }
}

const std::vector<std::string>& plan_names() {
  static const std::vector<std::string> kNames = {"megatron", "sequence", "fsdp",
                                                  "hsdp",     "fsdp+tp",  "replicate"};
  return kNames;
}

StepPlan plan_of(const StepProgram& program, const StepMesh& mesh, const std::string& name,
                 const StepLayouts& layouts) {
  return Planner(program, mesh).plan(name, layouts);
}

}  // namespace shardlab
