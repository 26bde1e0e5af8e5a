// The file is read once into a tree of TOML values with places. A point of the matrix, together
// with the settings of the command line (which win over it), then gives one Scenario, in which all
// expressions are numbers. Everything that can be wrong without running is refused here, at its
// place in the file.
#include "sim/scenario/scenario_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "base/read_real.h"
#include "base/text.h"
#include "comm/call.h"
#include "plan/planner_name.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/parser.h"
#include "sim/scenario/checkpoint_input.h"
#include "sim/scenario/scenario_parts.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

namespace {

std::string optional_text(const TomlSection& root, std::string_view key) {
  const TomlEntry* entry = root.find(key);
  return entry ? read_text(*entry)->text() : "";
}

std::optional<PlannerKind> read_planner(const TomlSection& root) {
  const TomlEntry* entry = root.find("planner");
  if (entry == nullptr) return std::nullopt;
  const std::string name(read_text(*entry)->text());
  if (const auto planner = parse_planner(name)) return planner;
  entry->where.refuse(fmt::format("no planner is called '{}'", name), "greedy, graph or bytes");
}

std::string text_of_file(const std::string& path, const std::string& fix) {
  constexpr std::size_t kLargest = std::size_t{16} << 20;
  const auto unreadable = [&](std::string_view why) {
    fail(ErrorKind::kValue, Fix{fix}, "{}: {}", path, why);
  };
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) unreadable(std::strerror(errno));
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text;
  char piece[1 << 14];
  while (in && text.size() <= kLargest) {  // its size is not asked: a pipe has none
    in.read(piece, sizeof piece);
    text.append(piece, static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad() || (in.fail() && !in.eof())) unreadable("cannot be read");
  if (text.size() > kLargest) unreadable("the file is larger than 16 MiB, which no scenario is");
  return text;
}

// Several scenarios may have the same program.
SourcePtr read_program_file(const TomlEntry& entry) {
  const std::string path = path_in_folder_of(entry.where.source->file(), read_text(entry)->text());
  try {
    return std::make_shared<const SourceText>(
        path, text_of_file(path, "give the path of a program, from the folder of the scenario"));
  } catch (const Error& error) {
    entry.value.where.refuse(error.summary(), fix_of(error));
  }
}

// The code of [program] or [reference]; null without the table.
std::shared_ptr<const ast::Program> read_code(const TomlSection& root, const std::string& table) {
  const auto section = root.section(table);
  if (!section) return nullptr;
  section->check_keys({"code", "file"});
  const TomlEntry *code = section->find("code"), *file = section->find("file");
  if (code != nullptr && file != nullptr) {
    file->where.refuse(section->name + " with code and with a file", "leave one of them out");
  }
  if (code == nullptr && file == nullptr) {
    section->where.refuse(section->name + " without code",
                          "add code = \"\"\"...\"\"\", or file = \"program.py\"");
  }
  const SourcePtr text = code != nullptr ? read_text(*code) : read_program_file(*file);
  return std::make_shared<const ast::Program>(parse_program(text));
}

std::shared_ptr<const ast::Program> read_program(const TomlSection& root) {
  if (auto program = read_code(root, "program")) return program;
  return std::make_shared<const ast::Program>(
      parse_program(std::make_shared<const SourceText>(root.where.source->file(), "")));
}

// A reference that names no value of the program would be compared with nothing.
void check_reference(const TomlSection& root, const ast::Program& program,
                     const ast::Program& reference) {
  const std::vector<std::string> known = ast::bound_names(program.body);
  const std::vector<std::string> given = ast::bound_names(reference.body);
  for (const std::string& name : given) {
    if (std::binary_search(known.begin(), known.end(), name)) return;
  }
  const std::string fix = known.empty() ? "name a value in [program]"
                                        : fmt::format("name one of: {}", text_of_list(known, ", "));
  root.find("reference")->where.refuse("[reference] names no value of [program]", fix);
}

/// The keys that a setting may name, in their full form.
std::vector<std::string> setting_keys(const TomlSection& root) {
  std::vector<std::string> keys = {"seed", "world"};
  for (const std::string_view kind : kWeighted) keys.push_back(fmt::format("weights.{}", kind));
  for (const char* table : {"mesh", "params"}) {
    const TomlEntry* entry = root.find(table);
    if (entry == nullptr) continue;
    for (const TomlEntry& inner : read_table(*entry)) {
      if (inner.key == "ranks") continue;
      keys.push_back(fmt::format("{}.{}", table, inner.key));
      if (table != std::string_view("mesh")) continue;
      for (const char* figure : {"gbps", "us"}) {
        keys.push_back(fmt::format("topology.{}.{}", inner.key, figure));
      }
    }
  }
  return keys;
}

/// "hidden" means "params.hidden".
std::string full_key(const std::string& key) {
  const bool whole = key == "seed" || key == "world" || key.find('.') != std::string::npos;
  return whole ? key : "params." + key;
}

void check_setting(const TomlSection& root, Setting& setting) {
  const auto known = setting_keys(root);
  const std::string key = full_key(setting.key);
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    const bool bare = key != setting.key;
    auto names = known;
    for (const std::string& name : known) {
      if (bare && name.starts_with("params.")) names.push_back(name.substr(7));
    }
    setting.where.refuse(fmt::format("nothing in this scenario is called '{}'", setting.key),
                         suggest(setting.key, names));
  }
  setting.key = key;
  if (key.starts_with("topology.") || key.starts_with("weights.")) return;
  const bool integer = std::holds_alternative<std::int64_t>(setting.value);
  if (!integer && !key.starts_with("params.")) {
    setting.where.refuse(
        fmt::format("'{}' must be an integer, not '{}'", key, to_string(setting.value)),
        fmt::format("write --set {}=4", key));
  }
}

