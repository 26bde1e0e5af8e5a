// The rules of section 3 and 4 of the package's types: which operands may meet, and which ops are
// linear, are tables. Names that are not in a table are of ops through which no term passes.
#include "sim/types/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/text.h"

namespace shardlab {

namespace {

// How an op treats terms of a sum.
enum class Passing : std::uint8_t {
  kNever,
  kAll,    // all operands together are terms: cat, +
  kOne,    // one of the operands, next to replicas: *, matmul
  kFirst,  // the first one, next to replicas: /
  kAdded,  // the first one is added to the product of the others
};

struct OpClass {
  Passing passing;
  const char* names;
};

constexpr OpClass kClasses[] = {
    {Passing::kAll,
     "add sub subtract neg negative positive clone detach contiguous sum mean nansum nanmean cumsum"
     " cat concat concatenate stack hstack vstack dstack row_stack column_stack block_diag"
     " chunk split unbind select narrow index_select gather diagonal unfold"
     " view view_as reshape flatten ravel unflatten squeeze unsqueeze permute transpose t numpy_T "
     "mT"
     " adjoint swapaxes swapdims movedim moveaxis expand expand_as broadcast_to repeat tile"
     " repeat_interleave flip fliplr flipud roll"},
    {Passing::kOne, "mul multiply mm bmm mv dot matmul einsum"},
    {Passing::kFirst, "div divide true_divide"},
    {Passing::kAdded, "addmm addmv addbmm baddbmm addr"},
};

Passing passing_of(std::string_view op) {
  static const auto* const kByName = [] {
    auto* by_name = new std::unordered_map<std::string_view, Passing>;
    for (const OpClass& row : kClasses) {
      for (const std::string_view name : parts_of_text(row.names, " ")) {
        by_name->emplace(name, row.passing);
      }
    }
    return by_name;
  }();
  if (op.ends_with('_') && !op.ends_with("__")) op.remove_suffix(1);
  const auto found = kByName->find(op);
  return found == kByName->end() ? Passing::kNever : found->second;
}

TypeAnswer refused(std::string rule, std::string help = {}) {
  return {std::nullopt, std::move(rule), std::move(help)};
}

constexpr const char* kReduce =
    "reduce the terms first: all_reduce(src=P, dst=R), or reduce_scatter(src=P, dst=S(d))";
constexpr const char* kToR = "convert(src=I, dst=R) lets its gradient be a term";

// Replicas that get no gradient count as R, next to operands of which those that do are all I as I;
// in a sum with a product the package takes them as they are.
std::vector<SpmdType> as_they_count(std::span<const TypedOperand> operands, Passing passing) {
  std::vector<SpmdType> types;
  bool any_r = false, any_i = false;
  for (const TypedOperand& operand : operands) {
    types.push_back(operand.type);
    any_r |= operand.gets_gradient && operand.type.is_r();
    any_i |= operand.gets_gradient && operand.type.is_i();
  }
  if ((any_r && any_i) || passing == Passing::kAdded) return types;
  const SpmdType as = any_i ? SpmdType::same_work() : SpmdType::replicated();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!operands[i].gets_gradient && (types[i].is_r() || types[i].is_i())) types[i] = as;
  }
  return types;
}

TypeAnswer with_terms(Passing passing, const std::vector<SpmdType>& types, bool number) {
  const auto terms = std::ranges::count_if(types, &SpmdType::is_p);
  const auto all = static_cast<std::ptrdiff_t>(types.size());
  switch (passing) {
    case Passing::kAll:
      if (terms == all && !number) return {SpmdType::term()};
      return refused("a value that is no term (R or a number) would be added once per rank",
                     kReduce);
    case Passing::kOne:
      if (terms == 1) return {SpmdType::term()};
      return refused("a product of two sums is not the sum of the products of their terms",
                     kReduce);
    case Passing::kFirst:
      if (terms == 1 && types[0].is_p()) return {SpmdType::term()};
      return refused("a quotient by a sum is not the sum of quotients by its terms", kReduce);
    case Passing::kAdded:
      if (types[0].is_p() && terms == 2) return {SpmdType::term()};
      return refused("both that which is added and one factor of the product must be terms",
                     kReduce);
    case Passing::kNever:
      break;
  }
  return refused("terms of a sum do not pass an op that is not linear in them", kReduce);
}

}  // namespace

