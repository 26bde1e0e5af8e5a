// Values are found by the names that the program gave them, recorded ones by number.
#include "sim/replay/self_test.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "mesh/type_string.h"
#include "schema/op_row.h"
#include "sim/replay/fingerprint.h"
#include "sim/replay/seen.h"
#include "sim/run/one_device.h"
#include "sim/scenario/recorded_tensors.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// Roundings of a long chain of calls with other kernels.
constexpr double kChainRoundings = 500;
constexpr double kMostDrift = 0.02;
// In roundings of the largest element of all gradients: elements below may be rounding alone.
constexpr double kGradientRoundings = 64;
constexpr double kMostNoise = 0.01;
// The rounding of another library's kernels, in those of ours.
constexpr double kOtherRounding = 4;

// The elements of a parameter before the step.
std::vector<double> first_of(const RecordedProgram& recording, const CallInput& input,
                             const EventValue& value, Device& device) {
  if (value.elements.size() <= 1) {
    return read_doubles(recorded_tensor(device, recording, value, 0, input.meta));
  }
  std::vector<double> elements;
  for (const Scalar& element : elements_of_pieces(recording, value)) {
    elements.push_back(element.to_double());
  }
  return elements;
}

}  // namespace

// Values that are views of one memory, by number.
class SharedMemory {
 public:
  void share(std::int32_t view, std::int32_t of) {
    const std::int32_t base = base_of(of);
    if (view != base) base_[view] = base;
    sharing_[base].insert({view, of});
  }
  // All that share memory with this one; nothing if it is not known to.
  std::set<std::int32_t> sharing(std::int32_t value) const {
    const auto found = sharing_.find(base_of(value));
    return found == sharing_.end() ? std::set<std::int32_t>() : found->second;
  }

 private:
  std::int32_t base_of(std::int32_t value) const {
    const auto known = base_.find(value);
    return known == base_.end() ? value : known->second;
  }

  std::map<std::int32_t, std::int32_t> base_;
  std::map<std::int32_t, std::set<std::int32_t>> sharing_;  // by base
};

// A value of ours: its elements, or what is known of them.
struct OwnValue {
  TensorMeta meta;
  std::optional<Tensor> tensor;
  std::optional<Fingerprint> print;

  explicit OwnValue(Tensor own) : meta(own.meta()), tensor(std::move(own)) {}
  Fingerprint fingerprint() const { return print ? *print : Fingerprint(*tensor); }
};

using OwnValues = std::map<std::string, OwnValue>;

static OwnValues values_of(const KnownAlone& run, const std::set<std::string>& names) {
  OwnValues values;
  for (const RecordedValue& value : run.runs.recordings.at(0)->values()) {
    // A value that the plan moves, or adds a bias to, is complete at its last assignment.
    const bool counts = !value.at_end || value.name.ends_with(".grad");
    if (!counts || !names.contains(value.name)) continue;
    values.erase(value.name);
    if (value.value.defined()) values.emplace(value.name, value.value.local());
  }
  return values;
}

// A recorded value, as the self-test looks for it.
struct FoundValue {
  const EventValue* value = nullptr;
  const RecordedEvent* event = nullptr;
  const RecordedEvent* user = nullptr;  // of a gradient: the call that took the parameter
  bool several = false;                 // written in place: the number has had other elements, too
};

static ReplayDifference difference(const RecordedProgram& recording, const std::string& name,
                                   const FoundValue& found, std::string expected, std::string got) {
  const RecordedEvent& event = found.user != nullptr ? *found.user : *found.event;
  return {found.event->line,
          place_of(recording, event),
          event.op.empty() ? "gradient" : event.op,
          name,
          std::move(expected),
          std::move(got)};
}

class SelfTester {
 public:
  explicit SelfTester(const CallProgram& program)
      : program_(program), recording_(*program.recording) {
    for (const RecordedEvent& event : recording_.events) note(event);
    find_names();
  }
  const std::set<std::string>& names() const { return names_; }

  void take(const KnownAlone& run) { ours_ = values_of(run, names()); }
  void take(const RecordedValue& value) {
    if (value.at_end || !value.value.defined()) return;
    if (!names_.contains(value.name)) return;
    const bool whole = whole_.contains(value.name);
    OwnValue own(value.value.local().snapshot());
    if (!whole) {
      own.print.emplace(*own.tensor);
      own.tensor.reset();
    }
    ours_.insert_or_assign(value.name, std::move(own));
  }

