// Names come from modules where there are some, and from ops. No name is one that programs give a
// meaning.
#include <algorithm>
#include <cctype>

#include "schema/op_row.h"
#include "sim/remesh/reading.h"

namespace shardlab {

namespace {

std::string as_name(std::string_view path) {
  std::string name;
  for (const char c : path) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "_" + name;
  return name;
}

// Names that mean something in programs already, or in Python.
bool is_reserved(const std::string& name) {
  static const std::set<std::string> kNames = {
      "mesh",        "rank",   "world_size", "torch",    "F",       "aten",     "R",
      "S",           "P",      "grad",       "backward", "ctx",     "no_grad",  "distribute",
      "float",       "and",    "or",         "not",      "if",      "else",     "for",
      "in",          "is",     "while",      "with",     "def",     "pass",     "None",
      "True",        "False",  "from",       "as",       "del",     "class",    "return",
      "lambda",      "import", "try",        "raise",    "global",  "nonlocal", "yield",
      "break",       "assert", "continue",   "except",   "finally", "elif",     "detach",
      "redistribute"};
  return kNames.contains(name);
}

class Namer {
 public:
  explicit Namer(Reading& reading) : reading_(reading), program_(reading.program) {}

  void name() {
    name_inputs();
    name_results();
    note_metas();
    mark_batch();
  }

 private:
  std::string fresh(const std::string& wanted) {
    std::string name = wanted;
    int& next = next_.try_emplace(wanted, 2).first->second;
    while (is_reserved(name) || !taken_.insert(name).second) {
      name = fmt::format("{}_{}", wanted, next++);
    }
    return name;
  }

  void name_once(std::int32_t v, const std::string& wanted) {
    if (!program_.names.contains(v)) program_.names[v] = fresh(wanted);
  }

  const std::string& module(const Statement& one) const {
    return module_of(reading_.recording, *one.event);
  }

  void name_inputs() {
    std::set<std::int32_t> made;
    for (const auto* statements : {&program_.statements, &program_.updates}) {
      for (const Statement& statement : *statements) {
        for (const std::int32_t v : statement.takes) {
          if (made.insert(v).second) add_input(statement, v);
        }
        made.insert(statement.outs.begin(), statement.outs.end());
      }
    }
  }

  void add_input(const Statement& user, std::int32_t v) {
    const auto found = reading_.given.find(v);
    if (found == reading_.given.end()) {
      reading_.refuse(*user.event,
                      "a value that no call has made, as the gradient of a detached tensor",
                      "give it memory of its own: x.detach().clone().requires_grad_()");
    }
    const GivenValue& given = found->second;
    if (given.is_alias() && !is_part_of_given(given)) {
      reading_.refuse(*user.event, "a view of memory that no call has made",
                      "take it by an op: x[...]");
    }
    CallInput input{.value = v, .meta = given.value->meta(), .type = &given.value->type};
    input.recorded = given.name.empty() ? fmt::format("v{}", v) : given.name;
    const bool is_mask = given.event == nullptr;
    const std::string path = as_name(module(user));
    const std::string own = is_mask ? given.stem : argument_name(user, v);
    const bool named = !given.name.empty() && !is_mask;
    const std::string stem = named             ? as_name(input.recorded)
                             : path.size() > 1 ? path + "_" + own
                                               : own;
    if (!named) input.user = user.event;
    const bool again = !recorded_.insert(input.recorded).second;
    input.tensor = again ? fmt::format("v{}", v) : input.recorded;
    input.name = fresh(stem);
    input.parameter = given.requires_grad();
    input.batch = given.event != nullptr && given.event->batch;
    input.buffer = !given.name.empty() && !input.batch;
    // Files of other recorders, and exported programs, do not say which.
    input.graded = input.parameter &&
                   (reading_.graded.empty() || reading_.graded.contains(input.recorded + ".grad"));
    program_.names[v] = input.name;
    program_.inputs.push_back(std::move(input));
  }

  // Data without a name is called as the call calls it that takes it first: "target".
  static std::string argument_name(const Statement& user, std::int32_t v) {
    const OpRow* row = user.row;
    for (std::size_t i = 0; row != nullptr && i < user.args.size(); ++i) {
      bool takes = false;
      for_each_value(user.args[i], [&](const ValueRef& one) { takes = takes || one.id == v; });
      if (!takes || i >= row->op.arguments.size()) continue;
      const std::string name(row->op.arguments[i].name);
      const bool says = name != "self" && name != "other" && name != "input" && name != "tensors";
      return says ? name : "data";
    }
    return "data";
  }

  // A view that was made before the step, of data that nothing writes: it is an input of its own.
  bool is_part_of_given(const GivenValue& view) {
    const auto base = reading_.given.find(view.event->takes[0]);
    if (base == reading_.given.end() || base->second.requires_grad()) return false;
    if (base->second.event != nullptr && base->second.event->undefined) return false;
    const auto shares = [&](const Statement& statement) {
      if (!statement.writes() || statement.takes.empty()) return false;
      const auto written = reading_.given.find(statement.takes[0]);
      if (written == reading_.given.end()) return false;
      return written->first == base->first ||
             (written->second.is_alias() && written->second.event->takes[0] == base->first);
    };
    return std::ranges::none_of(program_.statements, shares) &&
           std::ranges::none_of(program_.updates, shares);
  }

