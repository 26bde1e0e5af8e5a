// Gradients are taken from the parameters as they are placed, once each; an op that takes another
// value of backward leaves the whole optimizer out.
#include <algorithm>
#include <cmath>
#include <variant>

#include "sim/remesh/reading.h"

namespace shardlab {

namespace {

class UpdateReader {
 public:
  explicit UpdateReader(Reading& reading) : reading_(reading), program_(reading.program) {}

  void read(std::size_t begin) {
    for (const Statement& statement : program_.statements) {
      known_.insert(statement.outs.begin(), statement.outs.end());
    }
    find_gradients();
    bool steps = false;
    std::size_t kept = 0;  // updates up to the last that an optimizer makes, or a parameter gets
    const auto& events = reading_.recording.events;
    for (std::size_t i = begin; i < events.size() && left_out_.empty(); ++i) {
      const RecordedEvent& event = events[i];
      reading_.at = &event;
      using enum RecordedKind;
      if (event.kind == kInput || event.kind == kConstant || event.kind == kAlias) {
        reading_.given[event.out[0].id.id] = {
            .event = &event, .value = &event.out[0], .name = event.name};
      }
      if (event.kind == kRedistribute || event.kind == kToLocal) read_move(event);
      if (event.kind != kOp) continue;
      reading_.note_drawn(event);
      const bool behind = steps && !is_of_optimizer(event);
      steps = steps || is_of_optimizer(event);
      const std::size_t before = program_.updates.size();
      if (event.pass != RecordedPass::kBackward) read_op(event);
      // Another step, of which this program is no part.
      if (behind && (event.pass == RecordedPass::kBackward || !left_out_.empty())) {
        left_out_.clear();
        program_.end = &event;
        program_.notes.push_back(fmt::format("the program ends before {} at {}, after a step",
                                             event.op, place_of(reading_.recording, event)));
        break;
      }
      const bool counts = !behind || (program_.updates.size() > before &&
                                      writes_parameter(program_.updates.back()));
      if (counts) kept = program_.updates.size();
    }
    if (steps) program_.updates.resize(kept);
    const bool by_hand = std::ranges::any_of(
        program_.updates, [&](const Statement& one) { return writes_parameter(one); });
    if ((!steps && !by_hand) || !left_out_.empty()) program_.updates.clear();
    if ((steps || by_hand) && !left_out_.empty()) {
      program_.notes.push_back("the optimizer is left out: " + left_out_);
    }
  }

 private:
  bool writes_parameter(const Statement& one) const {
    if (!one.writes() || one.takes.empty()) return false;
    const auto given = reading_.given.find(one.takes[0]);
    return given != reading_.given.end() && given->second.requires_grad();
  }

  void find_gradients() {
    bool steps = false;
    for (const RecordedEvent& event : reading_.recording.events) {
      steps = steps || is_of_optimizer(event);
      if (!is_gradient_check(event)) continue;
      gradients_.try_emplace(event.out[0].id.id, event.name);
      if (!steps) reading_.graded.insert(event.name);
    }
  }

  void leave_out(const RecordedEvent& event, const std::string& why) {
    left_out_ = fmt::format("{}, in {} at {}", why, event.op, place_of(reading_.recording, event));
  }

  // A norm of gradients is made whole.
  void read_move(const RecordedEvent& event) {
    const auto& labels =
        event.kind == RecordedKind::kToLocal ? event.from : event.out[0].type.placements;
    const bool whole = std::ranges::all_of(labels, &Placement::is_replicate);
    const std::int32_t in = event.takes[0], out = event.out[0].id.id;
    if (event.pass == RecordedPass::kBackward || !whole || in == out) return;
    if (!take_operand(in)) return;
    if (of_gradients_.contains(in)) of_gradients_.insert(out);
    known_.insert(out);
    program_.updates.push_back(same_whole(event, in));
    program_.updates.back().no_grad = true;
  }

  void read_op(const RecordedEvent& event) {
    Statement statement = statement_of(event);
    statement.no_grad = true;
    const std::string_view bare = statement.bare();
    if (bare == "_local_scalar_dense" || bare == "is_nonzero") {
      for (const std::int32_t v : statement.takes) {
        if (of_gradients_.contains(v)) note_number(event);
      }
      return;
    }
    if (takes_number(event)) leave_out(event, "it takes a number of a gradient");
    if (event.random) return leave_out(event, "it draws numbers");
    if (!event.error.empty()) return leave_out(event, "it failed");
    if (is_same_value(statement)) return;
    for (const std::int32_t v : statement.takes) {
      if (!take_operand(v)) return leave_out(event, "it takes a value of backward");
    }
    const bool taints = std::ranges::any_of(
        statement.takes, [&](std::int32_t v) { return of_gradients_.contains(v); });
    if (taints) of_gradients_.insert(statement.outs.begin(), statement.outs.end());
    known_.insert(statement.outs.begin(), statement.outs.end());
    if (statement.takes.empty()) statement.kind = StatementKind::kFactory;
    RecordedDraws(reading_).sign(statement);
    program_.updates.push_back(std::move(statement));
  }

