// Calls are already in the order of the program, and name their operands by value: it remains to
// find the inputs, the drawn values, and the calls whose results are used.
#include "sim/capture/step_program.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <iterator>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/fix.h"
#include "sim/capture/recorded_event.h"
#include "sim/capture/step_function.h"

namespace shardlab {

namespace {

std::size_t number_in(const Json& value) { return integer_of<std::size_t>(value.at("v")); }

// Results that are no values, as numbers, are left out.
std::vector<std::size_t> results_of(const Json& event) {
  std::vector<std::size_t> results;
  for (const Json& out : list_at(event, "out")) {
    if (out.is_object() && out.contains("v")) results.push_back(number_in(out));
  }
  return results;
}

std::string as_name(const std::string& path) {
  std::string name;
  for (const char c : path) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "_" + name;
  return name;
}

// Names that mean something in programs already, or in Python.
bool is_reserved(const std::string& name) {
  static const std::set<std::string> kNames = {
      "mesh",     "rank",  "world_size", "torch",  "F",        "aten",       "R",       "S",
      "P",        "grad",  "backward",   "ctx",    "no_grad",  "distribute", "float",   "and",
      "or",       "not",   "if",         "else",   "for",      "in",         "is",      "while",
      "with",     "def",   "pass",       "None",   "True",     "False",      "from",    "as",
      "del",      "class", "return",     "lambda", "import",   "try",        "raise",   "global",
      "nonlocal", "yield", "break",      "assert", "continue", "except",     "finally", "elif"};
  return kNames.contains(name);
}

class ProgramReader {
 public:
  explicit ProgramReader(const StepRecording& recording)
      : recording_(recording), fresh_number_(recording.values) {
    program_.recording = &recording;
    program_.renumbered = std::make_shared<std::deque<Json>>();
  }

  StepProgram read() {
    read_or_refuse([&] { read_program(); },
                   [&](const char* what) { refuse_event(recording_, reading_, what); });
    return std::move(program_);
  }

 private:
  void read_program() {
    if (!recording_.has_calls) {
      fail(ErrorKind::kValue, Fix{"record it with level=\"both\", the default"},
           "{}: the file has no calls above autograd, of which a program is made", recording_.path);
    }
    find_end();
    find_rules();
    for (std::size_t i = 0; i < end_; ++i) {
      reading_ = &recording_.events[i];
      read_event(*reading_);
    }
    read_last_gradients();
    read_updates();
    keep_what_counts();
    note_numbers();
    name_inputs();
    name_results();
    note_metas();
    mark_batch();
  }

  [[noreturn]] void refuse(const Json& event, const std::string& what, const std::string& fix) {
    fail(ErrorKind::kUnsupported, Fix{fix}, "{}: {} at {} is not taken to another mesh yet",
         recording_.path, what, place_of(recording_, event));
  }

  // One past the last backward of the first step: the optimizer's calls come after. Of a program
  // without backward, everything.
  void find_end() {
    for (std::size_t i = 0; i < recording_.events.size(); ++i) {
      const Json& event = recording_.events[i];
      if (event.at("k") == "local_op" && event.value("pass", "") == "opt") break;
      if (event.at("k") == "backward" || event.at("k") == "gradients") end_ = i + 1;
    }
    if (recording_.exported) end_ = recording_.events.size();
    if (end_ == 0) find_seed();
    if (end_ != 0) return;
    find_results();
    if (results_.empty()) {
      fail(ErrorKind::kValue, Fix{"record a step that calls a module, or loss.backward()"},
           "{}: no module runs in it, and nothing asks for gradients", recording_.path);
    }
    program_.notes.push_back("nothing in it calls loss.backward(): forward alone");
    end_ = recording_.events.size();
  }

  // Of a program without backward: the results of its modules.
  void find_results() {
    for (const Json& event : recording_.events) {
      if (event.at("k") != "module") continue;
      for (const Json& v : list_at(event, "out")) results_.insert(integer_of<std::size_t>(v));
    }
  }

  // Other recorders do not record the request for gradients: backward begins with a 1.
  void find_seed() {
    for (std::size_t i = 0; i < recording_.events.size(); ++i) {
      const Json& event = recording_.events[i];
      if (event.at("k") == "local_op" && event.value("pass", "") == "bwd") return;
      const bool seeds = event.at("k") == "call" && event.at("args").size() == 1 &&
                         bare_op(event.at("op").get<std::string>()) == "ones_like";
      if (!seeds) continue;
      seed_ = &event;
      end_ = i + 1;
    }
  }

  void read_seed(const Json& event) {
    StepStatement statement{.kind = StatementKind::kBackward, .event = &event, .op = "backward"};
    for_each_operand(event, [&](std::size_t v) { statement.takes.push_back(v); });
    statement.roots = statement.takes;
    statement.incoming.resize(1);
    program_.statements.push_back(std::move(statement));
  }

  // The gradient rules of autograd.Functions: the ops of their first backward.
  void find_rules() {
    for (const Json& event : recording_.events) {
      const bool op = event.at("k") == "local_op" && event.contains("f");
      if (op || event.at("k") == "rule") {
        Rule& rule = rules_[integer_of<std::size_t>(event.at("f"))];
        if (rule.end != nullptr) continue;
        if (op) rule.ops.push_back(&event);
        if (!op) rule.end = &event;
      }
    }
    for (const Json& event : recording_.events) {
      if (event.at("k") != "function" || rule_of(event) == nullptr) continue;
      functions_.emplace(integer_of<std::size_t>(event.at("calls").at(0)), &event);
    }
  }

