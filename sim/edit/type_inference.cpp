// Another seed says what is equal by chance; both runs are made at the same time. R and I are told
// apart by the gradient that came: its terms are of R, the same on all ranks of I. A distributed
// tensor has what its placements say, and its gradient's.
#include "sim/edit/type_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <future>
#include <map>
#include <set>

#include "base/text.h"
#include "dispatch/all_ops.h"
#include "mesh/spec.h"
#include "sim/language/run/call_names.h"
#include "sim/language/run/def_use.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/syntax/parser.h"
#include "sim/types/claim.h"
#include "sim/types/type_view.h"

namespace shardlab {

namespace {

/// Replicas to which no gradient comes have this type.
constexpr const char* kEither = "R or I";

/// A statement that gives names values, and the place of a line below it.
struct NamedAt {
  std::vector<std::string> names;
  std::string def;  ///< "function.": around it
  std::int64_t line = 0;
  std::size_t below = 0;  ///< offset of the line below
  std::string indentation;
  bool boundary = false;  ///< an input, a parameter, a result of a def or of a move
};

bool is_boundary(const ast::Expression& value, const std::set<std::string>& defs) {
  return ast::any_part(value, [&](const ast::Expression& part) {
    const auto* call = part.get<ast::Call>();
    if (call == nullptr) return false;
    const std::string name(last_name(*call->function));
    const bool move = own_collective(*call) != OwnCollective::kNone;
    return move || name == "to_local" || name == "requires_grad_" || defs.contains(name) ||
           name == "convert" || name == "reinterpret" || name == "shard";
  });
}

class Statements {
 public:
  explicit Statements(const Scenario& scenario)
      : text_(scenario.program->source->text()), program_(*scenario.program) {
    for (const ScenarioInput& input : scenario.inputs) {
      const int line =
          input.where.source ? input.where.source->place(input.where.span.begin).line : 0;
      all_.push_back({.names = {input.name}, .line = line});
    }
    walk(program_.body, "");
  }
  std::vector<NamedAt> all() && { return std::move(all_); }

 private:
  void walk(const ast::Block& block, const std::string& def) {
    for (const ast::Statement& statement : block) {
      if (const auto* assign = statement.get<ast::Assign>()) note(statement, *assign, def);
      std::string inner = def;
      if (const auto* made = statement.get<ast::Def>()) {
        defs_.insert(made->function->name);
        inner = made->function->path + ".";
      }
      if (statement.is<ast::Class>()) continue;
      ast::for_each_block(statement, [&](const ast::Block& part) { walk(part, inner); });
    }
  }

  void note(const ast::Statement& statement, const ast::Assign& assign, const std::string& def) {
    NamedAt at;
    for (const auto& target : assign.targets) ast::collect_targets(*target, at.names);
    const std::size_t newline = text_.find('\n', statement.span.end);
    const std::size_t begin = text_.rfind('\n', statement.span.begin) + 1;
    const std::size_t first = text_.find_first_not_of(' ', begin);
    const bool own_line = first == statement.span.begin && newline != text_.npos;
    if (at.names.empty() || !own_line) return;
    at.def = def;
    at.line = program_.source->place(statement.span.begin).line;
    at.below = newline + 1;
    at.indentation = text_.substr(begin, first - begin);
    at.boundary = is_boundary(*assign.value, defs_);
    all_.push_back(std::move(at));
  }