  void round_as(const KnownAlone& run) {
    const OwnValues others = values_of(run, names());
    for (const auto& [name, own] : ours_) {
      const auto found = others.find(name);
      if (found == others.end() || found->second.meta.shape != own.meta.shape) continue;
      if (is_integral(own.meta.dtype)) continue;
      const std::vector<double> ours = read_doubles(*own.tensor),
                                other = read_doubles(*found->second.tensor);
      std::vector<float>& off = off_[name];
      off.resize(ours.size());
      for (std::size_t i = 0; i < std::min(off.size(), other.size()); ++i) {
        const double apart = kOtherRounding * std::fabs(ours[i] - other[i]);
        if (std::isfinite(apart)) off[i] = std::max(off[i], static_cast<float>(apart));
      }
    }
  }

  SelfTest test() {
    result_ = {};
    coarsest_ = DType::kF64;
    longest_step_.reset();
    measure_gradients();
    std::set<std::int32_t> of_gradients;
    for (const Statement& update : program_.updates) {
      // Judged by the name of its parameter; clipping writes to it.
      const bool gradient = update.kind == StatementKind::kGradient;
      if (gradient) prints_.erase(update.outs[0]);
      if (gradient || std::ranges::any_of(
                          update.takes, [&](std::int32_t v) { return of_gradients.contains(v); })) {
        of_gradients.insert(update.outs.begin(), update.outs.end());
      }
    }
    for (const auto& [v, found] : prints_) {
      const bool skipped =
          program_.input(v) != nullptr || program_.pieces.contains(v) || found.several;
      if (skipped) continue;
      const double terms = of_gradients.contains(v) ? largest_ : smallest_operand(*found.event);
      judge(name_of(v), found, {.terms = terms}, result_.values);
    }
    for (const CallInput& input : program_.inputs) {
      const auto found = gradients_.find(input.recorded);
      if (!input.parameter || found == gradients_.end()) continue;
      const auto user = users_.find(input.value);
      if (user != users_.end()) found->second.user = user->second;
      judge(input.name + ".grad", found->second, {.terms = largest_}, result_.gradients);
    }
    for (const auto& [v, found] : taken_) {
      judge(name_of(v), found, {.terms = largest_}, result_.gradients);
    }
    for_each_end([&](const CallInput& input, const std::string& after) {
      const auto found = ends_.find(input.recorded);
      if (found == ends_.end()) return;
      judge(after, found->second, after_step(input, after), result_.parameters);
    });
    std::ranges::stable_sort(result_.differences, {}, &ReplayDifference::line);
    return result_;
  }

 private:
  // Those that are compared, or whose sizes are asked for; gradients and parameters with elements.
  void find_names() {
    for (const auto& [v, found] : prints_) {
      names_.insert(name_of(v));
      for (const std::int32_t operand : values_in(found.event->args)) {
        names_.insert(name_of(operand));
      }
    }
    for (const auto& [v, found] : taken_) whole_.insert(name_of(v));
    for (const CallInput& input : program_.inputs) whole_.insert(input.name + ".grad");
    for_each_end([&](const CallInput&, const std::string& after) { whole_.insert(after); });
    names_.insert(whole_.begin(), whole_.end());
  }

  void measure_gradients() {
    std::set<std::string> taken;  // by torch.autograd.grad
    for (const auto& [v, found] : taken_) taken.insert(name_of(v));
    for (const auto& [name, own] : ours_) {
      if (!name.ends_with(".grad") && !taken.contains(name)) continue;
      const std::vector<double> elements = read_doubles(*own.tensor);
      largest_ = std::max(largest_, Fingerprint(elements).sizes[0]);
      for (const double element : elements) {
        largest_element_ = std::max(largest_element_, std::fabs(element));
      }
    }
  }

  // The name of a value; empty if it has none.
  std::string name_of(std::int32_t value) const {
    const auto name = program_.names.find(value);
    return name == program_.names.end() ? "" : name->second;
  }

  // Terms that cancel leave their rounding.
  double smallest_operand(const RecordedEvent& event) const {
    std::optional<double> smallest;
    for (const std::int32_t v : values_in(event.args)) {
      const auto own = ours_.find(name_of(v));
      if (own == ours_.end()) continue;
      const DType dtype = own->second.meta.dtype;
      if (is_integral(dtype) || is_complex(dtype)) continue;
      const double size = own->second.fingerprint().sizes[0];
      smallest = std::min(smallest.value_or(size), size);
    }
    return smallest.value_or(0);
  }

  // How far rounding may have taken each element, as far as it is known.
  std::vector<double> rounding_of(const std::string& name) const {
    const auto found = off_.find(name);
    return found == off_.end() ? std::vector<double>()
                               : std::vector<double>(found->second.begin(), found->second.end());
  }

