// In a world of one a collective returns its input, so that a sum is known there by its elements,
// for any number of collectives and views between it and the division.
#include "sim/verify/labels/literal_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include "base/text_of_list.h"
#include "sim/language/run/program_traits.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/verify/labels/matched_calls.h"

namespace shardlab {

namespace {

// By the text: a number, or one that is made of numbers.
bool is_number(const ast::Expression& expression, const std::set<std::string>& numbers) {
  if (const auto* constant = std::get_if<ast::Constant>(&expression.node)) {
    return std::holds_alternative<std::int64_t>(constant->value) ||
           std::holds_alternative<double>(constant->value);
  }
  if (const auto* name = std::get_if<ast::Name>(&expression.node))
    return numbers.contains(name->id);
  const auto* binary = std::get_if<ast::Binary>(&expression.node);
  return binary != nullptr && is_number(*binary->left, numbers) &&
         is_number(*binary->right, numbers);
}

class Divisions {
 public:
  bool in(const ast::Block& block) {
    bool found = false;
    for (const ast::Statement& statement : block) {
      const auto* assign = std::get_if<ast::Assign>(&statement.node);
      if (assign != nullptr && is_number(*assign->value, numbers_)) {
        for (const auto& target : assign->targets) numbers_.emplace(ast::base_name(*target));
      }
      const auto* augmented = std::get_if<ast::AugmentedAssign>(&statement.node);
      found = found || (augmented != nullptr && augmented->op == ast::BinaryOp::kDiv &&
                        is_number(*augmented->value, numbers_));
      ast::for_each_part(
          statement,
          [&](const ast::Expression& expression) {
            found = found || ast::any_part(expression, [&](const auto& part) { return is(part); });
          },
          [&](const ast::Block& inner) { found = in(inner) || found; });
    }
    return found;
  }

 private:
  bool is(const ast::Expression& expression) const {
    if (const auto* binary = std::get_if<ast::Binary>(&expression.node)) {
      return binary->op == ast::BinaryOp::kDiv && is_number(*binary->right, numbers_);
    }
    const auto* method = std::get_if<ast::Attribute>(&expression.node);
    return method != nullptr && method->name.starts_with("div");
  }

  std::set<std::string> numbers_;
};

// A statement without its blocks: any name in it may reach any name in it as a target.
class Followers {
 public:
  Followers(const ast::Program& program, int line) : program_(program), line_(line) {
    for (std::size_t before = 1, now = 0; before != now;) {
      before = names_.size();
      look(program.body);
      now = names_.size();
    }
  }
  std::set<std::string> names() && { return std::move(names_); }

 private:
  void look(const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      bool follows = program_.source->place(statement.span.begin).line == line_;
      std::vector<std::string> mentioned;
      ast::for_each_part(
          statement,
          [&](const ast::Expression& expression) {
            ast::any_part(expression, [&](const ast::Expression& part) {
              if (const auto* name = std::get_if<ast::Name>(&part.node)) {
                mentioned.push_back(name->id);
              } else if (const auto* member = std::get_if<ast::Attribute>(&part.node)) {
                const bool gradient = member->name == "grad" || member->name == "backward";
                if (gradient) mentioned.push_back(kGradients);
              }
              return false;
            });
          },
          [&](const ast::Block& inner) { look(inner); });
      for (const std::string& name : mentioned) follows = follows || names_.contains(name);
      if (follows) add(statement, mentioned);
    }
  }

  void add(const ast::Statement& statement, const std::vector<std::string>& mentioned) {
    if (std::get_if<ast::ExpressionStatement>(&statement.node) != nullptr) {
      for (const std::string& name : mentioned)
        names_.insert(name == "backward" ? kGradients : name);
    } else if (const auto* assign = std::get_if<ast::Assign>(&statement.node)) {
      for (const auto& target : assign->targets) add(*target);
    } else if (const auto* augmented = std::get_if<ast::AugmentedAssign>(&statement.node)) {
      add(*augmented->target);
    } else if (const auto* loop = std::get_if<ast::For>(&statement.node)) {
      add(*loop->target);
    }
  }

  void add(const ast::Expression& target) {
    std::vector<std::string> names;
    ast::collect_targets(target, names);
    if (const std::string_view base = ast::base_name(target); !base.empty()) {
      names.emplace_back(base);
    }
    names_.insert(names.begin(), names.end());
  }

