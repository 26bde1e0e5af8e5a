// Collectives come first, as they are what ranks exchange; then parts and orders; then messages,
// which others could put right as well; then the steps behind which a reduction may be missing, the
// last one first. A candidate changes the results of a step on all ranks and in all passes at once.
#include "sim/verify/labels/exchanged.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.h"
#include "schema/op_row.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/labels/accused.h"
#include "sim/verify/labels/label.h"
#include "sim/verify/labels/row_order.h"

namespace shardlab {

namespace {

using Kind = LoggedCall::Kind;
using Indexes = std::vector<std::size_t>;  // of ranks in the mesh
// A step of all ranks by mesh index; null: the rank does not make it.
using Calls = std::vector<const LoggedCall*>;
using Step = std::vector<Calls>;  // by pass
using MeshDims = std::uint32_t;
using Result = std::optional<GlobalValue>;
// The result of a rank in a pass, by the members of its group and its place in them.
using Results = std::function<Result(const Calls&, std::size_t, const Indexes&, std::size_t)>;

// A program of many steps, or of large ones, is run again less often.
constexpr std::size_t kMostExchanges = 192, kMostSteps = 1 << 16, kElementsOfStep = 64;
constexpr std::size_t kMostPermuted = 4;  // of which all orders are tried

const LoggedCall& one(const Step& step) {
  return **std::ranges::find_if(step.back(), [](const auto* call) { return call != nullptr; });
}

Result result_of(const Calls& pass, std::size_t index) {
  return pass[index] == nullptr ? std::nullopt : Result(pass[index]->results[0]);
}

std::size_t dim_of(const LoggedCall& call) {
  const std::int64_t dim = call.dims.empty() ? 0 : call.dims[0];
  return static_cast<std::size_t>(dim < 0 ? dim + std::ssize(call.operands[0].meta.shape) : dim);
}

// Rows of a value in the shape of `meta`, which has this dim, or not if it has one row.
GlobalValue part(const GlobalValue& whole, const TensorMeta& meta, std::size_t dim,
                 std::int64_t begin) {
  const bool one_row = meta.shape.size() < whole.meta.shape.size();
  std::vector<std::int64_t> rows(one_row ? 1 : static_cast<std::size_t>(meta.shape[dim]));
  std::iota(rows.begin(), rows.end(), begin);
  GlobalValue made = in_order(whole, dim, rows);
  made.meta = meta;
  return made;
}

// The ranks' values of a pass reduced; nothing if one has none, or another shape.
Result reduced(const Calls& pass, const Indexes& group, ReduceOp op,
               std::vector<GlobalValue> LoggedCall::*which) {
  Result made;
  for (const std::size_t i : group) {
    if (pass[i] == nullptr || (pass[i]->*which).empty()) return std::nullopt;
    const GlobalValue& own = (pass[i]->*which)[0];
    if (own.is_integral() || (made && made->meta.shape != own.meta.shape)) return std::nullopt;
    if (!std::exchange(made, made ? made : own)) continue;
    for (std::size_t k = 0; k < own.reals.size(); ++k) {
      double& to = made->reals[k];
      to = op == ReduceOp::kMax ? std::max(to, own.reals[k]) : to + own.reals[k];
    }
  }
  const auto count = static_cast<double>(op == ReduceOp::kAvg ? group.size() : 1);
  for (double& to : made->reals) to /= count;
  return made;
}

/// The steps of all ranks on the path, and trials with other results.
class Trials {
 protected:
  explicit Trials(const ExchangedSteps& of) : layout_(of.layout), of_(of) {
    std::map<CallKey, std::size_t> known;
    std::size_t cost = 1;
    for (std::size_t i = 0; i < ranks(); ++i) {
      for (const LoggedCall& call : of.log.by_rank()[rank_at(i)]) {
        cost += 1 + (call.results.empty() ? 0 : call.results[0].reals.size() / kElementsOfStep);
        if (!is_on_path(call)) continue;
        CallKey place = call.key;
        const auto pass = static_cast<std::size_t>(std::exchange(std::get<4>(place), 0));
        const auto [at, fresh] = known.emplace(place, steps_.size());
        if (fresh) steps_.emplace_back();
        Step& step = steps_[at->second];
        while (step.size() <= pass) step.emplace_back(ranks());
        step[pass][i] = &call;
      }
    }
    left_ = std::min(kMostExchanges, kMostSteps / cost);
  }