  void note(const RecordedEvent& event) {
    using enum RecordedKind;
    const bool op = event.kind == kOp;
    if (event.kind == kCall) {
      for (const std::int32_t v : values_in(event.args)) users_.try_emplace(v, &event);
    }
    if (event.kind == kInput) inputs_[event.out[0].id.id] = &event;
    ended_ |= &event == program_.end;
    // The program ends with the first step; a later backward may add to the same gradients.
    stepped_ = stepped_ || (op && event.pass == RecordedPass::kOptimizer);
    const bool printed = event.kind == kCheck && !event.out[0].prints.empty();
    if (printed && !stepped_ && event.pass == RecordedPass::kBackward &&
        event.name.ends_with(".grad")) {
      gradients_[event.name.substr(0, event.name.size() - 5)] = {&event.out[0], &event};
    }
    if (printed && event.pass == RecordedPass::kNone) {
      const auto last = lasts_.find(ended_ ? event.out[0].id.id : -1);
      ends_[event.name] = last == lasts_.end() ? FoundValue{&event.out[0], &event} : last->second;
    }
    for_each_given(event, [&](const EventValue& value) {
      if (op && !ended_ && !value.prints.empty()) lasts_[value.id.id] = {&value, &event};
    });
    if (event.kind == kGradients && !stepped_) {
      for (const EventValue& value : event.out) {
        if (!value.prints.empty()) taken_[value.id.id] = {&value, &event};
      }
    }
    if (event.kind == kAlias) memory_.share(event.out[0].id.id, event.takes[0]);
    if (!op || event.pass != RecordedPass::kForward) return;
    const std::vector<std::int32_t> operands = values_in(event.args);
    if (event.row != nullptr && event.row->op.is_view() && !operands.empty()) {
      for (const EventValue& view : event.out) memory_.share(view.id.id, operands[0]);
    }
    for (const EventValue& written : event.written) forget_sharing(written.id.id);
    if (is_in_place(event.op) && !operands.empty()) forget_sharing(operands[0]);
    for (const Given& one : given_by(event)) {
      if (one.value->prints.empty()) continue;
      FoundValue& found = prints_[one.value->id.id];
      found.several |= found.value != nullptr && found.value->prints != one.value->prints;
      found.value = one.value;
      found.event = &event;
    }
  }

  // Prints of the others are older than a write.
  void forget_sharing(std::int32_t written) {
    for (const std::int32_t v : memory_.sharing(written)) {
      const auto found = prints_.find(v);
      if (v != written && found != prints_.end()) found->second.several = true;
    }
  }

  // Optimizers that divide by the size of a gradient (Adam, RMSprop, Rprop) make a step as long as
  // any other for an element that is rounding alone, and its direction is that of the rounding.
  PrintOrigin after_step(const CallInput& input, const std::string& after) {
    PrintOrigin origin;
    const auto end = ours_.find(after), gradient = ours_.find(input.name + ".grad");
    const auto event = inputs_.find(input.value);
    if (end == ours_.end() || gradient == ours_.end() || event == inputs_.end()) return origin;
    const Tensor& now = *end->second.tensor;
    const std::vector<double> slope = read_doubles(*gradient->second.tensor),
                              last = read_doubles(now),
                              first =
                                  first_of(recording_, input, event->second->out[0], *now.device());
    if (slope.size() != last.size() || first.size() != last.size()) return origin;
    double noise =
        largest_element_ *
        std::min(kMostNoise, kGradientRoundings * unit_roundoff(coarser(coarsest_, now.dtype())));
    for (const double off : rounding_of(input.name + ".grad")) noise = std::max(noise, off);
    double step = 0, steepest = 0;
    for (std::size_t i = 0; i < last.size(); ++i) {
      step = std::max(step, std::fabs(last[i] - first[i]));
      steepest = std::max(steepest, std::fabs(slope[i]));
    }
    // PyTorch may have made a step of any length, if all of it is rounding.
    if (steepest <= noise) step = longest_step();
    // Next to others, an exact 0 is that of a row that nothing reads.
    std::vector<double> open(last.size());
    for (std::size_t i = 0; i < last.size(); ++i) {
      const bool read = slope[i] != 0 || steepest <= noise;
      if (read && std::fabs(slope[i]) <= noise) open[i] = 2 * step;
    }
    origin.open = Fingerprint(open).sizes;
    return origin;
  }