  struct Rule {
    std::vector<const Json*> ops;
    const Json* end = nullptr;
  };
  const Rule* rule_of(const Json& function) const {
    if (!function.contains("f")) return nullptr;
    const auto rule = rules_.find(integer_of<std::size_t>(function.at("f")));
    return rule == rules_.end() || rule->second.end == nullptr ? nullptr : &rule->second;
  }

  // Functions whose calls begin with this one.
  void begin_functions(std::size_t call) {
    const auto [begin, end] = functions_.equal_range(call);
    for (auto it = begin; it != end; ++it) {
      begun_.try_emplace(it->second, program_.statements.size());
    }
  }

  // The event with operands as the program numbers them: those that a function has passed on are
  // values of their own.
  const Json& renumbered(const Json& event) {
    if (passed_.empty()) return event;
    Json copy = event;
    std::map<std::size_t, std::size_t> others;
    Json none = Json::array();
    const auto renumber = [&](const auto& self, Json& item) -> void {
      if (item.is_array()) {
        for (Json& one : item) self(self, one);
      } else if (item.is_object() && item.contains("v") && item.contains("f")) {
        const auto found = passed_.find({number_in(item), integer_of<std::size_t>(item.at("f"))});
        if (found == passed_.end()) return;
        others[number_in(item)] = found->second;
        item["v"] = found->second;
      }
    };
    for (const char* key : {"args", "kwargs"}) {
      if (!copy.contains(key)) continue;
      for (Json& item : copy.at(key)) renumber(renumber, item);
    }
    const Json& through = list_at(event, "through");
    for (std::size_t i = 0; i < std::min(through.size(), list_at(event, "of").size()); ++i) {
      if (through.at(i).is_null()) continue;
      Json root = {{"v", event.at("of").at(i)}, {"f", through.at(i)}};
      renumber(renumber, root);
      copy["of"][i] = root.at("v");
    }
    // A view of all of it has its number, too.
    for (Json& out : copy.at("k") == "call" ? copy.at("out") : none) {
      const bool again = out.is_object() && out.contains("v") && others.contains(number_in(out));
      if (again) out["v"] = others.at(number_in(out));
    }
    return !others.empty() ? program_.renumbered->emplace_back(std::move(copy)) : event;
  }

  // Without a rule nothing asks for its gradient: its calls are constants.
  void read_function(const Json& given) {
    if (given.value("reentrant", Json()) == true) {
      refuse(given, "an autograd.Function inside of checkpoint(use_reentrant=True)",
             "call checkpoint(..., use_reentrant=False)");
    }
    if (!given.contains("args") || !given.contains("calls")) {
      refuse(given, "the autograd.Function " + given.at("name").get<std::string>(),
             "record it with the recorder of this version, or replay it as it is");
    }
    const Rule* rule = rule_of(given);
    if (rule == nullptr) return;
    const Json& event = renumbered(given);
    begin_functions(integer_of<std::size_t>(event.at("calls").at(0)));
    const std::size_t begin = begun_.at(&given);
    FunctionParts parts{.event = &event, .rule = rule->end, .fresh = &fresh_number_};
    parts.forward = taken_from(begin);
    for (const Json* op : rule->ops) {
      if (op->value("random", false)) {
        refuse(given, "what the backward of an autograd.Function draws", "save it in forward");
      }
      lower_op(*op, false);
    }
    parts.backward = taken_from(begin);
    parts.is_known = [&](std::size_t v) {
      return given_.contains(v) || std::ranges::any_of(program_.statements, [&](const auto& one) {
               return std::ranges::find(one.outs, v) != one.outs.end();
             });
    };
    StepStatement statement = function_statement(recording_, std::move(parts));
    for (std::size_t i = 0; i < statement.outs.size(); ++i) {
      const std::size_t own = statement.function->results[i], f = event.at("f");
      if (statement.outs[i] != own) passed_[{own, f}] = statement.outs[i];
    }
    made_.insert(statement.outs.begin(), statement.outs.end());
    program_.statements.push_back(std::move(statement));
  }

  // The statements from there on, without gradients that they take.
  std::vector<StepStatement> taken_from(std::size_t begin) {
    auto& all = program_.statements;
    const auto first = std::stable_partition(
        all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(),
        [](const StepStatement& one) { return one.kind == StatementKind::kGradient; });
    std::vector<StepStatement> taken(std::make_move_iterator(first),
                                     std::make_move_iterator(all.end()));
    all.erase(first, all.end());
    return taken;
  }

  void read_event(const Json& event) {
    if (&event == seed_) return read_seed(event);
    const auto kind = event.at("k").get<std::string>();
    if (kind == "input" || kind == "const" || kind == "alias") {
      given_[number_in(event)] = &event;
      if (event.contains("raw") || event.contains("fill")) ++elements_[number_in(event)];
    } else if (kind == "local_op") {
      if (event.contains("c")) inside_[integer_of<std::size_t>(event.at("c"))].push_back(&event);
      note_cast(event);
      note_accumulation(event);
      for (const char* key : {"out", "mut"}) {
        for (const Json& value : list_at(event, key)) {
          if (!value.is_object() || !value.contains("raw")) continue;
          const std::size_t v = number_in(value);
          const int time = ++elements_[v];
          raws_[v] = value;
          if (time > 1) raws_[v]["name"] = fmt::format("v{}:{}", v, time);
        }
      }
    } else if (kind == "function") {
      read_function(event);
    } else if (kind == "check" && event.value("pass", "") == "bwd") {
      note_gradient(event);
    } else if (kind == "backward") {
      read_backward(event);
    } else if (kind == "gradients") {
      read_gradients(event);
    } else if (kind == "read") {
      note_number(event);
    } else if (kind == "call") {
      read_call(event);
    }
  }

