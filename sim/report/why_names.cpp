// Values are found by the statements that name them, ops and lines by the events of the run.
#include "sim/report/why_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <span>

#include "base/text.h"
#include "schema/op_row.h"
#include "schema/torch_spelling.h"
#include "sim/report/line_reports.h"

namespace shardlab {

namespace {

bool names_op(const TraceEvent& event, const std::string& why) {
  if (event.kind != TraceEvent::Kind::kOp) return false;
  const OpDescriptor& op = event.schema.row->op;
  const std::string_view base = bare_name(op);
  return why == base || why == op.name() || why == fmt::format("{}.{}", base, op.overload);
}

// A recorded program's lines end with the place of their call: "# outer  train.py:24".
bool is_of_place(std::string_view line, std::string_view place) {
  if (place.find(".py:") == place.npos || !line.ends_with(place)) return false;
  line.remove_suffix(place.size());
  return line.ends_with(' ') || line.ends_with('/');
}

bool is_gradient(const ValueReport& value) { return value.name.ends_with(".grad"); }

// "block." of a value named inside of def block; empty at the top.
std::string_view def_of(std::string_view name) {
  const std::size_t bracket = name.find('[');
  const std::size_t dot = name.substr(0, bracket).rfind('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot + 1);
}

// The events of the statement that gave `value` its name.
void mark_statement(const ScenarioResult& result, const ValueReport& value,
                    std::vector<bool>& asked) {
  std::size_t begin = 0;
  for (const ValueReport& other : result.judgement.values) {
    if (&other == &value) break;
    if (!is_gradient(other) && def_of(other.name) == def_of(value.name)) begin = other.event;
  }
  const SourceText& source = *value.where.source;
  const int first = source.place(value.where.span.begin).line;
  const int last = source.place(value.where.span.end).line;
  const auto inside = [&](std::size_t i) {
    const TraceEvent& event = result.run.events[i];
    const int line = event.position.line;
    return event.kind != TraceEvent::Kind::kLocal && line >= first && line <= last;
  };
  const std::size_t end = std::min(value.event, result.run.events.size());
  bool any = false;
  for (std::size_t i = begin; i < end; ++i) any = any || inside(i);
  for (std::size_t i = begin; i < end; ++i) {
    if (!any || inside(i)) asked[i] = true;
  }
}

// The backward pass of the lines that name what `gradient` is of: "w" of "w.grad".
void mark_backward(const ScenarioResult& result, const ValueReport& gradient,
                   std::vector<bool>& asked) {
  const std::string name = gradient.name.substr(0, gradient.name.rfind('.'));
  const auto in_word = [](char c) { return std::isalnum(c) != 0 || c == '_'; };
  const auto is_named = [&](std::string_view line) {
    for (std::size_t at = 0; (at = line.find(name, at)) != line.npos; ++at) {
      const std::size_t end = at + name.size();
      if ((at == 0 || !in_word(line[at - 1])) && (end == line.size() || !in_word(line[end]))) {
        return true;
      }
    }
    return false;
  };
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const TraceEvent& event = result.run.events[i];
    if (event.pass != Pass::kBackward || event.position.line == 0) continue;
    if (is_named(gradient.where.source->line(event.position.line))) asked[i] = true;
  }
}

struct Names {
  std::vector<std::string> ops, lines, values;

  explicit Names(const ScenarioResult& result) {
    std::set<std::string> bases, named;
    std::set<int> numbers;
    for (const TraceEvent& event : result.run.events) {
      if (event.kind != TraceEvent::Kind::kOp) continue;
      bases.emplace(bare_name(event.schema.row->op));
      numbers.insert(event.position.line);
    }
    for (const ValueReport& value : result.judgement.values) named.insert(value.name);
    ops.assign(bases.begin(), bases.end());
    values.assign(named.begin(), named.end());
    for (const int number : numbers) lines.push_back(std::to_string(number));
  }

  std::string listed() const {
    constexpr std::size_t kShown = 12;
    std::vector<std::string> shown;
    const auto list = [&](std::string_view title, const std::vector<std::string>& names) {
      if (names.empty()) return;
      const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown));
      shown.push_back(fmt::format("{} {}{}", title,
                                  text_of_list(std::span(names.begin(), end), ", "),
                                  names.size() > kShown ? ", ..." : ""));
    };
    list("ops", ops);
    list("lines", lines);
    list("values", values);
    return shown.empty() ? "the run has no op on a distributed tensor"
                         : fmt::format("{}; or all", text_of_list(shown, "; "));
  }
};

std::string nearest_names(const Names& names, const std::string& why) {
  std::vector<std::string> all = names.values;
  all.insert(all.end(), names.ops.begin(), names.ops.end());
  const auto near = nearest(why, all);
  return (near ? fmt::format("did you mean '{}'? ", *near) : "") + names.listed();
}

}  // namespace

std::vector<bool> asked_about(const ScenarioResult& result, const std::string& why) {
  std::vector<bool> asked(result.run.events.size());
  if (why.empty()) return asked;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const TraceEvent& event = result.run.events[i];
    const int line = event.position.line;
    asked[i] = why == "all" || why == std::to_string(line) || names_op(event, why) ||
               (line > 0 && is_of_place(result.run.scenario.program->source->line(line), why));
  }
  for (const ValueReport& value : result.judgement.values) {
    if (value.name != why || !value.where.source) continue;
    is_gradient(value) ? mark_backward(result, value, asked) : mark_statement(result, value, asked);
  }
  return asked;
}

std::optional<Error> nothing_asked(const ScenarioResult& result, const std::string& why) {
  if (why.empty() || why == "all") return std::nullopt;
  const std::vector<bool> asked = asked_about(result, why);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] && result.run.events[i].kind == TraceEvent::Kind::kOp) return std::nullopt;
  }
  const Names names(result);
  const bool input =
      std::ranges::find(result.run.inputs, why, &InputReport::name) != result.run.inputs.end();
  const auto value = std::ranges::find(result.judgement.values, why, &ValueReport::name);
  std::string problem = "the run has no op, line or value of that name";
  std::string fix = nearest_names(names, why);
  if (value != result.judgement.values.end() && is_gradient(*value)) {
    problem = "a gradient is the sum of what many ops of the backward pass give";
    fix = "name one of them, or its line: " + names.listed();
  } else if (value != result.judgement.values.end()) {
    problem = "no op on a distributed tensor made this value";
    fix = names.listed();
  } else if (input) {
    problem = "an input is given, and no op made it";
    fix = "name an op that takes it, or its line: " + names.listed();
  }
  return Error(ErrorKind::kValue, fmt::format("--why {}: {}", why, problem)).with("fix", fix);
}

std::optional<Error> nothing_on_line(const ScenarioResult& result, int line) {
  if (line == 0) return std::nullopt;
  std::set<int> numbers;
  for (const TraceEvent& event : result.run.events) numbers.insert(event.position.line);
  for (const ValueReport& value : result.judgement.values) {
    if (!is_gradient(value)) numbers.insert(line_of(result.run, value));
  }
  if (numbers.contains(line)) return std::nullopt;
  numbers.erase(0);
  return Error(ErrorKind::kValue, fmt::format("--line {}: the run did nothing there", line))
      .with("fix",
            numbers.empty()
                ? std::string("it did nothing on any line")
                : fmt::format("lines {}",
                              text_of_list(std::vector(numbers.begin(), numbers.end()), ", ")));
}

}  // namespace shardlab