  double longest_step() {
    if (longest_step_) return *longest_step_;
    longest_step_ = 0;
    for_each_end([&](const CallInput& input, const std::string& after) {
      const auto end = ours_.find(after);
      if (!inputs_.contains(input.value) || end == ours_.end()) return;
      const Tensor& now = *end->second.tensor;
      const std::vector<double> last = read_doubles(now),
                                first = first_of(recording_, input, inputs_.at(input.value)->out[0],
                                                 *now.device());
      for (std::size_t i = 0; i < std::min(first.size(), last.size()); ++i) {
        longest_step_ = std::max(*longest_step_, std::fabs(last[i] - first[i]));
      }
    });
    return *longest_step_;
  }

  // Calls visit(input, name after the step) for each parameter that the step has changed.
  void for_each_end(const auto& visit) const {
    for (const Statement& update : program_.updates) {
      if (update.kind != StatementKind::kEnd) continue;
      const CallInput* input = program_.input(update.takes[0]);
      if (input != nullptr) visit(*input, program_.names.at(update.outs[0]));
    }
  }

  void judge(const std::string& name, const FoundValue& found, PrintOrigin origin,
             std::int64_t& agree) {
    const auto ours = ours_.find(name);
    if (ours == ours_.end()) return;
    const TensorMeta &own = ours->second.meta, meta = found.value->meta();
    if (own.shape != meta.shape || own.dtype != meta.dtype) {
      return add(difference(recording_, name, found, type_string(meta), type_string(own)));
    }
    origin.exact = unit_roundoff(meta.dtype) == 0;
    origin.coarsest = coarser(coarsest_, meta.dtype);
    coarsest_ = origin.coarsest;
    origin.drift = std::min(kMostDrift, kChainRoundings * unit_roundoff(origin.coarsest));
    const Fingerprint rounding(rounding_of(name));
    for (const std::size_t i : {0, 1}) origin.open[i] += rounding.sizes[i];
    const Fingerprint print = ours->second.fingerprint();
    switch (compare_prints(found.value->prints[0], print, origin).verdict) {
      case PrintVerdict::kAgrees:
        ++agree;
        return;
      case PrintVerdict::kUndecided:
        ++result_.undecided;
        return;
      case PrintVerdict::kDiffers:
        add(difference(recording_, name, found, text_of({found.value->prints[0]}), print.text()));
    }
  }

  void add(ReplayDifference one) { result_.differences.push_back(std::move(one)); }

  const CallProgram& program_;
  const RecordedProgram& recording_;
  OwnValues ours_;                                 // by name
  std::map<std::string, std::vector<float>> off_;  // by name: what rounding may do to it
  std::set<std::string> names_, whole_;        // whole_: a run that goes on keeps their elements
  std::map<std::int32_t, FoundValue> prints_;  // by number of a value, of forward ops
  std::map<std::int32_t, const RecordedEvent*> users_;   // the first call that takes a value
  std::map<std::int32_t, const RecordedEvent*> inputs_;  // by number
  std::map<std::string, FoundValue> gradients_;
  std::map<std::int32_t, FoundValue> taken_;  // by torch.autograd.grad, by number
  std::map<std::int32_t, FoundValue> lasts_;  // values as the last op of the program leaves them
  std::map<std::string, FoundValue> ends_;    // parameters at the end of the step, by name
  DType coarsest_ = DType::kF64;
  SharedMemory memory_;
  std::optional<double> longest_step_;        // of any element of any parameter
  double largest_ = 0, largest_element_ = 0;  // of all gradients: a size, an element
  bool stepped_ = false;                      // an event of an optimizer was noted
  bool ended_ = false;                        // the program has ended before
  SelfTest result_;
};

SelfTestRuns::SelfTestRuns(const CallProgram& program)
    : tester_(std::make_unique<SelfTester>(program)) {}
SelfTestRuns::~SelfTestRuns() = default;
std::set<std::string> SelfTestRuns::names() const { return tester_->names(); }
void SelfTestRuns::take(const KnownAlone& run) { tester_->take(run); }
void SelfTestRuns::take(const RecordedValue& value) { tester_->take(value); }
void SelfTestRuns::round_as(const KnownAlone& other) { tester_->round_as(other); }
SelfTest SelfTestRuns::test() { return tester_->test(); }

std::string self_test_text(const SelfTest& test) {
  constexpr std::size_t kMostShown = 10;
  std::string shown;
  for (std::size_t i = 0; i < std::min(kMostShown, test.differences.size()); ++i) {
    shown += text(test.differences[i], "FAIL");
  }
  std::string after;
  if (test.parameters > 0) after = fmt::format(", {} parameters after the step", test.parameters);
  shown +=
      fmt::format("self-test on one rank: {} values{} and {} gradients are PyTorch's, {} differ",
                  test.values, after, test.gradients, test.differences.size());
  if (test.undecided > 0) shown += fmt::format(", {} rounding alone", test.undecided);
  return shown + "\n";
}

}  // namespace shardlab
