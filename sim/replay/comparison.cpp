// A value of B is right where each rank holds A's value or a part of it. Between calls it may be a
// term of a sum that a later collective adds up; at the end of the step it may not. A value that is
// neither is wrong, and the first is one whose operands are right.
#include "sim/replay/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "sim/replay/difference_text.h"
#include "sim/replay/event_flow.h"
#include "sim/replay/library_nodes.h"
#include "sim/verify/compare.h"

namespace shardlab {

namespace {

constexpr double kTiny = 1e-300;
constexpr double kAmplifiedDrift = 16;  // times the error of the operands
constexpr double kMostDriftOfGradients = 1e-2;
constexpr double kMeaning = 8;     // times what is allowed
constexpr double kTurning = 4096;  // roundings of the largest gradient: a smaller one may turn

double term_rounding(DType dtype) {
  const double one = unit_roundoff(dtype);
  return one * (one > unit_roundoff(DType::kF32) ? kTermRoundingsOfHalves : kTermRoundings);
}

std::string taker_text(const ComparedPoint& point) {
  return point.place.empty() ? point.name : fmt::format("{} ({})", point.op, point.place);
}

bool is_late(const ComparedPoint& point) {
  return is_gradient(point) || point.kind == PointKind::kEnd;
}

// The gradient was terms when backward had made it.
void as_gradient(BlamedValue& value, const BlamedValue& gradient) {
  const std::string name = value.point.name;
  value = gradient;
  value.end = name;
  value.what += ", and still is after the step";
}

bool adds_up(const std::string& call) { return call.find("reduce") != std::string::npos; }

// Whether a sum over ranks is behind the gradient, as of a buffer that has it.
bool is_added_behind(const BlamedValue& gradient, const BlamedValue& parameter) {
  return std::ranges::any_of(parameter.through, [&](const std::string& call) {
    const bool before = std::ranges::find(gradient.through, call) != gradient.through.end();
    return !before && adds_up(call);
  });
}

bool is_scaling(const ComparedPoint& point) {
  const std::string_view op = bare_op(point.op);
  return point.by_number && (op == "div" || op == "mul");
}

std::int32_t first_operand(const ComparedPoint& point) {
  return point.operands.empty() ? -1 : point.operands[0];
}

// Terms that are multiplied stay terms: how many times A's value their sum is.
std::optional<double> factor_of_terms(const ComparedPoint& point, const PointPart& a,
                                      const Followed& from) {
  const bool terms_alone = from.suspect != nullptr &&
                           from.suspect->cause.held == ValueHeld::kTerms &&
                           from.suspect->point.value == first_operand(point);
  if (!terms_alone) return std::nullopt;
  const Explained& terms = from.suspect->cause;
  const auto sum = reduced_over(terms.groups.groups[0], point.parts, point.ranks);
  if (!sum || sum->elements.size() != a.elements.size()) return std::nullopt;
  const std::vector<double> factors = factors_of_parts(a, rounding_allowed(a), {*sum});
  return factors.empty() ? std::nullopt : std::optional(factors[0] * terms.factor);
}

// Pieces of a parameter, each of which is right, may be the same piece: empty if they are not.
std::string text_of_missing(const ComparedPoint& point, const PointPart& a) {
  if (point.parts.size() < 2 || a.elements.empty()) return "";
  const auto missing = missing_element(a, rounding_allowed(a), point.parts);
  return missing ? fmt::format("no rank has A's element at [{}]: some hold the same piece",
                               text_of_list(*missing, ", "))
                 : "";
}

// It has no gradient, as an average of weights has none.
bool is_buffer_end(const ComparedPoint& point, const PointsOfA& a) {
  return is_stepped(point) && !a.contains("gradient " + point.name + ".grad|0");
}

// A mask of the words that a rank has is its own, as are their numbers from its first one on, whose
// sums are A's by chance. A sum over ranks shows whether they are right.
bool may_be_of_mask(const ComparedPoint& point, const Explained& all, DType dtype) {
  const bool by_chance = all.held == ValueHeld::kTerms && unit_roundoff(dtype) == 0;
  const bool no_part = all.held == ValueHeld::kWrong || all.held == ValueHeld::kScaled;
  return !point.op.empty() && (no_part || by_chance);  // no module's result
}

bool is_parameter(const ComparedPoint& point, const PointsOfA& a) {
  return point.kind == PointKind::kInput && a.contains("gradient " + point.name + ".grad|0");
}

// The first of a chain is the one to look at.
void suspect(Followed& now, BlamedValue value) {
  if (now.suspect != nullptr && same_cause(now.suspect->cause, value.cause)) return;
  now.suspect = std::make_shared<const BlamedValue>(std::move(value));
}

// Backward makes a gradient of a part of the rows: along which dim ranks differ shows at the end.
void note_replicas(const ComparedPoint& point, const std::string& replicas,
                   std::vector<BlamedValue>& wrong) {
  const auto made = std::ranges::find_if(wrong, [&](const BlamedValue& one) {
    return one.point.name == point.name && one.cause.held == ValueHeld::kWrong;
  });
  if (made != wrong.end() && !replicas.empty()) {
    made->what += "; after the step " + replicas;
  }
}

bool is_of_call(const ComparedPoint& point) {
  return point.kind == PointKind::kResult &&
         (!point.op.empty() || point.key.starts_with("function "));
}

bool is_of_step(const ComparedPoint& point, const PointsOfA& a) {
  return (is_late(point) && point.kind != PointKind::kFlow) || is_parameter(point, a);
}

bool is_told(const std::vector<BlamedValue>& wrong, const BlamedValue& value) {
  return std::ranges::any_of(wrong, [&](const BlamedValue& one) {
    return one.point.event == value.point.event && one.point.value == value.point.value;
  });
}

}  // namespace

void as_share(Explained& all) {
  if (all.held != ValueHeld::kTerms || all.factor != 1 || all.largest) return;
  const double share = 1 / static_cast<double>(all.groups.groups[0].size());
  all = {.held = ValueHeld::kScaled, .off = all.off, .factor = share, .groups = {}};
}

bool same_cause(const Explained& a, const Explained& b) {
  return a.held == b.held && a.largest == b.largest && is_same_factor(a.factor, b.factor) &&
         a.groups.name == b.groups.name;
}

void RecordingComparison::begin(const RecordedProgram& program) {
  begun_ = true;
  own_numbers_ = events_of_own_numbers(program);
  plain_ = std::ranges::count(program.events, RecordedKind::kModule, &RecordedEvent::kind) == 0;
  micro_batches_.begin(program);
  for (const RecordedEvent& event : program.events) {
    const bool check = event.kind == RecordedKind::kCheck && !is_gradient_check(event);
    if (check) stepped_.insert(event.rank);
    // Averages of weights are met behind the step for the first time.
    const bool average = event.kind == RecordedKind::kConstant && stepped_.contains(event.rank);
    const bool buffer = event.kind == RecordedKind::kInput && !event.batch && !event.requires_grad;
    if (buffer || average) buffers_.insert(event.out[0].id.id);
    if (event.kind != RecordedKind::kBackward) continue;
    losses_.insert(event.takes.begin(), event.takes.end());
  }
}

void RecordingComparison::judge_collective(const RecordedProgram& program, std::size_t at,
                                           const EventValues& values) {
  const RecordedEvent& event = program.events[at];
  if (event.rank >= 0) return;
  for_each_given(event, [&](const EventValue& given) {
    const std::int32_t number = given.id.id;
    coarsest_ = coarser(coarsest_, given.type.dtype);  // a hook may send gradients in 16 bits
    Followed& now = known_[number];
    const auto found = a_.find(now.like);
    if (found == a_.end() || found->second.empty()) return;
    const bool back = event.pass == RecordedPass::kBackward;
    ComparedPoint point{
        .key = now.like, .kind = back ? PointKind::kFlow : PointKind::kResult, .op = event.op};
    point.name = module_of(program, event);
    point.place = place_of(program, event);
    point.line = event.line;
    point.event = at;
    point.value = number;
    point.ranks = ranks_meant(-1, values.ranks());
    const std::vector<PointPart> parts = parts_of_value(values, number, point.ranks);
    if (parts.empty()) return;
    const PointPart& a = found->second.front();
    const double allowed = rounding_allowed(a) + term_rounding(a.dtype) * gradient_noise_;
    const Explained cause = explain(a, std::max(allowed, kTiny), parts, point.ranks, groups_);
    if (cause.held != ValueHeld::kTerms && cause.held != ValueHeld::kScaled) return;
    suspect(now, {.point = point, .what = text_of_cause(cause), .cause = cause, .through = {}});
  });
}

// A module's result was made by its last call.
Followed RecordingComparison::made_from(ComparedPoint& point) {
  if (point.op.empty() || point.operands.empty()) return known_[point.value];
  // A term may be divided by a whole, and nothing by a term.
  if (bare_op(point.op).starts_with("div")) std::ranges::reverse(point.operands);
  Followed from;
  for (const std::int32_t number : point.operands) inherit(from, known_[number]);
  return from;
}

Explained RecordingComparison::explained_by_rank(const ComparedPoint& point,
                                                 const std::vector<PointPart>& a, bool alike,
                                                 const Followed& from, double terms) {
  Explained all{.held = ValueHeld::kRight, .groups = {}};
  for (std::size_t i = 0; i < (alike ? 1 : a.size()); ++i) {
    const Explained one = explained(alike ? point : of_rank(point, i), a[i], from, terms);
    if (static_cast<int>(one.held) >= static_cast<int>(all.held)) all = one;
  }
  const bool behind = !from.of_rows && micro_batches_.is_behind_backward(point.event);
  if (!micro_batches_.several() || behind || !alike || a.size() > 1) return all;
  const auto explain_as = [&](const PointPart& rows) {
    return explained(point, rows, from, terms);
  };
  const bool may_be_rows = all.held == ValueHeld::kWrong && !is_parameter(point, a_);
  if (may_be_rows) micro_batches_.judge(point, explain_as, all);
  if (point.kind == PointKind::kFlow) micro_batches_.see_flow(all);
  return all;
}

void RecordingComparison::judge(ComparedPoint point, double terms) {
  if (micro_batches_.cut_otherwise() && point.kind == PointKind::kGradient) {
    if (!micro_batches_.is_last_look(point.event)) return;
    point.key = micro_batches_.last(point.key);
  }
  const auto found = a_.find(point.key);
  const bool result = point.kind == PointKind::kResult && !backward_;
  backward_ = backward_ || is_late(point);
  if (found == a_.end() || found->second.empty() || point.parts.empty()) return;
  if (result) wrong_loss_ = false;
  if (plain_ || (!point.name.empty() && !point.key.starts_with("call"))) same_names_ = true;
  const std::vector<PointPart>& a = found->second;
  const bool alike = are_equal(a);
  if (!alike && a.size() != point.parts.size()) return;
  Followed from = made_from(point);
  if (is_late(point)) from.off = std::max(from.off, drift_);
  Explained all = explained_by_rank(point, a, alike, from, terms);
  const bool scaled = all.held == ValueHeld::kWrong && alike && is_scaling(point);
  if (const auto factor = scaled ? factor_of_terms(point, a[0], from) : std::nullopt) {
    all = {.held = ValueHeld::kScaled, .factor = *factor};
    from.suspect = nullptr;
  }
  const bool may_be_made_equal = !from.through.empty() || is_of_step(point, a_);
  const bool in_groups =
      point.kind == PointKind::kEnd && are_equal_in(all.groups, point.parts, point.ranks);
  const bool made_equal = may_be_made_equal && (in_groups || are_equal(point.parts));
  if (made_equal) as_share(all);
  Told told{.is_scalar = point.parts[0].elements.size() == 1,
            .same_on_all = point.ranks.size() > 1 && made_equal};
  if (all.held == ValueHeld::kWrong) {
    tell(point, a, alike, told);
  } else if (all.held == ValueHeld::kRight && alike) {
    tell_step(point, a[0], told);
    if (!told.elements.empty()) all.held = ValueHeld::kWrong;
  }
  // Rows may be in another order, as those of a sequence that is cut in a zigzag.
  const bool between = point.kind == PointKind::kResult || point.kind == PointKind::kFlow;
  if (between && alike && all.held == ValueHeld::kWrong && is_rearranged(point.parts, a[0])) {
    known_[point.value].through.push_back(taker_text(point) + " in another order");
    all.held = ValueHeld::kUnknown;
  }
  const bool own = between && known_[point.value].own && may_be_of_mask(point, all, a[0].dtype);
  // A buffer may count what the rank has seen.
  const bool counted = is_buffer_end(point, a_) && all.held == ValueHeld::kTerms;
  if (counted || own) all.held = ValueHeld::kUnknown;
  if (draws(point.op)) told.elements = "it is random, and A and B drew different numbers";
  if (point.kind == PointKind::kInput) begins_[point.name] = point;
  point.parts.clear();
  if (says_nothing(point, all, from)) return;
  settle(point, std::move(all), told, from);
  for (const auto& [event, value] : point.of_others) {
    known_[value].suspect = known_[point.value].suspect;
  }
}

// Each rank's part is right: a piece that no rank has, or replicas that go different ways.
void RecordingComparison::tell_step(const ComparedPoint& point, const PointPart& a,
                                    Told& told) const {
  if (is_parameter(point, a_)) told.elements = text_of_missing(point, a);
  const auto own = begins_.find(point.name);
  const bool replicas = point.kind == PointKind::kEnd && has_one_size(point.parts[0], a);
  if (!replicas || own == begins_.end() || !told.elements.empty()) return;
  told.elements = parting_text(point.parts, own->second.parts);
}

// An edit of a loss changes its seed; of the calls that made a loss only the terms are known.
bool RecordingComparison::says_nothing(const ComparedPoint& point, const Explained& all,
                                       const Followed& from) const {
  const bool seed = bare_op(point.op) == "ones_like" && losses_.contains(first_operand(point));
  const bool loss = is_loss(point) && from.suspect == nullptr && all.held == ValueHeld::kWrong;
  return loss || (seed && all.held != ValueHeld::kRight);
}

// `alike`: all ranks of A have one value, a[0].
void RecordingComparison::tell(const ComparedPoint& point, const std::vector<PointPart>& a,
                               bool alike, Told& told) const {
  for (std::size_t i = 0; i < point.parts.size(); ++i) {
    const PointPart &part = point.parts[i], &whole = a[alike ? 0 : i];
    told.elements = elements_text(part, whole);
    if (has_one_size(part, whole) && differing(part, whole) == 0) continue;  // another rank's
    if (i > 0) told.elements += fmt::format(" (rank {})", point.ranks[i]);
    break;
  }
  if (!alike) return;
  told.elements += factors_text(point.parts, a[0], "its pieces", rounding_allowed(a[0]));
  const std::string right = right_ranks_text(point.parts, point.ranks, a[0]);
  if (right.empty()) told.replicas = replicas_text(point.parts, point.ranks, a[0]);
  if (!told.replicas.empty()) told.elements += "; " + told.replicas;
  if (point.kind != PointKind::kEnd && point.kind != PointKind::kInput) return;
  told.right_on_some = !right.empty();
  told.elements += right;
  const auto whole = a_.find("input " + point.name + "|0");
  const auto own = begins_.find(point.name);
  if (whole == a_.end() || own == begins_.end()) return;
  told.unchanged = std::ranges::equal(point.parts, own->second.parts, {}, &PointPart::elements,
                                      &PointPart::elements);
  told.elements +=
      changes_text(point.parts, own->second.parts, point.ranks, a[0], whole->second[0]);
}

RecordingBlame RecordingComparison::end() {
  ended_ = true;
  // The step took the sum from elsewhere, as from one buffer of all gradients.
  for (const auto& [name, one] : kept_multiples_) settle(one.point, one.cause, {}, one.from);
  for (KeptGradient& one : kept_terms_) {
    const auto step = whole_steps_.find(one.point.name);
    const bool took_it = step == whole_steps_.end() || (step->second.held == ValueHeld::kTerms &&
                                                        same_cause(step->second, one.cause));
    if (took_it) settle(one.point, one.cause, {}, one.from);
  }
  for (auto& [value, link] : parameters_) {
    const std::string gradient = value.point.name + ".grad";
    value.follows = value.follows || wrong_gradients_.contains(gradient);
    const auto own = gradients_.find(gradient);
    const bool still = own != gradients_.end() && !reduced_.contains(own->second.number) &&
                       !right_ends_.contains(gradient) && !link.added &&
                       !is_added_behind(*own->second.suspect, value);
    if (!value.follows && still) as_gradient(value, *own->second.suspect);
    wrong_.push_back(std::move(value));
    links_.push_back(link);
  }
  const std::int64_t on_the_way = drop_harmless();
  std::erase_if(terms_, [&](const BlamedValue& one) { return reduced_.contains(one.point.value); });
  return {.same_names = same_names_,
          .compared = compared_,
          .on_the_way = on_the_way,
          .first_factor = first_factor_,
          .right_loss = right_loss_,
          .wrong = std::move(wrong_),
          .terms = std::move(terms_),
          .reduced = reduced_,
          .edits = {}};
}

// A value on the way is a fault if one that is made of it is: gradients are added up in any order,
// a mask may take out what is not A's, and nobody reads a printed line. None is one where the loss,
// gradients and parameters after the step are A's. Returns how many are none.
std::int64_t RecordingComparison::drop_harmless() {
  const auto is_loss = [&](const Link& link) { return losses_.contains(link.value); };
  const bool wrong_loss = losses_.empty() ? wrong_loss_ : std::ranges::any_of(links_, is_loss);
  const bool right = ends_ > 0 && ends_agree_ && !wrong_loss;
  const auto shows = [&](const Link& link) { return !link.between || is_loss(link); };
  const bool shown = std::ranges::any_of(links_, shows);
  std::vector<bool> harms(wrong_.size());
  for (std::size_t i = wrong_.size(); i-- > 0;) {
    const Link& link = links_[i];
    const bool ends = shown ? shows(link) : !known_[link.value].taken;
    harms[i] = harms[i] || (!right && ends);
    if (harms[i] && link.source >= 0) harms[static_cast<std::size_t>(link.source)] = true;
  }
  std::size_t i = 0;
  return static_cast<std::int64_t>(
      std::erase_if(wrong_, [&](const BlamedValue&) { return !harms[i++]; }));
}

Explained RecordingComparison::explained(const ComparedPoint& point, const PointPart& a,
                                         const Followed& from, double terms) {
  const std::vector<PointPart>& parts = point.parts;
  const bool late = is_late(point) || from.of_gradient;
  const double largest = largest_finite(a.elements);
  const DType dtype = coarser(a.dtype, parts[0].dtype);
  coarsest_ = coarser(coarsest_, dtype);
  const bool integral = is_integral(dtype);
  // Behind a wrong value a right one is as near as if there had been none.
  const double off = from.wrong < 0 ? from.off : 0;
  const double rounding = rounding_of(late ? coarsest_ : dtype);
  double allowed = integral ? 0 : std::max(rounding, kAmplifiedDrift * off) * largest;
  if (!integral && from.wrong < 0) allowed += term_rounding(dtype) * terms;
  if (late) allowed += term_rounding(coarsest_) * gradient_noise_;
  Explained found = explain(a, std::max(allowed, kTiny), parts, point.ranks, groups_);
  const bool wrong = found.held == ValueHeld::kWrong;
  if (wrong && may_turn(point, a, allowed)) found.held = ValueHeld::kUnknown;
  if (wrong && point.kind == PointKind::kGradient)
    found.factor = factor_of_sum(a, std::max(allowed, kTiny), parts, point.ranks, groups_);
  const double far = found.off;
  const bool vague = !a.elements.empty() && allowed > kNoMeaning * largest;
  if (late && largest <= kMeaning * allowed) found.off = 0;  // rounding alone, as of a sum of zero
  if (found.held != ValueHeld::kRight && (vague || (integral && off > 0)))
    found.held = ValueHeld::kUnknown;
  // Each rank's own may pass for the whole if much is allowed, as of gradients in 16 bits.
  constexpr double kFar = 16;
  const bool own = found.held == ValueHeld::kRight && far > kFar * rounding_of(dtype);
  if (!own || are_equal(parts)) return found;
  return nearer_terms(a, far * largest, parts, point.ranks, groups_).value_or(found);
}

// Optimizers that divide by the size of a gradient make a step of full length for an element that
// is rounding alone: whether no other element is off.
bool RecordingComparison::may_turn(const ComparedPoint& point, const PointPart& a,
                                   double allowed) const {
  const auto slope = a_.find("gradient " + point.name + ".grad|0");
  if (point.kind != PointKind::kEnd || slope == a_.end() || slope->second.size() != 1) return false;
  const std::vector<double>& slopes = slope->second[0].elements;
  if (a.elements.size() != slopes.size()) return false;
  const double noise = kTurning * unit_roundoff(coarsest_) * gradient_noise_;
  const auto turns = [&](double slope) { return slope != 0 && std::fabs(slope) <= noise; };
  const bool some_turn = std::ranges::any_of(slopes, turns);  // then zeros are rounding as well
  PointPart sure = a;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    const bool rounding = turns(slopes[i]) || (some_turn && slopes[i] == 0);
    if (rounding) sure.elements[i] = std::numeric_limits<double>::quiet_NaN();
  }
  return explain(sure, allowed, point.parts, point.ranks, groups_, true).held == ValueHeld::kRight;
}