  std::size_t ranks() const { return static_cast<std::size_t>(layout_.size()); }
  MeshDims all() const { return (MeshDims{1} << layout_.ndim()) - 1; }

  // The ranks that differ from one in these mesh dims alone, in their order.
  Indexes members(std::size_t index, MeshDims dims) const {
    const Coordinate own = layout_.coordinate_at_index(static_cast<std::int64_t>(index));
    Indexes found;
    for (std::size_t i = 0; i < ranks(); ++i) {
      const Coordinate at = layout_.coordinate_at_index(static_cast<std::int64_t>(i));
      bool same = true;
      for (std::size_t d = 0; d < at.size(); ++d) same &= at[d] == own[d] || (dims >> d & 1) != 0;
      if (same) found.push_back(i);
    }
    return found;
  }

  std::string names(MeshDims dims) const {
    std::vector<std::string> found;
    for (std::size_t d = 0; d < layout_.ndim(); ++d) {
      if ((dims >> d & 1) != 0) found.push_back(layout_.names()[d]);
    }
    return text_of_list(found, " and ");
  }

  // Adds other results of a step; false if a rank has none, or if all have what they had.
  bool change(const Step& step, MeshDims dims, const Results& results) {
    bool any = false;
    for (std::size_t p = 0; p < step.size(); ++p) {
      ChangedResult change;
      change.values.resize(of_.log.by_rank().size());
      change.apart = one(step).kind == Kind::kOp;
      for (std::size_t i = 0; i < ranks(); ++i) {
        if (step[p][i] == nullptr) continue;
        const Indexes group = members(i, dims);
        const auto place = std::ranges::find(group, i) - group.begin();
        Result made = results(step[p], p, group, static_cast<std::size_t>(place));
        if (!made) return false;
        any = any || !same_numbers(*made, step[p][i]->results[0]);
        change.key = step[p][i]->key;
        change.values[rank_at(i)] = std::move(made);
      }
      changes_.push_back(std::move(change));
    }
    return any;
  }

  // Whether the value is right with the changes; then the step is its cause.
  bool right(const Step& step, std::string_view id, const std::string& text) {
    if (left_ == 0 || (--left_, !of_.mends(changes_))) return false;
    const LoggedCall& call = one(step);
    cause_ = Cause{id, fmt::format("{} in line {} {}", call.name(), call.position.line, text),
                   call.position.line};
    return true;
  }

  bool right(const Step& step, MeshDims dims, std::string_view id, const std::string& text,
             const Results& results) {
    changes_.clear();
    return change(step, dims, results) && right(step, id, text);
  }

  const MeshLayout& layout_;
  std::vector<Step> steps_;
  std::vector<ChangedResult> changes_;
  std::optional<Cause> cause_;

 private:
  std::size_t rank_at(std::size_t index) const {
    return static_cast<std::size_t>(layout_.rank_at_index(static_cast<std::int64_t>(index)));
  }

  bool is_on_path(const LoggedCall& call) const {
    const bool message = call.kind == Kind::kCollective && is_message(call.collective);
    return call.plain && call.pass != Pass::kBackward && call.results.size() == 1 &&
           (message || of_.path.contains({call.position.line, call.position.column}));
  }

  const ExchangedSteps& of_;
  std::size_t left_ = 0;  // trials
};

class Exchanges : Trials {
 public:
  explicit Exchanges(const ExchangedSteps& of) : Trials(of) {}

