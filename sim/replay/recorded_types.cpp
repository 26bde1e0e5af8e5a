// The ranks along a mesh dim follow from its sizes and strides. Their values are put together dim
// by dim, the one that cut last first: a sum of terms, a row of pieces, or one of the replicas.
#include "sim/replay/recorded_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "mesh/type_string.h"
#include "sim/replay/explain.h"
#include "sim/replay/fingerprint.h"
#include "sim/verify/compare.h"
#include "sim/verify/labels/label.h"

namespace shardlab {

namespace {

/// The parts of one tensor, by rank.
using Held = std::map<std::size_t, GlobalValue>;
using TypesAlong = std::vector<RecordedType>;

std::int64_t size_of(const TypesAlong& types) {
  std::int64_t size = 1;
  for (const RecordedType& type : types) {
    for (const auto& [along, stride] : type.of) size *= along;
  }
  return size;
}

bool is_same(const GlobalValue& a, const GlobalValue& b) {
  return a.meta.shape == b.meta.shape && a.meta.dtype == b.meta.dtype && a.integers == b.integers &&
         all_close(a.reals, b.reals, 0);
}

/// Ranks along the dims by their first, in the order of their places.
std::map<std::size_t, std::vector<std::size_t>> ranks_along(const TypesAlong& types,
                                                            const Held& held) {
  std::map<std::size_t, std::map<std::int64_t, std::size_t>> placed;
  for (const auto& [rank, part] : held) {
    const auto [place, first] = place_along(types, rank);
    placed[first][place] = rank;
  }
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (const auto& [first, ranks] : placed) {
    for (const auto& [place, rank] : ranks) groups[first].push_back(rank);
  }
  return groups;
}

// The first two ranks along the dim whose values are unlike.
std::optional<std::pair<std::size_t, std::size_t>> apart(const RecordedType& type,
                                                         const Held& held) {
  for (const auto& [first, ranks] : ranks_along({type}, held)) {
    for (const std::size_t rank : ranks) {
      if (!is_same(held.at(rank), held.at(ranks[0]))) return std::pair(ranks[0], rank);
    }
  }
  return std::nullopt;
}

// The dims as those of a mesh of their own.
const MeshLayout* mesh_of_types(const TypesAlong& types) {
  MeshLayout::Init init;
  for (const RecordedType& type : types) {
    init.shape.push_back(size_of({type}));
    init.names.push_back(type.dim);
  }
  return process_arena().layout(std::move(init));
}

std::vector<GlobalValue> parts_held(const Held& held, const std::vector<std::size_t>& ranks) {
  std::vector<GlobalValue> parts;
  for (const std::size_t rank : ranks) parts.push_back(held.at(rank));
  return parts;
}

/// The whole that `held` makes, for each set of ranks that the dims leave apart, by its first rank.
/// Nothing for V, and for parts that do not fit together.
std::optional<Held> together(const Held& held, const TypesAlong& types) {
  Label label;
  for (const RecordedType& type : types) {
    if (!type.type.placement) return std::nullopt;
    label.placements.push_back(*type.type.placement);
    label.order.push_back(type.type.is_s() ? static_cast<std::int32_t>(type.order) : -1);
  }
  Held wholes;
  for (const auto& [first, ranks] : ranks_along(types, held)) {
    if (std::ssize(ranks) != size_of(types)) return std::nullopt;
    GlobalValue whole = put_together(parts_held(held, ranks), label, *mesh_of_types(types));
    const auto elements = std::ssize(whole.reals) + std::ssize(whole.integers);
    if (elements != product(whole.meta.shape)) return std::nullopt;
    wholes[first] = std::move(whole);
  }
  return wholes;
}

bool is_near(const GlobalValue& a, const GlobalValue& b) {
  if (a.meta.shape != b.meta.shape || a.integers != b.integers) return false;
  const double allowed = rounding_of(coarser(a.meta.dtype, b.meta.dtype)) *
                         std::max(largest_finite(a.reals), largest_finite(b.reals));
  return all_close(a.reals, b.reals, allowed);
}

/// A claim or a move as all ranks made it, with what they held: the tensor, or operand and result.
struct Said {
  std::size_t event = 0;
  std::map<std::size_t, std::int32_t> numbers;  // of the tensor, by rank
  std::vector<Held> held;
  Held gradient;                     // of the tensor, or the result, as it came
  std::string key;                   // the same in every recording of the program
  std::optional<std::size_t> whole;  // the move that added up what are terms here
  bool move() const { return held.size() == 2; }
};

/// All that a program says, by line and how often the line was met before, and its later values.
class SaidTypes {
 public:
  enum class Calls : std::uint8_t { kLeft, kKept };
  explicit SaidTypes(const RecordedProgram& program, Calls calls = Calls::kLeft)
      : program_(program) {
    play_events(program, {}, [&](std::size_t index, const EventValues& values) {
      const RecordedEvent& event = program.events[index];
      if (event.kind == RecordedKind::kTyped) {
        event.name == "gradient" ? reach(event, values) : say(event, index, values);
      }
      if (calls == Calls::kKept && event.kind == RecordedKind::kCall && !event.by_library) {
        std::vector<std::int32_t> results;
        for (const EventValue& one : event.out) results.push_back(one.id.id);
        if (!results.empty()) meet(calls_, std::string(bare_op(event.op)), index, results, values);
      }
      if (event.kind == RecordedKind::kCheck) check(event, values);
      if (event.kind != RecordedKind::kCheck) write(event, values.ranks());
      if (event.kind != RecordedKind::kCollect) return;
      for_each_given(event, [&](const EventValue& one) { collected_.insert(one.id.id); });
    });
  }

