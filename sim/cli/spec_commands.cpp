// show and explain: questions about types, without a run.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "ops/register.h"
#include "propagate/propagator.h"
#include "sim/cli/commands.h"
#include "sim/cli/spec_arguments.h"
#include "sim/report/decision_text.h"
#include "sim/report/spec_json.h"

namespace shardlab {

namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

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
