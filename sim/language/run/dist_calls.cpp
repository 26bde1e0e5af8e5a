// A rank of the world that a call names is looked up in the group of each rank, before ranks are
// asked whether they agree: the first of every group is one place in all of them.
#include "sim/language/run/dist_calls.h"

#include <algorithm>

#include "base/error.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/rank_value.h"

namespace shardlab {

namespace {

constexpr std::string_view kRootNames[] = {"src", "dst", "peer"};

CallValues settled(Interpreter& in, const std::vector<std::string_view>& names, CallValues call) {
  const auto names_rank = [](std::string_view name) {
    if (name.ends_with('=')) name.remove_suffix(1);
    return std::ranges::count(kRootNames, name) > 0;
  };
  for (std::size_t i = 0; i < call.positional.size(); ++i) {
    const bool rank = i < names.size() && names_rank(names[i]);
    if (!rank) call.positional[i] = in.settle(call.positional[i]);
  }
  for (auto& [keyword, value] : call.keywords) {
    if (!names_rank(keyword)) value = in.settle(value);
  }
  return call;
}

}  // namespace

DistCall::DistCall(Interpreter& interpreter, const Signature& signature, CallValues call)
    : in_(interpreter),
      name_(signature.function),
      given_(signature, settled(interpreter, signature.parameters, std::move(call))),
      group_(group_value_of(interpreter, given_["group"])) {}

ProcessGroup& DistCall::group() const { return group_of(in_, group_); }

std::int64_t reported_size(const Interpreter& in, const GroupValue& group) {
  if (group.made != nullptr) return static_cast<std::int64_t>(group.made->size());
  return group.is_world() ? in.setup().world_size : group.mesh.reported->size(group.dim);
}

std::int64_t reported_place(const Interpreter& in, const GroupValue& group) {
  if (!in.plain()) return group_of(in, group).rank();
  const std::int64_t rank = in.setup().rank;
  const std::vector<std::int64_t> ranks = groups_by_rank(in, group).ranks(rank);
  const auto place = std::ranges::find(ranks, rank) - ranks.begin();
  return place < std::ssize(ranks) ? place : 0;
}

std::int64_t DistCall::root(std::string_view global, std::string_view in_group,
                            bool has_default) const {
  if (given_.has(global) && given_.has(in_group)) {
    refuse(fmt::format("leave {} or {} out", global, in_group),
           "{} and {} are given, which both name a rank", global, in_group);
  }
  if (given_.has(in_group)) {
    const std::int64_t place = given_.integer(in_group);
    if (place >= 0 && place < reported_size()) return place;
    refuse(fmt::format("name one from 0 to {}", reported_size() - 1),
           "{} is {}, which is no place in {}", in_group, place, group_text(in_, group_));
  }
  if (!given_.has(global) && !has_default) {
    refuse(fmt::format("name a rank of the world: {}=0", global), "{} is missing", global);
  }
  const Value& named = given_[global];
  const auto* rank_of_world = named.get<std::int64_t>();
  if (rank_of_world != nullptr && group_.is_world() && *rank_of_world >= 0 &&
      *rank_of_world < in_.setup().world_size) {
    return *rank_of_world;
  }
  const auto place = [groups = groups_by_rank(in_, group_), named](std::int64_t rank) -> Value {
    const Value own = at_rank(named, rank);
    const auto* wanted = own.get<std::int64_t>();
    if (wanted == nullptr && !own.is_none()) return std::int64_t{-2};
    const std::vector<std::int64_t>& ranks = groups.ranks(rank);
    const auto found = std::ranges::find(ranks, wanted != nullptr ? *wanted : 0);
    return found == ranks.end() ? std::int64_t{-1} : std::int64_t{found - ranks.begin()};
  };
  const std::int64_t found = in_.settle(by_rank(in_, place)).as<std::int64_t>();
  if (found >= 0) return found;
  // In a world of one rank the others are not there.
  if (in_.plain() && in_.setup().world_size == 1) return 0;
  if (found == -2) given_.refuse(global, "a rank", "0");
  refuse(
      fmt::format("{} is a rank of the world: dist.get_global_rank(group, 0) is the first of the "
                  "group; or name its place with {}",
                  global, in_group),
      "{} is rank {}, which is not in {}", global, given_.has(global) ? str(here(named)) : "0",
      group_text(in_, group_));
}

ReduceOp DistCall::op() const {
  if (!given_.has("op")) return ReduceOp::kSum;
  if (const auto* op = given_["op"].get<ReduceOp>()) return *op;
  given_.refuse("op", "a reduction", "dist.ReduceOp.SUM");
}

std::vector<DTensor> DistCall::tensors(std::string_view name) const {
  std::vector<DTensor> tensors;
  const auto* list = given_[name].get<ListValue>();
  if (list == nullptr) given_.refuse(name, "a list of tensors", "[x, y]");
  for (const Value& item : *list->items) {
    if (!item.is_tensor()) given_.refuse(name, "a list of tensors", "[x, y]");
    tensors.push_back(item.as<DTensor>());
  }
  if (static_cast<std::int64_t>(tensors.size()) == reported_size()) return tensors;
  refuse("give one for each rank: [torch.empty_like(x) for _ in range(dist.get_world_size(group))]",
         "{} has {} tensors for the {} ranks of {}", name, tensors.size(), reported_size(),
         group_text(in_, group_));
}

void DistCall::refuse_with(const std::string& fix, const std::string& what) const {
  fail(Fix{fix}, "{}: {}", name_, what);
}

}  // namespace shardlab