// A parameter after the step that is wrong, and nothing before it but terms of its gradient, took
// those.
void RecordingComparison::see_step(const ComparedPoint& point, const Explained& all,
                                   const Told& told, const Followed& from) {
  const bool explained =
      all.held != ValueHeld::kWrong || told.right_on_some || told.unchanged || from.wrong >= 0;
  if (explained && from.suspect == nullptr) whole_steps_[point.name + ".grad"] = all;
}

// Whether it is right, and the facts that those that are made of it inherit.
bool RecordingComparison::is_right(const ComparedPoint& point, const Explained& all,
                                   Followed& now) {
  if (all.held != ValueHeld::kRight) return false;
  ++compared_;
  if (point.kind == PointKind::kGradient) right_gradients_.insert(point.name);
  if (point.kind == PointKind::kEnd) right_ends_.insert(point.name);
  if (is_late(point) && point.kind != PointKind::kFlow) ++ends_;
  now.off = all.off;
  drift_ = std::max(drift_, std::min(all.off, kMostDriftOfGradients));
  return true;
}

BlamedValue RecordingComparison::blamed(const ComparedPoint& point, const Explained& all,
                                        const Told& told, const Followed& from) const {
  const bool wrong = all.held == ValueHeld::kWrong;
  BlamedValue value{.point = point,
                    .what = wrong ? told.elements + text_of_factor(all) : text_of_cause(all),
                    .cause = all,
                    .through = from.through,
                    .follows = from.wrong >= 0};
  const bool spoilt = wrong && point.kind == PointKind::kEnd && is_library_call(point.op) &&
                      right_gradients_.contains(point.name);
  if (spoilt) value.what += "; before this call it is A's";
  return value;
}