  const RecordedProgram& program() const { return program_; }
  const std::map<std::string, Said>& all() const { return said_; }
  /// Results of calls, if they are kept.
  const std::map<std::string, Said>& calls() const { return calls_; }
  const Said* at(const std::string& key) const { return at(said_, key); }
  const Said* call_at(const std::string& key) const { return at(calls_, key); }

  /// The gradient that backward left of a claimed tensor; null: none, or made by a collective.
  const Held* gradient_of(const Said& said) const {
    if (!said.gradient.empty()) return &said.gradient;
    const auto named = names_.find(said.numbers.begin()->second);
    for (const std::string& name :
         named == names_.end() ? std::set<std::string>() : named->second) {
      const auto found = gradients_.find(name);
      if (found != gradients_.end()) return &found->second;
    }
    return nullptr;
  }
  /// A claimed parameter after the step, of the ranks on which it is one.
  Held end_of(const Said& said) const {
    Held end;
    for (const auto& [rank, number] : said.numbers) {
      const auto found = ends_.find(number);
      if (found == ends_.end()) continue;
      const auto own = found->second.find(rank);
      if (own != found->second.end()) end.insert(*own);
    }
    return end;
  }

 private:
  using OnRank = std::pair<std::int32_t, std::size_t>;  // a number, and the rank that has it
  using SumAlong = std::pair<std::size_t, std::vector<std::pair<std::int64_t, std::int64_t>>>;

  static const Said* at(const std::map<std::string, Said>& all, const std::string& key) {
    const auto found = all.find(key);
    return found == all.end() ? nullptr : &found->second;
  }

  static void add(Held& held, const EventValues& values, std::int32_t number,
                  const std::vector<std::size_t>& ranks) {
    for (const std::size_t rank : ranks) {
      const DTensor& value = values.on(number, rank);
      if (value.defined() && !value.distributed()) held[rank] = whole_value(value.local());
    }
  }

