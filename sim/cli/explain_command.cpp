// explain: one call, asked about without a run. A call that one decision answers is asked of the
// propagator. An op that others make up, and torch's spellings, become a program of one line, which
// runs on a shape-only mesh: its calls are those that a scenario would make.
#include <charconv>

#include "base/error.h"
#include "base/read_real.h"
#include "base/text.h"
#include "base/torch_dtype.h"
#include "dispatch/all_ops.h"
#include "mesh/type_string.h"
#include "ops/torch/torch_names.h"
#include "propagate/propagator.h"
#include "schema/binder.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/cli/commands.h"
#include "sim/cli/spec_arguments.h"
#include "sim/judge/scenario_run.h"
#include "sim/language/values/builtin.h"
#include "sim/report/decision_text.h"
#include "sim/report/run_text.h"
#include "sim/report/spec_json.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {

namespace {

constexpr std::string_view kOnMesh = " on ";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// "f32[8@x, 4]".
bool is_type(const std::string& text) {
  const std::size_t bracket = text.find('[');
  return bracket != std::string::npos && bracket > 0 &&
         parse_written_dtype(text.substr(0, bracket));
}

// The elements of "[a, b[c, d]]"; none where the text is not a list.
std::optional<std::vector<std::string>> list_of(const std::string& text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  std::vector<std::string> elements;
  std::string element;
  int depth = 0;
  const auto take = [&] {
    if (!trimmed(element).empty()) elements.emplace_back(trimmed(element));
    element.clear();
  };
  for (const char letter : std::string_view(text).substr(1, text.size() - 2)) {
    depth += (letter == '[' || letter == '(' || letter == '{') ? 1 : 0;
    depth -= (letter == ']' || letter == ')' || letter == '}') ? 1 : 0;
    if (letter == ',' && depth == 0) {
      take();
    } else {
      element += letter;
    }
  }
  take();
  return elements;
}

std::optional<std::int64_t> integer_of(const std::string& text) {
  std::int64_t integer = 0;
  const char* end = text.data() + text.size();
  const bool whole = std::from_chars(text.data(), end, integer) == std::from_chars_result{end, {}};
  return whole ? std::optional(integer) : std::nullopt;
}

std::optional<double> real_of(const std::string& text) {
  double real = 0;
  const char* end = text.data() + text.size();
  const bool whole = read_real(text.data(), end, real) == std::from_chars_result{end, {}};
  return whole ? std::optional(real) : std::nullopt;
}

// A tensor argument is a type string, or a list of them; everything else is a number, true, false,
// none or [ints].
Argument parse_argument(const SchemaArgument& declared, const std::string& text,
                        const MeshLayout* layout) {
  if (text == "none" || text == "None") return {};
  const auto elements = list_of(text);
  if (declared.type.is_tensor() && declared.type.is_list && elements) {
    ArgumentList list;
    for (const std::string& element : *elements) {
      list.push_back(element == "none" || element == "None" ? Argument()
                                                            : parse_spec(element, layout));
    }
    return list;
  }
  if (declared.type.is_tensor()) return parse_spec(text, layout);
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  if (const auto dtype = parse_written_dtype(text)) return *dtype;
  if (elements) {
    Dims values;
    for (const std::string& element : *elements) {
      const auto value = integer_of(element);
      if (!value) return text;
      values.push_back(*value);
    }
    return values;
  }
  if (const auto integer = integer_of(text)) return *integer;
  if (const auto real = real_of(text)) return *real;
  return text;
}

// One decision answers the call: neither do other ops make it up, nor does a handler.
bool is_one_decision(const OpRow& row) {
  return row.parts() == nullptr && !std::holds_alternative<Handler>(row.compute) &&
         !std::holds_alternative<NoRule>(row.rule);
}

int explain_row(const OpRow& row, const OpRegistry& registry, const MeshLayout* layout,
                const SpecArguments& arguments) {
  Arguments given;
  for (std::size_t i = 1; i < arguments.texts.size(); ++i) {
    if (i > row.op.arguments.size()) {
      throw Error(ErrorKind::kValue, fmt::format("{}: too many arguments", row.name()))
          .with("op", row.op.text())
          .with("fix", "give at most one text per argument of the op");
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
  if (arguments.common.json) {
    print_text(decision_json(schema, record) + "\n");
    return kFine;
  }
  print_text(op_text(schema, record.sharding) + "\n" + why_text(schema, record, "  "));
  return kFine;
}

// A scenario whose program is one call.
class OneCall {
 public:
  OneCall(const MeshLayout* layout, std::string function)
      : layout_(layout), call_(std::move(function) + "("), world_(layout->size()) {}

  void add(const std::string& text) {
    const std::size_t equals = text.find('=');
    const bool keyword = equals != std::string::npos && is_name(text.substr(0, equals));
    if (!first_) call_ += ", ";
    first_ = false;
    call_ += keyword ? text.substr(0, equals + 1) + value(text.substr(equals + 1)) : value(text);
  }

  Scenario scenario() const {
    std::string text = fmt::format("world = {}\n[mesh]\n", world_);
    for (std::size_t dim = 0; dim < layout_->ndim(); ++dim) {
      text += fmt::format("{} = {}\n", layout_->names()[dim], layout_->size(dim));
    }
    text += inputs_ + "[program]\ncode = '''\n" + placed_ + "result = " + call_ + ")\n'''\n";
    const auto source = std::make_shared<const SourceText>("explain", text);
    return ScenarioFile::read(source, {}).first();
  }

 private:
  static bool is_name(std::string_view text) {
    static constexpr std::string_view kLetters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos;
  }

  std::string value(const std::string& text) {
    if (text == "true" || text == "True") return "True";
    if (text == "false" || text == "False") return "False";
    if (text == "none" || text == "None") return "None";
    if (is_type(text)) return input(text);
    if (const auto elements = list_of(text)) {
      std::vector<std::string> values;
      for (const std::string& element : *elements) values.push_back(value(element));
      return fmt::format("[{}]", text_of_list(values, ", "));
    }
    if (integer_of(text) || real_of(text) || parse_written_dtype(text)) return text;
    if (!is_name(text)) {
      fail(Fix{"write a type (f32[8@x, 4]), a list of them, a number, true, false or none"},
           "'{}' is neither a type nor a value", text);
    }
    return fmt::format("\"{}\"", text);
  }

  std::string input(const std::string& given) {
    const std::size_t on = std::min(given.find(kOnMesh), given.size());
    std::string text = given.substr(0, on);
    if (on < given.size()) {
      const std::string mesh = given.substr(on + kOnMesh.size());
      const DTensorSpec& spec = *parse_spec(text, parse_mesh(mesh));
      text = type_string(spec.meta());
      place(spec);
    }
    parse_spec(text, layout_);
    const std::string name = fmt::format("input_{}", count_++);
    inputs_ += count_ == 1 ? "[inputs]\n" : "";
    inputs_ += fmt::format("{} = {{ type = \"{}\", init = \"zeros\" }}\n", name, text);
    return name;
  }

  // The next input is moved from all ranks to its own mesh, which equal texts make once.
  void place(const DTensorSpec& spec) {
    const MeshLayout& mesh = *spec.layout();
    world_ = std::max(world_, mesh.size());
    std::vector<std::string> names, placements;
    for (std::size_t dim = 0; dim < mesh.ndim(); ++dim) {
      names.push_back(fmt::format("\"{}\"", mesh.names()[dim]));
      placements.push_back(to_string(spec.placement(dim)));
    }
    placed_ += fmt::format(
        "input_{0} = distribute_tensor(input_{0}, init_device_mesh(\"cpu\", ({1},), "
        "mesh_dim_names=({2},)), [{3}])\n",
        count_, text_of_list(mesh.shape(), ", "), text_of_list(names, ", "),
        text_of_list(placements, ", "));
  }

  const MeshLayout* layout_;
  std::string call_, inputs_, placed_;
  std::int64_t world_;
  int count_ = 0;
  bool first_ = true;
};

// The error of the call, without the places in a program that the user did not write.
Error without_places(const Error& error) {
  Error shown(error.kind(), error.summary());
  for (const auto& [key, value] : error.parts()) {
    if (key != "at" && key != "excerpt" && key != "failed") shown.with(key, value);
  }
  return shown;
}

std::string result_types(const ScenarioResult& result) {
  std::string types;
  for (const ValueReport& value : result.judgement.values) {
    if (!value.name.starts_with("result")) continue;
    types += (types.empty() ? "" : ", ") + value.type;
  }
  return types;
}

// "f32[8@ep] on efsdp=2,ep=4" beside others: a call on two meshes is a program.
bool on_other_mesh(const std::vector<std::string>& texts) {
  return std::ranges::any_of(texts, [](const std::string& text) {
    return is_type(text) && text.find(kOnMesh) != text.npos;
  });
}

int explain_program(const std::string& function, const OpRegistry& registry,
                    const MeshLayout* layout, const SpecArguments& arguments) {
  OneCall call(layout, function);
  for (std::size_t i = 1; i < arguments.texts.size(); ++i) call.add(arguments.texts[i]);
  ScenarioOptions options;
  options.backend = "fake";
  ScenarioResult result;
  try {
    result = run_scenario(call.scenario(), registry, options);
  } catch (const Error& error) {
    throw without_places(error);
  }
  if (result.run.error) throw without_places(*result.run.error);
  if (arguments.common.json) {
    print_text(calls_json(result, arguments.texts.front()) + "\n");
    return kFine;
  }
  const auto ops = std::ranges::count(result.run.events, TraceEvent::Kind::kOp, &TraceEvent::kind);
  print_text(fmt::format("{} gives {}, by {} in this order:\n{}", arguments.texts.front(),
                         result_types(result), ops == 1 ? "1 op" : fmt::format("{} ops", ops),
                         calls_text(result, arguments.common.stdout_color())));
  return kFine;
}

}  // namespace

int explain_command(const SpecArguments& given) {
  SpecArguments arguments = given;
  for (std::string& text : arguments.texts) text = fmt::format("{}", trimmed(text));
  const OpRegistry& registry = all_ops();
  const MeshLayout* layout = parse_mesh(arguments.mesh);
  const std::string& name = arguments.texts.front();
  const bool of_torch = name.starts_with("F.") || name.starts_with("torch.");
  if (of_torch) return explain_program(name, registry, layout, arguments);
  const OpRow* row = registry.find(name);
  const auto overloads = registry.overloads(name);
  const bool made_up = std::ranges::none_of(
      overloads, [](const OpRow* overload) { return is_one_decision(*overload); });
  if (row == nullptr && made_up && is_torch_name(registry, name)) {
    return explain_program(name, registry, layout, arguments);
  }
  if (row == nullptr) row = &registry.at(name);
  if (is_one_decision(*row) && !on_other_mesh(arguments.texts)) {
    return explain_row(*row, registry, layout, arguments);
  }
  const std::string overload = row->op.overload.empty() ? "default" : row->op.overload;
  return explain_program(fmt::format("aten.{}.{}", bare_name(row->op), overload), registry, layout,
                         arguments);
}

}  // namespace shardlab
