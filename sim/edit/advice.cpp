// A run of shapes says whether an edit is cheaper, a run with values whether it holds: most edits
// need the first alone. Redistributions keep the values of one device; for pieces, the program as
// it was is the reference.
#include "sim/edit/advice.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "dispatch/all_ops.h"
#include "sim/edit/cheaper_edits.h"
#include "sim/edit/proposals.h"
#include "sim/edit/stopwatch.h"
#include "sim/edit/symptom.h"
#include "sim/language/run/def_use.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/parser.h"
#include "sim/report/moves.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

namespace {

// Those that do not follow from the rank: in a world of one there is no other to follow.
std::set<std::string> without_ranks(const Scenario& scenario, const std::set<std::string>& names) {
  std::set<std::string> kept;
  const DefUse flow(*scenario.program);
  for (const std::string& name : names) {
    if (!flow.follows_rank(name)) kept.insert(name);
  }
  return kept;
}

// The program of the scenario, with other names for what is not among `compared`: pieces are none
// of the reference's. Empty: it would name nothing.
std::string text_as_reference(const Scenario& scenario, const std::set<std::string>& compared) {
  std::set<std::string> kept;
  for (const std::string& name : compared) kept.insert(name.substr(0, name.find_first_of(".[")));
  for (const ScenarioInput& input : scenario.inputs) kept.insert(input.name);
  const std::vector<std::string> bound = ast::bound_names(scenario.program->body);
  if (std::ranges::none_of(bound, [&](const std::string& one) { return kept.contains(one); })) {
    return "";
  }
  std::string text = scenario.program->source->text();
  const std::vector<Token> tokens = tokens_of(*scenario.program->source);
  for (std::size_t i = tokens.size(); i-- > 0;) {
    const bool hidden = tokens[i].kind == TokenKind::kName && !kept.contains(tokens[i].text) &&
                        std::ranges::binary_search(bound, tokens[i].text);
    const bool attribute = i > 0 && tokens[i - 1].text == ".";
    if (hidden && !attribute) text.insert(tokens[i].span.end, "_");
  }
  return text;
}

constexpr std::size_t kMostAdvice = 5;
constexpr std::int64_t kMostSeen = 1 << 16;  // elements of a value that are compared

double most_sent(const Run& run) {
  double most = 0;
  for (const CollectiveCounts& rank : run.counts) most = std::max(most, rank.bytes());
  return most;
}

std::set<std::string> compared_names(const ScenarioResult& result) {
  std::set<std::string> names;
  for (const ValueReport& value : result.judgement.values) {
    // A name of [reference] that ranks hold terms of is left as terms, on the way or not.
    if (value.facts.agrees() || is_wrong(value)) names.insert(value.name);
  }
  return names;
}

// Types of values that the program leaves: of names that nothing reads once they are bound for the
// last time, and of gradients. A value that is read may change its placements, a result may not.
std::map<std::string, std::string> left_types(const Scenario& scenario,
                                              const ScenarioResult& result) {
  const std::vector<Token> tokens = tokens_of(*scenario.program->source);
  std::set<std::string> read, bound;  // bound: in this statement, whose value may read the name
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (token.kind == TokenKind::kNewline || token.text == ";") {
      for (const std::string& name : bound) read.erase(name);
      bound.clear();
    }
    if (token.kind != TokenKind::kName) continue;
    if (reads_value(tokens, i)) read.insert(token.text);
    if (i + 1 < tokens.size() && tokens[i + 1].text == "=") bound.insert(token.text);
  }
  std::map<std::string, std::string> types;
  for (const ValueReport& value : result.judgement.values) {
    if (!read.contains(value.name)) types[value.name] = value.type;
  }
  return types;
}

// Element by element, up to other roundings.
bool agree(const std::vector<KeptValue>& a, const std::vector<KeptValue>& b) {
  return std::ranges::equal(a, b, [](const KeptValue& one, const KeptValue& other) {
    const double allowed = taken_as_equal(false, one.first.meta.dtype) * one.largest;
    return one.count == other.count && one.first.integers == other.first.integers &&
           all_close(one.first.reals, other.first.reals, allowed);
  });
}

struct Tryer {
  /// The cost of the program then; none if it is not cheaper, or does not hold.
  std::optional<Cost> tried(const CheaperEdit& edit) const {
    try {
      const Scenario changed = with(edit);
      if (!before_.run.shapes_only() && !is_cheaper_in_shapes(changed, edit)) return std::nullopt;
      const ScenarioResult result = run_scenario(changed, all_ops(), options_);
      if (!is_cheaper(result.run, edit) || !holds(result, edit)) return std::nullopt;
      return cost_of(result.run);
    } catch (const Error&) {
      return std::nullopt;  // it cannot run as it is written now
    }
  }