  static constexpr const char* kGradients = ".grad";
  const ast::Program& program_;
  const int line_;
  std::set<std::string> names_;
};

// A tensor that is summed up: its sizes on one device, and the mesh dims that cut them.
struct SummedUp {
  std::vector<double> sum;  // on one device
  Dims whole;
  Placements placements;
};

// The number of elements of a piece along `tensor_dims` (bits) when only the mesh dims of `cut`
// (bits) cut it; nothing if they do not cut evenly.
std::optional<std::int64_t> elements_of(const SummedUp& summed, const MeshLayout& layout,
                                        std::uint32_t cut, std::uint32_t tensor_dims) {
  std::int64_t count = 1;
  for (std::size_t dim = 0; dim < summed.whole.size(); ++dim) {
    if ((tensor_dims >> dim & 1) == 0) continue;
    std::int64_t length = summed.whole[dim];
    for (std::size_t mesh_dim = 0; mesh_dim < layout.ndim(); ++mesh_dim) {
      if ((cut >> mesh_dim & 1) == 0) continue;
      if (!summed.placements[mesh_dim].is_shard(static_cast<std::int64_t>(dim))) continue;
      if (length % layout.size(mesh_dim) != 0) return std::nullopt;
      length /= layout.size(mesh_dim);
    }
    count *= length;
  }
  return count;
}

// The number that a call divides a tensor by, or 1 / the one that it multiplies it with; nothing of
// other calls.
std::optional<double> divisor_of(const LoggedCall& call) {
  const std::string name = name_of(call);
  const bool by = name.starts_with("div") || name.starts_with("true_divide");
  if ((!by && !name.starts_with("mul")) || call.operands.size() != 1) return std::nullopt;
  const double number = std::strtod(call.numbers.c_str(), nullptr);
  return by ? number : number == 0 ? 0 : 1 / number;
}

// Numbers that are read from a tensor, x.item(), and their divisors in the text; also under a name
// that such a number is assigned to.
class NumberDivisions {
 public:
  explicit NumberDivisions(const std::string& name) : tensor_(own_name(name)) {}

  std::optional<int> line_in(const ast::Program& program) {
    look(program, program.body);
    return line_;
  }

 private:
  // "x" of "f.x[0]".
  static std::string own_name(const std::string& name) {
    const std::string last = name.substr(name.rfind('.') + 1);
    return last.substr(0, last.find('['));
  }

  void look(const ast::Program& program, const ast::Block& block) {
    for (const ast::Statement& statement : block) {
      const auto* assign = std::get_if<ast::Assign>(&statement.node);
      if (assign != nullptr && reads(*assign->value)) {
        for (const auto& target : assign->targets) numbers_.emplace(ast::base_name(*target));
      }
      const auto is_division = [&](const ast::Expression& part) {
        const auto* binary = std::get_if<ast::Binary>(&part.node);
        const bool divides = binary != nullptr && binary->op == ast::BinaryOp::kDiv &&
                             (reads(*binary->left) || is_number(*binary->left, numbers_));
        if (divides && !line_) line_ = program.source->place(part.span.begin).line;
        return divides;
      };
      ast::for_each_part(
          statement, [&](const ast::Expression& whole) { ast::any_part(whole, is_division); },
          [&](const ast::Block& inner) { look(program, inner); });
    }
  }

  bool reads(const ast::Expression& expression) const {
    const auto* call = std::get_if<ast::Call>(&expression.node);
    const ast::Expression* tensor = call != nullptr ? read_by(*call) : nullptr;
    const auto* name = tensor != nullptr ? std::get_if<ast::Name>(&tensor->node) : nullptr;
    return name != nullptr && name->id == tensor_;
  }

  std::string tensor_;
  std::set<std::string> numbers_;
  std::optional<int> line_;
};

class Search {
 public:
  explicit Search(const MeshLayout& layout) : layout_(layout) {}

  void look(const MatchedCall& call) {
    if (call.alone->operands.empty() || call.alone->results.size() != 1) return;
    if (!divides(call)) keep_sum(call);
  }

  std::optional<LiteralSize> found;