void RecordingComparison::see_factor(const ComparedPoint& point, const Explained& all,
                                     const Told& told) {
  const bool back =
      point.kind == PointKind::kFlow && known_[point.value].flows_back && !told.is_scalar;
  // The gradients of a loss that is the average over ranks are so many times A's.
  const bool average = is_loss(point) && all.held == ValueHeld::kTerms;
  if (first_factor_ || (!back && !average)) return;
  first_factor_ = average ? 1 / all.factor : all.held == ValueHeld::kScaled ? all.factor : 1;
}

// Terms may be added up, and multiples of gradients divided.
bool RecordingComparison::may_become_right(const ComparedPoint& point, const Explained& all) const {
  const bool gradient = point.kind == PointKind::kGradient;
  if (all.held == ValueHeld::kTerms) {
    return point.kind != PointKind::kInput && point.kind != PointKind::kEnd;
  }
  const bool has_end = gradient && begun_ && !ended_;
  return all.held == ValueHeld::kScaled && (point.kind == PointKind::kFlow || has_end);
}

void RecordingComparison::keep(const ComparedPoint& point, const Explained& all,
                               const Followed& from, const BlamedValue& value) {
  Followed& now = known_[point.value];
  suspect(now, value);
  if (point.kind == PointKind::kResult) suspects_.push_back(now.suspect);
  if (point.kind != PointKind::kGradient) return;
  if (all.held == ValueHeld::kScaled) {
    kept_multiples_.insert_or_assign(point.name, KeptGradient{point, all, from});
    return;
  }
  gradients_[point.name] = {now.suspect, point.value};
  terms_.push_back(value);
}