  Scenario with(const CheaperEdit& edit) const {
    Scenario changed = edit.placings.empty() ? scenario_ : others_.with(edit.placings);
    changed.expect.collectives.reset();
    changed.expect.bytes.reset();
    changed.expect.memory.clear();
    if (!edit.placings.empty()) return changed;
    const std::string text = edited_text(scenario_.program->source->text(), edit.edits);
    changed.program = std::make_shared<const ast::Program>(
        parse_program(std::make_shared<const SourceText>(scenario_.file->file(), text)));
    for (ScenarioInput& input : changed.inputs) {
      if (input.name != edit.input) continue;
      input.type =
          resolve_type(std::make_shared<const SourceText>("", edit.type), scenario_.environment());
    }
    if (edit.of_pieces && scenario_.reference == nullptr) {
      std::set<std::string> meant = compared_;
      meant.erase(edit.within);
      const std::string as_it_was = text_as_reference(scenario_, without_ranks(scenario_, meant));
      if (!as_it_was.empty()) {
        changed.reference = std::make_shared<const ast::Program>(
            parse_program(std::make_shared<const SourceText>("", as_it_was)));
      }
    }
    return changed;
  }

  bool is_cheaper(const Run& run, const CheaperEdit& edit) const {
    const Cost cost = cost_of(run);
    // Times are sums in another order.
    const bool less = cost.predicted_us < cost_.predicted_us * (1 - 1e-9) &&
                      cost.sent_bytes < cost_.sent_bytes * (1 - 1e-9);
    // Inputs are held all the time: more of them is another trade (FSDP's).
    const bool no_more =
        cost.peak_bytes <= cost_.peak_bytes && inputs_of(run) <= inputs_of(before_.run);
    const bool moves_alone = edit.input.empty() && edit.placings.empty();
    return less && most_sent(run) <= most_sent(before_.run) && (moves_alone || no_more);
  }

  static std::int64_t inputs_of(const Run& run) {
    return run.memory.largest().most[static_cast<std::size_t>(HeldFor::kInput)];
  }

  bool is_cheaper_in_shapes(const Scenario& changed, const CheaperEdit& edit) const {
    ScenarioOptions shapes = options_;
    shapes.backend = "fake";
    try {
      const ScenarioResult result = run_scenario(changed, all_ops(), shapes);
      return result.run.error ? result.run.error->kind() == ErrorKind::kUnsupported
                              : is_cheaper(result.run, edit);
    } catch (const Error&) {
      return true;  // its branches need values
    }
  }

  bool holds(const ScenarioResult& result, const CheaperEdit& edit) const {
    if (!result.met() || result.run.error) return false;
    for (const auto& [name, type] : left_types(scenario_, result)) {
      const auto was = left_.find(name);
      const bool kept = was == left_.end() || was->second == type;
      if (!kept && edit.placings.empty()) return false;  // a recording leaves values of one device
    }
    if (!same_values(result, edit)) return false;
    const std::set<std::string> now = compared_names(result);
    return std::ranges::all_of(compared_, [&](const std::string& name) {
      if (now.contains(name) || name == edit.within) return true;
      // A statement that nothing needs any more may be gone.
      const auto& values = result.judgement.values;
      return std::ranges::find(values, name, &ValueReport::name) == values.end();
    });
  }

  // Values that both runs have are the same. If pieces are put together in another way, each value
  // that the program leaves must have been seen.
  bool same_values(const ScenarioResult& result, const CheaperEdit& edit) const {
    for (const ValueReport& was : before_.judgement.values) {
      const auto& values = result.judgement.values;
      const auto now = std::ranges::find_if(
          values, [&](const ValueReport& value) { return value.key() == was.key(); });
      if (now == values.end() || was.name == edit.within) continue;
      const bool seen = !was.kept.empty() && !now->kept.empty();
      if (seen && was.kept.size() == now->kept.size() && !agree(was.kept, now->kept)) return false;
      if (edit.of_pieces && left_.contains(was.name) && !seen) return false;
    }
    return true;
  }

  const Scenario& scenario_;
  const ScenarioOptions& options_;
  const OtherLayouts& others_;
  const ScenarioResult& before_;
  Cost cost_ = cost_of(before_.run);
  std::set<std::string> compared_ = compared_names(before_);
  std::map<std::string, std::string> left_ = left_types(scenario_, before_);
};

// The line of the file that has the input's type.
ChangedLines changed_input(const Scenario& scenario, const CheaperEdit& edit) {
  const auto input = std::ranges::find(scenario.inputs, edit.input, &ScenarioInput::name);
  const std::int32_t line = input->where.source->place(input->where.span.begin).line;
  std::string before(input->where.source->line(line)), after = before;
  const std::size_t open = before.find('[', before.find(edit.input) + edit.input.size());
  const std::size_t begin = open == std::string::npos ? open : before.rfind('"', open);
  const std::size_t end = begin == std::string::npos ? begin : before.find('"', begin + 1);
  if (end != std::string::npos) after.replace(begin + 1, end - begin - 1, edit.type);
  return {line, {std::move(before)}, {std::move(after)}};
}