  void read_backward(const Json& given) {
    if (given.contains("only")) {
      refuse(given, "a backward for a few tensors alone (inputs=...)",
             "take them by torch.autograd.grad(loss, inputs)");
    }
    const Json& event = renumbered(given);
    StepStatement statement{.kind = StatementKind::kBackward, .event = &event, .op = "backward"};
    for (const Json& root : event.at("of")) {
      statement.roots.push_back(integer_of<std::size_t>(root));
    }
    statement.incoming.resize(statement.roots.size());
    const Json& gradients = list_at(event, "grads");
    for (std::size_t i = 0; i < std::min(gradients.size(), statement.roots.size()); ++i) {
      if (gradients.at(i).is_number()) statement.incoming[i] = gradients.at(i);
    }
    statement.takes = statement.roots;
    for (const auto& gradient : statement.incoming) {
      if (!gradient) continue;
      make_gradient(*gradient);
      statement.takes.push_back(*gradient);
    }
    if (statement.roots.empty()) {
      refuse(event, "a backward of values that no call has made", "differentiate a result");
    }
    if (event.contains("to")) {
      statement.kind = StatementKind::kGradients;
      statement.op = "gradient";
      for (const Json& v : event.at("to")) statement.takes.push_back(integer_of<std::size_t>(v));
    }
    program_.statements.push_back(std::move(statement));
  }

  // The results of the torch.autograd.grad before it.
  void read_gradients(const Json& event) {
    const auto asked = std::ranges::find(program_.statements.rbegin(), program_.statements.rend(),
                                         StatementKind::kGradients, &StepStatement::kind);
    const Json& out = event.at("out");
    const bool fits = asked != program_.statements.rend() && asked->outs.empty() &&
                      asked->event->at("to").size() == out.size();
    if (!fits) refuse(event, "torch.autograd.grad of other tensors", "use loss.backward()");
    for (const Json& value : out) {
      const std::size_t v = value.is_object() ? number_in(value) : fresh_number_++;
      if (given_.contains(v) || !made_.insert(v).second) {
        refuse(event, "a gradient that is another value of the program", "use its clone");
      }
      asked->outs.push_back(v);
    }
  }

  // Those of the last backward of the program.
  void read_last_gradients() {
    for (std::size_t i = end_; i < recording_.events.size(); ++i) {
      const Json& event = recording_.events[i];
      const std::string pass = event.value("pass", "");
      if (event.at("k") == "local_op" && pass == "opt") return;
      if (event.at("k") == "local_op") note_accumulation(event);
      if (event.at("k") == "check" && pass == "bwd") note_gradient(event);
    }
  }

  void note_accumulation(const Json& op) {
    if (op.value("node", "") != "AccumulateGrad") return;
    adds_up_ = bare_op(op.at("op").get<std::string>()).starts_with("add");
  }

  // Gradients as a backward leaves them. To set them to None is no op: it shows in a later backward
  // that does not add to them.
  void note_gradient(const Json& event) {
    const auto name = event.at("name").get<std::string>();
    const std::optional<std::size_t> parameter = parameter_of(name);
    const auto backward =
        std::ranges::find(program_.statements.rbegin(), program_.statements.rend(),
                          StatementKind::kBackward, &StepStatement::kind);
    if (!parameter || backward == program_.statements.rend()) return;
    if (!fresh_gradients_.insert(name).second && !adds_up_) backward->resets.push_back(*parameter);
    gradient_checks_[number_in(event)] = &event;
    adds_up_ = false;
  }

  // Of the gradient "w.grad".
  std::optional<std::size_t> parameter_of(const std::string& gradient) const {
    if (!gradient.ends_with(".grad")) return std::nullopt;
    const std::string name = gradient.substr(0, gradient.size() - 5);
    if (const auto leaf = leaves_.find(name); leaf != leaves_.end()) return leaf->second;
    for (const auto& [number, input] : given_) {
      if (input->value("name", "") != name || !input->value("requires_grad", false)) continue;
      return number;
    }
    return std::nullopt;
  }

  // A gradient of an earlier backward that a call takes.
  void make_gradient(std::size_t v) {
    const auto check = gradient_checks_.find(v);
    if (check == gradient_checks_.end() || given_.contains(v) || !made_.insert(v).second) return;
    StepStatement statement{
        .kind = StatementKind::kGradient, .event = check->second, .no_grad = true};
    statement.op = "gradient";
    statement.takes = {*parameter_of(check->second->at("name").get<std::string>())};
    statement.outs = {v};
    program_.statements.push_back(std::move(statement));
  }

  // If the call becomes several statements, its operands are leaves before the first.
  void read_call(const Json& given) {
    const std::size_t begin = program_.statements.size();
    add_call(given);
    for (const Json& leaf : list_at(given, "leaves")) {
      const auto v = integer_of<std::size_t>(leaf);
      leaves_.emplace(fmt::format("v{}", v), v);
      if (begin < program_.statements.size()) program_.statements[begin].leaves.push_back(v);
    }
  }

  void add_call(const Json& given) {
    const Json& event = renumbered(given);
    begin_functions(integer_of<std::size_t>(event.at("c")));
    find_numbers(event);
    StepStatement statement{.event = &event, .op = event.at("op").get<std::string>()};
    if (recording_.exported && recorded_row(event) == nullptr) {
      refuse_missing(event);
    }
    statement.no_grad = event.value("no_grad", false);
    for_each_operand(event, [&](std::size_t v) {
      make_gradient(v);
      statement.takes.push_back(v);
    });
    statement.outs = results_of(event);
    if (statement.outs.empty()) return note_number(event);
    const bool same = statement.outs.size() == 1 && statement.takes.size() == 1 &&
                      statement.outs == statement.takes;
    // x.detach() is x; a use of the detached value is marked.
    const std::string bare = bare_op(statement.op);
    if (same && (bare == "detach" || bare == "alias" || bare == "lift_fresh")) return;
    if (returns_operands(statement)) return;
    if (event.contains("autocast") && !take_casts(statement)) return lower(event);
    if (!take_drawn(statement)) return;
    made_.insert(statement.outs.begin(), statement.outs.end());
    program_.statements.push_back(std::move(statement));
  }

