// Styles are parallelize_module's words; placings are the user's own, and come last.
#include "sim/remesh/layouts.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

namespace {

using Names = std::vector<std::string>;

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
std::vector<std::string> cuts_in(const std::string& dim, const PlanMesh& mesh,
                                 const std::string& text) {
  std::vector<std::string> names;
  const std::size_t at = dim.find('@');
  if (at == std::string::npos) return names;
  std::string rest = dim.substr(at + 1);
  std::erase(rest, '(');
  std::erase(rest, ')');
  names = dims_in(rest);
  for (const std::string& name : names) {
    if (std::ranges::find(mesh, name, &PlanMeshDim::name) != mesh.end()) continue;
    refuse_placing(text, fmt::format("the mesh has no dim '{}'", name));
  }
  return names;
}

class Layouts {
 public:
  Layouts(const CallProgram& program, const PlanMesh& mesh, MeshPlan& plan)
      : program_(program), mesh_(mesh), plan_(plan) {}

  /// A style of parallelize_module, of all modules that it names.
  void apply(const ParallelStyle& style) {
    const std::string tp = style.dim.empty() ? mesh_.back().name : style.dim;
    if (std::ranges::find(mesh_, tp, &PlanMeshDim::name) == mesh_.end()) {
      refuse_style(style, fmt::format("the mesh has no dim '{}'", tp));
    }
    bool any = false;
    for (const RecordedEvent* event : modules(style.module)) {
      any = true;
      if (style.name == "ColwiseParallel" || style.name == "RowwiseParallel") {
        cut_layer(style, event->module, tp);
      } else {
        move_around(style, *event, tp);
      }
    }
    if (any) return;
    Names known;
    for (const RecordedEvent* event : modules("*")) {
      known.push_back(module_of(*program_.recording, *event));
    }
    fail(ErrorKind::kValue, Fix{suggest(style.module, known)}, "{}: no module is called {}",
         style.file, style.module);
  }

  [[noreturn]] static void refuse_style(const ParallelStyle& style, const std::string& why) {
    fail(ErrorKind::kValue,
         Fix{"\"layers.*.wo\" = { style = \"RowwiseParallel\", output_layouts = \"Shard(1)\" }"},
         "{}: {} {}: {}", style.file, style.module, style.name, why);
  }

  // "Shard(-1)" of a value.
  Placement layout_of(const ParallelStyle& style, const std::string& text,
                      std::int32_t value) const {
    if (text == "Replicate" || text == "Replicate()") return Placement::replicate();
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
    return Placement::shard(dim < 0 ? dim + ndim : dim);
  }

  void cut_layer(const ParallelStyle& style, std::int32_t module, const std::string& tp) {
    const bool columns = style.name == "ColwiseParallel";
    bool any = false;
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const Statement& one = program_.statements[i];
      const std::string_view bare = one.bare();
      const bool table = bare == "embedding", linear = bare == "linear";
      if ((!table && !linear) || one.event->module != module || one.takes.size() < 2) continue;
      any = true;
      const std::int32_t weight = one.takes[linear ? 1 : 0], x = one.takes[linear ? 0 : 1];
      // The last style that names a module counts.
      for (const std::int32_t v : one.takes) uncut_input(v, tp);
      std::erase(plan_.bias_behind, i);
      plan_.cut(weight, linear == columns ? 0 : 1, tp);
      const bool bias = one.takes.size() > 2;
      if (bias && columns) plan_.cut(one.takes[2], 0, tp);
      if (bias && !columns) plan_.bias_behind.push_back(i);
      const bool features = linear && !columns;  // of the input they are cut
      const std::string wanted = style.options.contains("desired_input_layouts")
                                     ? style.options.at("desired_input_layouts")
                                 : features ? "Shard(-1)"
                                            : "Replicate";
      plan_.before[{i, x}] = {{tp, layout_of(style, wanted, x)}};
      const auto given = style.options.find("output_layouts");
      const std::string output = given != style.options.end() ? given->second
                                 : columns                    ? "Shard(-1)"
                                                              : "Replicate";
      plan_.after[i] = {{tp, layout_of(style, output, one.outs[0])}};
    }
    if (!any) refuse_style(style, "the module has no linear layer or table of its own");
  }

  // Layouts of a module's inputs or outputs, one after the other; None leaves it.
  void move_around(const ParallelStyle& style, const RecordedEvent& event, const std::string& tp) {
    const bool output = style.name == "PrepareModuleOutput";
    const char* key = output ? "desired_output_layouts" : "desired_input_layouts";
    std::vector<std::string> wanted = {"Shard(1)"};  // of SequenceParallel
    if (style.name != "SequenceParallel") {
      if (!style.options.contains(key)) refuse_style(style, fmt::format("no {}", key));
      wanted = dims_in(style.options.at(key));
    } else if (style.options.contains("sequence_dim")) {
      wanted = {fmt::format("Shard({})", style.options.at("sequence_dim"))};
    }
    const std::vector<std::int32_t>& values = output ? event.gives : event.takes;
    for (std::size_t i = 0; i < std::min(values.size(), wanted.size()); ++i) {
      if (wanted[i] == "None" || values[i] < 0) continue;
      move_value(event, values[i], output, {{tp, layout_of(style, wanted[i], values[i])}});
    }
  }