std::uint64_t read_seed(const TomlSection& root, const std::vector<Setting>& settings) {
  const auto checked = [](const Where& where, std::int64_t seed) {
    if (seed < 0) where.refuse(fmt::format("the seed is {}", seed), "use 0 or more");
    return static_cast<std::uint64_t>(seed);
  };
  if (const Setting* setting = find_setting(settings, "seed")) {
    return checked(setting->where, std::get<std::int64_t>(setting->value));
  }
  const TomlEntry* entry = root.find("seed");
  return entry ? checked(entry->value.where, read_integer(*entry)) : 0;
}

/// A param and a mesh dim of the same name would be ambiguous in an expression.
void check_distinct_names(const Scenario& scenario) {
  for (const ScenarioMeshDim& dim : scenario.mesh.dims) {
    for (const auto& [name, value] : scenario.params) {
      if (name == dim.name) {
        dim.where.refuse(fmt::format("'{}' is both a mesh dim and a param", name), "rename one");
      }
    }
  }
  for (const ScenarioInput& input : scenario.inputs) {
    for (const auto& [name, value] : scenario.params) {
      if (name == input.name) {
        input.where.refuse(fmt::format("'{}' is both an input and a param", name), "rename one");
      }
    }
  }
}

/// A size that is a number has no other value.
void check_dynamic(const Scenario& scenario) {
  const auto sizes = size_params(scenario);
  for (const ScenarioInput& input : scenario.inputs) {
    for (const std::int64_t dim : input.recipe.dynamic) {
      const std::string& written = input.type.written[static_cast<std::size_t>(dim)];
      const std::vector<std::string> names = names_in(written);
      const bool named = std::ranges::any_of(
          sizes, [&](const auto& size) { return std::ranges::count(names, size.first) > 0; });
      if (named) continue;
      input.where.refuse(fmt::format("dim {} of input '{}' is dynamic, and its size {} names no "
                                     "param that could be another number",
                                     dim, input.name, written),
                         fmt::format("write n in its type, and [params] n = {}",
                                     input.type.sizes[static_cast<std::size_t>(dim)]));
    }
  }
}