  std::optional<Cause> first() {
    const auto any = [&](Kind kind, bool (Exchanges::*is)(const Step&)) {
      return std::ranges::any_of(steps_, [&](const Step& step) {
        return one(step).kind == kind && !one(step).operands.empty() && (this->*is)(step);
      });
    };
    static_cast<void>(
        any(Kind::kCollective, &Exchanges::collected) || any(Kind::kOp, &Exchanges::taken) ||
        any(Kind::kOp, &Exchanges::joined_in_order) ||
        any(Kind::kCollective, &Exchanges::received) || any(Kind::kOp, &Exchanges::turned));
    std::ranges::reverse(steps_);
    if (!cause_) any(Kind::kOp, &Exchanges::not_reduced);
    return cause_;
  }

 private:
  MeshDims group_of(const LoggedCall& call) const {
    MeshDims dims = 0;
    for (std::size_t d = 0; d < layout_.ndim(); ++d) {
      if (in_group(call, layout_, d)) dims |= MeshDims{1} << d;
    }
    return dims;
  }

  bool collected(const Step& step) {
    const CollectiveKind kind = one(step).collective;
    const MeshDims own = group_of(one(step));
    if (kind == CollectiveKind::kAllReduce) return reduced_over(step, own);
    bool found = false;
    for (MeshDims dims = 1; kind == CollectiveKind::kBroadcast && dims <= all(); ++dims) {
      found = found || sent_from(step, dims, own);
    }
    return found;
  }

  std::string over(const Step& step, std::string_view does, MeshDims own, MeshDims meant) const {
    const bool other = one(step).group.empty() && own != all();
    return fmt::format("{} over {}, and the value is right over {}", does,
                       other ? "another group" : names(own), names(meant));
  }