  [[noreturn]] void refuse_missing(const Json& event) {
    const auto op = event.at("op").get<std::string>();
    fail(ErrorKind::kUnsupported, Fix{without_op(op)}, "{}: {} at {} does not exist here",
         recording_.path, op, place_of(recording_, event));
  }

  const std::vector<const Json*>& inside(const Json& call) {
    return inside_[integer_of<std::size_t>(call.at("c"))];
  }

  static bool is_cast(const std::string& bare) { return bare == "_to_copy" || bare == "to"; }

  // Below autograd autocast shows: as casts, each of which it may use for several calls.
  void note_cast(const Json& op) {
    if (!is_cast(bare_op(op.at("op").get<std::string>())) || op.contains("error")) return;
    for (const std::size_t v : results_of(op)) casts_[v] = &op;
  }

  // False: it has cast something else than operands of the call.
  bool take_casts(StepStatement& statement) {
    if (is_cast(bare_op(statement.op))) return true;
    bool all = true;
    for (const Json* op : inside(*statement.event)) {
      if (is_cast(bare_op(op->at("op").get<std::string>()))) continue;
      for_each_operand(*op, [&](std::size_t v) {
        const auto cast = casts_.find(v);
        const bool own = std::ranges::find(statement.takes, v) != statement.takes.end();
        if (cast == casts_.end() || own) return;
        const Json& given = cast->second->at("args").at(0);
        if (!given.is_object()) refuse_event(recording_, cast->second, "a cast takes one tensor");
        const std::size_t from = number_in(given);
        const Json dtype = keywords_of(*cast->second).value("dtype", Json());
        all = all && dtype.is_object() &&
              std::ranges::find(statement.takes, from) != statement.takes.end();
        if (all) statement.casts[from] = dtype_of(dtype.at("dtype"));
      });
    }
    return all;
  }

  // The ops that a call is made of, in its place.
  void lower(const Json& call) {
    for (const Json* op : inside(call)) lower_op(*op, call.value("no_grad", false));
  }

  void lower_op(const Json& op, bool no_grad) {
    if (recorded_row(op) == nullptr) refuse_missing(op);
    StepStatement statement{.event = &op, .op = op.at("op").get<std::string>()};
    statement.no_grad = no_grad;
    for_each_operand(op, [&](std::size_t v) { statement.takes.push_back(v); });
    statement.outs = results_of(op);
    if (statement.outs.empty() || returns_operands(statement)) return;
    for (const std::size_t v : statement.takes) make_cast(v, no_grad);
    made_.insert(statement.outs.begin(), statement.outs.end());
    if (op.value("random", false)) {
      if (!take_draw(statement)) return;
    } else if (statement.takes.empty()) {
      statement.kind = StatementKind::kFactory;
    }
    if (op.value("ties", false)) take_choice(statement);
    program_.statements.push_back(std::move(statement));
  }

  // A cast that an earlier call has made, of which the program has only the operand.
  void make_cast(std::size_t v, bool no_grad) {
    const auto cast = casts_.find(v);
    if (cast == casts_.end() || !made_.insert(v).second) return;
    StepStatement statement{
        .event = cast->second, .op = cast->second->at("op").get<std::string>(), .no_grad = no_grad};
    for_each_operand(*cast->second, [&](std::size_t of) { statement.takes.push_back(of); });
    statement.outs = {v};
    program_.statements.push_back(std::move(statement));
  }

  // The numbers that an op drew. False: its results are inputs.
  bool take_draw(StepStatement& statement) {
    const std::string bare = bare_op(statement.op);
    if (bare == "native_dropout") {
      take_mask(statement, *statement.event, 1);
      statement.outs.resize(1);
      return true;
    }
    for (const std::size_t v : statement.outs) {
      if (!raws_.contains(v)) {
        refuse(*statement.event, "what " + statement.op + " draws", "record it with its values");
      }
    }
    if (statement.returns_first() && is_in_place(statement.op)) {
      draw_in_place(statement);
      return true;
    }
    for (const std::size_t v : statement.outs) given_.emplace(v, &raws_.at(v));
    return false;
  }

  // x.flatten(1) of a matrix is x, and broadcast_tensors of equal shapes gives its operands.
  static bool returns_operands(const StepStatement& statement) {
    const OpRow* row = recorded_row(*statement.event);
    if (row == nullptr || row->op.is_inplace() || row->op.is_out_variant()) return false;
    return std::ranges::all_of(statement.outs, [&](std::size_t v) {
      return std::ranges::find(statement.takes, v) != statement.takes.end();
    });
  }

  // Numbers that the program has read from tensors.
  struct Number {
    const Json* event;
    double value;
    const Json* user = nullptr;  // the first later call that takes the same number
    bool is_size = false;        // it is a length of pieces there
  };

  void note_number(const Json& event) {
    for (const Json& out : list_at(event, "out")) {
      const Json number = out.is_object() ? out.value("scalar", Json()) : Json();
      const Json numbers = number.is_array() ? number : Json::array({number});
      for (const Json& one : numbers) {
        // 0, 1 and 2 are everywhere.
        const bool rare = one.is_number() && std::fabs(one.get<double>()) > 2;
        const bool odd =
            one.is_number_float() && one.get<double>() != std::floor(one.get<double>());
        if (rare || odd) numbers_.push_back({&event, one.get<double>()});
      }
    }
  }

