// A name is thought to be what was moved if it has that type and a line that moved it reads it: the
// record of a move has no name.
#include "sim/report/moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "mesh/type_string.h"
#include "sim/report/collective_sums.h"

namespace shardlab {

std::vector<Moves> moves_of(const Run& run) {
  std::vector<Moves> all;
  for (std::size_t i = 0; i < run.events.size(); ++i) {
    const TraceEvent& event = run.events[i];
    const RedistributionRecord& record = event.redistribution;
    const bool moves = event.kind == TraceEvent::Kind::kRedistribution && record.plan != nullptr &&
                       communicates(*record.plan);
    if (!moves) continue;
    const bool asked = record.argument < 0;
    auto group = std::ranges::find_if(all, [&](const Moves& one) {
      return one.source == record.source && one.target == record.target && one.asked == asked;
    });
    if (group == all.end()) {
      all.push_back({.source = record.source,
                     .target = record.target,
                     .asked = asked,
                     .lines = {},
                     .places = {}});
      group = std::prev(all.end());
    }
    group->lines.insert(event.position.line);
    group->places.emplace(event.position.line, event.pass, record.argument);
    for (std::size_t next = i + 1; next < run.events.size(); ++next) {
      const TraceEvent::Kind kind = run.events[next].kind;
      if (kind == TraceEvent::Kind::kCollective) group->us += predicted_us(run, run.events[next]);
      if (kind != TraceEvent::Kind::kCollective && kind != TraceEvent::Kind::kWait) break;
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &Moves::us);
  return all;
}

std::optional<std::string> arguments_between(const DTensorSpec& source, const DTensorSpec& target) {
  if (source.layout() != target.layout() || source.shape() != target.shape()) return std::nullopt;
  std::string text;
  for (std::size_t dim = 0; dim < source.placements().size(); ++dim) {
    const Placement& to = target.placement(dim);
    if (source.placement(dim) == to) continue;
    if (to.is_partial() || to.is_strided_shard()) return std::nullopt;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", source.layout()->names()[dim],
                        to_string(to));
  }
  if (text.empty()) return std::nullopt;
  return text;
}

bool reads_value(const std::vector<Token>& tokens, std::size_t token) {
  const Token& name = tokens[token];
  if (name.kind != TokenKind::kName || token + 1 >= tokens.size()) return false;
  if (token > 0 && tokens[token - 1].text == ".") return false;
  const std::string& next = tokens[token + 1].text;
  if (next == "=" || next == "(") return false;
  if (tokens[token + 1].kind == TokenKind::kOperator && next.size() > 1 && next.ends_with('=') &&
      next != "==" && next != "!=" && next != "<=" && next != ">=") {
    return false;
  }
  constexpr std::string_view kOfLeaf = "grad requires_grad_ backward retain_grad requires_grad";
  return next != "." || token + 2 >= tokens.size() ||
         kOfLeaf.find(tokens[token + 2].text) == std::string_view::npos;
}

static bool has_type(const ScenarioResult& result, const std::string& name,
                     const DTensorSpec* spec) {
  const auto& inputs = result.run.inputs;
  const auto input = std::ranges::find(inputs, name, &InputReport::name);
  if (input != inputs.end() && input->type == type_string(*spec)) return true;
  return std::ranges::any_of(result.judgement.values, [&](const ValueReport& value) {
    return value.spec == spec && value.name.substr(value.name.rfind('.') + 1) == name;
  });
}

std::set<std::string> names_moved(const ScenarioResult& result, const Moves& moves) {
  const SourceText& source = *result.run.scenario.program->source;
  const std::vector<Token> tokens = tokens_of(source);
  std::set<std::string> names;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!reads_value(tokens, i)) continue;
    if (!moves.lines.contains(source.place(tokens[i].span.begin).line)) continue;
    if (has_type(result, tokens[i].text, moves.source)) names.insert(tokens[i].text);
  }
  return names;
}

// Between the first and the last of the lines.
static bool bound_between(const SourceText& program, const std::string& name,
                          const std::set<std::int64_t>& lines) {
  const std::vector<Token> tokens = tokens_of(program);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].text != name || tokens[i + 1].text != "=") continue;
    const std::int64_t line = program.place(tokens[i].span.begin).line;
    if (line > *lines.begin() && line < *lines.rbegin()) return true;
  }
  return false;
}

static std::vector<std::int64_t> lines_that_read(const SourceText& program, const std::string& name,
                                                 const std::set<std::int64_t>& lines) {
  const std::vector<Token> tokens = tokens_of(program);
  std::set<std::int64_t> found;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t line = program.place(tokens[i].span.begin).line;
    if (tokens[i].text == name && lines.contains(line) && reads_value(tokens, i))
      found.insert(line);
  }
  return {found.begin(), found.end()};
}

std::vector<MovedAgain> moved_again(const ScenarioResult& result) {
  std::vector<MovedAgain> all;
  for (const Moves& moves : moves_of(result.run)) {
    if (moves.asked || moves.places.size() < 2) continue;
    const auto arguments = arguments_between(*moves.source, *moves.target);
    if (!arguments) continue;
    const SourceText& program = *result.run.scenario.program->source;
    const std::set<std::string> names = names_moved(result, moves);
    for (const std::string& name : names) {
      std::vector<std::int64_t> lines = lines_that_read(program, name, moves.lines);
      if (names.size() > 1 && lines.size() < 2) continue;
      if (bound_between(program, name, {lines.begin(), lines.end()})) continue;
      all.push_back({name, *arguments, std::move(lines)});
    }
  }
  return all;
}

}  // namespace shardlab