  // Left out, over other mesh dims, or by another reduction.
  bool reduced_over(const Step& step, MeshDims own) {
    const ReduceOp given = one(step).reduction;
    for (MeshDims dims = 0; dims <= all(); ++dims) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax}) {
        if ((op == given) == (dims == own)) continue;
        const bool scales = dims == 0 || !(is_extreme(op) || is_extreme(given));
        const std::string_view id = dims != own && dims != 0 ? causes::kWrongGroup
                                    : scales                 ? causes::kFactor
                                                             : causes::kOtherReduction;
        const std::string text =
            dims == own ? fmt::format("takes the {} over {}, and the value is right with {}",
                                      to_string(given), names(own), to_string(op))
            : dims == 0 ? "reduces what is right without it"
                        : over(step, "reduces", own, dims);
        if (right(step, dims, id, text,
                  [&](const Calls& pass, std::size_t, const Indexes& group, std::size_t) {
                    return reduced(pass, group, op, &LoggedCall::operands);
                  })) {
          return true;
        }
      }
    }
    return false;
  }

  // The same rank of the group sends in each pass, or the next one.
  bool sent_from(const Step& step, MeshDims dims, MeshDims own) {
    const std::size_t size = members(0, dims).size();
    for (std::size_t root = 0; root < (step.size() > 1 ? 2 : 1) * size; ++root) {
      const std::string from = fmt::format("rank {}{}", root % size,
                                           root < size ? "" : " and the next one in each pass");
      const std::string text =
          dims == own
              ? fmt::format("sends what another rank of {} has: {} should send", names(own), from)
              : over(step, "sends", own, dims) + ", from " + from;
      if (right(step, dims, dims == own ? causes::kOtherChunk : causes::kWrongGroup, text,
                [&](const Calls& pass, std::size_t p, const Indexes& group, std::size_t) {
                  const LoggedCall* source = pass[group[(root + (root < size ? 0 : p)) % size]];
                  return source == nullptr ? std::nullopt : Result(source->operands[0]);
                })) {
        return true;
      }
    }
    return false;
  }

  // Another rank receives it at that step, the same one in all passes or a further one in each.
  bool received(const Step& step) {
    const CollectiveKind kind = one(step).collective;
    if (kind != CollectiveKind::kRecv && kind != CollectiveKind::kPermute) return false;
    for (MeshDims dims = 1; dims <= all(); ++dims) {
      const std::size_t size = members(0, dims).size();
      for (std::size_t turn = 1; turn < size * (step.size() > 1 ? size : 1); ++turn) {
        const std::string text =
            fmt::format("brings each rank along {} the rows of another one than {} takes them for",
                        names(dims), user());
        if (right(step, dims, causes::kOtherChunk, text,
                  [&](const Calls& pass, std::size_t p, const Indexes& group, std::size_t place) {
                    const std::size_t by = turn % size + (p + 1) * (turn / size);
                    return result_of(pass, group[(place + by) % size]);
                  })) {
          return true;
        }
      }
    }
    return false;
  }

  // The first step that counts by the rank's number.
  std::string user() const {
    for (const Step& step : steps_) {
      const auto differs = [&](const LoggedCall* call) {
        return call != nullptr && call->kind == Kind::kOp && call->numbers != one(step).numbers;
      };
      if (std::ranges::none_of(step.back(), differs)) continue;
      return fmt::format("{} in line {}", one(step).name(), one(step).position.line);
    }
    return "what follows";
  }

  // Each rank's own part of a whole that a mesh dim cuts, or that of a rank further on; what one of
  // its neighbours has, where those at the ends have no row.
  bool taken(const Step& step) {
    const LoggedCall& call = one(step);
    const bool selects = call.name() == "select", takes = selects || call.name() == "slice";
    const auto other_rows = [&](const LoggedCall* own) {
      return own != nullptr && !own->operands.empty() &&
             own->operands[0].meta.shape != call.operands[0].meta.shape;
    };
    if (!takes && std::ranges::none_of(step[0], other_rows)) return false;
    const std::size_t dim = dim_of(call);
    for (std::size_t d = 0; d < layout_.ndim(); ++d) {
      const auto size = static_cast<std::size_t>(layout_.size(d));
      const auto neighbour = [&](std::size_t shift) {
        return [=](const Calls& pass, std::size_t, const Indexes& group, std::size_t place) {
          if (place + shift < size) return result_of(pass, group[place + shift]);
          Result none = result_of(pass, group[place]);
          if (!none || selects) return Result();
          if (takes) {
            none->meta.shape[dim] = 0;
            return Result({contiguous_meta(none->meta.shape, none->meta.dtype), {}, {}});
          }
          std::ranges::fill(none->reals, 0.0);
          std::ranges::fill(none->integers, 0);
          return none;
        };
      };
      const auto chunk = [&](std::size_t shift) {
        return [=, this](const Calls& pass, std::size_t, const Indexes& group, std::size_t place) {
          const LoggedCall& own = *pass[group[place]];
          const std::int64_t rows = selects ? 1 : own.results[0].meta.shape[dim];
          if (rows * layout_.size(d) != own.operands[0].meta.shape[dim]) return Result();
          const auto at = static_cast<std::int64_t>((place + shift) % size);
          return Result(part(own.operands[0], own.results[0].meta, dim, rows * at));
        };
      };
      for (std::size_t shift = takes ? 0 : size; size > 1 && shift < size + 2; ++shift) {
        const std::string text =
            fmt::format("takes another part than its rank's along {}", layout_.names()[d]);
        if (right(step, MeshDims{1} << d, causes::kOtherChunk, text,
                  shift < size ? Results(chunk(shift))
                               : Results(neighbour(shift == size ? 1 : SIZE_MAX)))) {
          return true;
        }
      }
    }
    return false;
  }

  // Rows from the other end of a value, alone or with another part of which that is so.
  bool turned(const Step& step) {
    const auto other_end = [](const Calls& pass, std::size_t, const Indexes& group,
                              std::size_t place) {
      const LoggedCall& call = *pass[group[place]];
      if (call.name() != "slice" || call.dims.size() != 1) return Result();
      const GlobalValue& own = call.results[0];
      const std::size_t dim = dim_of(call);
      const std::int64_t rows = call.operands[0].meta.shape[dim] - own.meta.shape[dim];
      const GlobalValue first = part(call.operands[0], own.meta, dim, 0),
                        last = part(call.operands[0], own.meta, dim, rows);
      return Result(same_numbers(own, first) ? last : same_numbers(own, last) ? first : own);
    };
    const std::string text = "takes its rows from the other end than is right";
    if (right(step, all(), causes::kOtherChunk, text, other_end)) return true;
    for (const Step& other : steps_) {
      changes_.clear();
      const bool both = &other != &step && one(other).kind == Kind::kOp &&
                        change(step, all(), other_end) && change(other, all(), other_end);
      const std::string with =
          fmt::format("{}, as slice in line {} does", text, one(other).position.line);
      if (both && right(step, causes::kOtherChunk, with)) return true;
    }
    return false;
  }

  // Pieces in another order, the same on all ranks or turned by their own place.
  bool joined_in_order(const Step& step) {
    const LoggedCall& call = one(step);
    const auto count = std::ssize(call.operands);
    if ((call.name() != "stack" && call.name() != "cat") || count < 2) return false;
    std::vector<std::int64_t> order(call.operands.size());
    std::iota(order.begin(), order.end(), 0);
    while (order.size() <= kMostPermuted && std::ranges::next_permutation(order).found) {
      if (in_order(step, order, 0, all())) return true;
    }
    for (MeshDims d = 1; d <= all(); d <<= 1) {
      for (const std::int64_t turn : {0, 1, -1, 2, -2}) {
        if (turn != 0 && members(0, d).size() != order.size()) continue;
        for (std::int64_t first = 0; first < 2 * count; ++first) {
          for (std::int64_t k = 0; k < count; ++k) {
            order[static_cast<std::size_t>(k)] = (first < count ? first + k : first - k) % count;
          }
          if (in_order(step, order, turn, d)) return true;
        }
      }
    }
    return false;
  }

  bool in_order(const Step& step, const std::vector<std::int64_t>& order, std::int64_t turn,
                MeshDims dims) {
    const std::size_t count = order.size();
    const std::string text = fmt::format(
        "puts its {} pieces together in their order, and the value is right in the order {}{}",
        count, text_of_list(order, ", "), turn == 0 ? "" : " on the first rank, turned on others");
    return right(step, dims, causes::kOtherChunk, text,
                 [&](const Calls& pass, std::size_t, const Indexes& group, std::size_t place) {
                   const LoggedCall& own = *pass[group[place]];
                   std::vector<GlobalValue> parts;
                   for (std::size_t k = 0; k < count && own.operands.size() == count; ++k) {
                     const std::int64_t by =
                         turn * static_cast<std::int64_t>(place) + 2 * std::ssize(order) + order[k];
                     GlobalValue& piece =
                         parts.emplace_back(own.operands[static_cast<std::size_t>(by) % count]);
                     if (own.name() == "stack") piece.meta.shape.insert(dim_of(own), 1);
                   }
                   return parts.empty() ? Result() : joined(parts, dim_of(own));
                 });
  }

  // A reduction behind it is missing; replicas are not to be added up.
  bool not_reduced(const Step& step) {
    for (MeshDims dims = 1; dims <= all(); ++dims) {
      bool apart = std::ranges::count(step[0], nullptr) == 0;
      std::vector<GlobalValue> held;
      for (std::size_t i = 0; apart && i < ranks(); ++i) held.push_back(step[0][i]->results[0]);
      for (std::size_t d = 0; apart && d < layout_.ndim(); ++d) {
        apart = (dims >> d & 1) == 0 || !alike_along(held, layout_, d);
      }
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax}) {
        const std::string text = fmt::format(
            "gives each rank its own part, and nothing reduces it: an all_reduce with "
            "{} over {} is missing behind it",
            to_string(op), names(dims));
        if (apart && right(step, dims, causes::kMissingSum, text,
                           [&](const Calls& pass, std::size_t, const Indexes& group, std::size_t) {
                             return reduced(pass, group, op, &LoggedCall::results);
                           })) {
          return true;
        }
      }
    }
    return false;
  }
};

}  // namespace

std::optional<Cause> cause_by_exchange(const ExchangedSteps& of) { return Exchanges(of).first(); }

}  // namespace shardlab
