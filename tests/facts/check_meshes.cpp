// Programs of meshes, as each rank of a world sees them: made, cut, compared and asked by the
// functions of the language. Groups are known without other ranks, so that ranks run one after the
// other.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "comm/device_mesh.h"
#include "dispatch/all_ops.h"
#include "mesh/local_shape.h"
#include "mesh/placement.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/syntax/parser.h"
#include "sim/language/values/global_names.h"
#include "sim/world/rank_life.h"
#include "tests/facts/case_report.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/mesh_facts.h"

namespace shardlab {
namespace {

/// Groups that are known by their ranks, and never communicate.
class NamedRanks final : public Communicator {
 public:
  NamedRanks(std::vector<std::int64_t> ranks, std::int64_t own, std::string name)
      : ranks_(std::move(ranks)), own_(own), name_(std::move(name)) {}
  std::int64_t rank() const override { return std::ranges::find(ranks_, own_) - ranks_.begin(); }
  std::int64_t size() const override { return static_cast<std::int64_t>(ranks_.size()); }
  std::span<const std::int64_t> ranks() const override { return ranks_; }
  const std::string& name() const override { return name_; }
  Tensor perform(Call&) override { refuse(); }
  std::unique_ptr<Communicator> split(std::int64_t, std::int64_t, std::string) override {
    refuse();
  }
  std::unique_ptr<Communicator> along(const MeshLayout& layout,
                                      std::span<const std::size_t> mesh_dims) override {
    const auto coordinate = layout.coordinate_of(own_);
    if (!coordinate) return nullptr;
    return std::make_unique<NamedRanks>(layout.group_ranks(mesh_dims, *coordinate), own_,
                                        group_name(layout, mesh_dims));
  }
  void abort(const Error&) override {}

