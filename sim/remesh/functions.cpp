// Both passes are straight lines of calls. A value that neither made is an operand; one that
// backward takes from forward is saved.
#include <algorithm>
#include <iterator>

#include "sim/remesh/reading.h"

namespace shardlab {

namespace {

std::optional<std::int32_t> number(std::int32_t value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

// One application of a function.
class Application {
 public:
  Application(Reading& reading, const RecordedEvent& event, std::vector<std::int32_t> arguments,
              const RecordedEvent& rule)
      : reading_(reading), event_(event), arguments_(std::move(arguments)), rule_(rule) {}

  Statement read(std::vector<Statement> forward, std::vector<Statement> backward) {
    own_.forward = std::move(forward);
    own_.backward = std::move(backward);
    own_.name = event_.name.substr(event_.name.rfind('.') + 1);
    statement_ = {.kind = StatementKind::kFunction, .event = &event_};
    statement_.op = "function." + own_.name;
    take_operands();
    for (const Statement& one : own_.forward) {
      for (const std::int32_t v : one.takes) {
        if (!made_.contains(v)) add_operand(v);
      }
      note_result(one, made_);
    }
    give_results();
    read_rule();
    statement_.function = std::make_shared<const CallFunction>(std::move(own_));
    return std::move(statement_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
    reading_.refuse(event_, fmt::format("the autograd.Function {}, {},", event_.name, what), fix);
  }

  void take_operands() {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i] < 0) continue;
      statement_.takes.push_back(arguments_[i]);
      own_.gives.push_back(i < rule_.gives.size() ? number(rule_.gives[i]) : std::nullopt);
    }
  }

  bool is_known(std::int32_t v) const {
    return reading_.given.contains(v) ||
           std::ranges::any_of(reading_.program.statements, [&](const Statement& one) {
             return std::ranges::find(one.outs, v) != one.outs.end();
           });
  }

  void add_operand(std::int32_t v) {
    if (std::ranges::find(statement_.takes, v) != statement_.takes.end()) return;
    if (!is_known(v)) {
      refuse("whose backward takes a value of another backward",
             "record it without activation checkpointing");
    }
    statement_.takes.push_back(v);
    own_.gives.emplace_back();
  }

  // A call that writes to an operand would change it for the program, too.
  void note_result(const Statement& one, std::set<std::int32_t>& made) const {
    const bool writes = is_in_place(one.op) && !one.takes.empty();
    if (writes && !made.contains(one.takes[0])) {
      refuse("which writes to a tensor that it was given", "let it write to a clone");
    }
    made.insert(one.outs.begin(), one.outs.end());
  }

  // A result that the program has already, as an operand that is returned, gets a new number: it
  // has another gradient.
  void give_results() {
    for (std::size_t i = 0; i < event_.gives.size(); ++i) {
      const std::int32_t v = event_.gives[i];
      if (v < 0) continue;
      if (!made_.contains(v)) add_operand(v);
      own_.results.push_back(v);
      own_.arrives.push_back(i < rule_.takes.size() ? number(rule_.takes[i]) : std::nullopt);
      if (event_.constant.at(i)) own_.constant.push_back(v);
      const bool old = static_cast<std::size_t>(v) < event_.known;
      statement_.outs.push_back(old ? reading_.fresh() : v);
    }
  }

  void read_rule() {
    std::set<std::int32_t> made;
    for (const auto& v : own_.arrives) {
      if (v) made.insert(*v);
    }
    for (const Statement& one : own_.backward) {
      for (const std::int32_t v : one.takes) save(v, made);
      note_result(one, made);
    }
    const auto gives = own_.gives;
    for (const auto& v : gives) {
      if (v) save(*v, made);
    }
  }

  void save(std::int32_t v, const std::set<std::int32_t>& made) {
    if (made.contains(v) || std::ranges::find(own_.saved, v) != own_.saved.end()) return;
    if (!made_.contains(v)) add_operand(v);
    own_.saved.push_back(v);
  }

  Reading& reading_;
  const RecordedEvent& event_;
  const std::vector<std::int32_t> arguments_;
  const RecordedEvent& rule_;
  Statement statement_;
  CallFunction own_;
  std::set<std::int32_t> made_;  // by forward
};

}  // namespace