/// Types of values on meshes that the program makes are read where the values are known.
bool makes_meshes(const Scenario& scenario) {
  const std::string_view text = scenario.program->source->text();
  constexpr std::string_view kMakers[] = {"init_device_mesh", "DeviceMesh", "flatten("};
  return std::ranges::any_of(kMakers,
                             [&](std::string_view maker) { return text.find(maker) != text.npos; });
}

void check_types(const Scenario& scenario) {
  Arena arena;
  const MeshLayout* layout = layout_of(scenario.mesh, arena);
  for (const ScenarioInput& input : scenario.inputs) spec_of(input.type, layout);
  if (makes_meshes(scenario)) return;
  for (const ExpectedType& expected : scenario.expect.types) spec_of(expected.type, layout);
}

}  // namespace

const Setting* find_setting(const std::vector<Setting>& settings, std::string_view key) {
  const auto found = std::find_if(settings.rbegin(), settings.rend(),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == settings.rend() ? nullptr : &*found;
}

Setting parse_setting(const std::string& text) {
  const auto source = std::make_shared<const SourceText>("--set", text);
  const auto end = static_cast<std::uint32_t>(text.size());
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    refuse(*source, {0, end}, fmt::format("'{}' is not a setting", text),
           "write key=value, for example mesh.tp=4");
  }
  const std::string value = text.substr(equals + 1);
  Setting setting{text.substr(0, equals), value, {source, {0, end}}};
  const char* last = value.data() + value.size();
  std::int64_t integer = 0;
  double real = 0;
  if (const auto [stop, fault] = std::from_chars(value.data(), last, integer);
      fault == std::errc() && stop == last) {
    setting.value = integer;
  } else if (const auto [after, bad] = read_real(value.data(), last, real);
             bad == std::errc() && after == last) {
    setting.value = real;
  } else if (value == "true" || value == "false") {
    setting.value = value == "true";
  }
  return setting;
}

ScenarioFile ScenarioFile::open(const std::string& path, std::vector<Setting> settings) {
  std::string text = text_of_file(path, "give the path of a scenario, a .toml file");
  return read(std::make_shared<const SourceText>(path, std::move(text)), std::move(settings));
}

ScenarioFile ScenarioFile::read(SourcePtr file, std::vector<Setting> settings) {
  ScenarioFile out;
  out.file_ = file;
  out.root_ = read_toml(file);
  const TomlSection root = out.root();
  root.check_keys({"title", "about", "seed", "world", "mesh", "params", "matrix", "inputs",
                   "program", "expect", "topology", "rule", "planner", "weights", "reference",
                   "backend", "transport"});
  out.title_ = optional_text(root, "title");
  out.about_ = optional_text(root, "about");
  out.settings_ = std::move(settings);
  for (Setting& setting : out.settings_) check_setting(root, setting);
  out.program_ = read_program(root);
  out.reference_ = read_code(root, "reference");
  if (out.reference_) check_reference(root, *out.program_, *out.reference_);
  out.expand_matrix();
  return out;
}

void ScenarioFile::expand_matrix() {
  constexpr std::size_t kMostPoints = 100000;
  points_ = {MatrixPoint{}};
  const TomlSection root = this->root();
  const TomlEntry* entry = root.find("matrix");
  if (entry == nullptr) return;
  for (const TomlEntry& key : read_table(*entry)) {
    Setting setting{key.key, std::int64_t{0}, key.where};
    if (std::holds_alternative<TomlTable>(key.value.value)) {
      setting.where.refuse(fmt::format("a table for '{}' in [matrix]", key.key),
                           fmt::format("write \"{}.tp\" in quotes", key.key));
    }
    const auto& values = read_array(key);
    if (values.empty()) key.value.where.refuse("an empty list in [matrix]", "leave it out");
    std::vector<MatrixPoint> next;
    for (const MatrixPoint& point : points_) {
      for (const TomlValue& value : values) {
        setting.key = key.key;
        setting.value = read_literal(value, key.key);
        setting.where = value.where;
        check_setting(root, setting);
        MatrixPoint extended = point;
        extended.name += fmt::format("{}{}={}", point.name.empty() ? "" : ",", key.key,
                                     to_string(setting.value));
        extended.settings.push_back(setting);
        next.push_back(std::move(extended));
        if (next.size() > kMostPoints) {
          key.where.refuse("the matrix has more than 100000 points", "give its keys fewer values");
        }
      }
    }
    if (find_setting(settings_, setting.key) == nullptr) points_ = std::move(next);
  }
}

