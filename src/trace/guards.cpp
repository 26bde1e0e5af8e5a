// A guard holds where both lists have the same text for one source.
#include "trace/guards.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "mesh/mesh_layout.h"

namespace shardlab {

std::vector<CheckedGuard> checked(const std::vector<Guard>& guards,
                                  const std::vector<Guard>& facts) {
  std::vector<CheckedGuard> answers;
  for (const Guard& guard : guards) {
    if (guard.kind == Guard::Kind::kRank) {
      answers.push_back({guard, guard.expected});
      continue;
    }
    const auto found = std::ranges::find_if(facts, [&](const Guard& fact) {
      return fact.source == guard.source && fact.kind == guard.kind;
    });
    answers.push_back({guard, found == facts.end() ? "(nothing)" : found->expected});
  }
  return answers;
}

std::optional<CheckedGuard> first_broken(const std::vector<Guard>& guards,
                                         const std::vector<Guard>& facts) {
  for (CheckedGuard& answer : checked(guards, facts)) {
    if (!answer.holds()) return std::move(answer);
  }
  return std::nullopt;
}

Error refusal_of(const CheckedGuard& broken) {
  const Guard& guard = broken.guard;
  Error error(ErrorKind::kValue, fmt::format("the graph does not fit: {} is {}, and was {}",
                                             guard.source, broken.found, guard.expected));
  if (guard.line > 0) error.with("at", fmt::format("line {} needed it", guard.line));
  error.with("fix", kCaptureProgram);
  return error;
}

std::string mesh_fact(const MeshLayout& layout) {
  if (layout.is_iota()) return fmt::format("{} on ranks 0-{}", layout.text(), layout.size() - 1);
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < layout.size(); ++i) ranks.push_back(layout.rank_at_index(i));
  return fmt::format("{} on ranks {}", layout.text(), text_of_list(ranks, ","));
}

// Results that do not fit are reported instead of wrapping around: a graph may be read from a file.

std::optional<std::int64_t> size_arithmetic(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (op == "+")
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (op == "-")
    return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (op == "*")
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  const bool divides = op == "//" || op == "%";
  const bool fits = b != 0 && !(a == std::numeric_limits<std::int64_t>::min() && b == -1);
  if (!divides || !fits) return std::nullopt;
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  if (op == "//") return a / b - (down ? 1 : 0);
  return a % b + (down ? b : 0);
}

std::optional<bool> size_comparison(std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  return std::nullopt;
}

}  // namespace shardlab