  Said& meet(std::map<std::string, Said>& all, const std::string& name, std::size_t index,
             const std::vector<std::int32_t>& numbers, const EventValues& values) {
    const RecordedEvent& event = program_.events[index];
    const std::vector<std::size_t> ranks = ranks_meant(event.rank, values.ranks());
    const std::string line = fmt::format("{} {}", name, place_of(program_, event));
    const std::size_t count = counts_[{ranks[0], line}]++;
    std::string key = fmt::format("{} {}", line, count);
    Said& said = all[key];
    if (said.held.empty()) {
      said.event = index;
      said.key = std::move(key);
    }
    said.held.resize(numbers.size());
    for (const std::size_t rank : ranks) said.numbers[rank] = numbers[0];
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] >= 0) add(said.held[i], values, numbers[i], ranks);
    }
    return said;
  }

  void say(const RecordedEvent& event, std::size_t index, const EventValues& values) {
    if (event.takes.empty()) return;
    Said& said = meet(said_, event.name, index, event.takes, values);
    for (const std::size_t rank : ranks_meant(event.rank, values.ranks())) {
      in_order_[rank].push_back(&said);
      if (event.types.empty()) continue;  // one process
      for (const auto& [sum, dim] : sums_[{event.takes[0], rank}]) {
        const bool same = event.name != "mutate_type" && event.types[0].of == dim;
        if (same && event.types[0].type.is_p()) said.whole = sum;
      }
      const bool added = said.move() && event.types.size() == 2 && event.types[0].type.is_p() &&
                         !event.types[1].type.varies();
      if (!added) continue;
      sums_[{event.takes[1], rank}].emplace_back(index, event.types[0].of);
    }
    // Names by number are of one process each, where ranks have events of their own.
    if (event.rank < 0) names_[event.takes[0]].insert(fmt::format("v{}", event.takes[0]));
  }

  // A gradient names the claim or move by its place among the rank's.
  void reach(const RecordedEvent& event, const EventValues& values) {
    const std::vector<std::size_t> ranks = ranks_meant(event.rank, values.ranks());
    const std::vector<Said*>& own = in_order_[ranks[0]];
    if (event.of && *event.of < own.size()) {
      add(own[*event.of]->gradient, values, event.takes[0], ranks);
    }
  }

  // A value that is written is no sum any more.
  void write(const RecordedEvent& event, std::size_t ranks) {
    for_each_given(event, [&](const EventValue& one) {
      for (const std::size_t rank : ranks_meant(event.rank, ranks)) sums_.erase({one.id.id, rank});
    });
  }

  void check(const RecordedEvent& event, const EventValues& values) {
    constexpr std::string_view kGradient = ".grad";
    const std::int32_t number = event.out[0].id.id;
    const std::vector<std::size_t> ranks = ranks_meant(event.rank, values.ranks());
    if (!event.name.ends_with(kGradient)) {
      names_[number].insert(event.name);
      return add(ends_[number], values, number, ranks);
    }
    if (event.pass != RecordedPass::kBackward || collected_.contains(number)) return;
    const std::size_t length = event.name.size() - kGradient.size();
    add(gradients_[event.name.substr(0, length)], values, number, ranks);
  }

  const RecordedProgram& program_;
  std::map<std::string, Said> said_, calls_;
  std::map<std::size_t, std::vector<Said*>> in_order_;                 // of each rank
  std::map<std::pair<std::size_t, std::string>, std::size_t> counts_;  // by first rank and line
  std::map<std::int32_t, std::set<std::string>> names_;                // of claimed tensors
  std::map<std::string, Held> gradients_;                              // by name
  std::map<std::int32_t, Held> ends_;
  std::map<OnRank, std::vector<SumAlong>> sums_;  // by the moves that made them
  std::set<std::int32_t> collected_;              // results of collectives
};

// The label of the parts against the value of one process, where they are all of it.
std::optional<Label> label_against(const Held& held, const Held& one, const TypesAlong& types) {
  if (held.empty() || one.empty()) return std::nullopt;
  const auto groups = ranks_along(types, held);
  const std::vector<std::size_t>& ranks = groups.begin()->second;
  if (groups.size() > 1 || std::ssize(ranks) != size_of(types)) return std::nullopt;
  const GlobalValue& whole = one.begin()->second;
  return label_of(parts_held(held, ranks), whole, *mesh_of_types(types),
                  rounding_of(whole.meta.dtype));
}

