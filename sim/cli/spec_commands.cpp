// show, plan and explain: questions about types, without a run.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>

#include "api/mesh.h"
#include "mesh/type_string.h"
#include "ops/register.h"
#include "plan/plan.h"
#include "propagate/propagator.h"
#include "sim/cli/commands.h"
#include "sim/report/decision_text.h"
#include "sim/report/spec_json.h"

namespace shardlab {

namespace {

const MeshLayout* parse_mesh(const std::string& text) {
  MeshLayout::Init init;
  try {
    for (MeshDim& dim : parse_mesh_dims(text)) {
      init.names.push_back(std::move(dim.name));
      init.shape.push_back(dim.size);
    }
  } catch (const Error& error) {
    throw Error(ErrorKind::kValue, "--mesh: " + error.summary())
        .with("fix", "name every dim with its size: --mesh x=2,y=3");
  }
  return process_arena().layout(std::move(init));
}

[[noreturn]] void refuse_type(const std::string& text, const Error& error, TextSpan span) {
  Error shown(error.kind(), error.summary());
  shown.with("at",
             fmt::format("{}\n{}^", text, std::string(std::min(span.offset, text.size()), ' ')));
  if (const std::string* fix = error.find("fix")) shown.with("fix", *fix);
  throw shown;
}

const DTensorSpec* parse_spec(const std::string& text, const MeshLayout* layout) {
  try {
    const ParsedType parsed = parse_type(text, *layout);
    const TensorMeta meta = contiguous_meta(parsed.shape, parsed.dtype.value_or(DType::kF32));
    return layout->arena().spec(layout, parsed.placements, parsed.order, meta);
  } catch (const TypeStringError& error) {
    refuse_type(text, error, error.span());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    refuse_type(text, error, {});
  }
}

std::string price(double us) {
  return std::isinf(us) ? "impossible" : fmt::format("{:.2f} us", us);
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string plan_text(const DTensorSpec& source, const DTensorSpec& target, PlannerKind planner) {
  PlanOptions options;
  options.planner = planner;
  const PlanResult result = make_plan(source, target, options);
  if (const auto* none = std::get_if<NoPlan>(&result)) {
    return fmt::format("{}: no plan: {}\n", to_string(planner), none->reason);
  }
  const Plan& plan = std::get<Plan>(result);
  std::string out =
      fmt::format("{}: {} steps, {}\n", to_string(planner), plan.steps.size(), plan.text());
  for (const PlanStep& step : plan.steps) {
    std::string dims;
    for (const std::size_t mesh_dim : step.mesh_dims) {
      dims += (dims.empty() ? "" : ",") + source.layout()->names()[mesh_dim];
    }
    out += fmt::format("  {}: {} -> {}{}\n", dims, to_string(step.from), to_string(step.to),
                       step.communicates() ? "" : "  (local)");
  }
  return out;
}

// A tensor argument is a type string; everything else is a number, true, false, none or [ints].
Argument parse_argument(const SchemaArgument& declared, const std::string& text,
                        const MeshLayout* layout) {
  if (text == "none" || text == "None") return {};
  if (declared.type.is_tensor()) return parse_spec(text, layout);
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (const auto dtype = parse_dtype(text)) return *dtype;
  if (text.starts_with("[")) {
    Dims values;
    const char* at = text.data() + 1;
    const char* end = text.data() + text.size();
    std::int64_t value = 0;
    while (at < end && *at != ']') {
      const auto [next, code] = std::from_chars(at, end, value);
      if (code == std::errc()) values.push_back(value);
      at = code == std::errc() ? next : at + 1;
    }
    return values;
  }
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, integer) == std::from_chars_result{end, {}}) return integer;
  double real = 0;
  if (std::from_chars(text.data(), end, real) == std::from_chars_result{end, {}}) return real;
  return text;
}

}  // namespace

int show_command(const SpecArguments& arguments) {
  const DTensorSpec* spec = parse_spec(arguments.texts.front(), parse_mesh(arguments.mesh));
  if (arguments.common.output == Output::kJson) {
    print(json_of_spec(*spec) + "\n");
  } else {
    print(draw_spec(*spec, {.color = arguments.common.stdout_color()}));
  }
  return kFine;
}

int plan_command(const SpecArguments& arguments) {
  const MeshLayout* layout = parse_mesh(arguments.mesh);
  const DTensorSpec* source = parse_spec(arguments.texts[0], layout);
  const DTensorSpec* target = parse_spec(arguments.texts[1], layout);
  if (source->meta() != target->meta()) {
    throw Error(ErrorKind::kValue, "plan: source and target differ in more than placements")
        .with("op", fmt::format("{} -> {}", type_string(*source), type_string(*target)))
        .with("fix", "give both the same dtype and sizes");
  }
  if (arguments.common.output == Output::kJson) {
    print(plans_json(*source, *target) + "\n");
    return kFine;
  }
  print(fmt::format("{} -> {} on {}, predicted {}\n", type_string(*source), type_string(*target),
                    layout->text(), price(redistribute_cost(*source, *target, {}))));
  if (source->has_default_order() && target->has_default_order()) {
    print(plan_text(*source, *target, PlannerKind::kGreedy));
  }
  print(plan_text(*source, *target, PlannerKind::kGraph));
  return kFine;
}

int explain_command(const SpecArguments& arguments) {
  OpRegistry registry;
  register_all_ops(registry);
  const MeshLayout* layout = parse_mesh(arguments.mesh);
  const OpRow& row = registry.at(arguments.texts.front());
  Arguments given;
  for (std::size_t i = 1; i < arguments.texts.size(); ++i) {
    if (i > row.op.arguments.size()) {
      throw Error(ErrorKind::kValue, fmt::format("{}: too many arguments", row.name()))
          .with("op", row.op.text());
    }
    given.push_back(parse_argument(row.op.arguments[i - 1], arguments.texts[i], layout));
  }
  OpSchema schema;
  schema.row = &row;
  schema.layout = layout;
  const Propagator propagator(registry, {});
  DecisionRecord record;
  try {
    schema.args = bind_arguments(row, std::move(given));
    record = propagator.explain(schema);
  } catch (Error& error) {
    error.with("op", schema.args.empty() ? row.op.text() : schema.text());
    error.with("mesh", layout->text());
    throw;
  }
  if (arguments.common.output == Output::kJson) {
    print(decision_json(schema, record) + "\n");
    return kFine;
  }
  print(op_text(schema, record.sharding) + "\n" + why_text(schema, record, "  "));
  return kFine;
}

}  // namespace shardlab