// The gradient rule is the ops of the first backward.
Functions::Functions(Reading& reading, Casts& casts) : reading_(reading), casts_(casts) {
  for (const RecordedEvent& event : reading.recording.events) {
    const bool op = event.kind == RecordedKind::kOp && event.function;
    if (!op && event.kind != RecordedKind::kRule) continue;
    Rule& rule = rules_[*event.function];
    if (rule.end != nullptr) continue;
    if (op) rule.ops.push_back(&event);
    if (!op) rule.end = &event;
  }
  for (const RecordedEvent& event : reading.recording.events) {
    if (event.kind != RecordedKind::kFunction || rule_of(event) == nullptr) continue;
    functions_.emplace(event.first_call, &event);
  }
}

const Functions::Rule* Functions::rule_of(const RecordedEvent& function) const {
  if (!function.function) return nullptr;
  const auto rule = rules_.find(*function.function);
  return rule == rules_.end() || rule->second.end == nullptr ? nullptr : &rule->second;
}

void Functions::begin(std::size_t call) {
  const auto [begin, end] = functions_.equal_range(call);
  for (auto it = begin; it != end; ++it) {
    begun_.try_emplace(it->second, reading_.program.statements.size());
  }
}

std::int32_t Functions::passed(std::int32_t value, std::int32_t function) const {
  const auto found = passed_.find({value, function});
  return found == passed_.end() ? value : found->second;
}

void Functions::renumber(const RecordedEvent& event, Statement& statement,
                         std::map<std::int32_t, std::int32_t>& others) const {
  if (passed_.empty()) return;
  std::size_t operand = 0;
  for (GraphArgument& argument : statement.args) {
    for_each_value(argument, [&](ValueRef& value) {
      const auto mark = std::ranges::find(event.marks, operand++, &OperandMark::operand);
      if (mark == event.marks.end() || mark->function < 0) return;
      const std::int32_t now = passed(value.id, mark->function);
      if (now != value.id) others[value.id] = now;
      value.id = now;
    });
  }
  statement.takes = values_in(statement.args);
  // A view of all of it has its number, too.
  for (std::int32_t& out : statement.outs) {
    if (const auto other = others.find(out); other != others.end()) out = other->second;
  }
}

// Without a rule nothing asks for its gradient: its calls are constants.
void Functions::read(const RecordedEvent& event) {
  if (event.reentrant) {
    reading_.refuse(event, "an autograd.Function inside of checkpoint(use_reentrant=True)",
                    "call checkpoint(..., use_reentrant=False)");
  }
  if (!event.described) {
    reading_.refuse(event, "the autograd.Function " + event.name,
                    "record it with the recorder of this version, or replay it as it is");
  }
  const Rule* rule = rule_of(event);
  if (rule == nullptr) return;
  begin(event.first_call);
  const std::size_t begin = begun_.at(&event);
  std::vector<Statement> forward = taken_from(begin);
  for (const RecordedEvent* op : rule->ops) {
    if (op->random) {
      reading_.refuse(event, "what the backward of an autograd.Function draws",
                      "save it in forward");
    }
    casts_.lower_op(*op, false);
  }
  std::vector<Statement> backward = taken_from(begin);
  std::vector<std::int32_t> arguments = event.takes;
  for (const OperandMark& mark : event.marks) {
    if (mark.function >= 0) {
      arguments[mark.operand] = passed(arguments[mark.operand], mark.function);
    }
  }
  Application application(reading_, event, std::move(arguments), *rule->end);
  Statement statement = application.read(std::move(forward), std::move(backward));
  for (std::size_t i = 0; i < statement.outs.size(); ++i) {
    const std::int32_t own = statement.function->results[i];
    const auto function = static_cast<std::int32_t>(*event.function);
    if (statement.outs[i] != own) passed_[{own, function}] = statement.outs[i];
  }
  reading_.add(std::move(statement));
}

// The statements from there on, without gradients that they take.
std::vector<Statement> Functions::taken_from(std::size_t begin) {
  auto& all = reading_.program.statements;
  const auto first = std::stable_partition(
      all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(),
      [](const Statement& one) { return one.kind == StatementKind::kGradient; });
  std::vector<Statement> taken(std::make_move_iterator(first), std::make_move_iterator(all.end()));
  all.erase(first, all.end());
  return taken;
}

}  // namespace shardlab