  // Moves a value before the calls of a module that take it, or after the one that returns it.
  bool move_value(const RecordedEvent& event, std::int32_t value, bool output, const Moved& moved) {
    bool any = false;
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const Statement& one = program_.statements[i];
      const auto& call = one.event->call;
      if (!call || *call < event.first_call || *call >= event.end_call) continue;
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

  void place_input(const CallInput& input, const TensorPlacing& placing) {
    if (placing.dims.size() != input.meta.shape.size()) {
      refuse_placing(placing.text,
                     fmt::format("{} has {} dims: [{}]", input.recorded, input.meta.shape.size(),
                                 text_of_list(input.meta.shape, ", ")));
    }
    for (std::size_t dim = 0; dim < placing.dims.size(); ++dim) {
      plan_.cuts[input.value][dim] = cuts_in(placing.dims[dim], mesh_, placing.text);
    }
  }

  // The layout of all mesh dims.
  Moved moved_to(const TensorPlacing& placing) const {
    Moved moved;
    for (const PlanMeshDim& mesh_dim : mesh_) {
      Placement placement = Placement::replicate();
      for (std::size_t dim = 0; dim < placing.dims.size(); ++dim) {
        const Names cuts = cuts_in(placing.dims[dim], mesh_, placing.text);
        if (std::ranges::find(cuts, mesh_dim.name) != cuts.end()) {
          placement = Placement::shard(static_cast<std::int64_t>(dim));
        }
      }
      moved.emplace_back(mesh_dim.name, placement);
    }
    return moved;
  }

  bool place_module(const RecordedEvent& event, const TensorPlacing& placing) {
    const bool input = placing.of == TensorPlacing::Of::kModuleInput;
    const std::vector<std::int32_t>& values = input ? event.takes : event.gives;
    if (values.empty() || values[0] < 0) return false;
    return move_value(event, values[0], !input, moved_to(placing));
  }

  std::vector<const RecordedEvent*> modules(std::string_view pattern) const {
    std::vector<const RecordedEvent*> modules;
    for (const RecordedEvent& event : program_.recording->events) {
      const bool named = event.kind == RecordedKind::kModule &&
                         fits(pattern, module_of(*program_.recording, event));
      if (named) modules.push_back(&event);
    }
    return modules;
  }

  void place(const TensorPlacing& placing) {
    bool any = false;
    if (placing.of == TensorPlacing::Of::kTensor) {
      for (const CallInput& input : program_.inputs) {
        if (!fits(placing.pattern, input.recorded) && !fits(placing.pattern, input.name)) continue;
        any = true;
        place_input(input, placing);
      }
    } else {
      for (const RecordedEvent* event : modules(placing.pattern)) {
        any = place_module(*event, placing) || any;
      }
    }
    if (any) return;
    Names known;
    for (const CallInput& input : program_.inputs) {
      known.push_back(input.user == nullptr ? input.recorded : input.name);
    }
    fail(ErrorKind::kValue, Fix{suggest(placing.pattern, known)},
         "--place {}: nothing in the program is called so", placing.text);
  }

  void uncut_input(std::int32_t value, const std::string& name) {
    const auto found = plan_.cuts.find(value);
    if (found == plan_.cuts.end()) return;
    for (Names& cuts : found->second) std::erase(cuts, name);
  }

  const CallProgram& program_;
  const PlanMesh& mesh_;
  MeshPlan& plan_;
};

}  // namespace

void apply_layouts(const CallProgram& program, const PlanMesh& mesh, const PlanLayouts& layouts,
                   MeshPlan& plan) {
  Layouts all(program, mesh, plan);
  for (const ParallelStyle& style : layouts.styles) all.apply(style);
  for (const TensorPlacing& placing : layouts.placings) all.place(placing);
}

TensorPlacing parse_placing(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) refuse_placing(text, "not NAME=[...]");
  TensorPlacing placing{.pattern = text.substr(0, equals), .text = text};
  for (const auto& [end, of] : {std::pair{":in", TensorPlacing::Of::kModuleInput},
                                std::pair{":out", TensorPlacing::Of::kModuleOutput}}) {
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

ParallelStyle style_of(const std::string& path, const std::string& module, const toml::node& node) {
  ParallelStyle style{.file = path, .module = module, .name = node.value_or(std::string())};
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

void read_layouts(const std::string& path, PlanLayouts& layouts) {
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

}  // namespace shardlab