 private:
  [[noreturn]] static void refuse() { fail(ErrorKind::kInternal, "meshes send nothing"); }
  const std::vector<std::int64_t> ranks_;
  const std::int64_t own_;
  const std::string name_;
};

Value value_of_json(const Json& json) {
  if (json.is_null()) return {};
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return integer_of<std::int64_t>(json);
  Values items;
  for (const Json& item : json) items.push_back(value_of_json(item));
  return make_list(std::move(items));
}

Json json_of_asked(const Value& value) {
  if (value.is<std::int64_t>()) return value.as<std::int64_t>();
  if (!value.is_sequence()) return nullptr;
  Json list = Json::array();
  for (const Value& item : items_of(value)) list.push_back(json_of_asked(item));
  return list;
}

Json nested_ranks_of(const MeshLayout& layout, std::size_t dim, std::int64_t index) {
  if (dim == layout.ndim()) return layout.rank_at_index(index);
  Json list = Json::array();
  for (std::int64_t i = 0; i < layout.size(dim); ++i) {
    list.push_back(nested_ranks_of(layout, dim + 1, index * layout.size(dim) + i));
  }
  return list;
}

/// The line along `dim` of nested ranks through a coordinate, by the recorded array alone.
Json line_of(const Json& ranks, const Json& coordinate, std::size_t dim) {
  Json line = Json::array();
  std::size_t count = 0;
  const Json* at = &ranks;
  for (std::size_t d = 0; d < dim; ++d) at = &(*at)[integer_of<std::size_t>(coordinate[d])];
  count = at->size();
  for (std::size_t i = 0; i < count; ++i) {
    const Json* place = &(*at)[i];
    for (std::size_t d = dim + 1; d < coordinate.size(); ++d) {
      place = &(*place)[integer_of<std::size_t>(coordinate[d])];
    }
    line.push_back(*place);
  }
  return line;
}

bool is_error(const Json& recorded) {
  return recorded.is_object() || (recorded.is_array() && !recorded.empty() &&
                                  recorded[0].is_object() && recorded[0].contains("error"));
}

bool names_twice(const Json& step) {
  if (!step.contains("gives") || !step.at("gives").at("names").is_array()) return false;
  auto names = step.at("gives").at("names").get<std::vector<std::string>>();
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

const Json& of_rank(const Json& by_rank, std::size_t rank) {
  return by_rank.size() == 1 ? by_rank[0] : by_rank[rank];
}

/// One rank's run of a program of meshes.
class MeshProgram {
 public:
  MeshProgram(Interpreter& in, const Json& fact, std::int64_t rank, CaseReport& report)
      : in_(in), fact_(fact), rank_(static_cast<std::size_t>(rank)), report_(report) {}

  void run() {
    const Json& steps = fact_.at("steps");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      meshes_.emplace_back();
      note_order(steps[i]);
      step(i, steps[i]);
    }
    if (!fact_.contains("tensors")) return;
    for (const Json& tensor : fact_.at("tensors")) check_tensor(tensor);
  }

 private:
  Value method(const Value& object, const std::string& name, CallValues call) {
    return in_.call(in_.attribute(object, name), std::move(call));
  }

  const Value& mesh(const Json& number) const {
    const auto& found = meshes_.at(integer_of<std::size_t>(number));
    return *found;
  }

  static std::vector<std::size_t> parts_of(const Json& step) {
    if (!step.contains("of")) return {};
    if (!step.at("of").is_array()) return {integer_of<std::size_t>(step.at("of"))};
    std::vector<std::size_t> parts;
    for (const Json& number : step.at("of")) parts.push_back(integer_of<std::size_t>(number));
    return parts;
  }

  bool lacks_parts(const Json& step) const {
    return std::ranges::any_of(parts_of(step),
                               [&](std::size_t part) { return !meshes_[part].has_value(); });
  }

  void note_order(const Json& step) {
    const std::vector<std::size_t> parts = parts_of(step);
    const bool of_group = step.at("do") == "from_group" || step.at("do") == "from_groups";
    preserves_.push_back(parts.empty() ? step.value("order", Json(false)) == true
                                       : !of_group && preserves_[parts[0]]);
    sorted_.push_back(std::ranges::any_of(parts, [&](std::size_t part) { return sorted_[part]; }));
  }

  Value from_groups(const Json& step) {
    const Value& of = mesh(step.at("of"));
    const Value groups = method(of, "get_all_groups", {});
    return make({"from_group", {groups, std::string("cpu")}},
                {{"mesh", value_of_json(nested_ranks_of(*of.as<MeshValue>().reported, 0, 0))},
                 {"mesh_dim_names", value_of_json(step.at("names"))}});
  }

  Value make(std::pair<std::string, Values> call,
             std::vector<std::pair<std::string, Value>> keywords) {
    const Builtin* builtin = find_builtin(device_mesh_builtins(), call.first);
    if (builtin == nullptr) builtin = find_function(call.first);
    return builtin->run(in_, nullptr, {std::move(call.second), std::move(keywords)});
  }

  Value made(const Json& step) {
    const std::string kind = step.at("do");
    const Value cpu = std::string("cpu");
    const auto named = [&](const char* key) { return value_of_json(step.value(key, Json())); };
    if (kind == "init") {
      return make({"init_device_mesh", {cpu, named("shape")}},
                  {{"mesh_dim_names", named("names")}});
    }
    if (kind == "ranks") {
      return make({std::string(kMakeMesh), {cpu, named("mesh")}},
                  {{"mesh_dim_names", named("names")},
                   {"preserve_rank_order", step.value("order", Json(false)) == true}});
    }
    if (kind == "slice") return in_.index(mesh(step.at("of")), named("names"));
    if (kind == "flatten") return method(mesh(step.at("of")), "_flatten", {{named("name")}, {}});
    if (kind == "unflatten") {
      return method(mesh(step.at("of")), "_unflatten",
                    {{named("dim"), named("sizes"), named("names")}, {}});
    }
    if (kind == "concatenate") {
      Values of;
      for (const Json& number : step.at("of")) of.push_back(mesh(number));
      return make({"_concatenate", {make_list(std::move(of))}}, {});
    }
    if (kind == "from_group") {
      const Value group = method(mesh(step.at("of")), "get_group", {{named("dim")}, {}});
      return make({"from_group", {group, cpu}}, {{"mesh_dim_names", named("names")}});
    }
    if (kind == "from_groups") return from_groups(step);
    const Value all = method(mesh(step.at("of")), "_get_all_submeshes", {{named("name")}, {}});
    const auto index = integer_of<std::size_t>(step.at("index"));
    if (index >= items_of(all).size()) fail(ErrorKind::kValue, "list index out of range");
    return items_of(all)[index];
  }

  std::string at(std::size_t number, std::string_view field) const {
    return fmt::format("steps.{}.{} on rank {}", number, field, rank_);
  }

  void step(std::size_t number, const Json& step) {
    const bool fails = step.contains("error") || step.contains("skipped") || names_twice(step);
    const bool here_fails = step.contains("mixed") && !of_rank(step.at("mixed"), rank_).is_null();
    if (lacks_parts(step)) return;
    std::optional<Value> value;
    std::string text;
    try {
      value = made(step);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) throw;
      text = error.summary();
    }
    if (here_fails) return;  // a rank outside: any clear answer is as good
    report_.expect(at(number, "error"), fails, !value.has_value());
    if (fails || !value) {
      if (!fails) report_.differs(at(number, "refusal"), nullptr, text);
      return;
    }
    meshes_[number] = value;
    compare(number, step, *value);
  }

