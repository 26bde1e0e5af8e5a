// Everything is read off the rows: the family that added a row is found by adding the families to
// an empty registry one by one, and a derived form belongs to the family of its base op.
#include "sim/cli/ops_tables.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/fix.h"
#include "base/program_path.h"
#include "dispatch/all_ops.h"
#include "ops/register.h"
#include "schema/binder.h"
#include "schema/computation.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/files/text_lines.h"
#include "sim/proof/op_samples.h"
#include "sim/proof/sample_call.h"
#include "sim/report/rule_text.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

bool is_decomposed(const OpRow& row) { return std::holds_alternative<PartsFn>(row.compute); }

// The family that added each op, by name.
std::map<std::string, std::string> families_of_ops() {
  OpRegistry registry;
  std::map<std::string, std::string> families;
  std::size_t known = 0;
  for (const OpFamily& family : op_families()) {
    family.add(registry);
    for (; known < registry.rows().size(); ++known) {
      const OpRow& row = *registry.rows()[known];
      const bool form = row.base != nullptr && std::string_view(family.name) == "derived";
      families[row.name()] = form ? families.at(row.base->name()) : family.name;
    }
  }
  return families;
}

// src/ops, above the current folder or the program; empty where only the program is.
fs::path sources_of_ops() {
  std::error_code ignored;
  for (fs::path folder : {fs::current_path(ignored), program_path()}) {
    for (; folder.has_relative_path(); folder = folder.parent_path()) {
      if (fs::is_regular_file(folder / "src/ops/register.cpp", ignored)) return folder / "src/ops";
    }
  }
  return {};
}

// Lines of a family's source, in any wing; empty if the file is not there.
std::optional<std::size_t> lines_of(const fs::path& sources, const std::string& family) {
  if (sources.empty()) return std::nullopt;
  for (const fs::directory_entry& wing : fs::directory_iterator(sources)) {
    const fs::path file = wing.path() / (family + ".cpp");
    if (!fs::is_regular_file(file)) continue;
    const std::string text = read_text(file.string());
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }
  return std::nullopt;
}

struct FamilyCounts {
  std::size_t overloads = 0, written = 0, derived = 0, decomposed = 0;
};

std::string family_line(const std::string& name, const FamilyCounts& counts,
                        const std::string& lines) {
  return fmt::format("{:<18} {:>9} {:>8} {:>8} {:>11} {:>6}\n", name, counts.overloads,
                     counts.written, counts.derived, counts.decomposed, lines);
}

// The source of the rule of an op without a case.
std::string known_by(const OpRow& row) {
  if (row.base != nullptr) return "derived from " + row.base->name();
  if (is_decomposed(row)) return std::string("decomposed: ") + row.why;
  return "own rule: " + rule_text(row);
}

// The op whose sample call tests the row: its own, that of the op it is a form of, or one that the
// same kernel computes.
std::string sampled_by(const OpRow& row, const std::vector<const OpRow*>& sampled) {
  const auto has = [&](const OpRow* asked) {
    return std::ranges::find(sampled, asked) != sampled.end();
  };
  if (has(&row)) return "its own";
  for (const OpRow* base = row.base; base != nullptr; base = base->base) {
    if (has(base)) return base->name();
  }
  for (const OpRow* other : sampled) {
    if (row.kernel() != KernelId{} && other->kernel() == row.kernel()) return other->name();
  }
  return "none";
}

std::vector<const OpRow*> sampled_rows(const OpRegistry& registry) {
  std::vector<const OpRow*> rows;
  for (const OpSample& sample : all_samples()) rows.push_back(&registry.at(sample.op));
  return rows;
}

// An input of a sample, whole on each rank.
Argument spec_of(const SampleInput& input, const MeshLayout* layout) {
  const bool real = input.fill == Fill::kReal || input.fill == Fill::kUnit;
  const DType dtype = real ? DType::kF32 : input.fill == Fill::kBool ? DType::kBool : DType::kI64;
  return layout->arena().spec(layout, Placements{Placement::replicate()},
                              contiguous_meta(input.shape, dtype));
}