  void note_number(const RecordedEvent& event) {
    // 0, 1 and 2 are everywhere.
    const bool rare = !event.out.empty() && event.out[0].numbers.size() == 1 &&
                      std::fabs(event.out[0].numbers[0]) > 2;
    if (rare) numbers_.push_back(event.out[0].numbers[0]);
  }

  bool takes_number(const RecordedEvent& event) const {
    return std::ranges::any_of(event.args, [&](const GraphArgument& argument) {
      const auto* scalar = std::get_if<Scalar>(&argument.value);
      return scalar != nullptr && scalar->category() != Category::kComplex &&
             std::ranges::find(numbers_, scalar->to_double()) != numbers_.end();
    });
  }

  // False: no operand here gives the value.
  bool take_operand(std::int32_t v) {
    if (known_.contains(v)) return true;
    const auto given = reading_.given.find(v);
    if (given != reading_.given.end()) return !given->second.is_alias();
    const auto gradient = gradients_.find(v);
    if (gradient == gradients_.end()) return false;
    const std::optional<std::int32_t> parameter = reading_.parameter_of(gradient->second);
    if (!parameter) return false;
    program_.updates.push_back(gradient_of(*reading_.at, *parameter, v));
    known_.insert(v);
    of_gradients_.insert(v);
    return true;
  }

  Reading& reading_;
  CallProgram& program_;
  std::map<std::int32_t, std::string> gradients_;  // as backward leaves them: "w.grad"
  std::set<std::int32_t> known_;                   // existing values that updates take
  std::set<std::int32_t> of_gradients_;            // those that are computed from gradients
  std::vector<double> numbers_;                    // read from them
  std::string left_out_;                           // the reason why the optimizer is left out
};

}  // namespace

void read_updates(Reading& reading, std::size_t begin) { UpdateReader(reading).read(begin); }

void ReadNumbers::note(const RecordedEvent& event) {
  for (const EventValue& out : event.out) {
    for (const double number : out.numbers) {
      // 0, 1 and 2 are everywhere.
      if (std::fabs(number) > 2 || number != std::floor(number)) {
        numbers_.push_back({&event, number});
      }
    }
  }
}

void ReadNumbers::find(const RecordedEvent& call) {
  if (numbers_.empty()) return;
  static const std::set<std::string_view> kCutting = {
      "split", "split_with_sizes", "narrow", "slice", "chunk", "tensor_split", "repeat_interleave"};
  const bool cuts = kCutting.contains(bare_op(call.op));
  const auto meet = [&](double value, bool integral) {
    for (Number& number : numbers_) {
      if (number.user != nullptr || number.value != value) continue;
      number.user = &call;
      number.is_size = cuts && integral;
    }
  };
  const auto look = [&](const auto& self, const GraphArgument& argument) -> void {
    if (const auto* list = std::get_if<std::vector<GraphArgument>>(&argument.value)) {
      for (const GraphArgument& item : *list) self(self, item);
    } else if (const auto* sizes = std::get_if<Dims>(&argument.value)) {
      for (const std::int64_t size : *sizes) meet(static_cast<double>(size), true);
    } else if (const auto* scalar = std::get_if<Scalar>(&argument.value)) {
      if (scalar->category() != Category::kComplex && scalar->category() != Category::kBool) {
        meet(scalar->to_double(), scalar->category() == Category::kInteger);
      }
    }
  };
  for (const GraphArgument& argument : call.args) look(look, argument);
}

// Sizes of pieces that follow from data hold for this data alone.
void ReadNumbers::end() {
  const RecordedProgram& recording = reading_.recording;
  for (const Number& number : numbers_) {
    if (number.user == nullptr) continue;
    const std::string& op = number.event->op;
    const std::string text =
        fmt::format("{} of {} at {} is a number of the program: {} at {} takes it", number.value,
                    op.empty() ? "tolist" : op, place_of(recording, *number.event), number.user->op,
                    place_of(recording, *number.user));
    (number.is_size ? reading_.program.sizes_of_data : reading_.program.notes).push_back(text);
  }
}

}  // namespace shardlab