/// The labels that values have against those of one process, and where a label begins.
class LabelsOfCalls {
 public:
  LabelsOfCalls(const RecordedProgram& program, const RecordedProgram& one)
      : program_(program),
        ours_(program, SaidTypes::Calls::kKept),
        theirs_(one, SaidTypes::Calls::kKept) {
    for (const auto& [key, said] : ours_.calls()) made_[said.numbers.begin()->second] = &said;
  }

  // "; it is tp=P(sum) since llama.py:41: cause.missing-sum"; empty where no label fits.
  std::string text_of(const Said& claim, const TypesAlong& types) const {
    const Said* one = theirs_.at(claim.key);
    if (one == nullptr) return "";
    const auto label = label_against(claim.held[0], one->held[0], types);
    if (!label) return "";
    const Said* begin = &claim;
    while (const Said* before = made_before(*begin, *label, types)) begin = before;
    const bool since = begin != &claim;
    return fmt::format("; it is {}{}: {}", arguments_of(*label, *mesh_of_types(types)),
                       since ? " since " + place_of(program_, program_.events[begin->event]) : "",
                       label->has_terms() ? "cause.missing-sum" : "cause.other-label");
  }

 private:
  // The call that made the value, or an operand of the same label.
  const Said* made_before(const Said& said, const Label& label, const TypesAlong& types) const {
    const RecordedEvent& event = program_.events[said.event];
    const Said* found = nullptr;
    for_each_operand(event, said.numbers.begin()->first, [&](std::int32_t number) {
      const auto made = made_.find(number);
      if (found != nullptr || made == made_.end() || made->second->event >= said.event) return;
      const Said* other = theirs_.call_at(made->second->key);
      if (other == nullptr) return;
      const Held& held = made->second->held[0];
      if (label_against(held, other->held[0], types) == label) found = made->second;
    });
    return found;
  }

  const RecordedProgram& program_;
  const SaidTypes ours_, theirs_;
  std::map<std::int32_t, const Said*> made_;  // by the number of the first result
};

class TypesJudge {
 public:
  TypesJudge(const RecordedProgram& program, const SaidTypes& ours, const SaidTypes* one)
      : program_(program), ours_(ours), one_(one) {}

  std::vector<ReplayDifference> judge() {
    for (const auto& [key, said] : ours_.all()) {
      said.move() ? judge_move(said) : judge_claim(key, said);
    }
    if (one_ != nullptr && !claims_.empty()) name_causes();
    std::ranges::stable_sort(found_, {}, &ReplayDifference::line);
    return std::move(found_);
  }

 private:
  // Adds what claims that were found wrong are in truth.
  void name_causes() {
    const LabelsOfCalls labels(program_, one_->program());
    for (const auto& [difference, said] : claims_) {
      found_[difference].got += labels.text_of(*said, program_.events[said->event].types);
    }
  }

  void contradict(const Said& said, std::string expected, std::string got) {
    if (!said.move()) claims_.emplace_back(found_.size(), &said);
    const RecordedEvent& event = program_.events[said.event];
    found_.push_back({event.line, place_of(program_, event), "spmd_types." + event.name,
                      said.move() ? "move" : "claim", std::move(expected), std::move(got)});
  }

  static std::string along(const RecordedType& type) {
    return fmt::format("{} along {}", to_string(type.type), type.dim);
  }

  bool are_replicas(const Said& said, const Held& held, const RecordedType& type,
                    std::string_view when, std::string_view why = "") {
    if (!type.type.is_r() && !type.type.is_i()) return true;
    const auto ranks = apart(type, held);
    if (!ranks) return true;
    contradict(
        said, fmt::format("{}: equal values{}", along(type), when),
        fmt::format("ranks {} and {} hold different ones{}", ranks->first, ranks->second, why));
    return false;
  }

