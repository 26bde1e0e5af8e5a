// The ranks along a mesh dim follow from its sizes and strides. Their values are put together dim
// by dim, the one that cut last first: a sum of terms, a row of pieces, or one of the replicas.
#include "sim/replay/recorded_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "sim/replay/explain.h"
#include "sim/replay/points.h"

namespace shardlab {

namespace {

/// The parts of one tensor, by rank.
using Held = std::map<std::size_t, PointPart>;

std::int64_t size_of(const RecordedType& type) {
  std::int64_t size = 1;
  for (const auto& [along, stride] : type.of) size *= along;
  return size;
}

// A rank's place along the dim, and the rank at place 0.
std::pair<std::int64_t, std::size_t> place_along(const RecordedType& type, std::size_t rank) {
  const auto own = static_cast<std::int64_t>(rank);
  std::int64_t place = 0, first = own;
  for (const auto& [size, stride] : type.of) {
    const std::int64_t here = own / stride % size;
    place = place * size + here;
    first -= here * stride;
  }
  return {place, static_cast<std::size_t>(first)};
}

bool is_same(const PointPart& a, const PointPart& b) {
  return a.shape == b.shape && a.dtype == b.dtype &&
         std::ranges::equal(a.elements, b.elements, [](double x, double y) {
           return x == y || (std::isnan(x) && std::isnan(y));
         });
}

/// Ranks along the dim by their first, in the order of their places.
std::map<std::size_t, std::vector<std::size_t>> groups_along_type(const RecordedType& type,
                                                                  const Held& held) {
  std::map<std::size_t, std::map<std::int64_t, std::size_t>> placed;
  for (const auto& [rank, part] : held) {
    const auto [place, first] = place_along(type, rank);
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
  for (const auto& [first, ranks] : groups_along_type(type, held)) {
    for (const std::size_t rank : ranks) {
      if (!is_same(held.at(rank), held.at(ranks[0]))) return std::pair(ranks[0], rank);
    }
  }
  return std::nullopt;
}

// Pieces in a row along a dim; nothing where their other dims differ.
bool append(PointPart& all, const PointPart& next, std::size_t dim) {
  Dims other = next.shape;
  if (dim >= all.shape.size() || other.size() != all.shape.size()) return false;
  other[dim] = all.shape[dim];
  if (other != all.shape) return false;
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < dim; ++i) outer *= all.shape[i];
  std::vector<double> elements;
  for (std::int64_t row = 0; row < outer; ++row) {
    for (const auto* part : {&std::as_const(all), &next}) {
      const auto length = std::ssize(part->elements) / std::max<std::int64_t>(outer, 1);
      const auto begin = part->elements.begin() + row * length;
      elements.insert(elements.end(), begin, begin + length);
    }
  }
  all.elements = std::move(elements);
  all.shape[dim] += next.shape[dim];
  return true;
}

bool join(PointPart& all, const PointPart& next, const SpmdType& type) {
  if (type.is_r() || type.is_i()) return true;
  if (type.is_s()) return append(all, next, static_cast<std::size_t>(type.placement->dim));
  if (!type.is_p() || all.shape != next.shape) return false;
  for (std::size_t i = 0; i < all.elements.size(); ++i) all.elements[i] += next.elements[i];
  return true;
}

/// The whole that `held` makes, for each set of ranks that the dims leave apart, by its first rank.
/// Nothing for V, and for parts that do not fit together.
std::optional<Held> together(Held held, std::vector<RecordedType> types) {
  std::ranges::stable_sort(types, std::ranges::greater{}, &RecordedType::order);
  for (const RecordedType& type : types) {
    Held joined;
    for (const auto& [first, ranks] : groups_along_type(type, held)) {
      if (std::ssize(ranks) != size_of(type)) return std::nullopt;
      PointPart& all = joined[first] = held.at(ranks[0]);
      for (std::size_t i = 1; i < ranks.size(); ++i) {
        if (!join(all, held.at(ranks[i]), type.type)) return std::nullopt;
      }
    }
    held = std::move(joined);
  }
  return held;
}

bool is_near(const PointPart& a, const PointPart& b) {
  if (a.elements.size() != b.elements.size() || a.shape != b.shape) return false;
  const double allowed = rounding_of(coarser(a.dtype, b.dtype)) *
                         std::max(largest_of(a.elements), largest_of(b.elements));
  for (std::size_t i = 0; i < a.elements.size(); ++i) {
    const double off = std::fabs(a.elements[i] - b.elements[i]);
    if (!(off <= allowed) && !(std::isnan(a.elements[i]) && std::isnan(b.elements[i])))
      return false;
  }
  return true;
}

/// A claim or a move as all ranks made it, with what they held: the tensor, or operand and result.
struct Said {
  std::size_t event = 0;
  std::map<std::size_t, std::int32_t> numbers;  // of the tensor, by rank
  std::vector<Held> held;
  bool move() const { return held.size() == 2; }
};

/// All that a program says, by line and how often the line was met before, and its later values.
class SaidTypes {
 public:
  explicit SaidTypes(const RecordedProgram& program) : program_(program) {
    play_events(program, {}, [&](std::size_t index, const EventValues& values) {
      const RecordedEvent& event = program.events[index];
      if (event.kind == RecordedKind::kTyped) meet(event, index, values);
      if (event.kind == RecordedKind::kCheck) check(event, values);
      if (event.kind != RecordedKind::kCollect) return;
      for (const auto* given : {&event.out, &event.written}) {
        for (const EventValue& one : *given) collected_.insert(one.id.id);
      }
    });
  }