TypeAnswer type_of_op(std::string_view op, std::span<const TypedOperand> operands, bool number) {
  const auto all = [&](const auto& is) { return std::ranges::all_of(operands, is); };
  if (all([](const TypedOperand& operand) { return operand.type.is_i(); }) && !operands.empty()) {
    return {SpmdType::same_work()};
  }
  const Passing passing = passing_of(op);
  const std::vector<SpmdType> types = as_they_count(operands, passing);
  const auto any = [&](bool (SpmdType::*is)() const) { return std::ranges::any_of(types, is); };
  const bool others = any(&SpmdType::is_r) || any(&SpmdType::varies) || any(&SpmdType::is_p);
  if (any(&SpmdType::is_i)) {
    if (!others) return {SpmdType::same_work()};
    return refused(
        "replicas used for the same work (I) do not meet other types where R or I can"
        " get a gradient",
        kToR);
  }
  if (!any(&SpmdType::is_p)) {
    return {any(&SpmdType::varies) ? SpmdType::varying() : SpmdType::replicated()};
  }
  if (any(&SpmdType::varies))
    return refused("terms of a sum do not meet values that vary", kReduce);
  return with_terms(passing, types, number);
}

std::optional<TypeAnswer> refused_write(const SpmdType& target, bool gets_gradient,
                                        const SpmdType& written) {
  if (target == written) return std::nullopt;
  const bool replicas = target.is_r() || target.is_i();
  if (replicas && written.varies() && !gets_gradient) return std::nullopt;
  return refused(fmt::format("a write would make {} of a tensor of type {}", to_string(written),
                             to_string(target)),
                 "give the result a name of its own");
}

namespace {

// `from` and `to` are letters of types; S is of any dim.
struct MoveRow {
  const char* name;
  const char* from;
  const char* to;
  bool expert = false;
};

// A row for each change of type; moves that communicate nothing may also keep bytes and type.
constexpr MoveRow kMoves[] = {
    {"all_reduce", "PV", "RI"},
    {"all_gather", "VS", "RI"},
    {"reduce_scatter", "PV", "VS"},
    {"all_to_all", "VS", "VS"},
    {"convert", "I", "RVS"},
    {"convert", "R", "VSP"},
    {"convert", "R", "I", true},
    {"convert", "IVS", "P", true},
    {"reinterpret", "V", "P"},
    {"reinterpret", "I", "VP"},
    {"reinterpret", "I", "R", true},
    {"reinterpret", "R", "IVP", true},
    {"redistribute", "RIVPS", "RIVPS"},
    {"shard", "RI", "S"},
    {"invariant_to_replicate", "I", "R"},
    {"unshard", "S", "RI"},
};

bool is_among(const SpmdType& type, std::string_view letters) {
  return letters.find(type.is_s() ? 'S' : to_string(type)[0]) != std::string_view::npos;
}

bool communicates_nothing(std::string_view move) {
  return move == "convert" || move == "reinterpret" || move == "redistribute" || move == "shard";
}

// S(d) and V are one for a move that takes the tensor as it is.
bool keeps(const TypedMove& call) {
  if (!communicates_nothing(call.name) || without_dim(call.src) != without_dim(call.dst)) {
    return false;
  }
  const bool dims = call.src.is_s() || call.dst.is_s();
  if (call.name == "reinterpret" && dims) return false;
  if (call.name == "shard" && !call.dst.is_s()) return false;
  return !(call.src.is_s() && call.dst.is_s() && call.src != call.dst);
}

std::string helpful_move(const TypedMove& call) {
  for (const MoveRow& row : kMoves) {
    if (row.expert || std::string_view(row.name) == "redistribute") continue;
    if (!is_among(call.src, row.from) || !is_among(call.dst, row.to)) continue;
    return fmt::format("{}(src={}, dst={}) is such a move", row.name, to_string(call.src),
                       to_string(call.dst));
  }
  return {};
}

}  // namespace