  // Whether a call takes numbers that were read from tensors before it.
  void find_numbers(const Json& event) {
    if (numbers_.empty()) return;
    static const std::set<std::string> kCutting = {"split",  "split_with_sizes", "narrow",
                                                   "slice",  "tensor_split",     "chunk",
                                                   "select", "repeat_interleave"};
    const bool cuts = kCutting.contains(bare_op(event.at("op").get<std::string>()));
    const auto look = [&](const auto& self, const Json& argument) -> void {
      if (argument.is_structured()) {
        for (const Json& item : argument) self(self, item);
      } else if (argument.is_number()) {
        for (Number& number : numbers_) {
          if (number.user != nullptr || number.value != argument.get<double>()) continue;
          number.user = &event;
          number.is_size = cuts && argument.is_number_integer();
        }
      }
    };
    for (const Json& argument : event.at("args")) look(look, argument);
    for (const Json& argument : keywords_of(event)) look(look, argument);
  }

  // Sizes of pieces that follow from data hold for this data alone.
  void note_numbers() {
    for (const Number& number : numbers_) {
      if (number.user == nullptr) continue;
      const std::string text =
          fmt::format("{} of {} at {} is a number of the program: {} at {} takes it", number.value,
                      number.event->value("op", "tolist"), place_of(recording_, *number.event),
                      number.user->value("op", ""), place_of(recording_, *number.user));
      if (number.is_size) {
        program_.sizes_of_data.push_back(text);
      } else {
        program_.notes.push_back(text);
      }
    }
  }

  // The ops after the last backward: clipping, and one step of optimizers.
  void read_updates() {
    for (const StepStatement& statement : program_.statements) {
      updated_.insert(statement.outs.begin(), statement.outs.end());
    }
    bool steps = false;
    for (const Json& event : recording_.events) {
      const std::string pass = event.value("pass", "");
      steps = steps || (event.at("k") == "local_op" && pass == "opt");
      if (event.at("k") != "check" || pass != "bwd") continue;
      gradients_.try_emplace(number_in(event), event.at("name").get<std::string>());
      if (!steps) graded_.insert(event.at("name").get<std::string>());
    }
    steps = false;
    for (std::size_t i = end_; i < recording_.events.size() && left_out_.empty(); ++i) {
      const Json& event = recording_.events[i];
      reading_ = &event;
      const auto kind = event.at("k").get<std::string>();
      if (kind == "input" || kind == "const" || kind == "alias") given_[number_in(event)] = &event;
      if (kind != "local_op") continue;
      const std::string pass = event.value("pass", "");
      if (steps && pass == "fwd") {
        program_.notes.push_back(fmt::format("the program ends before {} at {}, after a step",
                                             event.value("op", ""), place_of(recording_, event)));
        break;
      }
      steps = steps || pass == "opt";
      if (pass != "bwd") read_update(event);
    }
    const bool by_hand = std::ranges::any_of(program_.updates, [&](const StepStatement& one) {
      const auto given = one.takes.empty() ? given_.end() : given_.find(one.takes[0]);
      return one.writes() && given != given_.end() && given->second->value("requires_grad", false);
    });
    if ((!steps && !by_hand) || !left_out_.empty()) program_.updates.clear();
    if ((steps || by_hand) && !left_out_.empty()) {
      program_.notes.push_back("the optimizer is left out: " + left_out_);
    }
  }

  void read_update(const Json& event) {
    StepStatement statement{.kind = StatementKind::kCall, .event = &event, .no_grad = true};
    statement.op = event.at("op").get<std::string>();
    for_each_operand(event, [&](std::size_t v) { statement.takes.push_back(v); });
    statement.outs = results_of(event);
    const std::string bare = bare_op(statement.op);
    const auto leave_out = [&](const std::string& why) {
      left_out_ = fmt::format("{}, in {} at {}", why, statement.op, place_of(recording_, event));
    };
    if (bare == "_local_scalar_dense" || bare == "is_nonzero") {
      for (const std::size_t v : statement.takes) {
        if (of_gradients_.contains(v)) gradient_numbers_.push_back(&event);
      }
      return;
    }
    for (const Json* number : gradient_numbers_) {
      const Json scalar = number->at("out").at(0).value("scalar", Json());
      if (!scalar.is_number() || std::fabs(scalar.get<double>()) <= 2) continue;
      for (const Json& argument : event.at("args")) {
        if (argument == scalar) leave_out("it takes a number of a gradient");
      }
    }
    if (event.value("random", false)) return leave_out("it draws numbers");
    if (event.contains("error")) return leave_out("it failed");
    const bool same = statement.outs.size() == 1 && statement.outs == statement.takes;
    if (same && (bare == "detach" || bare == "alias" || bare == "lift_fresh")) return;
    for (const std::size_t v : statement.takes) {
      if (!take_update_operand(event, v)) return leave_out("it takes a value of backward");
    }
    const bool taints = std::ranges::any_of(
        statement.takes, [&](std::size_t v) { return of_gradients_.contains(v); });
    if (taints) of_gradients_.insert(statement.outs.begin(), statement.outs.end());
    updated_.insert(statement.outs.begin(), statement.outs.end());
    if (statement.takes.empty()) statement.kind = StatementKind::kFactory;
    program_.updates.push_back(std::move(statement));
  }