Advice advice_of(const Scenario& scenario, const CheaperEdit& edit, const Cost& after) {
  Advice advice{.what = edit.what, .file = scenario.file->file(), .after = after};
  if (!edit.input.empty()) {
    advice.changes = {changed_input(scenario, edit)};
    return advice;
  }
  const SourceText& program = *scenario.program->source;
  advice.file = program.file();
  if (!edit.placings.empty()) {
    advice.where = edit.where;
    return advice;
  }
  advice.changes = changed_lines(program, edited_text(program.text(), edit.edits));
  return advice;
}

struct Found {
  CheaperEdit edit;
  Cost after;
};

// Both edits of the program's text, or both layouts; none if they change the same part of it.
std::optional<CheaperEdit> joined(const CheaperEdit& first, const CheaperEdit& second) {
  const bool of_text = first.placings.empty() && second.placings.empty();
  if (!first.input.empty() || !second.input.empty()) return std::nullopt;
  if (!of_text && (first.placings.empty() || second.placings.empty())) return std::nullopt;
  CheaperEdit both = first;
  both.placings.insert(both.placings.end(), second.placings.begin(), second.placings.end());
  both.edits.insert(both.edits.end(), second.edits.begin(), second.edits.end());
  std::ranges::stable_sort(both.edits, {}, [](const TextEdit& one) { return one.span.begin; });
  for (std::size_t i = 1; i < both.edits.size(); ++i) {
    if (both.edits[i].span.begin < both.edits[i - 1].span.end) return std::nullopt;
  }
  both.what += (of_text ? "; " : " ") + second.what;
  both.of_pieces = first.of_pieces || second.of_pieces;
  return both;
}

// The cheapest edit with all others that still help; none where no other does.
template <typename Late>
std::optional<Found> all_at_once(const std::vector<Found>& found, const Tryer& tryer,
                                 const Late& late) {
  if (found.size() < 2) return std::nullopt;
  Found best = found.front();
  bool several = false;
  for (std::size_t i = 1; i < found.size() && !late(); ++i) {
    const auto both = joined(best.edit, found[i].edit);
    const auto after = both ? tryer.tried(*both) : std::nullopt;
    if (!after || after->predicted_us >= best.after.predicted_us * (1 - 1e-9)) continue;
    best = {*both, *after};
    several = true;
  }
  if (several) return best;
  return std::nullopt;
}

}  // namespace

Advised advise(const Scenario& scenario, const AdviceOptions& options) {
  const Stopwatch watch;
  ScenarioOptions run = options.run;
  run.keep_elements = kMostSeen;
  const ScenarioResult before = run_scenario(scenario, all_ops(), run);
  const double most_seconds = std::max(options.most_time * watch.seconds(), options.least_seconds);
  Advised advised{.before = cost_of(before.run)};
  const Symptom symptom = symptom_of(before);
  // Values that differ are as they are meant for all that is known; edits have to keep them.
  const bool differs = symptom.kind == Symptom::Kind::kValue &&
                       std::ranges::none_of(before.judgement.values, is_wrong);
  if (symptom.kind != Symptom::Kind::kNone && !differs) {
    advised.failure = to_string(symptom);
    return advised;
  }
  run.explain = false;
  const Tryer tryer{scenario, run, options.others, before};
  std::vector<CheaperEdit> edits = cheaper_edits(before);
  for (const auto& [placing, where] : options.others.layouts) {
    const std::string what = "--place '" + placing + "'";
    edits.push_back({.what = what,
                     .spares = placing.substr(0, placing.find('=')),
                     .placings = {placing},
                     .where = where});
  }
  std::vector<Found> found;
  for (const CheaperEdit& edit : edits) {
    if (watch.seconds() > most_seconds) {
      advised.out_of_time = true;
      break;
    }
    if (options.progress) {
      options.progress(advised.tried, static_cast<std::int64_t>(edits.size()));
    }
    ++advised.tried;
    const std::optional<Cost> after = tryer.tried(edit);
    if (!after) continue;
    const auto same =
        std::ranges::find(found, edit.spares, [](const Found& one) { return one.edit.spares; });
    if (same == found.end()) {
      found.push_back({edit, *after});
    } else if (after->predicted_us < same->after.predicted_us) {
      *same = {edit, *after};
    }
  }
  const auto us = [](const Found& one) { return one.after.predicted_us; };
  std::ranges::stable_sort(found, {}, us);
  if (auto together = all_at_once(found, tryer, [&] { return watch.seconds() > most_seconds; })) {
    found.insert(found.begin(), std::move(*together));
  }
  for (const Found& one : found) {
    advised.all.push_back(advice_of(scenario, one.edit, one.after));
  }
  if (advised.all.size() > kMostAdvice) advised.all.resize(kMostAdvice);
  return advised;
}

}  // namespace shardlab