 private:
  void keep_sum(const MatchedCall& call) {
    const GlobalValue &operand = call.alone->operands[0], &result = call.alone->results[0];
    if (!call.operands[0] || product(result.meta.shape) != 1) return;
    if (product(operand.meta.shape) < 2 || result.is_integral()) return;
    const Placements& placements = call.operands[0]->placements;
    if (std::ranges::none_of(placements, [](const Placement& p) { return p.is_shard(); })) return;
    sums_.push_back({result.reals, operand.meta.shape, placements});
  }

  // The call divides a tensor by a number that all ranks and one device have.
  bool divides(const MatchedCall& call) {
    const std::optional<double> divisor = divisor_of(*call.alone);
    if (!divisor) return false;
    const double count = *divisor;
    const bool same = std::ranges::all_of(
        call.held, [&](const LoggedCall* own) { return own->numbers == call.alone->numbers; });
    const double rounded = std::round(count);
    if (!same || rounded < 2 || std::fabs(count - rounded) > 1e-6 * rounded) return true;
    for (const SummedUp& summed : sums_) {
      if (found || summed.sum != call.alone->operands[0].reals) continue;
      found = size_of_piece(summed, static_cast<std::int64_t>(rounded), call.alone->position.line);
    }
    return true;
  }

  std::optional<LiteralSize> size_of_piece(const SummedUp& summed, std::int64_t count,
                                           int line) const {
    const std::uint32_t all = (1U << summed.whole.size()) - 1;
    std::uint32_t cutting = 0;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      if (summed.placements[dim].is_shard() && layout_.size(dim) > 1) cutting |= 1U << dim;
    }
    for (std::uint32_t dims = all; dims > 0; --dims) {
      if (dims != all && lengths_in(summed, dims) < 2) continue;  // 2, 4 and 8 mean anything
      if (elements_of(summed, layout_, 0, dims) == count) return std::nullopt;
    }
    for (std::uint32_t dims = all; dims > 0; --dims) {
      if (dims != all && lengths_in(summed, dims) < 2) continue;
      std::vector<std::string> cuts;
      for (std::uint32_t cut = 1; cut <= cutting; ++cut) {
        if ((cut & ~cutting) != 0 || elements_of(summed, layout_, cut, dims) != count) continue;
        cuts.push_back(names_of(cut));
      }
      if (cuts.empty()) continue;
      return LiteralSize{
          line, fmt::format("{} in line {} is the size of one rank's piece along {}, {} of the "
                            "whole: one device divides by {}, too, and cannot tell; say in "
                            "[reference] what is meant",
                            count, line, text_of_list(cuts, " or "),
                            *elements_of(summed, layout_, 0, dims), count)};
    }
    return std::nullopt;
  }

  static int lengths_in(const SummedUp& summed, std::uint32_t dims) {
    int lengths = 0;
    for (std::size_t dim = 0; dim < summed.whole.size(); ++dim) {
      lengths += (dims >> dim & 1) != 0 && summed.whole[dim] > 1 ? 1 : 0;
    }
    return lengths;
  }

  std::string names_of(std::uint32_t mesh_dims) const {
    std::vector<std::string> names;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      if ((mesh_dims >> dim & 1) != 0) names.push_back(layout_.names()[dim]);
    }
    return text_of_list(names, " and ");
  }

  const MeshLayout& layout_;
  std::vector<SummedUp> sums_;
};

}  // namespace

bool divides_by_numbers(const ast::Program& program) { return Divisions().in(program.body); }

std::set<std::string> follow_from(const ast::Program& program, int line) {
  return Followers(program, line).names();
}

std::optional<int> line_that_divides(const ast::Program& program,
                                     const std::vector<LoggedCall>& calls, const std::string& name,
                                     const GlobalValue& value, double count) {
  for (const LoggedCall& call : calls) {
    const std::optional<double> divisor = divisor_of(call);
    if (!divisor || std::fabs(*divisor - count) > 1e-6 * count) continue;
    if (call.operands[0].reals == value.reals) return call.position.line;
  }
  return NumberDivisions(name).line_in(program);
}

std::optional<LiteralSize> literal_size(const CallLog& ranks, const CallLog& alone,
                                        const MeshLayout& layout, double relative) {
  Search search(layout);
  for_each_matched(ranks, alone, layout, relative, [&](MatchedCall& call) {
    search.look(call);
    return !search.found;
  });
  return search.found;
}

}  // namespace shardlab