  // A result is named by the module, or by the op if the module has more calls than this.
  void name_results() {
    for (const auto& [v, name] : reading_.recording.outputs) name_once(v, as_name(name));
    for (const Statement& statement : program_.statements) {
      const std::string path = as_name(module(statement));
      const std::string bare(is_move(statement.event->kind) ? "moved" : statement.bare());
      const bool own =
          bare == "linear" || bare == "embedding" || bare.find("norm") != std::string::npos;
      const bool named = path.size() > 1;
      const std::string stem = named && own ? path : named ? path + "_" + bare : bare;
      for (const std::int32_t v : statement.outs) name_once(v, stem);
    }
    for (const Statement& update : program_.updates) name_update(update);
    for (Statement& statement : program_.statements) {
      if (statement.function) name_inside(statement);
    }
  }

  void name_update(const Statement& update) {
    const bool of_parameter =
        update.kind == StatementKind::kGradient || update.kind == StatementKind::kEnd;
    const std::string bare(update.bare());
    for (const std::int32_t v : update.outs) {
      if (program_.names.contains(v)) continue;
      const std::string stem =
          of_parameter ? program_.names.at(update.takes[0]) +
                             (update.kind == StatementKind::kEnd ? "_after" : "_gradient")
                       : "step_" + bare.substr(bare.find_first_not_of('_'));
      program_.names[v] = fresh(stem);
    }
  }

  // Values that a function alone has.
  void name_inside(Statement& statement) {
    auto own = std::make_shared<CallFunction>(*statement.function);
    own->name = fresh(as_name(own->name));
    for (const auto& v : own->arrives) {
      if (v) name_once(*v, "gradient");
    }
    for (auto* statements : {&own->forward, &own->backward}) {
      for (Statement& one : *statements) {
        for (const std::int32_t v : one.outs) name_once(v, std::string(one.bare()));
        if (one.function) name_inside(one);
      }
    }
    statement.function = std::move(own);
  }

  void note_metas_of(const Statement& statement) {
    if (statement.function) {
      const CallFunction& function = *statement.function;
      for (const Statement& one : function.forward) note_metas_of(one);
      for (std::size_t i = 0; i < statement.outs.size(); ++i) {
        const auto own = program_.metas.find(function.results[i]);
        if (own == program_.metas.end()) continue;
        program_.metas[statement.outs[i]] = own->second;
        if (function.arrives[i]) program_.metas.try_emplace(*function.arrives[i], own->second);
      }
      for (const Statement& one : function.backward) note_metas_of(one);
    }
    if (statement.kind == StatementKind::kGradient) {
      const TensorMeta of = program_.metas.at(statement.takes[0]);
      program_.metas[statement.outs[0]] = of;
    }
    for (const EventValue& out : statement.event->out) {
      if (out.id.id >= 0) program_.metas.try_emplace(out.id.id, out.meta());
    }
    // A result that a function has passed on has a number that no event names.
    for (std::size_t i = 0; i < std::min(statement.outs.size(), statement.event->out.size()); ++i) {
      const EventValue& out = statement.event->out[i];
      if (out.id.id >= 0) program_.metas.try_emplace(statement.outs[i], out.meta());
    }
  }

  void note_metas() {
    for (const CallInput& input : program_.inputs) program_.metas[input.value] = input.meta;
    for (const Statement& statement : program_.statements) note_metas_of(statement);
    for (const Statement& update : program_.updates) note_metas_of(update);
  }

  void add_rows(std::int32_t v, std::set<std::int64_t>& rows) const {
    const TensorMeta meta = reading_.given.at(v).value->meta();
    if (!meta.shape.empty()) rows.insert(meta.shape[0]);
  }

  // Batches are the inputs of the root module, and other inputs whose first dim has the same
  // length.
  void mark_batch() {
    std::set<std::int64_t> rows;
    for (const auto& [v, given] : reading_.given) {
      if (given.event != nullptr && given.event->batch) add_rows(v, rows);
    }
    std::set<std::int64_t> drawn;  // inside of the recording
    for (const RecordedEvent& event : reading_.recording.events) {
      for (const std::int32_t v : event.takes) {
        const auto given = reading_.given.find(v);
        const bool own = given != reading_.given.end() && given->second.event == nullptr;
        if (event.kind == RecordedKind::kModule && own) add_rows(v, drawn);
      }
    }
    if (rows.empty() && drawn.size() == 1) rows = drawn;
    for (CallInput& input : program_.inputs) {
      const bool is_data =
          input.recorded.starts_with('v') && input.recorded.find('.') == std::string::npos;
      const bool first = rows.empty() && is_data;
      const bool fits = !input.meta.shape.empty() &&
                        (first || (rows.size() == 1 && rows.contains(input.meta.shape[0])));
      input.batch = fits && !input.parameter && !input.buffer;
      if (input.batch && rows.empty()) rows.insert(input.meta.shape[0]);
    }
  }

  Reading& reading_;
  CallProgram& program_;
  std::set<std::string> taken_, recorded_;
  std::map<std::string, int> next_;  // number behind a name that is taken
};

}  // namespace

void name_values(Reading& reading) { Namer(reading).name(); }

}  // namespace shardlab