  void compare(std::size_t number, const Json& step, const Value& value) {
    const MeshLayout& layout = *value.as<MeshValue>().reported;
    const Json& gives = step.at("gives");
    report_.expect(at(number, "shape"), gives.at("shape"),
                   json_of_asked(in_.attribute(value, "shape")));
    report_.expect(at(number, "names"), gives.at("names"),
                   layout.named() ? Json(layout.names()) : Json());
    report_.expect(at(number, "size"), gives.at("size"), json_of_asked(method(value, "size", {})));
    report_.expect(at(number, "ndim"), gives.at("ndim"),
                   json_of_asked(in_.attribute(value, "ndim")));
    const Json& ranks = of_rank(step.at("by_rank_mesh"), rank_);
    const Json& coordinate = of_rank(step.at("by_rank_coordinate"), rank_);
    if (step.at("do") == "from_group" && !preserves_[parts_of(step)[0]] && ranks.is_array()) {
      Json own = nested_ranks_of(layout, 0, 0);
      sorted_[number] = sorted_[number] || own != ranks;
      std::sort(own.begin(), own.end());
      if (sorted_[number]) report_.expect(at(number, "sorted mesh"), ranks, own);
    }
    if (sorted_[number]) return;
    compare_equal(number, step, value);
    if (is_error(ranks) || is_error(coordinate)) return;
    report_.expect(at(number, "mesh"), ranks, nested_ranks_of(layout, 0, 0));
    report_.expect(at(number, "coordinate"), coordinate,
                   json_of_asked(method(value, "get_coordinate", {})));
    if (!coordinate.is_null()) compare_groups(number, step, value, ranks, coordinate);
  }

  void compare_groups(std::size_t number, const Json& step, const Value& value, const Json& ranks,
                      const Json& coordinate) {
    for (std::size_t dim = 0; dim < coordinate.size(); ++dim) {
      Json recorded = of_rank(step.at("by_rank_groups"), rank_)[dim];
      if (is_error(recorded)) continue;
      // The mesh's order is expected where PyTorch sorted the ranks.
      Json line = line_of(ranks, coordinate, dim);
      const auto index = static_cast<std::int64_t>(dim);
      const Value group = method(value, "get_group", {{index}, {}});
      const Json got = json_of_asked(find_builtin(group_builtins(), "get_process_group_ranks")
                                         ->run(in_, nullptr, {{group}, {}}));
      report_.expect(at(number, fmt::format("groups.{}", dim)), line, got);
      const auto real = group_of(in_, group.as<GroupValue>()).ranks();
      report_.expect(at(number, fmt::format("communicator.{}", dim)), line,
                     Json(std::vector<std::int64_t>(real.begin(), real.end())));
      std::sort(recorded.begin(), recorded.end());
      std::sort(line.begin(), line.end());
      report_.expect(at(number, fmt::format("members.{}", dim)), recorded, line);
      report_.expect(at(number, fmt::format("local_rank.{}", dim)), coordinate[dim],
                     json_of_asked(method(value, "get_local_rank", {{index}, {}})));
    }
  }