  const std::string& text_;
  const ast::Program& program_;
  std::set<std::string> defs_;
  std::vector<NamedAt> all_;
};

// The text with lines below some statements, and the statement of each line that is new.
template <typename LinesOf>
std::pair<std::string, std::map<std::int64_t, std::size_t>> with_lines(
    const std::string& text, const std::vector<NamedAt>& statements, const LinesOf& lines_of) {
  std::vector<std::size_t> order(statements.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return statements[i].below; });
  std::string out;
  std::map<std::int64_t, std::size_t> made;
  std::size_t at = 0;
  for (const std::size_t i : order) {
    out += text.substr(at, statements[i].below - at);
    at = statements[i].below;
    for (const std::string& line : lines_of(i)) {
      made[std::ranges::count(out, '\n') + 1] = i;
      out += statements[i].indentation + line + "\n";
    }
  }
  return {out + text.substr(at), std::move(made)};
}

/// Labels that the judge found for one name after one statement, pass by pass.
struct Findings {
  std::string held;
  bool distributed = false;
  std::set<std::size_t> outside;  ///< dims of the program's mesh that the value's has not
  std::vector<std::optional<Label>> values, gradients;
};

struct Inference {
  InferredTypes run() {
    auto other = std::async(std::launch::async, [&] { return claimed(scenario_.seed + 1); });
    take(claimed(scenario_.seed));
    const ClaimedRun second = other.get();
    if (inferred_.failure.empty()) take(second);
    for (std::size_t i = 0; i < statements_.size(); ++i) {
      for (const std::string& name : statements_[i].names) add(i, name);
    }
    decide_without_gradient();
    annotate();
    return std::move(inferred_);
  }

  struct ClaimedRun {
    ScenarioResult result;
    std::map<std::int64_t, std::size_t> made;  // statements by the lines of their claims
  };

  ClaimedRun claimed(std::uint64_t seed) const {
    const SourceText& source = *scenario_.program->source;
    auto [text, made] = with_lines(source.text(), statements_, [&](std::size_t i) {
      std::vector<std::string> lines;
      for (const std::string& name : statements_[i].names) {
        lines.push_back(fmt::format("spmd.assert_type({}, spmd.V)", name));
      }
      return lines;
    });
    Scenario scenario = scenario_;
    scenario.seed = seed;
    scenario.program = std::make_shared<const ast::Program>(
        parse_program(std::make_shared<const SourceText>(source.file(), text)));
    return {run_scenario(scenario, all_ops(), options_), std::move(made)};
  }

  void take(const ClaimedRun& run) {
    // The run has a mesh of its own, which ends with it.
    const MeshLayout& mesh = *run.result.run.layout;
    inferred_.mesh = process_arena().layout({.shape = mesh.shape(), .names = mesh.names()});
    if (run.result.run.error) inferred_.failure = run.result.run.error->summary();
    nothing_ = run.result.judgement.not_verified;
    for (const ValueReport& report : run.result.judgement.values) {
      const auto statement = report.claim ? run.made.find(report.line) : run.made.end();
      if (statement == run.made.end()) continue;
      Findings& found = found_[{statement->second, report.claim->subject}];
      if (found.held.empty()) found.held = report.type.substr(0, report.type.find("  "));
      found.distributed = found.distributed || report.spec != nullptr;
      std::optional<Label> label = report.label;
      if (report.spec) label = Label{report.spec->placements(), report.spec->order()};
      const MeshLayout& own = report.spec ? *report.spec->layout() : *report.claim->mesh;
      (report.claim->gradient ? found.gradients : found.values)
          .push_back(&own == &mesh ? label : label_along(mesh, own, label, found));
    }
  }

  // The label of a value on another view of the ranks, or on a slice.
  static std::optional<Label> label_along(const MeshLayout& mesh, const MeshLayout& own,
                                          const std::optional<Label>& label, Findings& found) {
    const auto type =
        label ? type_on(tensor_type(label->placements, label->order), own, mesh) : std::nullopt;
    if (type) return Label{*placements_of(*type), type->order};
    Label slice{Placements(mesh.ndim(), Placement::replicate()), ShardOrder(mesh.ndim(), -1)};
    std::size_t dims = 0;
    for (std::size_t dim = 0; dim < mesh.ndim(); ++dim) {
      const auto there = own.find_dim(mesh.names()[dim]);
      if (!there || own.size(*there) != mesh.size(dim)) {
        found.outside.insert(dim);
        continue;
      }
      ++dims;
      if (!label) continue;
      slice.placements[dim] = label->placements[*there];
      slice.order[dim] = label->order[*there];
    }
    return label && dims == own.ndim() ? std::optional(slice) : std::nullopt;
  }

