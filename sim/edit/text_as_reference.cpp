// Names are hidden by a letter behind them.
#include "sim/edit/text_as_reference.h"

#include <algorithm>

#include "sim/language/run/def_use.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/lexer.h"

namespace shardlab {

std::set<std::string> without_ranks(const Scenario& scenario, const std::set<std::string>& names) {
  std::set<std::string> kept;
  const DefUse flow(*scenario.program);
  for (const std::string& name : names) {
    if (!flow.follows_rank(name)) kept.insert(name);
  }
  return kept;
}

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

}  // namespace shardlab