  // Gradients are taken from the parameters, once each. False: no operand here gives the value.
  bool take_update_operand(const Json& event, std::size_t v) {
    if (updated_.contains(v)) return true;
    const auto given = given_.find(v);
    if (given != given_.end()) return given->second->value("k", "") != "alias";
    const auto gradient = gradients_.find(v);
    if (gradient == gradients_.end()) return false;
    const std::optional<std::size_t> parameter = parameter_of(gradient->second);
    if (!parameter) return false;
    StepStatement statement{.kind = StatementKind::kGradient, .event = &event, .no_grad = true};
    statement.op = "gradient";
    statement.takes = {*parameter};
    statement.outs = {v};
    program_.updates.push_back(std::move(statement));
    updated_.insert(v);
    of_gradients_.insert(v);
    return true;
  }

  // True: the numbers that the call drew replace it. False: the results are inputs.
  bool take_drawn(StepStatement& statement) {
    if (statement.takes.empty()) statement.kind = StatementKind::kFactory;
    const auto& ops = inside(*statement.event);
    if (std::ranges::any_of(ops, [](const Json* op) { return op->value("ties", false); })) {
      take_choice(statement);
    }
    const auto drawn =
        std::ranges::find_if(ops, [](const Json* op) { return op->value("random", false); });
    if (drawn == ops.end() || recording_.shapes_only) return true;
    if (attends_without_dropout(*statement.event)) return true;
    const std::string bare = bare_op(statement.op);
    if (bare == "dropout" || bare == "dropout_" || bare == "native_dropout" ||
        bare == "feature_dropout") {
      take_mask(statement, **drawn, 1);
      return true;
    }
    if (is_plain_attention(*statement.event)) {
      take_attention(statement, **drawn);
      return true;
    }
    const bool all =
        std::ranges::all_of(statement.outs, [&](std::size_t v) { return raws_.contains(v); });
    if (!all || statement.event->contains("seq")) {
      lower(*statement.event);
      return false;
    }
    if (statement.returns_first() && is_in_place(statement.op)) {
      draw_in_place(statement);
      return true;
    }
    for (const std::size_t v : statement.outs) given_.emplace(v, &raws_.at(v));
    return false;
  }

  // Other indices of equal elements would be as right, but gradients would flow elsewhere.
  void take_choice(StepStatement& statement) {
    if (statement.outs.size() != 2 || !raws_.contains(statement.outs[1])) return;
    statement.kind = StatementKind::kChosen;
    statement.mask = statement.outs[1];
    Json& indices = raws_.at(statement.mask);
    indices["stem"] = "chosen";
    given_.emplace(statement.mask, &indices);
    statement.takes = {statement.takes.at(0), statement.mask};
    statement.outs.resize(1);
  }

  // x.normal_(): the tensor may be a part of another, and be drawn again.
  void draw_in_place(StepStatement& statement) {
    const std::size_t v = statement.takes[0], drawn = fresh_number_++;
    Json& elements = drawn_elements_.emplace_back(raws_.at(v));
    if (!elements.contains("name")) elements["name"] = fmt::format("v{}", v);
    given_.emplace(drawn, &elements);
    statement.kind = StatementKind::kDrawn;
    statement.takes = {v, drawn};
  }

  // Attention is recorded as drawing, even with a dropout of 0.
  static bool attends_without_dropout(const Json& event) {
    if (bare_op(event.at("op").get<std::string>()) != "scaled_dot_product_attention") return false;
    constexpr std::size_t kDropout = 4;
    const Json dropout = argument_of(event, kDropout, "dropout_p", 0.0);
    return dropout.is_number() && dropout.get<double>() == 0;
  }

  // Without groups: as many heads of keys as of queries.
  static bool is_plain_attention(const Json& event) {
    const Json& args = event.at("args");
    if (bare_op(event.at("op").get<std::string>()) != "scaled_dot_product_attention" ||
        args.size() < 5 || args.size() > 6) {
      return false;
    }
    const Json& given = keywords_of(event);
    return std::ranges::all_of(given.items(), [](const auto& one) {
      return one.key() == "scale" && one.value().is_number();
    });
  }

  void take_attention(StepStatement& statement, const Json& draw) {
    const std::vector<std::size_t> operands = statement.takes;
    take_mask(statement, draw, 4);
    statement.kind = StatementKind::kAttention;
    statement.takes = operands;
    statement.takes.push_back(statement.mask);
  }

  void take_mask(StepStatement& statement, const Json& draw, std::size_t probability) {
    statement.kind = StatementKind::kDropout;
    statement.scale = 1 / (1 - number_of(statement.event->at("args").at(probability)));
    for (const char* key : {"out", "mut"}) {
      for (const Json& value : list_at(draw, key)) {
        if (!value.is_object() || !value.contains("raw")) continue;
        statement.mask = number_in(value);  // of native_dropout's two results, the second
      }
    }
    given_.emplace(statement.mask, &raws_.at(statement.mask));
    statement.takes = {statement.takes.at(0), statement.mask};
  }

  // From the end: values that gradients are taken of, and calls that write.
  void keep_what_counts() {
    std::set<std::size_t> wanted = results_;
    for (const auto& [v, name] : recording_.outputs) wanted.insert(v);
    keep(program_.updates, wanted);
    keep(program_.statements, wanted);
    end_parameters();
  }

  void keep(std::vector<StepStatement>& statements, std::set<std::size_t>& wanted) {
    std::vector<StepStatement> kept;
    for (auto it = statements.rbegin(); it != statements.rend(); ++it) {
      const bool used =
          std::ranges::any_of(it->outs, [&](std::size_t v) { return wanted.contains(v); });
      const bool differentiates =
          it->kind == StatementKind::kBackward || it->kind == StatementKind::kGradients;
      if (!differentiates && !used && !it->writes()) continue;
      for (const std::size_t v : it->takes) wanted.insert(v);
      kept.push_back(std::move(*it));
    }
    std::ranges::reverse(kept);
    statements = std::move(kept);
  }

