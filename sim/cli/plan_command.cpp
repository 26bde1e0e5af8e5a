// plan: the plans of every planner from one type to another, without a run.
#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "mesh/type_string.h"
#include "plan/planner_name.h"
#include "redistribute/between_meshes.h"
#include "sim/cli/commands.h"
#include "sim/cli/spec_arguments.h"
#include "sim/files/json_value.h"
#include "sim/report/plan_report.h"

namespace shardlab {
namespace {

[[noreturn]] void refuse(std::string_view option, std::string_view text, std::string_view fix) {
  fail(Fix{std::string(fix)}, "{}: can't read \"{}\"", option, text);
}

std::size_t dim_of(std::string_view option, const std::string& name, const MeshLayout& layout) {
  if (const auto dim = layout.find_dim(name)) return *dim;
  throw Error(ErrorKind::kValue, fmt::format("{}: the mesh has no dim '{}'", option, name))
      .with("mesh", layout.text())
      .with("fix", suggest(name, layout.names()));
}

void add_link(Topology& topology, const std::string& text, const MeshLayout& layout) {
  const LinkArgument link = parse_link(text);
  dim_of("--link", link.dim, layout);
  topology.links[link.dim] = {link.gbps, link.us};
}

std::uint32_t flattened_mask(const std::string& text, const MeshLayout& layout) {
  std::uint32_t mask = 0;
  for (const std::string_view dim : parts_of_text(text, ",")) {
    mask |= 1u << dim_of("--flatten", std::string(dim), layout);
  }
  return mask;
}

std::optional<PlannerKind> planner_of(const std::string& name) {
  const auto planner = parse_planner(name);
  if (!planner && !name.empty()) refuse("planner", name, "greedy, graph or bytes");
  return planner;
}

PlanRules rules_of(const std::string& name) {
  if (name == "seed") return PlanRules::kSeed;
  if (name != "2.15") refuse("rules", name, "2.15 or seed");
  return PlanRules::kV2_15;
}

PlanReport answer(const PlanArguments& arguments, const std::string& source,
                  const std::string& target, const std::string& mesh) {
  const MeshLayout* layout = parse_mesh(mesh);
  PlanOptions options;
  options.planner = planner_of(arguments.planner);
  options.rules = rules_of(arguments.rules);
  options.budget = arguments.budget;
  options.topology.devices_per_host = arguments.devices_per_host;
  for (const std::string& link : arguments.links) add_link(options.topology, link, *layout);
  for (const std::string& dims : arguments.flatten) {
    options.flattened.push_back(flattened_mask(dims, *layout));
  }
  const DTensorSpec& from = *parse_spec(source, layout);
  return report_plans(from, *parse_spec(target, layout), options);
}

/// One line of a batch: its answer, or {"error": text}.
std::string batch_line(PlanArguments arguments, const std::string& line, bool& failed) {
  try {
    const Json question = parsed_json(line);
    arguments.planner = question.value("planner", arguments.planner);
    arguments.rules = question.value("rules", arguments.rules);
    arguments.budget = integer_or(question, "budget", arguments.budget);
    return plan_report_json(
        answer(arguments, question.at("source"), question.at("target"), question.at("mesh")));
  } catch (const Error& error) {
    failed = true;
    return json_line(Json({{"error", error.summary()}}));
  } catch (const Json::exception& error) {
    failed = true;
    return json_line(Json({{"error", std::string("not a question: ") + error.what()}}));
  }
}

int answer_batch(const PlanArguments& arguments) {
  std::ifstream file;
  if (arguments.batch != "-") {
    file.open(arguments.batch);
    if (!file) {
      fail(Fix{"give the path of a file that is there, or - for the standard input"},
           "plan: {} cannot be read", arguments.batch);
    }
  }
  std::istream& input = arguments.batch == "-" ? std::cin : file;
  bool failed = false;
  for (std::string line; std::getline(input, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    print_text(batch_line(arguments, line, failed) + "\n");
  }
  return failed ? kFailed : kFine;
}

// Between two meshes each rank receives what it lacks, once: no plan receives less.
int answer_between(const PlanArguments& arguments) {
  if (arguments.texts.size() != 2 || arguments.from_mesh.empty()) {
    throw Error(ErrorKind::kValue, "plan: --to-mesh needs --from-mesh, a source and a target")
        .with("fix", "shardlab plan \"f32[8@x]\" \"f32[8@y]\" --from-mesh x=4 --to-mesh y=2");
  }
  const DTensorSpec& from = *parse_spec(arguments.texts[0], parse_mesh(arguments.from_mesh));
  const DTensorSpec& to = *parse_spec(arguments.texts[1], parse_mesh(arguments.to_mesh));
  if (from.shape() != to.shape() || from.dtype() != to.dtype()) {
    throw Error(ErrorKind::kValue, "plan: source and target have other sizes or dtypes")
        .with("fix", "give one tensor, cut in two ways");
  }
  const MoveCost cost = cost_between(from, to);
  const double bytes = cost.most_bytes;
  const auto fine = gathered_on_refinement(from, to);
  if (arguments.common.json) {
    print_text(json_line(Json({{"source", type_string(from)},
                               {"target", type_string(to)},
                               {"bound_bytes", bytes},
                               {"received_bytes", bytes},
                               {"messages", fine ? 0 : cost.messages}})) +
               "\n");
    return kFine;
  }
  print_text(fmt::format("{} -> {}  on {} -> {}\n", type_string(from), type_string(to),
                         from.layout()->text(), to.layout()->text()));
  if (from.has_partial()) print_text("first: the pending reduction, on the source's mesh\n");
  print_text(fmt::format("every plan: some rank receives {} or more\n", bytes_text(bytes)));
  if (cost.messages == 0) {
    print_text("the move: no message, each rank has its new piece\n");
  } else if (fine) {
    PlanCache plans{PlanOptions{}};
    print_text(fmt::format("the move: {} on {}, their refinement; each rank receives {} at most\n",
                           plans.find(fine->first, fine->second)->text(),
                           fine->first->layout()->text(), bytes_text(bytes)));
  } else {
    print_text(
        fmt::format("the move: {} messages of {}; each rank receives what it lacks, {} at most\n",
                    cost.messages, bytes_text(cost.all_bytes), bytes_text(bytes)));
  }
  if (to.has_partial()) print_text("last: the terms, on the target's mesh\n");
  return kFine;
}

}  // namespace

int plan_command(const PlanArguments& arguments) {
  if (!arguments.batch.empty()) return answer_batch(arguments);
  if (!arguments.to_mesh.empty()) return answer_between(arguments);
  if (arguments.texts.size() != 2 || arguments.mesh.empty()) {
    fail(Fix{"shardlab plan \"f32[8@x]\" \"f32[8]\" --mesh x=4"},
         "plan: name a source, a target and --mesh, or --batch FILE");
  }
  const PlanReport report =
      answer(arguments, arguments.texts[0], arguments.texts[1], arguments.mesh);
  if (arguments.common.json) {
    print_text(plan_report_json(report) + "\n");
    return kFine;
  }
  print_text(plan_report_text(report, arguments.draw ? Drawings::kOn : Drawings::kOff,
                              {.color = arguments.common.stdout_color()}));
  return kFine;
}

}  // namespace shardlab