void RecordingComparison::settle(ComparedPoint point, Explained all, const Told& told,
                                 const Followed& from) {
  Followed& now = known_[point.value];
  if (all.held == ValueHeld::kUnknown) return;
  const bool end = point.kind == PointKind::kEnd;
  const bool gradient = end && point.name.ends_with(".grad");
  if (end && !gradient) see_step(point, all, told, from);
  const bool loss = point.kind == PointKind::kResult && losses_.contains(point.value);
  const bool as_terms = all.held == ValueHeld::kTerms && all.factor == 1 && !told.same_on_all;
  right_loss_ = right_loss_ || (loss && (all.held == ValueHeld::kRight || as_terms));
  if (gradient) kept_multiples_.erase(point.name);
  if (gradient && all.held == ValueHeld::kTerms && !ended_) {
    return kept_terms_.push_back({std::move(point), std::move(all), from});
  }
  const auto before = now.suspect != nullptr ? now.suspect : from.suspect;
  see_factor(point, all, told);
  now = {.off = from.off,
         .taken = now.taken,
         .added = now.added,
         .of_rows = now.of_rows,
         .flows_back = now.flows_back,
         .like = point.key};
  now.of_gradient = is_gradient(point) || gradient || (!end && from.of_gradient);
  if (is_right(point, all, now)) return;
  BlamedValue value = blamed(point, all, told, from);
  if (point.kind == PointKind::kResult && !backward_) wrong_loss_ = true;
  if (may_become_right(point, all)) {
    now.suspect = before;
    return keep(point, all, from, value);
  }
  ++compared_;
  if (is_of_step(point, a_)) ends_agree_ = false;
  const bool of_call = is_of_call(point);
  const bool outlasts = of_call && all.held == ValueHeld::kWrong && is_in_place(point.op) &&
                        buffers_.contains(point.value);
  if (outlasts) ends_agree_ = false;
  Link link{.source = from.wrong,
            .value = point.value,
            .between = (of_call && !outlasts) || point.kind == PointKind::kFlow,
            .added = from.added || told.unchanged};
  if (end && !gradient) return void(parameters_.emplace_back(std::move(value), link));
  if (is_late(point)) {
    of_gradient(point, before, told.same_on_all, value);
    if (end) note_replicas(point, told.replicas, wrong_);
  } else if (!value.follows && from.suspect != nullptr) {
    link.between = false;  // a term that is taken as the whole is no other way; a multiple may be
    if (from.suspect->cause.held == ValueHeld::kTerms) ends_agree_ = false;
    value = *from.suspect;
    value.follows = false;
    value.taken = {.place = point.place, .key = point.key};
    value.what += fmt::format("; {} takes it as the whole", taker_text(point));
  }
  if (is_told(wrong_, value)) {
    value.follows = true;
    value.point = std::move(point);
  }
  now.wrong = static_cast<std::int32_t>(wrong_.size());
  wrong_.push_back(std::move(value));
  links_.push_back(link);
}