  const std::map<std::string, Said>& all() const { return said_; }
  const Said* at(const std::string& key) const {
    const auto found = said_.find(key);
    return found == said_.end() ? nullptr : &found->second;
  }

  /// The gradient that backward left of a claimed tensor; null: none, or made by a collective.
  const Held* gradient_of(const Said& said) const {
    const auto named = names_.find(said.numbers.begin()->second);
    for (const std::string& name :
         named == names_.end() ? std::set<std::string>() : named->second) {
      const auto found = gradients_.find(name);
      if (found != gradients_.end()) return &found->second;
    }
    return nullptr;
  }
  /// A claimed parameter after the step; null: it is none.
  const Held* end_of(const Said& said) const {
    const auto found = ends_.find(said.numbers.begin()->second);
    return found == ends_.end() ? nullptr : &found->second;
  }

 private:
  static std::vector<std::size_t> ranks_of(const RecordedEvent& event, const EventValues& values) {
    if (event.rank >= 0) return {static_cast<std::size_t>(event.rank)};
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < values.ranks(); ++rank) ranks.push_back(rank);
    return ranks;
  }

  static void add(Held& held, const EventValues& values, std::int32_t number,
                  const std::vector<std::size_t>& ranks) {
    std::vector<PointPart> parts = parts_of_value(values, number, ranks);
    for (std::size_t i = 0; i < parts.size(); ++i) held[ranks[i]] = std::move(parts[i]);
  }

  void meet(const RecordedEvent& event, std::size_t index, const EventValues& values) {
    if (event.takes.empty()) return;
    const std::vector<std::size_t> ranks = ranks_of(event, values);
    const std::string line = fmt::format("{} {}", event.name, place_of(program_, event));
    const std::size_t count = counts_[{ranks[0], line}]++;
    Said& said = said_[fmt::format("{} {}", line, count)];
    if (said.held.empty()) said.event = index;
    said.held.resize(event.takes.size());
    for (const std::size_t rank : ranks) said.numbers[rank] = event.takes[0];
    for (std::size_t i = 0; i < event.takes.size(); ++i) {
      add(said.held[i], values, event.takes[i], ranks);
    }
    // Names by number are of one process each, where ranks have events of their own.
    if (event.rank < 0) names_[event.takes[0]].insert(fmt::format("v{}", event.takes[0]));
  }