  bool is_added_once(const Said& said) {
    const Held& held = said.held[0];
    const bool any = !held.empty() && largest_finite(held.begin()->second.reals) > 0;
    if (!said.whole || !any) return true;
    contradict(said, along(program_.events[said.event].types[0]) + ": terms",
               fmt::format("the sum, of {}: it is added twice",
                           place_of(program_, program_.events[*said.whole])));
    return false;
  }

  void judge_claim(const std::string& key, const Said& said) {
    if (!is_added_once(said)) return;
    const std::vector<RecordedType>& types = program_.events[said.event].types;
    for (const RecordedType& type : types) {
      if (!are_replicas(said, said.held[0], type, "") || !judge_gradient(said, type)) return;
      const Held* gradient = ours_.gradient_of(said);
      const bool terms = type.type.is_r() && gradient != nullptr && apart(type, *gradient);
      if (!are_replicas(said, ours_.end_of(said), type, " after the step",
                        terms ? "; its gradient is a term on each rank" : "")) {
        return;
      }
    }
    const Said* one = one_ == nullptr ? nullptr : one_->at(key);
    if (one == nullptr || one->held[0].empty()) return;
    const auto whole = together(said.held[0], types);
    if (!whole || whole->size() > 1) return;  // ranks along a dim of which nothing is said
    for (const auto& [rank, part] : *whole) {
      if (is_near(part, one->held[0].begin()->second)) continue;
      std::string text;
      for (const RecordedType& type : types) text += (text.empty() ? "" : ", ") + along(type);
      return contradict(said, text + ": the value of one process",
                        "what the ranks hold makes another one");
    }
  }

  // Terms of R, the same on all ranks of I.
  bool judge_gradient(const Said& said, const RecordedType& type) {
    const Held* gradient = ours_.gradient_of(said);
    if (gradient == nullptr || gradient->size() != said.numbers.size()) return true;
    const auto ranks = apart(type, *gradient);
    if (type.type.is_i() && ranks) {
      contradict(said, along(type) + ": equal gradients",
                 fmt::format("those of ranks {} and {} differ: ranks use it for other work, which "
                             "is R",
                             ranks->first, ranks->second));
      return false;
    }
    const bool any = largest_finite(gradient->begin()->second.reals) > 0;
    if (!type.type.is_r() || ranks || !any) return true;
    contradict(said, along(type) + ": gradients that are terms",
               "every rank has the same one: ranks use it for the same work, which is I");
    return false;
  }

  void judge_move(const Said& said) {
    const std::vector<RecordedType>& types = program_.events[said.event].types;
    if (types.size() != 2 || !is_added_once(said)) return;
    if (!are_replicas(said, said.held[0], types[0], " before")) return;
    if (!judge_gradient(said, types[1])) return;
    const auto before = together(said.held[0], {types[0]});
    const auto after = together(said.held[1], {types[1]});
    if (!before || !after) return;
    for (const auto& [rank, part] : *before) {
      const auto own = after->find(rank);
      if (own == after->end() || is_near(part, own->second)) continue;
      return contradict(
          said, fmt::format("{} to {}: the same whole", to_string(types[0].type), along(types[1])),
          "another one");
    }
  }

  const RecordedProgram& program_;
  const SaidTypes& ours_;
  const SaidTypes* one_;
  std::vector<ReplayDifference> found_;
  std::vector<std::pair<std::size_t, const Said*>> claims_;  // of them, by index
};

// The dims that are named, outermost first; of those that overlap the one that is met first.
TypesAlong dims_said_in(const RecordedProgram& program) {
  TypesAlong dims;
  for (const RecordedEvent& event : program.events) {
    for (const RecordedType& type : event.types) {
      TypesAlong more = dims;
      more.push_back(type);
      bool apart = true;
      for (std::size_t rank = 0; rank < program.ranks; ++rank) {
        const std::size_t first = place_along(more, rank).second;
        apart &= first <= rank && place_along(more, first).first == 0;
      }
      if (apart) dims = std::move(more);
    }
  }
  std::ranges::stable_sort(dims, std::ranges::greater{},
                           [](const RecordedType& type) { return type.of.front().second; });
  return dims;
}