Scenario ScenarioFile::at(const MatrixPoint& point) const {
  const TomlSection root = this->root();
  std::vector<Setting> settings = point.settings;
  settings.insert(settings.end(), settings_.begin(), settings_.end());
  Scenario out;
  out.file = file_;
  out.title = title_;
  out.about = about_;
  out.point = point.name;
  for (const Setting& setting : settings) {
    out.settings.push_back(fmt::format("{}={}", setting.key, to_string(setting.value)));
  }
  out.program = program_;
  out.reference = reference_;
  out.seed = read_seed(root, settings);
  out.mesh = read_mesh(root, settings);
  out.world = read_world(root, out.mesh, settings);
  out.params = read_params(root, settings);
  const Environment environment = out.environment();
  out.inputs = read_inputs(root, environment);
  check_distinct_names(out);
  check_dynamic(out);
  std::vector<std::string> values;
  for (const ScenarioInput& input : out.inputs) values.push_back(input.name);
  for (std::string& name : ast::bound_names(program_->body)) values.push_back(std::move(name));
  out.expect = read_expectation(root, environment, values);
  out.topology = read_topology(root, out.mesh, settings);
  out.planner = read_planner(root);
  out.weights = read_weights(root, settings);
  if (const TomlEntry* entry = root.find("backend")) {
    static const std::vector<std::string> kBackends = {"threads", "fake"};
    out.backend = kBackends[read_choice(*entry, kBackends)];
  }
  if (const TomlEntry* entry = root.find("transport")) {
    static const std::vector<std::string> kNames = transport_names();
    out.transport = kTransports[read_choice(*entry, kNames)];
  }
  out.rules = read_rules(root);
  check_types(out);
  for (const ExpectedName& wanted : out.expect.gradients) {
    const auto input = std::find_if(out.inputs.begin(), out.inputs.end(),
                                    [&](const auto& one) { return one.name == wanted.name; });
    if (input != out.inputs.end()) input->requires_grad = true;
  }
  return out;
}

Environment Scenario::environment() const {
  Environment out = params;
  for (const ScenarioMeshDim& dim : mesh.dims) out.emplace_back(dim.name, dim.size);
  return out;
}

const MeshLayout* layout_of(const ScenarioMesh& mesh, Arena& arena) {
  MeshLayout::Init init;
  for (const ScenarioMeshDim& dim : mesh.dims) {
    init.shape.push_back(dim.size);
    init.names.push_back(dim.name);
  }
  if (mesh.ranks) init.ranks = *mesh.ranks;
  return arena.layout(std::move(init));
}

void check_names(const Scenario& scenario, const OpRegistry& registry) {
  std::vector<std::string> inputs;
  for (const ScenarioInput& input : scenario.inputs) inputs.push_back(input.name);
  check_names(*scenario.program, scenario.params, inputs, registry);
}

Scenario as_reference(const Scenario& scenario) {
  Scenario out = scenario;
  out.program = scenario.reference;
  out.reference = nullptr;
  return out;
}

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
      const auto kind = static_cast<CollectiveKind>(i);
      const bool moves_tensors = gives_tensor(kind) || kind == CollectiveKind::kBatch;
      if (moves_tensors) names.emplace_back(to_string(kind));
    }
    return names;
  }();
  return kNames;
}

}  // namespace shardlab