  void check(const RecordedEvent& event, const EventValues& values) {
    constexpr std::string_view kGradient = ".grad";
    const std::int32_t number = event.out[0].id.id;
    const std::vector<std::size_t> ranks = ranks_of(event, values);
    if (!event.name.ends_with(kGradient)) {
      names_[number].insert(event.name);
      return add(ends_[number], values, number, ranks);
    }
    if (event.pass != RecordedPass::kBackward || collected_.contains(number)) return;
    const std::size_t length = event.name.size() - kGradient.size();
    add(gradients_[event.name.substr(0, length)], values, number, ranks);
  }

  const RecordedProgram& program_;
  std::map<std::string, Said> said_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> counts_;  // by first rank and line
  std::map<std::int32_t, std::set<std::string>> names_;                // of claimed tensors
  std::map<std::string, Held> gradients_;                              // by name
  std::map<std::int32_t, Held> ends_;
  std::set<std::int32_t> collected_;  // results of collectives
};

class TypesJudge {
 public:
  TypesJudge(const RecordedProgram& program, const SaidTypes& ours, const SaidTypes* one)
      : program_(program), ours_(ours), one_(one) {}

  std::vector<ReplayDifference> judge() {
    for (const auto& [key, said] : ours_.all()) {
      said.move() ? judge_move(said) : judge_claim(key, said);
    }
    std::ranges::stable_sort(found_, {}, &ReplayDifference::line);
    return std::move(found_);
  }

 private:
  void contradict(const Said& said, std::string expected, std::string got) {
    const RecordedEvent& event = program_.events[said.event];
    found_.push_back({event.line, place_of(program_, event), "spmd_types." + event.name,
                      said.move() ? "move" : "claim", std::move(expected), std::move(got)});
  }

  static std::string along(const RecordedType& type) {
    return fmt::format("{} along {}", to_string(type.type), type.dim);
  }

  bool are_replicas(const Said& said, const Held& held, const RecordedType& type,
                    std::string_view when) {
    if (!type.type.is_r() && !type.type.is_i()) return true;
    const auto ranks = apart(type, held);
    if (!ranks) return true;
    contradict(said, fmt::format("{}: equal values{}", along(type), when),
               fmt::format("ranks {} and {} hold different ones", ranks->first, ranks->second));
    return false;
  }

  void judge_claim(const std::string& key, const Said& said) {
    const std::vector<RecordedType>& types = program_.events[said.event].types;
    for (const RecordedType& type : types) {
      if (!are_replicas(said, said.held[0], type, "") || !judge_gradient(said, type)) return;
      const Held* end = ours_.end_of(said);
      if (end != nullptr && !are_replicas(said, *end, type, " after the step")) return;
    }
    const Said* one = one_ == nullptr ? nullptr : one_->at(key);
    if (one == nullptr || one->held[0].empty()) return;
    const auto whole = together(said.held[0], types);
    if (!whole) return;
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
    const bool any = largest_of(gradient->begin()->second.elements) > 0;
    if (!type.type.is_r() || ranks || !any) return true;
    contradict(said, along(type) + ": gradients that are terms",
               "every rank has the same one: ranks use it for the same work, which is I");
    return false;
  }

  void judge_move(const Said& said) {
    const std::vector<RecordedType>& types = program_.events[said.event].types;
    if (types.size() != 2 || !are_replicas(said, said.held[0], types[0], " before")) return;
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
};

}  // namespace

TypesJudgement judge_types(const RecordedProgram& program, const RecordedProgram* one) {
  const bool says = std::ranges::any_of(program.events, [](const RecordedEvent& event) {
    return event.kind == RecordedKind::kTyped;
  });
  if (!says || program.shapes_only || program.ranks == 1) return {};
  const SaidTypes ours(program);
  std::optional<SaidTypes> theirs;
  if (one != nullptr) theirs.emplace(*one);
  TypesJudge judge(program, ours, theirs ? &*theirs : nullptr);
  return {std::ssize(ours.all()), judge.judge()};
}

}  // namespace shardlab