  void compare_equal(std::size_t number, const Json& step, const Value& value) {
    const Json& equals = step.contains("by_rank_equal") ? of_rank(step.at("by_rank_equal"), rank_)
                                                        : step.at("gives").at("equal");
    for (std::size_t other = 0; other < number; ++other) {
      const bool alike = preserves_[other] == preserves_[number] && !sorted_[other];
      if (!meshes_[other] || !equals.is_array() || !alike) continue;
      const bool wanted = std::ranges::find(equals, Json(other)) != equals.end();
      report_.expect(at(number, fmt::format("equal.{}", other)), wanted,
                     equal(*meshes_[other], value));
    }
  }

  void check_tensor(const Json& tensor) {
    const auto& value = meshes_.at(integer_of<std::size_t>(tensor.at("mesh")));
    const Json& recorded = of_rank(tensor.at("by_rank"), rank_);
    if (!value || is_error(recorded) || recorded.is_null()) return;
    if (sorted_[integer_of<std::size_t>(tensor.at("mesh"))]) return;
    const MeshLayout* layout = value->as<MeshValue>().layout;
    Placements placements;
    for (const Json& text : tensor.at("placements")) {
      placements.push_back(*parse_placement(text.get<std::string>()));
    }
    const DTensorSpec* spec = layout->arena().spec(
        layout, placements, contiguous_meta(dims_of(tensor.at("shape")), DType::kF32));
    const auto coordinate = layout->coordinate_of(static_cast<std::int64_t>(rank_));
    if (!coordinate) return;
    const Json got = {json_of(local_shape(*spec, *coordinate)),
                      json_of(local_offset(*spec, *coordinate))};
    report_.expect(fmt::format("tensor on step {}, rank {}", tensor.at("mesh").dump(), rank_),
                   recorded, got);
  }

  Interpreter& in_;
  const Json& fact_;
  std::size_t rank_;
  CaseReport& report_;
  std::vector<std::optional<Value>> meshes_;
  /// Indexed by step. Meshes with and without preserve_rank_order are equal here alone.
  std::vector<bool> preserves_;
  /// A mesh of a group that PyTorch sorted, or made of such a mesh, has another array than ours.
  std::vector<bool> sorted_;
};

class MeshProgramChecker final : public FactChecker {
 public:
  MeshProgramChecker()
      : program_(parse_program(std::make_shared<SourceText>("meshes", "pass\n"))) {}

  void check(const Json& fact, CaseReport& report) override {
    const auto world = integer_of<std::int64_t>(fact.at("world"));
    Arena arena;
    const MeshLayout* own = arena.layout({.shape = {world}, .names = {"ours"}, .ranks = {}});
    std::vector<std::int64_t> ranks;
    for (std::int64_t rank = 0; rank < world; ++rank) ranks.push_back(rank);
    WorldOptions options;
    options.ranks = world;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      RankLife life(options, 0, rank, nullptr, nullptr);
      const RankOutcome outcome =
          life.run([&] { return std::make_unique<NamedRanks>(ranks, rank, "world"); },
                   [&](RankContext& context) {
                     context.meshes->construct(own);
                     const Environment params;
                     Interpreter in({.program = &program_,
                                     .params = &params,
                                     .registry = &all_ops(),
                                     .layout = own,
                                     .reported = own,
                                     .rank = rank,
                                     .world_size = world});
                     in.run();
                     MeshProgram(in, fact, rank, report).run();
                   });
      if (outcome.error) {
        report.differs(fmt::format("rank {}", rank), nullptr, outcome.error->what());
      }
      if (outcome.foreign) std::rethrow_exception(outcome.foreign);
      if (!report.differences().empty()) return;
    }
  }

 private:
  const ast::Program program_;
};

}  // namespace

std::unique_ptr<FactChecker> make_mesh_program_checker(std::string_view /*stem*/) {
  return std::make_unique<MeshProgramChecker>();
}

}  // namespace shardlab
