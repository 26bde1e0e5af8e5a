// guards.h - the facts on which a graph depends, compared with those of the place where it is to
// run (T-4, T-56). Both are lists of Guard; one function finds the facts when a graph is captured
// and when it is checked. Also arithmetic on sizes, as programs do it and graphs repeat it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "trace/graph.h"

namespace shardlab {

/// A guard with the fact found in its place: "(nothing)" where there is no such fact.
struct CheckedGuard {
  Guard guard;
  std::string found;
  bool holds() const { return found == guard.expected; }
};
/// All, in the order of the graph. Rank guards hold: a graph runs on its own ranks only.
std::vector<CheckedGuard> checked(const std::vector<Guard>& guards,
                                  const std::vector<Guard>& facts);
/// The first that does not hold; none: the graph may run in place of its program.
std::optional<CheckedGuard> first_broken(const std::vector<Guard>& guards,
                                         const std::vector<Guard>& facts);
/// Kind Value: source, found, expected, and the line that needed it.
Error refusal_of(const CheckedGuard& broken);

/// "{dp:2, tp:4} on ranks 0-7".
std::string mesh_fact(const MeshLayout& layout);

/// "+", "-", "*", "//" or "%", the last two rounded down as in Python. None: another op, a division
/// by zero, a result that does not fit.
std::optional<std::int64_t> size_arithmetic(std::string_view op, std::int64_t a, std::int64_t b);
/// "==", "!=", "<", "<=", ">" or ">=". None: another op.
std::optional<bool> size_comparison(std::string_view op, std::int64_t a, std::int64_t b);

}  // namespace shardlab
