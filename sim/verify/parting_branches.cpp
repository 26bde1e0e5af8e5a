// The text gives the branches that hold a collective, and their conditions; the recordings show
// whether the ranks had the same values for them. A difference that has turned no branch in this
// run counts all the same.
#include "sim/verify/parting_branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/language/run/call_names.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/language/values/builtin.h"
#include "sim/verify/global_value.h"

namespace shardlab {

namespace {

using Recordings = std::vector<const Recording*>;

constexpr std::string_view kMethodsThatMeet[] = {"redistribute", "full_tensor", "backward"};

bool meets_here(const ast::Expression& expression) {
  const auto* call = std::get_if<ast::Call>(&expression.node);
  if (call == nullptr) return false;
  if (own_collective(*call) != OwnCollective::kNone) return true;
  if (const auto* name = std::get_if<ast::Name>(&call->function->node)) {
    return name->id == "backward";
  }
  const auto* method = std::get_if<ast::Attribute>(&call->function->node);
  return method != nullptr && std::ranges::count(kMethodsThatMeet, method->name) > 0;
}

// A collective is in it, or in its condition.
bool meets(const ast::Statement& statement) {
  bool found = false;
  ast::for_each_part(
      statement,
      [&](const ast::Expression& part) { found = found || ast::any_part(part, meets_here); },
      [&](const ast::Block& block) { found = found || ast::any_part(block, meets_here); });
  return found;
}

// The last number that a rank gave the name, or the only element of the plain tensor it gave it.
std::optional<double> number_of(const Recording& rank, const std::string& name) {
  for (const auto* known : {&rank.notes().numbers, &rank.notes().reads}) {
    const auto number = known->find(name);
    if (number != known->end()) return number->second;
  }
  const RecordedValue* value = rank.find(name + "#end");
  if (value == nullptr || value->value.distributed() || value->value.numel() != 1) {
    return std::nullopt;
  }
  const GlobalValue whole = whole_value(value->value.local());
  return whole.is_integral() ? static_cast<double>(whole.integers[0]) : whole.reals[0];
}

// "1.5 on rank 0 and -2 on rank 3"; empty if the ranks agree.
std::string difference(const Recordings& ranks, const std::string& name) {
  const std::optional<double> first = number_of(*ranks.front(), name);
  for (std::size_t rank = 1; first && rank < ranks.size(); ++rank) {
    const std::optional<double> other = number_of(*ranks[rank], name);
    if (!other || *other == *first || (std::isnan(*other) && std::isnan(*first))) continue;
    return fmt::format("{:.6g} on rank 0 and {:.6g} on rank {}", *first, *other, rank);
  }
  return {};
}

// The names under which the analysis of names knows a part of a condition, and under which its
// number is recorded.
struct Asked {
  explicit Asked(const ast::Expression& part) : begin(part.span.begin) {
    if (const auto* named = std::get_if<ast::Name>(&part.node)) {
      text = name = number = named->id;
      return;
    }
    const auto* call = std::get_if<ast::Call>(&part.node);
    const ast::Expression* tensor = call != nullptr ? read_by(*call) : nullptr;
    text = ast::print(tensor != nullptr ? *tensor : part);
    name = tensor != nullptr ? ast::print(part) : name_of_operand(part);
    number = name_of_read(name, part.span);
  }
  std::string text;  // the values that ranks should reduce
  std::string name, number;
  std::uint32_t begin = 0;  // of the part
};

class Search {
 public:
  Search(const ast::Program& program, const DefUse& flow, const Recordings& ranks)
      : program_(program), flow_(flow), ranks_(ranks) {}

  std::vector<std::string> run() {
    look(program_.body);
    return std::move(found_);
  }

