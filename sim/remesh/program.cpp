// Calls are already in the order of the program, and name their operands by value: it remains to
// find the inputs, the drawn values, and the calls whose results are used.
#include "sim/remesh/program.h"

#include <algorithm>

#include "base/error.h"
#include "schema/op_row.h"
#include "sim/remesh/reading.h"

namespace shardlab {

namespace {

class ProgramReader {
 public:
  explicit ProgramReader(const RecordedProgram& recording)
      : recording_(recording),
        reading_(recording),
        draws_(reading_),
        casts_(reading_, draws_),
        functions_(reading_, casts_),
        numbers_(reading_),
        wholes_(reading_) {}

  CallProgram read() {
    if (!recording_.has_calls && recording_.ranks > 1) {
      fail(ErrorKind::kUnsupported, Fix{"record it on one rank, or replay it without --mesh"},
           "{}: its ranks make different calls, which are no program for another mesh",
           recording_.path);
    }
    if (!recording_.has_calls) {
      fail(ErrorKind::kValue, Fix{"record it with level=\"both\", the default"},
           "{}: the file has no calls above autograd, of which a program is made", recording_.path);
    }
    find_end();
    for (std::size_t i = 0; i < end_; ++i) {
      reading_.at = &recording_.events[i];
      read_event(*reading_.at);
    }
    read_last_gradients();
    read_updates(reading_, end_);
    keep_what_counts();
    numbers_.end();
    name_values(reading_);
    return std::move(reading_.program);
  }

 private:
  // One past the last backward of the first step: the optimizer's calls come after. Of a program
  // without backward, everything.
  void find_end() {
    for (std::size_t i = 0; i < recording_.events.size(); ++i) {
      const RecordedEvent& event = recording_.events[i];
      if (is_of_optimizer(event)) break;
      if (event.kind == RecordedKind::kBackward || event.kind == RecordedKind::kGradients) {
        end_ = i + 1;
      }
    }
    if (recording_.exported) end_ = recording_.events.size();
    if (end_ != 0) return;
    find_results();
    if (results_.empty()) {
      fail(ErrorKind::kValue, Fix{"record a step that calls a module, or loss.backward()"},
           "{}: no call in it has a result", recording_.path);
    }
    reading_.program.notes.push_back("nothing in it calls loss.backward(): forward alone");
    end_ = recording_.events.size();
  }

  // A program without backward ends in the results of its modules; without these, of its calls.
  void find_results() {
    std::set<std::int32_t> of_calls;
    for (const RecordedEvent& event : recording_.events) {
      if (event.kind == RecordedKind::kModule) {
        results_.insert(event.gives.begin(), event.gives.end());
      }
      if (event.kind != RecordedKind::kCall) continue;
      for (const EventValue& out : event.out) of_calls.insert(out.id.id);
    }
    results_.erase(-1);
    if (results_.empty()) results_ = std::move(of_calls);
    results_.erase(-1);
  }

  void read_event(const RecordedEvent& event) {
    using enum RecordedKind;
    const RecordedKind kind = event.kind;
    if (kind == kCollect || kind == kOfRanks) return wholes_.note_own(event);
    if (kind == kRedistribute || kind == kToLocal || kind == kFromLocal) {
      return wholes_.read_move(event);
    }
    if (kind == kFunction) return functions_.read(event);
    if (kind == kBackward) return read_backward(event);
    if (kind == kGradients) return read_gradients(event);
    if (kind == kRead) return numbers_.note(event);
    if (kind == kCall) return read_call(event);
    if (kind == kCheck && is_gradient_check(event)) return reading_.note_gradient(event);
    if (kind == kInput || kind == kConstant || kind == kAlias) {
      wholes_.note_given(event);
      reading_.note_given(event);
    } else if (kind == kOp) {
      reading_.note_inside(event);
      casts_.note(event);
      reading_.note_accumulation(event);
      reading_.note_drawn(event);
    }
  }

  void read_backward(const RecordedEvent& event) {
    if (event.only) {
      reading_.refuse(event, "a backward for a few tensors alone (inputs=...)",
                      "take them by torch.autograd.grad(loss, inputs)");
    }
    Statement statement{.kind = StatementKind::kBackward, .event = &event, .op = "backward"};
    for (std::size_t i = 0; i < event.takes.size(); ++i) {
      const std::int32_t through = i < event.through.size() ? event.through[i] : -1;
      statement.roots.push_back(functions_.passed(event.takes[i], through));
    }
    statement.incoming.resize(statement.roots.size());
    for (std::size_t i = 0; i < std::min(event.gradients.size(), statement.roots.size()); ++i) {
      if (event.gradients[i] >= 0) statement.incoming[i] = event.gradients[i];
    }
    statement.takes = statement.roots;
    for (const auto& gradient : statement.incoming) {
      if (!gradient) continue;
      reading_.make_gradient(*gradient);
      statement.takes.push_back(*gradient);
    }
    if (statement.roots.empty()) {
      reading_.refuse(event, "a backward() of a tensor that this step did not compute",
                      "differentiate a result");
    }
    if (event.asks) {
      statement.kind = StatementKind::kGradients;
      statement.op = "gradient";
      statement.takes.insert(statement.takes.end(), event.wanted.begin(), event.wanted.end());
    }
    reading_.add(std::move(statement));
  }