// R and I are told apart by the gradient; nothing for what differs and has no label.
std::string type_found(const RecordedType& dim, const Held& held, const Held* gradient,
                       const std::optional<Placement>& label) {
  const bool replicas = label ? label->is_replicate() : !apart(dim, held);
  if (!replicas) {
    const bool typed = label && (label->is_plain_shard() || *label == Placement::partial());
    return typed ? to_string(SpmdType{*label}) : "";
  }
  if (gradient == nullptr || largest_finite(gradient->begin()->second.reals) == 0) return "R or I";
  return apart(dim, *gradient) ? "R" : "I";
}

bool says_types(const RecordedProgram& program) {
  return std::ranges::any_of(program.events, [](const RecordedEvent& event) {
    return event.kind == RecordedKind::kTyped && !event.types.empty();
  });
}

}  // namespace

TypesJudgement judge_types(const RecordedProgram& program, const RecordedProgram* one) {
  if (!says_types(program) || program.shapes_only || program.ranks == 1) return {};
  const SaidTypes ours(program);
  std::optional<SaidTypes> theirs;
  if (one != nullptr) theirs.emplace(*one);
  TypesJudge judge(program, ours, theirs ? &*theirs : nullptr);
  return {std::ssize(ours.all()), judge.judge()};
}

InferredTypes types_of_recording(const RecordedProgram& program, const RecordedProgram* one) {
  if (!says_types(program) || program.shapes_only || program.ranks == 1) {
    fail(Fix{"record a script with spmd_types, with values: shardlab record --ranks 4 --processes"},
         "{}: a recording of {} ranks that says nothing of types of values", program.path,
         program.ranks);
  }
  const SaidTypes ours(program, SaidTypes::Calls::kKept);
  std::optional<SaidTypes> theirs;
  if (one != nullptr) theirs.emplace(*one, SaidTypes::Calls::kKept);
  const TypesAlong dims = dims_said_in(program);
  std::map<std::size_t, InferredType> found;  // by event
  const auto add = [&](const Said& said, const Said* other) {
    const RecordedEvent& event = program.events[said.event];
    const Held& held = said.held.back();
    if (held.empty() || event.place < 0) return;
    const RecordedPlace& place = program.places.at(static_cast<std::size_t>(event.place));
    const std::string_view call = event.op.empty() ? event.name : bare_op(event.op);
    const auto label =
        other == nullptr ? std::nullopt : label_against(held, other->held.back(), dims);
    InferredType value{fmt::format("{} {}", place.file, call),
                       place.line,
                       type_string(held.begin()->second.meta),
                       {},
                       {}};
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
      value.types.push_back(
          type_found(dims[dim], held, ours.gradient_of(said),
                     label ? std::optional(label->placements[dim]) : std::nullopt));
      if (!value.types.back().empty()) continue;
      value.types.back() = other == nullptr ? "?" : "V";
      value.why = other != nullptr ? "ranks hold no piece, term or replica of one process's"
                  : one != nullptr ? "one process does not come here"
                                   : "compare with one process: shardlab types RANKS ONE";
    }
    found.emplace(said.event, std::move(value));
  };
  for (const auto& [key, said] : ours.all()) add(said, theirs ? theirs->at(key) : nullptr);
  for (const auto& [key, said] : ours.calls()) add(said, theirs ? theirs->call_at(key) : nullptr);
  InferredTypes types{.mesh = mesh_of_types(dims), .values = {}, .failure = program.error};
  for (auto& one : found) {
    InferredType& value = one.second;
    const auto same = [&](const InferredType& before) {
      return before.line == value.line && before.name == value.name && before.held == value.held &&
             before.types == value.types;
    };
    if (std::ranges::none_of(types.values, same)) types.values.push_back(std::move(value));
  }
  return types;
}

}  // namespace shardlab
