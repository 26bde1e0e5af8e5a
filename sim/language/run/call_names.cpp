// Tables of names: the program gives none of them another meaning, or is judged as if it did not.
#include "sim/language/run/call_names.h"

#include <algorithm>

#include "sim/language/values/builtin.h"

namespace shardlab {

namespace {

constexpr std::string_view kRankNames[] = {"rank", "get_rank", "get_process_group_ranks"};
constexpr std::string_view kRankMembers[] = {
    "coordinate",    "get_coordinate",          "_sym_get_coordinate",
    "get_rank",      "get_local_rank",          "_is_current_rank_part_of_mesh",
    "rank",          "get_process_group_ranks", "get_global_rank",
    "get_group_rank"};
constexpr std::string_view kWorldNames[] = {"world_size", "get_world_size", "WORLD",
                                            "_get_group_size_by_name"};
constexpr std::string_view kSizeNames[] = {"shape", "size", "numel", "len", "nelement", "ndim"};
constexpr std::string_view kDraws[] = {"bernoulli", "multinomial", "normal",
                                       "poisson",   "uniform",     "exponential",
                                       "geometric", "cauchy",      "log_normal"};
constexpr std::string_view kSeeds[] = {"manual_seed", "manual_seed_all", "set_rng_state"};
constexpr std::string_view kReceives[] = {"recv", "irecv", "recv_object_list"};
constexpr std::string_view kSends[] = {"send", "isend", "send_object_list", "batch_isend_irecv"};
constexpr std::string_view kShares =
    " assert_type mutate_type convert reinterpret invariant_to_replicate to_local from_local view "
    "reshape t transpose permute flatten unflatten chunk split "
    "unbind narrow select squeeze unsqueeze expand expand_as view_as contiguous detach "
    "data T mT H mH movedim swapaxes swapdims diagonal unfold tensor_split hsplit vsplit "
    "to float double half bfloat16 redistribute full_tensor requires_grad_ retain_grad "
    "distribute distribute_tensor real imag slice list tuple zip enumerate reversed "
    "sorted dict values items get pop setdefault saved_tensors wait_tensor copy ";

/// Moves of spmd_types whose forward needs no other rank.
constexpr std::string_view kMovesNothing[] = {"convert", "reinterpret", "shard",
                                              "invariant_to_replicate"};

bool is_collective(std::string_view name) {
  return find_builtin(collective_builtins(), name) != nullptr ||
         find_builtin(funcol_builtins(), name) != nullptr;
}

// "torch.distributed" for dist and torch.distributed; empty for anything that is no module of
// collectives.
std::string_view module_of(const ast::Expression& object) {
  constexpr std::string_view kDist = "torch.distributed", kFuncol = "funcol", kNn = "nn",
                             kSpmd = "spmd";
  if (const auto* name = object.get<ast::Name>()) {
    return name->id == "dist"     ? kDist
           : name->id == "funcol" ? kFuncol
           : name->id == "spmd"   ? kSpmd
                                  : std::string_view();
  }
  const auto* attribute = object.get<ast::Attribute>();
  if (attribute == nullptr) return {};
  const auto* outer = attribute->object->get<ast::Name>();
  if (attribute->name == "distributed" && outer != nullptr && outer->id == "torch") return kDist;
  const std::string_view above = module_of(*attribute->object);
  if (above == kDist && attribute->name == "_functional_collectives") return kFuncol;
  const bool nn =
      above == kDist ? attribute->name == "nn" : above == kNn && attribute->name == "functional";
  return nn ? kNn : std::string_view();
}

}  // namespace

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

OwnCollective own_collective(const ast::Expression& function) {
  if (const auto* name = function.get<ast::Name>()) {
    return is_collective(name->id) ? OwnCollective::kGives : OwnCollective::kNone;
  }
  const auto* attribute = function.get<ast::Attribute>();
  const std::string_view module =
      attribute != nullptr ? module_of(*attribute->object) : std::string_view();
  if (module.empty()) return OwnCollective::kNone;
  if (module == "spmd" && is_one_of(kMovesNothing, attribute->name)) return OwnCollective::kNone;
  const bool fills = module == "torch.distributed";
  const BuiltinTable table = fills              ? dist_builtins()
                             : module == "nn"   ? dist_nn_builtins()
                             : module == "spmd" ? spmd_move_builtins()
                                                : funcol_builtins();
  if (find_builtin(table, attribute->name) == nullptr) return OwnCollective::kNone;
  return fills ? OwnCollective::kFills : OwnCollective::kGives;
}

OwnCollective own_collective(const ast::Call& call) { return own_collective(*call.function); }

std::string_view last_name(const ast::Expression& function) {
  if (const auto* name = function.get<ast::Name>()) return name->id;
  const auto* attribute = function.get<ast::Attribute>();
  return attribute == nullptr ? std::string_view() : std::string_view(attribute->name);
}

const ast::Expression* read_by(const ast::Call& call) {
  if (const auto* method = call.function->get<ast::Attribute>()) {
    const std::string_view name = method->name;
    const bool reads = name == "item" || name == "tolist";
    return reads && call.arguments.empty() ? method->object.get() : nullptr;
  }
  constexpr std::string_view kReaders[] = {"bool", "float", "int", "print"};
  const auto* name = call.function->get<ast::Name>();
  const bool reads = name != nullptr && is_one_of(kReaders, name->id);
  return reads && call.arguments.size() == 1 ? call.arguments[0].value.get() : nullptr;
}

std::string name_of_operand(const ast::Expression& operand) {
  return "(" + ast::print(operand) + ")";
}

bool names_rank(std::string_view name) { return is_one_of(kRankNames, name); }
bool is_rank_member(std::string_view name) { return is_one_of(kRankMembers, name); }
bool names_world(std::string_view name) { return is_one_of(kWorldNames, name); }
bool names_size(std::string_view name) { return is_one_of(kSizeNames, name); }

bool draws(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  return name.starts_with("rand") || name.find("dropout") != name.npos || is_one_of(kDraws, name);
}

bool seeds(std::string_view name) { return is_one_of(kSeeds, name); }
bool receives(std::string_view name) { return is_one_of(kReceives, name); }
bool sends(std::string_view name) { return is_one_of(kSends, name); }

bool leaves_the_mesh(std::string_view name) {
  return name == "to_local" || name == "from_local" || name == "spmd" || is_collective(name);
}

bool shares_memory(std::string_view name) {
  return kShares.find(" " + std::string(name) + " ") != kShares.npos;
}

}  // namespace shardlab
