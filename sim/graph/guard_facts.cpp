// One function asks a scenario for the facts that a graph depends on, at its capture and at its
// check: a guard holds if both answers are the same text.
#include <algorithm>

#include "base/policies.h"
#include "base/text.h"
#include "mesh/mesh_layout.h"
#include "sim/graph/capture.h"
#include "sim/language/syntax/lexer.h"
#include "sim/scenario/scenario_file.h"
#include "sim/scenario/toml_text.h"
#include "sim/scenario/type_text.h"
#include "trace/capture.h"
#include "trace/guards.h"

namespace shardlab {

namespace {

Guard fact(Guard::Kind kind, std::string source, std::string expected) {
  return {.kind = kind, .source = std::move(source), .expected = std::move(expected)};
}

// Names of params that a program may read, each with the line of its first use. Names inside of an
// f-string count, too.
std::int32_t first_use(const std::vector<Token>& tokens, const SourceText& source,
                       const std::string& name) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const bool attribute =
        i > 0 && tokens[i - 1].text == "." && tokens[i - 1].kind == TokenKind::kOperator;
    const bool reads =
        (token.kind == TokenKind::kName && token.text == name && !attribute) ||
        (token.kind == TokenKind::kFString && token.text.find(name) != std::string::npos);
    if (reads) return source.place(token.span.begin).line;
  }
  return 0;
}

void add_params(const Scenario& scenario, std::vector<Guard>& facts) {
  const SourceText& source = *scenario.program->source;
  const std::vector<Token> tokens = tokens_of(source);
  for (const auto& [name, value] : scenario.params) {
    const std::int32_t line = first_use(tokens, source, name);
    if (line == 0) continue;
    facts.push_back(fact(Guard::Kind::kEquality, "params." + name, to_string(value)));
    facts.back().line = line;
  }
}

// A graph draws its inputs anew for other sizes, with the numbers of its capture.
void add_drawn(const Scenario& scenario, std::vector<Guard>& facts) {
  if (!is_dynamic(scenario)) return;
  for (const auto& [name, value] : size_params(scenario)) {
    const bool draws = std::ranges::any_of(scenario.inputs, [&name = name](const auto& input) {
      return std::ranges::count(input.drawn_with, name) > 0;
    });
    if (draws) {
      facts.push_back(fact(Guard::Kind::kEquality, "params." + name, std::to_string(value)));
    }
  }
}

void add_mesh(const Scenario& scenario, const MeshLayout& layout, std::vector<Guard>& facts) {
  facts.push_back(fact(Guard::Kind::kIdentity, "mesh", mesh_fact(layout)));
  facts.push_back(fact(Guard::Kind::kEquality, "world_size", std::to_string(scenario.world)));
}

void add_policies(const Scenario& scenario, std::vector<Guard>& facts) {
  const auto add = [&](const char* source, std::string text) {
    facts.push_back(fact(Guard::Kind::kEquality, source, std::move(text)));
  };
  add("planner", scenario.planner ? std::string(to_string(*scenario.planner)) : "default");
  std::vector<std::string> rules;
  for (const ScenarioRule& rule : scenario.rules) {
    rules.push_back(rule.op + ": " + rule.rule);
    if (rule.local == nullptr) continue;
    rules.back() += " by " + toml_quoted(ast::print(rule.local->body));
  }
  add("rules", rules.empty() ? "the library's" : text_of_list(rules, "; "));
  std::vector<std::string> links;
  for (const TopologyDim& dim : scenario.topology) {
    links.push_back(fmt::format("{} {} GB/s {} us", dim.mesh_dim,
                                dim.gbps ? fmt::format("{}", *dim.gbps) : "default",
                                dim.us ? fmt::format("{}", *dim.us) : "default"));
  }
  add("prices", links.empty() ? "assumed links" : text_of_list(links, "; "));
  add("implicit", std::string(policy_name(scenario.expect.implicit)));
}

}  // namespace

std::vector<Guard> facts_of(const Scenario& scenario) {
  Arena arena;
  const MeshLayout* layout = layout_of(scenario.mesh, arena);
  std::vector<Guard> facts;
  add_mesh(scenario, *layout, facts);
  add_policies(scenario, facts);
  for (const ScenarioInput& input : scenario.inputs) {
    const DTensorSpec* spec = spec_of(input.type, layout);
    add_input_facts(facts, "inputs." + input.name, {spec->meta(), spec, input.requires_grad},
                    input.recipe.dynamic);
  }
  add_drawn(scenario, facts);
  add_params(scenario, facts);
  return facts;
}

}  // namespace shardlab