 private:
  void look(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      const auto* branch = std::get_if<ast::If>(&statement.node);
      const auto* loop = std::get_if<ast::While>(&statement.node);
      if (branch != nullptr && meets(statement)) {
        for (const ast::If::Branch& one : branch->branches) {
          if (one.condition) ask(*one.condition);
        }
      }
      if (loop != nullptr && meets(statement)) ask(*loop->condition);
      const auto* def = std::get_if<ast::Def>(&statement.node);
      const std::string outer = prefix_;
      if (def != nullptr) prefix_ = def->function->path + ".";
      ast::for_each_block(statement, [&](const ast::Block& inner) { look(inner); });
      prefix_ = outer;
    }
  }

  void ask(const ast::Expression& condition) {
    ast::any_part(condition, [&](const ast::Expression& part) {
      const Asked asked(part);
      for (const std::string& prefix : {prefix_, std::string()}) {
        if (flow_.follows_rank(prefix + asked.name) || flow_.follows_rank(asked.begin)) continue;
        const std::string text = difference(ranks_, prefix + asked.number);
        if (text.empty()) continue;
        found_.push_back(fmt::format(
            "line {}: {} decides on a collective and is {}: ranks may part here and wait for each "
            "other; reduce {} first",
            program_.source->place(condition.span.begin).line, asked.text, text, asked.text));
        return true;
      }
      return false;
    });
  }

  const ast::Program& program_;
  const DefUse& flow_;
  const Recordings& ranks_;
  std::string prefix_;  // of the names of the visited def
  std::vector<std::string> found_;
};

// A statement that decides where a rank continues.
struct Turn {
  std::uint32_t begin = 0;
  const ast::Expression* asks = nullptr;
  std::vector<std::uint32_t> inside;  // places where the statements below it begin
  std::vector<std::string> assigned;  // names that they give values
};

class Turns {
 public:
  explicit Turns(const ast::Block& block) { look(block); }

  // The innermost that `last` is or is inside of, and that one of the next ones leaves.
  const Turn* between(std::uint32_t last, std::uint32_t one, std::uint32_t other) const {
    const Turn* found = nullptr;
    for (const Turn& turn : turns_) {
      const auto holds = [&](std::uint32_t begin) {
        return std::ranges::count(turn.inside, begin) > 0;
      };
      const bool here = turn.begin == last;
      if (!here && !(holds(last) && holds(one) != holds(other))) continue;
      if (found == nullptr || turn.inside.size() < found->inside.size() || here) found = &turn;
      if (here) break;
    }
    return found;
  }

 private:
  // Adds the statements of a block to all turns around it, too.
  void look(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      for (const std::size_t index : open_) turns_[index].inside.push_back(statement.span.begin);
      const ast::Expression* asks = nullptr;
      if (const auto* branch = std::get_if<ast::If>(&statement.node)) {
        asks = branch->branches.front().condition.get();
      } else if (const auto* loop = std::get_if<ast::While>(&statement.node)) {
        asks = loop->condition.get();
      } else if (const auto* passes = std::get_if<ast::For>(&statement.node)) {
        asks = passes->iterable.get();
      }
      if (asks != nullptr) {
        open_.push_back(turns_.size());
        turns_.push_back({statement.span.begin, asks, {}, {}});
      }
      ast::for_each_block(statement, [&](const ast::Block& inner) {
        if (asks != nullptr) add_names(inner, turns_[open_.back()].assigned);
        look(inner);
      });
      if (const auto* def = std::get_if<ast::Def>(&statement.node)) look(def->function->body);
      if (asks != nullptr) open_.pop_back();
    }
  }

  static void add_names(const ast::Block& block, std::vector<std::string>& names) {
    for (std::string& name : ast::bound_names(block)) names.push_back(std::move(name));
  }

  std::vector<Turn> turns_;
  std::vector<std::size_t> open_;
};

bool tells_ranks_apart(const ast::Expression& condition, const DefUse& flow) {
  return ast::any_part(condition, [&](const ast::Expression& part) {
    if (const auto* name = std::get_if<ast::Name>(&part.node)) {
      return names_rank(name->id) || flow.follows_rank(name->id);
    }
    const auto* attribute = std::get_if<ast::Attribute>(&part.node);
    return attribute != nullptr && is_rank_member(attribute->name);
  });
}

