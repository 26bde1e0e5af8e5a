// Each call makes an interpreter of its own, which knows the defs and nothing else: a rank may run
// the program while another one, or a call around this one, is inside of it. Its calls are a part
// of the op, so that the place of the rank stays that of the op's call; the place of an error in
// the program is a part of the error.
#include "sim/language/run/local_program.h"

#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "propagate/propagator.h"
#include "schema/op_row.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/op_call.h"

namespace shardlab {

namespace {

// Deep enough for the program of one op; the program around it has the rest of the rank's stack.
constexpr std::size_t kStackBytes = 48 * 1024 * sanitizer::kStackFactor;

const Environment& no_params() {
  static const Environment none;
  return none;
}

// Knows where the program is, for its errors.
class PlaceKept final : public ValueSink {
 public:
  void assigned(const std::string&, std::int64_t, const Value&, const Where&) override {}
  void begins(SourceSpan statement) override { place_ = statement; }
  void computes(SourceSpan expression) override { place_ = expression; }
  void printed(const std::string&) override {
    fail(ErrorKind::kUnsupported, Fix{"print in [program]"},
         "print: the local program of a rule has no lines of its own");
  }

  SourceSpan place() const { return place_; }

 private:
  SourceSpan place_;
};

// The argument for one parameter of the def.
struct Given {
  std::string argument;  // of the op; "": the groups of a letter
  char letter = 0;
};

class LocalProgram {
 public:
  LocalProgram(std::shared_ptr<const ast::Program> program,
               std::shared_ptr<const ast::Function> def, std::vector<Given> given)
      : program_(std::move(program)), def_(std::move(def)), given_(std::move(given)) {}

  Results operator()(const OnPieces& call) const {
    PlaceKept place;
    const RankContext& rank = current_rank();
    const MeshLayout* layout = call.decision.outputs.front()->layout();
    Interpreter interpreter({.program = program_.get(),
                             .params = &no_params(),
                             .registry = &rank.propagator->registry(),
                             .layout = layout,
                             .reported = named(layout),
                             .rank = rank.rank,
                             .world_size = rank.world_size,
                             .sink = &place,
                             .inside_op = true,
                             .questions = rank.questions,
                             .stack_bytes = kStackBytes});
    try {
      interpreter.run();
      const Value result =
          interpreter.call(*interpreter.find(def_->name), {arguments(call, layout), {}});
      if (result.is_tensor()) return {Argument(result.as<DTensor>())};
      place.begins(def_->parameters.empty() ? SourceSpan{} : def_->parameters.front().span);
      fail(Fix{"return this rank's piece of the result"},
           "{}: the local program of the rule {} gave {}, not a tensor", call.row.name(),
           std::get<FactorRule>(call.row.rule).text, a_kind(result));
    } catch (Error& error) {
      const SourceText& source = *program_->source;
      error.with("within", source.at(place.place().begin));
      throw;
    }
  }

 private:
  // A mesh as programs see it: its dims have names, by number if the mesh has none.
  static const MeshLayout* named(const MeshLayout* layout) {
    if (!layout->names().empty()) return layout;
    MeshLayout::Init init{layout->shape(), {}, {}};
    for (std::size_t dim = 0; dim < layout->ndim(); ++dim) {
      init.names.push_back(fmt::format("dim{}", dim));
    }
    for (std::int64_t i = 0; i < layout->size(); ++i)
      init.ranks.push_back(layout->rank_at_index(i));
    return layout->arena().layout(std::move(init));
  }

  Values arguments(const OnPieces& call, const MeshLayout* layout) const {
    Values values;
    for (const Given& given : given_) {
      if (!given.argument.empty()) {
        values.push_back(value_of(call.args[*call.row.op.find_argument(given.argument)]));
        continue;
      }
      Values groups;
      for (const std::size_t dim : mesh_dims_of(call, given.letter)) {
        groups.push_back(GroupValue{.mesh = {layout, named(layout), nullptr}, .dim = dim});
      }
      values.push_back(make_list(std::move(groups)));
    }
    return values;
  }

  std::shared_ptr<const ast::Program> program_;
  std::shared_ptr<const ast::Function> def_;
  std::vector<Given> given_;
};

std::shared_ptr<const ast::Function> last_def(const ast::Program& program) {
  std::shared_ptr<const ast::Function> def;
  for (const ast::Statement& statement : program.body) {
    const auto* node = statement.get<ast::Def>();
    if (node == nullptr) {
      refuse(*program.source, statement.span, "a local program is defs and nothing else",
             "move it into the def");
    }
    def = node->function;
  }
  if (def == nullptr) {
    refuse(*program.source, {0, 0}, "a local program without a def",
           "write a def that gives this rank's piece of the result");
  }
  return def;
}

Given given_for(const ast::Program& program, const ast::Parameter& parameter, const OpRow& row,
                const std::string& rule) {
  if (row.op.find_argument(parameter.name)) return {parameter.name};
  const bool letter = parameter.name.size() == 1 && parameter.name[0] >= 'a' &&
                      parameter.name[0] <= 'z' && rule.find(parameter.name) != std::string::npos;
  if (letter) return {"", parameter.name[0]};
  std::vector<std::string> names;
  for (const SchemaArgument& argument : row.op.arguments) names.emplace_back(argument.name);
  refuse(
      *program.source, parameter.span,
      fmt::format("'{}' is neither an argument of {} nor a letter of its rule {}", parameter.name,
                  row.name(), rule),
      fmt::format("name arguments as the op does: {}; a letter is the process groups that cut it",
                  text_of_list(names, ", ")));
}

}  // namespace

FactorProgram local_program(std::shared_ptr<const ast::Program> program, const OpRow& row,
                            const std::string& rule, const OpRegistry& registry) {
  const std::shared_ptr<const ast::Function> def = last_def(*program);
  std::vector<Given> given;
  std::string letters;
  for (const ast::Parameter& parameter : def->parameters) {
    given.push_back(given_for(*program, parameter, row, rule));
    if (given.back().argument.empty()) letters += given.back().letter;
  }
  check_names(*program, no_params(), {}, registry);
  return {LocalProgram(std::move(program), def, std::move(given)), std::move(letters)};
}

}  // namespace shardlab