  // Parameters are compared as they are after the step.
  void end_parameters() {
    std::set<std::size_t> written;
    for (const StepStatement& update : program_.updates) {
      if (update.writes()) written.insert(update.takes.begin(), update.takes.end());
    }
    for (const std::size_t v : written) {
      const auto given = given_.find(v);
      if (given == given_.end() || !given->second->value("requires_grad", false)) continue;
      StepStatement end{.kind = StatementKind::kEnd, .event = given->second, .no_grad = true};
      end.op = "parameter";
      end.takes = {v};
      end.outs = {fresh_number_++};
      program_.updates.push_back(std::move(end));
    }
  }

  std::string fresh(const std::string& wanted) {
    std::string name = wanted;
    int& next = next_.try_emplace(wanted, 2).first->second;
    while (is_reserved(name) || !taken_.insert(name).second) {
      name = fmt::format("{}_{}", wanted, next++);
    }
    return name;
  }

  void name_inputs() {
    std::set<std::size_t> made;
    for (const auto* statements : {&program_.statements, &program_.updates}) {
      for (const StepStatement& statement : *statements) {
        for (const std::size_t v : statement.takes) {
          if (made.insert(v).second) add_input(*statement.event, v);
        }
        made.insert(statement.outs.begin(), statement.outs.end());
      }
    }
  }

  void add_input(const Json& user, std::size_t v) {
    const auto found = given_.find(v);
    if (found == given_.end()) {
      refuse(user, "a value that no call has made, as the gradient of a detached tensor",
             "give it memory of its own: x.detach().clone().requires_grad_()");
    }
    const bool view = found->second->value("k", "") == "alias";
    if (view && !is_part_of_given(*found->second)) {
      refuse(user, "a view of memory that no call has made", "take it by an op: x[...]");
    }
    const Json& event = *found->second;
    StepInput input{.value = v, .meta = recorded_meta(event)};
    input.recorded = event.value("name", fmt::format("v{}", v));
    const bool is_mask = event.value("k", "").empty();
    const std::string path = as_name(module_of(user));
    const std::string own = is_mask ? event.value("stem", "drawn") : argument_name(user, v);
    const bool named = event.contains("name") && !is_mask;
    const std::string stem = named             ? as_name(input.recorded)
                             : path.size() > 1 ? path + "_" + own
                                               : own;
    if (!named) input.user = &user;
    const bool again = std::ranges::find(program_.inputs, input.recorded, &StepInput::recorded) !=
                       program_.inputs.end();
    input.tensor = again ? fmt::format("v{}", v) : input.recorded;
    input.name = fresh(stem);
    input.parameter = event.value("requires_grad", false);
    // Files of other recorders, and exported programs, do not say which.
    input.graded =
        input.parameter && (graded_.empty() || graded_.contains(input.recorded + ".grad"));
    program_.names[v] = input.name;
    program_.inputs.push_back(std::move(input));
  }

  // Data without a name is called as the call calls it that takes it first: "target".
  static std::string argument_name(const Json& user, std::size_t v) {
    const OpRow* row = recorded_row(user);
    const Json& args = list_at(user, "args");
    for (std::size_t i = 0; row != nullptr && i < args.size(); ++i) {
      bool takes = false;
      for_each_number(args.at(i), [&](std::size_t one) { takes = takes || one == v; });
      if (!takes || i >= row->op.arguments.size()) continue;
      const std::string name(row->op.arguments[i].name);
      const bool says = name != "self" && name != "other" && name != "input" && name != "tensors";
      return says ? name : "data";
    }
    return "data";
  }

  // A view that was made before the step, of data that nothing writes: it is an input of its own.
  bool is_part_of_given(const Json& view) {
    const auto base = given_.find(integer_of<std::size_t>(view.at("of")));
    if (base == given_.end() || base->second->value("requires_grad", false)) return false;
    if (base->second->contains("undefined")) return false;
    const auto shares = [&](const StepStatement& statement) {
      if (!statement.writes() || statement.takes.empty()) return false;
      const auto written = given_.find(statement.takes[0]);
      return written != given_.end() &&
             (written->first == base->first || written->second->value("of", Json()) == base->first);
    };
    return std::ranges::none_of(program_.statements, shares) &&
           std::ranges::none_of(program_.updates, shares);
  }

  // By the module; by the op, if the module has more calls than this.
  void name_results() {
    for (const auto& [v, name] : recording_.outputs) {
      if (!program_.names.contains(v)) program_.names[v] = fresh(as_name(name));
    }
    for (const StepStatement& statement : program_.statements) {
      const std::string path = as_name(module_of(*statement.event));
      const std::string bare = bare_op(statement.op);
      const bool own =
          bare == "linear" || bare == "embedding" || bare.find("norm") != std::string::npos;
      const bool named = path.size() > 1;
      for (const std::size_t v : statement.outs) {
        if (program_.names.contains(v)) continue;
        program_.names[v] = fresh(named && own ? path : named ? path + "_" + bare : bare);
      }
    }
    for (const StepStatement& update : program_.updates) {
      const bool of_parameter =
          update.kind == StatementKind::kGradient || update.kind == StatementKind::kEnd;
      const std::string bare = bare_op(update.op);
      for (const std::size_t v : update.outs) {
        if (program_.names.contains(v)) continue;
        const std::string stem =
            of_parameter ? program_.names.at(update.takes[0]) +
                               (update.kind == StatementKind::kEnd ? "_after" : "_gradient")
                         : "step_" + bare.substr(bare.find_first_not_of('_'));
        program_.names[v] = fresh(stem);
      }
    }
    for (StepStatement& statement : program_.statements) {
      if (statement.function) name_inside(statement);
    }
  }

