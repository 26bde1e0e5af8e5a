// [mesh], world, [params], [topology], [weights], and the memory that a mesh would take.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "mesh/mesh_layout.h"
#include "sim/language/syntax/parser.h"
#include "sim/scenario/scenario_parts.h"

namespace shardlab {

namespace {

ScenarioMeshDim mesh_dim(const TomlEntry& entry, const std::vector<Setting>& settings) {
  check_identifier(entry.where, entry.key, "a mesh dim");
  ScenarioMeshDim dim{entry.key, read_integer(entry), entry.value.where};
  if (const Setting* setting = find_setting(settings, "mesh." + entry.key)) {
    dim.size = std::get<std::int64_t>(setting->value);
    dim.where = setting->where;
  }
  if (dim.size < 1) {
    dim.where.refuse(fmt::format("mesh dim '{}' has size {}", dim.name, dim.size),
                     "a mesh dim has at least one rank");
  }
  return dim;
}

// Flattens ranks = [[0, 1], [2, 3]] and checks that it is shaped like the mesh.
void read_ranks(const TomlValue& value, const ScenarioMesh& shape, std::size_t depth,
                std::vector<std::int64_t>& out) {
  const auto* items = std::get_if<std::vector<TomlValue>>(&value.value);
  if (depth == shape.dims.size()) {
    const auto* rank = std::get_if<std::int64_t>(&value.value);
    if (rank == nullptr) refuse_kind(value, "ranks", "a rank");
    if (*rank < 0) {
      value.where.refuse(fmt::format("rank {} does not exist", *rank),
                         "ranks are numbered from 0 on");
    }
    if (*rank == std::numeric_limits<std::int64_t>::max()) {
      value.where.refuse(fmt::format("rank {} is too large", *rank),
                         "name ranks below the size of the world");
    }
    if (std::find(out.begin(), out.end(), *rank) != out.end()) {
      value.where.refuse(fmt::format("rank {} is in the mesh twice", *rank),
                         "give every place of the mesh a rank of its own");
    }
    out.push_back(*rank);
    return;
  }
  const ScenarioMeshDim& dim = shape.dims[depth];
  if (items == nullptr) refuse_kind(value, "ranks", "an array nested like the mesh");
  if (static_cast<std::int64_t>(items->size()) != dim.size) {
    value.where.refuse(
        fmt::format("{} entries along mesh dim '{}' of size {}", items->size(), dim.name, dim.size),
        "nest ranks like the mesh, first mesh dim outermost");
  }
  for (const TomlValue& item : *items) read_ranks(item, shape, depth + 1, out);
}

}  // namespace

std::vector<ScenarioRule> read_rules(const TomlSection& root) {
  std::vector<ScenarioRule> rules;
  const TomlEntry* entry = root.find("rule");
  if (entry == nullptr) return rules;
  if (std::holds_alternative<TomlTable>(entry->value.value)) {
    entry->value.where.refuse("'rule' is one table; there may be several rules",
                              "write [[rule]], in two brackets");
  }
  for (const TomlValue& item : read_array(*entry)) {
    const auto* table = std::get_if<TomlTable>(&item.value);
    if (table == nullptr) refuse_kind(item, "rule", "a table: [[rule]]");
    const TomlSection section{item.where, "[[rule]]", table};
    section.check_keys({"op", "rule", "local"});
    const TomlEntry *op = section.find("op"), *rule = section.find("rule");
    const TomlEntry* local = section.find("local");
    if (op == nullptr || rule == nullptr) {
      item.where.refuse("[[rule]] needs op and rule",
                        "for example op = \"linear\" and rule = \"bk,nk->bn\"");
    }
    rules.push_back({.op = read_text(*op)->text(),
                     .rule = read_text(*rule)->text(),
                     .op_where = op->value.where,
                     .where = rule->value.where});
    if (local == nullptr) continue;
    rules.back().local = std::make_shared<const ast::Program>(parse_program(read_text(*local)));
  }
  return rules;
}

ScenarioMesh read_mesh(const TomlSection& root, const std::vector<Setting>& settings) {
  const auto mesh = root.section("mesh");
  if (!mesh) root.where.refuse("a scenario without [mesh]", "add [mesh] with tp = 2");
  ScenarioMesh out;
  double exact = 1;
  for (const TomlEntry& dim : *mesh->table) {
    if (dim.key == "ranks") continue;
    out.dims.push_back(mesh_dim(dim, settings));
    exact *= static_cast<double>(out.dims.back().size);
    if (__builtin_mul_overflow(out.size, out.dims.back().size, &out.size)) {
      out.dims.back().where.refuse(fmt::format("a mesh of {:.3g} ranks", exact), "make it smaller");
    }
  }
  if (out.dims.size() > kMostMeshDims) {
    out.dims[kMostMeshDims].where.refuse(
        fmt::format("a mesh of {} dims; the most are {}", out.dims.size(), kMostMeshDims),
        "join dims that tensors are always cut along together");
  }
  if (out.dims.empty()) mesh->where.refuse("[mesh] without a mesh dim", "add tp = 2");
  if (const TomlEntry* ranks = mesh->find("ranks")) {
    out.ranks.emplace();
    read_ranks(ranks->value, out, 0, *out.ranks);
  }
  return out;
}

std::int64_t read_world(const TomlSection& root, const ScenarioMesh& mesh,
                        const std::vector<Setting>& settings) {
  const std::int64_t needed =
      mesh.ranks ? *std::max_element(mesh.ranks->begin(), mesh.ranks->end()) + 1 : mesh.size;
  const TomlEntry* entry = root.find("world");
  const Setting* setting = find_setting(settings, "world");
  if (entry == nullptr && setting == nullptr) return needed;
  const Where where = setting ? setting->where : entry->value.where;
  const std::int64_t world =
      setting ? std::get<std::int64_t>(setting->value) : read_integer(*entry);
  if (world < needed) {
    where.refuse(fmt::format("the mesh needs {} ranks and the world has {}", needed, world),
                 fmt::format("use world = {} or more", needed));
  }
  return world;
}

std::vector<std::pair<std::string, Literal>> read_params(const TomlSection& root,
                                                         const std::vector<Setting>& settings) {
  std::vector<std::pair<std::string, Literal>> out;
  const TomlEntry* entry = root.find("params");
  if (entry == nullptr) return out;
  for (const TomlEntry& param : read_table(*entry)) {
    check_identifier(param.where, param.key, "a param");
    Literal value = read_literal(param.value, param.key);
    if (const Setting* setting = find_setting(settings, "params." + param.key)) {
      const bool text = std::holds_alternative<std::string>(value);
      if (text != std::holds_alternative<std::string>(setting->value)) {
        setting->where.refuse(
            fmt::format("'{}' must be {}, not '{}'", param.key, text ? "a string" : "a number",
                        to_string(setting->value)),
            fmt::format("write --set {}={}", param.key, text ? "text" : "4"));
      }
      value = setting->value;
    }
    out.emplace_back(param.key, std::move(value));
  }
  return out;
}

namespace {

// The links of mesh dims that the file gives.
std::vector<TopologyDim> written_links(const TomlSection& root,
                                       const std::vector<std::string>& names) {
  std::vector<TopologyDim> out;
  const auto topology = root.section("topology");
  if (!topology) return out;
  topology->check_keys(names);
  for (const TomlEntry& dim : *topology->table) {
    const TomlSection link = section_of(dim, fmt::format("[topology] {}", dim.key));
    link.check_keys({"gbps", "us"});
    TopologyDim found{dim.key, {}, {}};
    for (const TomlEntry& figure : *link.table) {
      const double value = to_double(read_number(figure));
      if (!(value > 0)) {
        figure.value.where.refuse(fmt::format("{} must be positive", figure.key),
                                  "give a number above 0");
      }
      (figure.key == "gbps" ? found.gbps : found.us) = value;
    }
    out.push_back(found);
  }
  return out;
}

// The number of a setting; `otherwise` for texts and flags.
double number_of(const Setting& setting, double otherwise) {
  if (const auto* integer = std::get_if<std::int64_t>(&setting.value)) {
    return static_cast<double>(*integer);
  }
  const auto* real = std::get_if<double>(&setting.value);
  return real != nullptr ? *real : otherwise;
}

// The figure of a link that --set gives; none: it gives none.
std::optional<double> set_figure(const std::vector<Setting>& settings, const std::string& key) {
  const Setting* setting = find_setting(settings, key);
  if (setting == nullptr) return std::nullopt;
  if (const double value = number_of(*setting, 0); value > 0) return value;
  setting->where.refuse(fmt::format("'{}' must be a number above 0", key),
                        fmt::format("write --set {}=25", key));
}

// The weight that --set or the file gives. Empty if neither does.
std::optional<double> weight_of(const std::optional<TomlSection>& section,
                                const std::vector<Setting>& settings, std::string_view kind) {
  const auto checked = [&](const Where& where, double value) {
    if (value >= 0 && std::isfinite(value)) return value;
    where.refuse(fmt::format("the weight of {} must not be negative", kind),
                 "give a number of 0 and more");
  };
  const std::string key = fmt::format("weights.{}", kind);
  if (const Setting* setting = find_setting(settings, key)) {
    return checked(setting->where, number_of(*setting, -1));
  }
  const TomlEntry* entry = section ? section->find(kind) : nullptr;
  if (entry == nullptr) return std::nullopt;
  return checked(entry->value.where, to_double(read_number(*entry)));
}

}  // namespace

std::vector<TopologyDim> read_topology(const TomlSection& root, const ScenarioMesh& mesh,
                                       const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  for (const ScenarioMeshDim& dim : mesh.dims) names.push_back(dim.name);
  std::vector<TopologyDim> links = written_links(root, names);
  for (const std::string& name : names) {
    const auto gbps = set_figure(settings, fmt::format("topology.{}.gbps", name));
    const auto us = set_figure(settings, fmt::format("topology.{}.us", name));
    if (!gbps && !us) continue;
    auto link = std::ranges::find(links, name, &TopologyDim::mesh_dim);
    if (link == links.end()) link = links.insert(links.end(), {name, {}, {}});
    if (gbps) link->gbps = gbps;
    if (us) link->us = us;
  }
  return links;
}

std::optional<StepWeights> read_weights(const TomlSection& root,
                                        const std::vector<Setting>& settings) {
  const auto section = root.section("weights");
  const bool set = std::ranges::any_of(
      settings, [](const Setting& setting) { return setting.key.starts_with("weights."); });
  if (!section && !set) return std::nullopt;
  if (section) section->check_keys({kWeighted.begin(), kWeighted.end()});
  StepWeights weights;
  double* const meant[] = {&weights.all_to_all, &weights.all_gather, &weights.reduce_scatter,
                           &weights.all_reduce};
  for (std::size_t i = 0; i < kWeighted.size(); ++i) {
    const auto written = weight_of(section, settings, kWeighted[i]);
    if (written) *meant[i] = *written;
  }
  return weights;
}

void check_memory(const Scenario& scenario, const MemoryLimits& limits) {
  const auto bytes_of_one = static_cast<double>(limits.bytes_per_rank);
  const double needed = static_cast<double>(scenario.world) * bytes_of_one;
  const auto fits = limits.available_bytes / limits.bytes_per_rank;
  if (needed <= static_cast<double>(limits.available_bytes)) return;
  const auto largest = std::max_element(
      scenario.mesh.dims.begin(), scenario.mesh.dims.end(),
      [](const ScenarioMeshDim& a, const ScenarioMeshDim& b) { return a.size < b.size; });
  largest->where.refuse(
      fmt::format("{} ranks would take {} before they hold any data; {} are available",
                  scenario.world, bytes_text(needed),
                  bytes_text(static_cast<double>(limits.available_bytes))),
      fits == 0 ? "allow at least what one rank takes: " + bytes_text(bytes_of_one)
                : fmt::format("use at most {} rank{}", fits, fits == 1 ? "" : "s"));
}

}  // namespace shardlab