  // The results of the torch.autograd.grad before it.
  void read_gradients(const RecordedEvent& event) {
    auto& statements = reading_.program.statements;
    const auto asked = std::ranges::find(statements.rbegin(), statements.rend(),
                                         StatementKind::kGradients, &Statement::kind);
    const bool fits = asked != statements.rend() && asked->outs.empty() &&
                      asked->event->wanted.size() == event.out.size();
    if (!fits) {
      reading_.refuse(event, "torch.autograd.grad of other tensors", "use loss.backward()");
    }
    for (const EventValue& value : event.out) {
      const std::int32_t v = value.id.id >= 0 ? value.id.id : reading_.fresh();
      if (reading_.given.contains(v) || !reading_.made.insert(v).second) {
        reading_.refuse(event, "a gradient that is another value of the program", "use its clone");
      }
      asked->outs.push_back(v);
    }
  }

  // The gradients of the last backward of the program.
  void read_last_gradients() {
    for (std::size_t i = end_; i < recording_.events.size(); ++i) {
      const RecordedEvent& event = recording_.events[i];
      if (is_of_optimizer(event)) return;
      if (event.kind == RecordedKind::kOp) reading_.note_accumulation(event);
      if (is_gradient_check(event)) reading_.note_gradient(event);
    }
  }

  // If the call becomes several statements, its operands are leaves before the first.
  void read_call(const RecordedEvent& event) {
    auto& statements = reading_.program.statements;
    const std::size_t begin = statements.size();
    add_call(event);
    casts_.note_results(event);
    for (const std::int32_t v : event.leaves) {
      reading_.note_leaf(v);
      if (begin < statements.size()) statements[begin].leaves.push_back(v);
    }
  }

  void add_call(const RecordedEvent& event) {
    functions_.begin(event.call.value_or(0));
    wholes_.check_call(event);
    numbers_.find(event);
    if (recording_.exported && event.row == nullptr) reading_.refuse_missing(event);
    if (event.row == nullptr && !reading_.inside(event).empty() && !event.out.empty()) {
      for (const std::int32_t v : values_in(event.args)) reading_.make_gradient(v);
      return casts_.lower(event);
    }
    Statement statement = statement_of(event);
    std::map<std::int32_t, std::int32_t> others;
    functions_.renumber(event, statement, others);
    statement.no_grad = event.no_grad;
    for (const std::int32_t v : statement.takes) reading_.make_gradient(v);
    if (statement.outs.empty()) return numbers_.note(event);
    if (is_same_value(statement) || returns_operands(statement) || returns_given(statement)) return;
    if (event.autocast && !casts_.take(statement)) return casts_.lower(event);
    const RecordedDraws::Taken taken = draws_.take(statement);
    if (taken == RecordedDraws::Taken::kLowered) return casts_.lower(event);
    if (taken == RecordedDraws::Taken::kStatement) reading_.add(std::move(statement));
  }

  // A view that is another value of the program again: w.squeeze(1).unsqueeze(1).
  bool returns_given(const Statement& statement) const {
    const OpRow* row = statement.row;
    if (row == nullptr || row->op.is_inplace() || row->op.is_out_variant()) return false;
    return std::ranges::all_of(statement.outs, [&](std::int32_t v) {
      return reading_.given.contains(v) || reading_.made.contains(v);
    });
  }

  // From the end: values that gradients are taken of, and calls that write.
  void keep_what_counts() {
    std::set<std::int32_t> wanted = results_;
    for (const auto& [v, name] : recording_.outputs) wanted.insert(v);
    keep(reading_.program.updates, wanted);
    keep(reading_.program.statements, wanted);
    end_parameters();
  }

  static void keep(std::vector<Statement>& statements, std::set<std::int32_t>& wanted) {
    std::vector<Statement> kept;
    for (auto it = statements.rbegin(); it != statements.rend(); ++it) {
      const bool used =
          std::ranges::any_of(it->outs, [&](std::int32_t v) { return wanted.contains(v); });
      const bool differentiates =
          it->kind == StatementKind::kBackward || it->kind == StatementKind::kGradients;
      if (!differentiates && !used && !it->writes()) continue;
      wanted.insert(it->takes.begin(), it->takes.end());
      kept.push_back(std::move(*it));
    }
    std::ranges::reverse(kept);
    statements = std::move(kept);
  }

  // Parameters are compared as they are after the step.
  void end_parameters() {
    std::set<std::int32_t> written;
    for (const Statement& update : reading_.program.updates) {
      if (update.writes()) written.insert(update.takes.begin(), update.takes.end());
    }
    for (const std::int32_t v : written) {
      const auto given = reading_.given.find(v);
      if (given == reading_.given.end() || !given->second.requires_grad()) continue;
      Statement end{.kind = StatementKind::kEnd, .event = given->second.event, .op = "parameter"};
      end.no_grad = true;
      end.takes = {v};
      end.outs = {reading_.fresh()};
      reading_.program.updates.push_back(std::move(end));
    }
  }

  const RecordedProgram& recording_;
  Reading reading_;
  RecordedDraws draws_;
  Casts casts_;
  Functions functions_;
  ReadNumbers numbers_;
  Wholes wholes_;
  std::set<std::int32_t> results_;  // of modules, where there is no backward
  std::size_t end_ = 0;
};

}  // namespace

CallProgram program_of(const RecordedProgram& recording) { return ProgramReader(recording).read(); }

}  // namespace shardlab