void RecordingComparison::of_gradient(const ComparedPoint& point,
                                      const std::shared_ptr<const BlamedValue>& before,
                                      bool same_on_all, BlamedValue& value) {
  const std::string name = point.kind == PointKind::kFlow ? "" : point.name;
  value.follows = value.follows || (!name.empty() && !wrong_gradients_.insert(name).second);
  if (value.follows) return;
  const auto own = gradients_.find(name);
  const bool same = before != nullptr && same_cause(before->cause, value.cause);
  // All gradients have the factor of a loss, until one that is made of them has not.
  const bool of_loss =
      before != nullptr && before->cause.held == ValueHeld::kScaled && first_factor_ &&
      std::fabs(before->cause.factor - *first_factor_) <= kSameFactor * *first_factor_;
  const bool flows = point.kind == PointKind::kFlow;
  const bool usual =
      of_loss && !flows && before->point.kind == PointKind::kFlow && !adds_up(before->point.op);
  // Between a term and it nothing is known of gradients of other rows.
  const bool of_term = micro_batches_.cut_otherwise() && before != nullptr &&
                       before->point.kind == PointKind::kFlow &&
                       before->cause.held == ValueHeld::kTerms &&
                       value.cause.held == ValueHeld::kWrong;
  if ((same && !usual) || of_term || (before != nullptr && flows && !of_loss)) {
    value = *before;
  } else if (of_loss && flows) {
    value.what += fmt::format("; gradients before it are {}", text_of_cause(before->cause));
  } else if (point.kind == PointKind::kEnd && own != gradients_.end() && !same_on_all &&
             !reduced_.contains(point.value)) {
    as_gradient(value, *own->second.suspect);
  }
}

}  // namespace shardlab