// Numbers that the separated ranks assigned in it, and that decide later lines. "; steps differs
// since line 13, 3 on rank 0 and 0 on rank 1".
std::string left_behind(const Turn& turn, const ast::Program& program, const Recordings& ranks,
                        std::size_t one, std::size_t other) {
  for (const std::string& name : turn.assigned) {
    const auto a = number_of(*ranks[one], name), b = number_of(*ranks[other], name);
    if (!a || !b || *a == *b) continue;
    return fmt::format("; {} differs since line {}, {:.6g} on rank {} and {:.6g} on rank {}", name,
                       program.source->place(turn.begin).line, *a, one, *b, other);
  }
  return {};
}

// "; s is 1 on rank 0 and 3 on rank 1" for the first name that differs. Names are known by their
// last number: in a loop that may be a later one.
std::string numbers_in(const Turn& turn, const Recordings& ranks, std::size_t one,
                       std::size_t other) {
  const auto once = [&](std::size_t rank) {
    return std::ranges::count(ranks[rank]->notes().statements, turn.begin) == 1;
  };
  if (!once(one) || !once(other)) return {};
  std::string text;
  ast::any_part(*turn.asks, [&](const ast::Expression& part) {
    const Asked asked(part);
    const auto a = number_of(*ranks[one], asked.number), b = number_of(*ranks[other], asked.number);
    if (!a || !b || *a == *b) return false;
    text = fmt::format("; {} is {:.6g} on rank {} and {:.6g} on rank {}", asked.text, *a, one, *b,
                       other);
    return true;
  });
  return text;
}

}  // namespace

Cause parted_at(const ast::Program& program, const DefUse& flow, const Recordings& ranks) {
  const auto longest = std::ranges::max_element(
      ranks, {}, [](const Recording* rank) { return rank->notes().statements.size(); });
  if (longest == ranks.end()) return {};
  const std::vector<std::uint32_t>& ours = (*longest)->notes().statements;
  std::size_t first = ours.size(), other = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& theirs = ranks[rank]->notes().statements;
    const auto at =
        static_cast<std::size_t>(std::ranges::mismatch(ours, theirs).in1 - ours.begin());
    if (at >= first || at == 0) continue;
    first = at;
    other = rank;
  }
  if (first == ours.size()) return {};
  const std::vector<std::uint32_t>& theirs = ranks[other]->notes().statements;
  const bool ends = first >= theirs.size();  // after the statement, or inside of it
  const std::uint32_t here = ours[first], there = ends ? 0 : theirs[first];
  const Turns turns(program.body);
  const Turn* turn = turns.between(ours[first - 1], here, there);
  if (turn == nullptr || tells_ranks_apart(*turn->asks, flow)) return {};
  if (ends && (turn->begin != ours[first - 1] || ast::any_part(*turn->asks, meets_here))) return {};
  const bool is_inside = std::ranges::count(turn->inside, here) > 0;
  const auto own = static_cast<std::size_t>(longest - ranks.begin());
  const std::size_t lower = std::min(own, other), higher = std::max(own, other);
  std::string numbers = numbers_in(*turn, ranks, lower, higher);
  if (numbers.empty()) numbers = left_behind(*turn, program, ranks, lower, higher);
  const auto line = [&](std::uint32_t begin) { return program.source->place(begin).line; };
  const std::string apart =
      ends ? fmt::format("rank {} continues in line {}, rank {} ends", own, line(here), other)
           : fmt::format("rank {} continues in line {}, rank {} in line {}",
                         is_inside ? own : other, line(is_inside ? here : there),
                         is_inside ? other : own, line(is_inside ? there : here));
  const int at = line(turn->begin);
  return {causes::kPartedBranch, fmt::format("line {} parted the ranks: {}{}", at, apart, numbers),
          at};
}

std::vector<std::string> parting_branches(const ast::Program& program, const DefUse& flow,
                                          const Recordings& ranks) {
  return Search(program, flow, ranks).run();
}

}  // namespace shardlab