  // Values that a function alone has.
  void name_inside(StepStatement& statement) {
    auto own = std::make_shared<StepFunction>(*statement.function);
    own->name = fresh(as_name(own->name));
    const auto name = [&](std::size_t v, const std::string& stem) {
      if (!program_.names.contains(v)) program_.names[v] = fresh(stem);
    };
    for (const auto& v : own->arrives) {
      if (v) name(*v, "gradient");
    }
    for (auto* statements : {&own->forward, &own->backward}) {
      for (StepStatement& one : *statements) {
        for (const std::size_t v : one.outs) name(v, bare_op(one.op));
        if (one.function) name_inside(one);
      }
    }
    statement.function = std::move(own);
  }

  void note_metas_of(const StepStatement& statement) {
    if (statement.function) {
      for (const StepStatement& one : statement.function->forward) note_metas_of(one);
      for (std::size_t i = 0; i < statement.outs.size(); ++i) {
        const auto own = program_.metas.find(statement.function->results[i]);
        if (own != program_.metas.end()) program_.metas[statement.outs[i]] = own->second;
      }
    }
    if (statement.kind == StatementKind::kGradient) {
      program_.metas[statement.outs[0]] = recorded_meta(*statement.event);
    }
    for (const Json& out : list_at(*statement.event, "out")) {
      if (out.is_object() && out.contains("v")) {
        program_.metas.try_emplace(number_in(out), recorded_meta(out));
      }
    }
  }

  void note_metas() {
    for (const StepInput& input : program_.inputs) program_.metas[input.value] = input.meta;
    for (const StepStatement& statement : program_.statements) note_metas_of(statement);
  }

  // Batches are the inputs of the root module, and other inputs whose first dim has the same
  // length.
  void mark_batch() {
    std::set<std::int64_t> rows;
    for (const auto& [v, event] : given_) {
      if (!is_batch_argument(*event)) continue;
      const TensorMeta meta = recorded_meta(*event);
      if (!meta.shape.empty()) rows.insert(meta.shape[0]);
    }
    for (StepInput& input : program_.inputs) {
      const bool first = rows.empty() && is_data(input);
      const bool fits = !input.meta.shape.empty() &&
                        (first || (rows.size() == 1 && rows.contains(input.meta.shape[0])));
      input.batch = fits && !input.parameter && !is_buffer(input);
      if (input.batch && rows.empty()) rows.insert(input.meta.shape[0]);
    }
  }

  static bool is_batch_argument(const Json& event) { return event.value("batch", false); }
  static bool is_data(const StepInput& input) {
    return input.recorded.starts_with('v') && input.recorded.find('.') == std::string::npos;
  }
  bool is_buffer(const StepInput& input) const {
    const Json& event = *given_.at(input.value);
    return event.contains("name") && !is_batch_argument(event);
  }

  const StepRecording& recording_;
  StepProgram program_;
  std::map<std::size_t, const Json*> given_;
  std::map<std::size_t, Json> raws_;     // results that the file has elements of
  std::map<std::size_t, int> elements_;  // how often, of each value
  std::deque<Json> drawn_elements_;      // of draws in place
  std::size_t fresh_number_;             // of a value that the recording does not have
  std::map<std::size_t, std::vector<const Json*>> inside_;  // ops, by call
  std::map<std::size_t, Rule> rules_;                       // of autograd.Functions, by number
  std::multimap<std::size_t, const Json*> functions_;       // with a rule, by their first call
  std::map<const Json*, std::size_t> begun_;  // statements that were there before a function
  // (a value, the function that passed it on) -> the number of the result
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> passed_;
  std::map<std::size_t, const Json*> casts_;  // by result
  std::set<std::size_t> made_;                // results of statements
  std::set<std::string> taken_;
  std::map<std::string, int> next_;  // number behind a name that is taken
  std::vector<Number> numbers_;
  std::map<std::size_t, std::string> gradients_;  // as backward leaves them: "w.grad", by number
  std::set<std::string> graded_;                  // the names of those before the first step
  std::map<std::string, std::size_t> leaves_;  // results that require a gradient, as in "v5.grad"
  std::set<std::string> fresh_gradients_;      // those that a backward has left so far
  std::map<std::size_t, const Json*> gradient_checks_;  // gradients as a backward leaves them
  bool adds_up_ = false;                                // the gradient that comes next, to another
  std::set<std::size_t> updated_;                       // existing values that updates take
  std::set<std::size_t> of_gradients_;  // those of them that are computed from gradients
  std::vector<const Json*> gradient_numbers_;
  std::string left_out_;           // the reason why the optimizer is left out
  std::set<std::size_t> results_;  // of modules, where there is no backward
  std::size_t end_ = 0;
  const Json* reading_ = nullptr;  // the event that an error names
  const Json* seed_ = nullptr;     // the call that makes the 1, if nothing else shows backward
};

}  // namespace

const StepInput* StepProgram::input(std::size_t value) const {
  const auto found = std::ranges::find(inputs, value, &StepInput::value);
  return found == inputs.end() ? nullptr : &*found;
}

Dims StepProgram::shape_of(std::size_t value) const {
  const auto found = metas.find(value);
  return found == metas.end() ? Dims{} : found->second.shape;
}

StepProgram program_of(const StepRecording& recording) { return ProgramReader(recording).read(); }

}  // namespace shardlab