  // The one placement along a mesh dim on all passes; none where they differ, or are no label.
  static std::optional<Placement> agreed(const std::vector<std::optional<Label>>& labels,
                                         std::size_t dim) {
    std::optional<Placement> all;
    for (const auto& label : labels) {
      if (!label || (all && *all != label->placements[dim])) return std::nullopt;
      all = label->placements[dim];
    }
    return all;
  }

  void add(std::size_t statement, const std::string& name) {
    const auto found = found_.find({statement, name});
    if (found == found_.end()) return;
    const Findings& findings = found->second;
    InferredType value;
    value.name = statements_[statement].def + name;
    value.line = statements_[statement].line;
    value.held = findings.held;
    for (std::size_t dim = 0; dim < inferred_.mesh->ndim(); ++dim) {
      const bool none = inferred_.mesh->size(dim) == 1 || findings.outside.contains(dim);
      value.types.push_back(none ? "" : type_of(findings, dim, value.why));
    }
    places_.emplace(std::pair(statement, name), inferred_.values.size());
    inferred_.values.push_back(std::move(value));
  }

  std::string type_of(const Findings& findings, std::size_t dim, std::string& why) const {
    const std::string& mesh_dim = inferred_.mesh->names()[dim];
    const auto say = [&](const std::string& text) { why += (why.empty() ? "" : "; ") + text; };
    const bool none = std::ranges::none_of(findings.values, &std::optional<Label>::has_value);
    if (none) {
      if (!nothing_.empty()) {
        if (why.empty()) say(nothing_);
        return "?";
      }
      say(fmt::format("along {} ranks hold no piece, term or replica of one device's", mesh_dim));
      return "V";
    }
    const auto placement = agreed(findings.values, dim);
    if (!placement) {
      say(fmt::format("along {} passes or seeds differ", mesh_dim));
      return "?";
    }
    if (!placement->is_replicate()) return to_string(SpmdType{*placement});
    if (findings.gradients.empty()) return kEither;
    const auto gradient = agreed(findings.gradients, dim);
    if (!gradient || gradient->is_shard()) {
      say(fmt::format("along {} the gradient is neither a term nor the same", mesh_dim));
      return "?";
    }
    say(fmt::format("the gradient is {} along {}", gradient->is_partial() ? "a term" : "the same",
                    mesh_dim));
    return gradient->is_partial() ? "R" : "I";
  }

  // Without a gradient it is what it is used with: I where the first value made of it is.
  void decide_without_gradient() {
    const DefUse flow(*scenario_.program);
    for (InferredType& value : inferred_.values) {
      for (std::size_t dim = 0; dim < value.types.size(); ++dim) {
        if (value.types[dim] != kEither) continue;
        const auto made = flow.makes(flow.held_by(value.name));
        const auto user = std::ranges::find_if(inferred_.values, [&](const InferredType& other) {
          return other.line > value.line && other.types[dim] != kEither &&
                 std::ranges::any_of(flow.held_by(other.name), [&](DefUse::Id id) {
                   return std::ranges::binary_search(made, id);
                 });
        });
        value.types[dim] = user != inferred_.values.end() && user->types[dim] == "I" ? "I" : "R";
      }
    }
  }

  // "spmd.assert_type(x, {"dp": spmd.S(0), "tp": spmd.R})"; empty where a type is open.
  std::string assertion(std::size_t statement, const std::string& name) const {
    const auto place = places_.find({statement, name});
    if (place == places_.end() || found_.at({statement, name}).distributed) return {};
    const InferredType& value = inferred_.values[place->second];
    const std::string spec = spec_of(found_.at({statement, name}));
    std::string types;
    for (std::size_t dim = 0; dim < value.types.size(); ++dim) {
      const std::string& type = value.types[dim];
      if (type == "?") return {};
      if (type.empty() || (!spec.empty() && type.starts_with('S'))) continue;
      types += fmt::format("{}\"{}\": spmd.{}", types.empty() ? "" : ", ",
                           inferred_.mesh->names()[dim], type);
    }
    if (types.empty() && spec.empty()) return {};
    return fmt::format("spmd.assert_type({}, {{{}}}{})", name, types, spec);
  }