// The names in "op" of all lines of the folder's files of lines.
std::set<std::string> recorded_ops(const fs::path& folder) {
  std::set<std::string> ops;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".jsonl") && !name.ends_with(".jsonl.gz")) continue;
    for (const std::string& line : read_lines(file.path().string())) {
      if (!line.empty()) ops.insert(parsed_json(line).at("op").get<std::string>());
    }
  }
  return ops;
}

Json listed_ops(const fs::path& folder) {
  for (const char* name : {"ops.json", "ops.json.gz"}) {
    if (fs::is_regular_file(folder / name)) {
      return parsed_json(read_text((folder / name).string())).at("ops");
    }
  }
  fail(Fix{"name a folder like tests/golden/facts/propagate"}, "{} has no ops.json",
       folder.string());
}

}  // namespace

Arguments sampled_call(const OpRow& row, const MeshLayout* layout) {
  for (const OpSample& sample : all_samples()) {
    if (all_ops().find(sample.op) != &row) continue;
    Arguments args;
    const auto spec = [&](std::size_t slot) { return spec_of(sample.inputs.at(slot), layout); };
    for (const Argument& argument : sample.args) args.push_back(filled_in(argument, spec));
    return bind_arguments(row, std::move(args));
  }
  return {};
}

OpsTable families_table(const OpRegistry& registry) {
  const std::map<std::string, std::string> families = families_of_ops();
  std::map<std::string, FamilyCounts> counts;
  FamilyCounts all;
  for (const OpRow* row : registry.rows()) {
    for (FamilyCounts* sum : {&counts[families.at(row->name())], &all}) {
      ++sum->overloads;
      ++(row->base == nullptr ? sum->written : sum->derived);
      sum->decomposed += is_decomposed(*row) ? 1 : 0;
    }
  }
  const fs::path sources = sources_of_ops();
  OpsTable table{fmt::format("{:<18} overloads  written  derived  decomposed  lines\n", "family"),
                 Json::array()};
  std::size_t all_lines = 0;
  for (const auto& [name, sum] : counts) {
    const std::optional<std::size_t> lines = lines_of(sources, name);
    all_lines += lines.value_or(0);
    table.text += family_line(name, sum, lines ? fmt::format("{}", *lines) : "-");
    table.json.push_back({{"family", name},
                          {"overloads", sum.overloads},
                          {"written", sum.written},
                          {"derived", sum.derived},
                          {"decomposed", sum.decomposed},
                          {"lines", lines ? Json(*lines) : Json()}});
  }
  table.text += family_line("all", all, fmt::format("{}", all_lines));
  return table;
}

OpsTable unrecorded_table(const OpRegistry& registry, const std::string& folder) {
  const std::set<std::string> recorded = recorded_ops(folder);
  const std::vector<const OpRow*> sampled = sampled_rows(registry);
  OpsTable table{"", Json::array()};
  std::map<std::string, std::size_t> known, tried;
  for (const Json& op : listed_ops(folder)) {
    const std::string name = op.at("op").get<std::string>();
    if (recorded.contains(name)) continue;
    const OpRow* row = registry.find(name);
    const std::string rule = row == nullptr ? "not registered" : known_by(*row);
    const std::string sample = row == nullptr ? "none" : sampled_by(*row, sampled);
    ++known[rule.substr(0, rule.find_first_of(" :"))];
    ++tried[sample == "its own" || sample == "none" ? sample : "of another"];
    table.text += fmt::format("{:<52} {}; sample: {}\n", name, rule, sample);
    table.json.push_back({{"op", name}, {"rule", rule}, {"sample", sample}});
  }
  table.text += fmt::format("{} overloads without a recorded case", table.json.size());
  for (const auto& [how, count] : known) table.text += fmt::format(", {} {}", count, how);
  table.text += "; sample calls:";
  for (const auto& [whose, count] : tried) table.text += fmt::format(" {} {}", count, whose);
  table.text += "\n";
  return table;
}

}  // namespace shardlab