std::optional<TypeAnswer> refused_move(const TypedMove& call) {
  if (keeps(call)) return std::nullopt;
  bool expert = false;
  for (const MoveRow& row : kMoves) {
    if (row.name != call.name || !is_among(call.src, row.from) || !is_among(call.dst, row.to)) {
      continue;
    }
    if (!row.expert || call.expert) return std::nullopt;
    expert = true;
  }
  const std::string text = fmt::format("{} does not go from {} to {}", call.name,
                                       to_string(call.src), to_string(call.dst));
  if (!expert) return refused(text, helpful_move(call));
  const std::string other = helpful_move(call);
  return refused(text + " without expert_mode=True",
                 other.empty() ? "write expert_mode=True if this is meant" : other);
}

TypeAnswer type_of_move(const TypedMove& call, const SpmdType& own, TypeMode mode) {
  const bool strict = mode == TypeMode::kStrict;
  if (strict && own == SpmdType::varying()) {
    return refused("nothing says which dim these values are pieces of",
                   "say it by assert_type: S(d), or a PartitionSpec");
  }
  if (const auto refusal = refused_move(call)) return *refusal;
  const bool claimed = call.src.is_p() && own.varies();  // V becomes P without a word
  const bool fits = without_dim(own) == without_dim(call.src) || claimed;
  if (!fits || (strict && own.is_s() && call.src.is_s() && own != call.src)) {
    return refused(fmt::format("{} is told that the tensor is {}, and its type is {}", call.name,
                               to_string(call.src), to_string(own)),
                   fmt::format("write src={}", to_string(own)));
  }
  if (strict) return {call.dst};
  if (keeps(call)) return {claimed ? call.src : own};
  return {without_dim(call.dst)};
}

TypeAnswer type_of_collective(CollectiveKind kind, const SpmdType& input, const SpmdType& output) {
  const auto answer = [&](bool taken, const char* from, const char* into) -> TypeAnswer {
    if (taken) return {output};
    return refused(fmt::format("{} goes from {} into {}; the input is {}, the output {}",
                               to_string(kind), from, into, to_string(input), to_string(output)),
                   input.is_p() ? kReduce : "");
  };
  const bool varies = without_dim(output) == SpmdType::varying();
  using enum CollectiveKind;
  if (kind == kAllReduce && input.is_p()) return {SpmdType::replicated()};
  if (kind == kAllReduce) return answer(false, "P", "R");
  if (kind == kAllGather) {
    return answer(input.varies() && (output.is_r() || output.is_i()), "V", "R or I");
  }
  if (kind == kReduceScatter) return answer(input.is_p() && varies, "P", "V");
  if (kind == kAllToAll) return answer(input.varies() && varies, "V", "V");
  return refused(fmt::format("{} has no types", to_string(kind)),
                 "use the moves of spmd_types, or no_typecheck around it");
}

std::optional<TypeAnswer> refused_loss(const SpmdType& loss) {
  if (loss.is_p() || loss.is_i()) return std::nullopt;
  return refused(
      fmt::format("backward() begins with 1 on every rank, which fits a loss of type P or"
                  " I; this one is {}",
                  to_string(loss)),
      loss.is_r() ? "all_reduce its terms with dst=I, or give backward() a gradient"
                  : "reinterpret(src=V, dst=P) if these are the terms of the loss");
}

}  // namespace shardlab