  // ", spmd.PartitionSpec((\"dp\", \"cp\"), None)" where several mesh dims cut one tensor dim, the
  // outermost first; empty elsewhere.
  std::string spec_of(const Findings& findings) const {
    const auto commas = static_cast<std::size_t>(std::ranges::count(findings.held, ','));
    const Label label = findings.values.empty() ? Label() : findings.values[0].value_or(Label());
    const auto cuts =  // a scalar has none
        cuts_by_dim(tensor_type(label.placements, label.order), *inferred_.mesh, commas + 1);
    if (std::ranges::none_of(cuts, [](const auto& cut) { return cut.size() > 1; })) return {};
    std::vector<std::string> entries;
    for (const auto& cut : cuts) {
      std::vector<std::string> names;
      for (const std::size_t dim : cut) names.push_back('"' + inferred_.mesh->names()[dim] + '"');
      const std::string all = text_of_list(names, ", ");
      entries.push_back(names.empty() ? "None" : names.size() == 1 ? all : '(' + all + ')');
    }
    return fmt::format(", spmd.PartitionSpec({})", text_of_list(entries, ", "));
  }

  void annotate() {
    const std::string& text = scenario_.program->source->text();
    std::string annotated = with_lines(text, statements_, [&](std::size_t i) {
                              std::vector<std::string> lines;
                              const NamedAt& at = statements_[i];
                              if (!at.boundary) return lines;
                              for (const std::string& name : at.names) {
                                const std::string line = assertion(i, name);
                                const std::string known = fmt::format("assert_type({},", name);
                                const bool there = text.find(known) != text.npos;
                                if (!line.empty() && !there) lines.push_back(line);
                              }
                              return lines;
                            }).first;
    constexpr const char* kImport = "import spmd_types as spmd\n";
    if (annotated.find(kImport) == annotated.npos) annotated = kImport + annotated;
    inferred_.annotated = std::move(annotated);
  }

  const Scenario& scenario_;
  const ScenarioOptions& options_;
  const std::vector<NamedAt> statements_ = Statements(scenario_).all();
  std::map<std::pair<std::size_t, std::string>, Findings> found_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> places_;
  std::string nothing_;  ///< the reason why there is nothing to compare with
  InferredTypes inferred_;
};

}  // namespace

InferredTypes infer_types(const Scenario& scenario, const ScenarioOptions& options) {
  ScenarioOptions claims = options;
  claims.explain = false;
  return Inference{scenario, claims}.run();
}

// A size is the number that a dim begins with; names of mesh dims may have digits in them.

TypeSizes::TypeSizes(const std::string& text) {
  std::size_t at = text.find('[') + 1, begun = 0;
  int depth = 0;
  bool size_follows = true;
  for (; at < text.size() && (depth > 0 || text[at] != ']'); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (text[at] == ',' && depth == 0) size_follows = true;
    if (!size_follows || std::isdigit(static_cast<unsigned char>(text[at])) == 0) continue;
    std::int64_t size = 0;
    const char* const first = text.data() + at;
    const char* const last = std::from_chars(first, text.data() + text.size(), size).ptr;
    between.push_back(text.substr(begun, at - begun));
    sizes.push_back(size);
    at += static_cast<std::size_t>(last - first) - 1;
    begun = at + 1;
    size_follows = false;
  }
  between.push_back(text.substr(begun));
}

std::string TypeSizes::text() const {
  std::string out = between.front();
  for (std::size_t i = 0; i < sizes.size(); ++i) out += std::to_string(sizes[i]) + between[i + 1];
  return out;
}

bool TypeSizes::cuts(const std::string& mesh_dim, std::size_t dim) const {
  std::string cut = between[dim + 1].substr(0, between[dim + 1].find(']'));
  for (std::size_t at = 0; (at = cut.find(mesh_dim, at)) != std::string::npos; ++at) {
    const std::size_t end = at + mesh_dim.size();
    const char before = at > 0 ? cut[at - 1] : ' ', after = end < cut.size() ? cut[end] : ' ';
    const bool whole = (before == '@' || before == '(' || before == ',' || before == ' ') &&
                       std::isalnum(static_cast<unsigned char>(after)) == 0 && after != '_';
    if (whole) return true;
  }
  return false;
}

}  // namespace shardlab
