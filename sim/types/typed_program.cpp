// Types are kept by handle, without keeping the handle's memory. The types of a call along one mesh
// dim follow from those along the same one alone.
#include "sim/types/typed_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "autograd/grad_mode.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "comm/process_group.h"
#include "dispatch/plain_calls.h"
#include "propagate/propagator.h"
#include "schema/argument.h"
#include "schema/op_row.h"
#include "sim/types/einsum_type.h"
#include "sim/types/type_view.h"

namespace shardlab {

// The tensors that a call reads, with what is known of them; lists flattened.
struct ReadTensor {
  DTensor tensor;
  const TensorType* type;  ///< null: unknown
  std::string_view name;
};

struct TypesOfCall {
  std::string_view name;
  std::vector<std::vector<TypeAnswer>> answers;  ///< by mesh dim, of the results
  std::vector<ReadTensor> read;

  // "self S(0), other I".
  std::string operands(std::size_t mesh_dim) const {
    std::vector<std::string> texts;
    for (const ReadTensor& one : read) {
      texts.push_back(
          fmt::format("{} {}", one.name,
                      one.type == nullptr ? "no type" : to_string(one.type->types[mesh_dim])));
    }
    return text_of_list(texts, ", ");
  }
};

namespace {

// The call is made on tensors without elements, on a mesh of this one dim, by calls that move
// nothing: an operand that would have to move is a refusal. A composite op is taken apart as ever.

constexpr const char* kCutElsewhere = "its result is no piece of the op on the whole, and no term";

class PieceCalls final : public PlainCalls {
 public:
  // The mesh has one dim of this size; tensors that come in are pieces along it.
  PieceCalls(std::span<const SpmdType> types, std::int64_t size)
      : types_(types), layout_(process_arena().layout({{size}, {}, {}})), size_(size) {}

  // The whole of which x is a piece by the next one of the types.
  DTensor placed(const DTensor& x) {
    const Placement placement = spmd_type_to_dtensor_placement(types_[next_++]);
    Dims whole = x.shape();
    if (placement.is_shard()) whole[static_cast<std::size_t>(placement.dim)] *= size_;
    return handle(layout_->arena().spec(layout_, {placement}, contiguous_meta(whole, x.dtype())));
  }

 protected:
  Results as_one(const OpRow& row, const Arguments& args) override {
    OpSchema schema{&row, {}, layout_};
    for (const Argument& argument : args) schema.args.push_back(spec_in(argument));
    const InUse<OutputSharding> decision = current_rank().propagator->propagate(schema);
    if (decision->needs_redistribute) refuse(row.op.base);
    Results results;
    ArgumentList list;
    for (const DTensorSpec* spec : decision->outputs) {
      Argument result = spec == nullptr ? Argument() : Argument(handle(spec));
      if (row.op.returns_list_of_tensors()) {
        list.push_back(std::move(result));
      } else {
        results.push_back(std::move(result));
      }
    }
    if (row.op.returns_list_of_tensors()) results.push_back(std::move(list));
    return results;
  }
  DTensor moved(const DTensor&, const DTensorSpec*) override { refuse("a part of it"); }

 private:
  static DTensor handle(const DTensorSpec* spec) { return {Tensor(), spec}; }
  Argument spec_in(const Argument& argument) const {
    if (argument.is_list()) {
      ArgumentList list;
      for (const Argument& element : argument.list()) list.push_back(spec_in(element));
      return list;
    }
    if (!argument.is_tensor() || !argument.tensor().defined()) return argument;
    const DTensor& x = argument.tensor();
    if (x.distributed()) return x.spec();
    return layout_->arena().spec(layout_, {Placement::replicate()}, x.meta());
  }
  [[noreturn]] static void refuse(std::string_view what) {
    fail(Fix{}, "{}: {}", what, kCutElsewhere);
  }

  std::span<const SpmdType> types_;
  const MeshLayout* layout_;
  std::int64_t size_;
  std::size_t next_ = 0;
};

std::string_view plain_name(const OpRow& row) {
  const std::string_view name = row.op.base;
  const std::size_t colons = name.rfind("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

// The package knows no view that makes several dims of a cut one.
bool splits_cut_dim(const Dims& from, std::int64_t cut, const Dims& to, std::int64_t cut_there) {
  std::int64_t joined = 1;
  for (std::size_t dim = static_cast<std::size_t>(cut); dim < from.size(); ++dim) {
    joined *= from[dim];
    if (joined == to[static_cast<std::size_t>(cut_there)]) return false;
  }
  return true;
}

TypeAnswer answer_of(const DTensor& result) {
  const Placement placement =
      result.distributed() ? result.spec()->placement(0) : Placement::replicate();
  if (placement.is_replicate())
    return {std::nullopt, "all ranks get the same, though an operand varies", {}};
  const auto type = parse_spmd_type(to_string(placement));
  return {type,
          type ? "" : fmt::format("it gives {}, for which there is no type", to_string(placement)),
          {}};
}

// Along one mesh dim of `size` ranks: `types` are those of the tensor arguments, lists flattened,
// R, I and S(d) alone, some S(d). One answer for each tensor result, or one refusal. On a rank.
std::vector<TypeAnswer> types_of_pieces(const OpRow& row, const Arguments& args,
                                        std::span<const SpmdType> types, std::int64_t size) {
  // These are given the sizes of pieces.
  const std::string_view name = plain_name(row);
  const bool views = name == "view" || name == "reshape";
  PieceCalls calls(types, views || name == "expand" ? 1 : size);
  std::vector<TypeAnswer> answers;
  try {
    Arguments placed = args;
    for_each_tensor(placed, [&](DTensor& x) {
      if (x.defined()) x = calls.placed(x);
    });
    const Results results = calls.call(row, placed);
    for_each_tensor(results, [&](const DTensor& result) {
      if (!result.defined()) return;
      answers.push_back(answer_of(result));
      if (!views || !answers.back().type || !answers.back().type->is_s()) return;
      const std::int64_t cut_there = answers.back().type->placement->dim;
      if (splits_cut_dim(args[0].tensor().shape(), types[0].placement->dim, result.shape(),
                         cut_there))
        answers.back() = {std::nullopt, "it makes several dims of the one that is cut", {}};
    });
  } catch (const Error& error) {
    return {
        {std::nullopt, error.summary(), "all_gather the pieces, or cut another dim by all_to_all"}};
  }
  return answers;
}

void add_read(const Argument& argument, std::string_view name, const TypedProgram& program,
              std::vector<ReadTensor>& tensors, bool& number) {
  if (argument.is_list()) {
    for (const Argument& element : argument.list()) {
      add_read(element, name, program, tensors, number);
    }
  } else if (argument.is_tensor() && argument.tensor().defined()) {
    tensors.push_back({argument.tensor(), program.type_of(argument.tensor()), name});
  } else if (argument.is_scalar() && (name == "other" || name == "self")) {
    number = true;
  }
}

// A tensor without dims that nothing is known of was made of a number.
bool is_number(const ReadTensor& read) { return read.type == nullptr && read.tensor.ndim() == 0; }

// Whether every rank makes the same of equal arguments, whatever tensor gives the dtype.
bool is_factory(std::string_view name, bool reads_tensors) {
  constexpr std::string_view kPlain[] = {"arange",   "eye",  "full", "linspace",
                                         "logspace", "ones", "zeros"};
  constexpr std::string_view kOfTensor[] = {"new_full", "new_ones", "new_zeros"};
  return reads_tensors ? std::ranges::count(kOfTensor, name) > 0
                       : std::ranges::count(kPlain, name) > 0;
}

[[noreturn]] void refuse(std::string_view call, std::string_view mesh_dim, std::string operands,
                         const TypeAnswer& answer) {
  Error error(ErrorKind::kValue, fmt::format("{}: {}", call, answer.rule));
  error.with("types", fmt::format("along {}: {}", mesh_dim, operands));
  if (!answer.help.empty()) error.with("fix", answer.help);
  throw error;
}

TypeAnswer unsaid_dim() {
  return {std::nullopt, "an operand varies, and nothing says which dim it is a piece of",
          "say it by assert_type: S(d), or a PartitionSpec"};
}

// The text of an einsum, which is its rule. Empty for other ops, and where the result is not said.
std::optional<EinsumText> einsum_of(const OpEvent& event) {
  if (plain_name(*event.row) != "einsum" || !(*event.args)[0].is_string()) return std::nullopt;
  const std::string& text = (*event.args)[0].string();
  if (text.find("->") == std::string::npos) return std::nullopt;
  return parse_einsum(text);
}

}  // namespace

TypedProgram* typed_program() {
  RankContext* rank = current_rank_or_null();
  return rank == nullptr ? nullptr : dynamic_cast<TypedProgram*>(rank->calls);
}

TypedProgram::How TypedProgram::check(Checks checks) {
  const How before = how_;
  how_.checked = how_.checked && checks != Checks::kOff;
  how_.subscript = how_.subscript || checks == Checks::kSubscript;
  if (checks == Checks::kLocal) how_.mode = TypeMode::kLocal;
  return before;
}

const TensorType* TypedProgram::type_of(const DTensor& x) const {
  if (!x.defined()) return nullptr;
  const auto found = known_.find(x.impl());
  if (found == known_.end() || !found->second.watch.alive()) return nullptr;
  Known& known = found->second;
  if (known.type.types.empty()) return nullptr;
  if (known.layout == layout_) return &known.type;
  auto type = type_on(known.type, *known.layout, *layout_);
  if (!type) {
    fail(Fix{"say it along these dims by assert_type"},
         "a tensor of type {} on mesh {} has none along mesh {}",
         text_of(known.type, *known.layout), known.layout->text(), layout_->text());
  }
  known.type = std::move(*type);
  known.layout = layout_;
  known.unsaid = 0;
  return &known.type;
}

void TypedProgram::forget_dead() {
  if (known_.size() < swept_) return;
  std::erase_if(known_, [](const auto& entry) { return !entry.second.watch.alive(); });
  swept_ = std::max<std::size_t>(64, 2 * known_.size());
}

bool TypedProgram::knows(const DTensor& x) const {
  const auto found = known_.find(x.impl());
  return found != known_.end() && found->second.layout == layout_ && type_of(x) != nullptr;
}

std::uint32_t TypedProgram::unsaid_of(const DTensor& x) const {
  const TensorType* type = type_of(x);
  return type == nullptr ? ~0u : known_.at(x.impl()).unsaid;
}

void TypedProgram::has(const DTensor& x, const TensorType& type, std::uint32_t unsaid) {
  if (x.distributed()) return;
  forget_dead();
  known_.erase(x.impl());
  known_.emplace(x.impl(), Known{DTensorWatch(x), type, layout_, unsaid});
}

void TypedProgram::is_everywhere(const DTensor& x) {
  if (checks()) has(x, tensor_type(SpmdTypes(layout_->ndim(), SpmdType::replicated())));
}

Results TypedProgram::unchecked(const ProgramEvent& event) {
  Results results = next().perform(event);
  const auto* op = std::get_if<OpEvent>(&event);
  if (op == nullptr || known_.empty()) return results;
  std::vector<ReadTensor> read;
  bool number = false;
  for (const Argument& argument : *op->args) add_read(argument, "", *this, read, number);
  if (std::ranges::none_of(read, [](const ReadTensor& one) { return one.type != nullptr; })) {
    return results;
  }
  for_each_tensor(results, [&](const DTensor& result) {
    if (result.defined() && type_of(result) == nullptr) has(result, {});
  });
  return results;
}

void TypedProgram::claim(const DTensor& x, const TensorType& type, std::uint32_t unsaid) {
  if (!checks()) return has(x, type, unsaid);
  const TensorType* known = type_of(x);
  const std::uint32_t open = unsaid_of(x);
  TensorType both = type;
  for (std::size_t dim = 0; known != nullptr && dim < layout_->ndim(); ++dim) {
    const SpmdType &is = known->types[dim], &said = type.types[dim];
    if (is.is_s() && said == SpmdType::varying()) {  // less is said than is known
      both.types[dim] = is;
      both.order[dim] = known->order[dim];
    }
    const bool same = is.is_s() && said.is_s() ? is == said : without_dim(is) == without_dim(said);
    // V becomes P without a word.
    const bool taken = same || (is.varies() && said.is_p()) || (open >> dim & 1) != 0;
    if (taken || layout_->size(dim) == 1) continue;
    refuse("assert_type", layout_->names()[dim], "tensor " + to_string(is),
           {std::nullopt, fmt::format("the tensor is {}, not {}", to_string(is), to_string(said)),
            "a move changes the type; mutate_type says that the calls before it are not what they "
            "seem"});
  }
  has(x, both, unsaid);
}

SpmdType TypedProgram::moved(const DTensor& x, std::size_t mesh_dim, const TypedMove& move) const {
  const TensorType* known = type_of(x);
  SpmdType own = known == nullptr ? move.src : known->types[mesh_dim];
  // R and I are one where no gradient comes.
  const auto is_replica = [](const SpmdType& type) { return type.is_r() || type.is_i(); };
  const bool either = !requires_grad(x) || !grad_enabled();
  if (either && is_replica(own) && is_replica(move.src)) own = move.src;
  const bool cuts = known != nullptr && own.is_s() && how_.mode != TypeMode::kLocal;
  for (std::size_t dim = 0; cuts && dim < layout_->ndim(); ++dim) {
    if (known->types[dim] != own || known->order[dim] <= known->order[mesh_dim]) continue;
    refuse(move.name, layout_->names()[mesh_dim], "x " + text_of(*known, *layout_),
           {std::nullopt, fmt::format("{} cuts these pieces further", layout_->names()[dim]),
            fmt::format("move it along {} first", layout_->names()[dim])});
  }
  const TypeAnswer answer = type_of_move(move, own, how_.mode);
  if (!answer.type) {
    refuse(move.name, layout_->names()[mesh_dim], "x " + to_string(own), answer);
  }
  return *answer.type;
}

std::vector<TypeAnswer> TypedProgram::answers_of(const OpEvent& event, const TypesOfCall& call,
                                                 std::size_t mesh_dim, bool number) const {
  std::vector<TypedOperand> operands;
  std::vector<SpmdType> all;
  bool cut = false, unsaid = false;
  for (const ReadTensor& one : call.read) {
    all.push_back(one.type == nullptr ? SpmdType::replicated() : one.type->types[mesh_dim]);
    cut |= all.back().is_s();
    unsaid |= all.back() == SpmdType::varying();
    if (one.type == nullptr) continue;
    operands.push_back({all.back(), requires_grad(one.tensor) && grad_enabled()});
    if (all.back().is_i() && !operands.back().gets_gradient) all.back() = SpmdType::replicated();
  }
  TypeAnswer answer = type_of_op(call.name, operands, number);
  if (!answer.type || how_.mode == TypeMode::kLocal || layout_->size(mesh_dim) == 1)
    return {answer};
  if (unsaid) return {unsaid_dim()};
  if (!cut) return {answer};
  if (const auto text = einsum_of(event)) {
    std::vector<std::size_t> ndims;
    LinearIn each;
    for (const ReadTensor& one : call.read) {
      each.push_back({ndims.size()});
      ndims.push_back(one.tensor.ndim());
    }
    return {type_of_einsum(without_ellipsis(*text, ndims), each, all)};
  }
  return types_of_pieces(*event.row, *event.args, all, layout_->size(mesh_dim));
}

Results TypedProgram::checked(const OpEvent& event) {
  const OpRow& row = *event.row;
  std::vector<ReadTensor> read;
  bool number = false;
  for (std::size_t i = 0; i < event.args->size(); ++i) {
    const SchemaArgument& argument = row.op.arguments[i];
    if (!argument.is_out) add_read((*event.args)[i], argument.name, *this, read, number);
  }
  bool typed = false, unknown = false, open = false;
  for (const ReadTensor& one : read) {
    typed |= one.type != nullptr;
    open |= one.type == nullptr && known_.contains(one.tensor.impl());
    if (one.tensor.distributed()) return next().perform(event);
    unknown |= one.type == nullptr && !is_number(one);
    number |= is_number(one);
  }
  std::string_view name = how_.subscript ? "getitem" : plain_name(row);
  if (is_factory(name, !read.empty())) {
    Results results = next().perform(event);
    is_everywhere(results.at(0).tensor());
    return results;
  }
  if (!typed && !open) return next().perform(event);
  if (is_number(read[0]) && name.starts_with("div")) name = "reciprocal";
  if (unknown) {
    refuse(name, layout_->names()[0], TypesOfCall{name, {}, read}.operands(0),
           {std::nullopt, "an operand has no type", "say it by assert_type where it is made"});
  }
  TypesOfCall call{name, {}, std::move(read)};
  for (std::size_t dim = 0; dim < layout_->ndim(); ++dim) {
    call.answers.push_back(answers_of(event, call, dim, number));
    for (const TypeAnswer& answer : call.answers.back()) {
      if (!answer.type) refuse(name, layout_->names()[dim], call.operands(dim), answer);
    }
  }
  return with_types(event, call);
}

Results TypedProgram::with_types(const OpEvent& event, const TypesOfCall& call) {
  const OpRow& row = *event.row;
  for (std::size_t i = 0; i < event.args->size(); ++i) {
    const Argument& target = (*event.args)[i];
    if (!row.op.arguments[i].alias.write || !target.is_tensor()) continue;
    const TensorType* type = type_of(target.tensor());
    const bool kept = grad_enabled() && std::ranges::any_of(call.read, [](const ReadTensor& one) {
                        return requires_grad(one.tensor);
                      });
    for (std::size_t dim = 0; type != nullptr && dim < layout_->ndim(); ++dim) {
      const SpmdType& own = type->types[dim];
      const SpmdType target = how_.mode == TypeMode::kLocal ? without_dim(own) : own;
      const auto refusal = refused_write(target, kept, *call.answers[dim][0].type);
      if (refusal) refuse(call.name, layout_->names()[dim], call.operands(dim), *refusal);
    }
  }
  Results results = next().perform(event);
  std::vector<DTensor> made;
  for_each_tensor(results, [&](const DTensor& result) {
    if (result.defined()) made.push_back(result);
  });
  for (std::size_t i = 0; i < made.size(); ++i) {
    TensorType type{{}, ShardOrder(layout_->ndim(), -1)};
    for (std::size_t dim = 0; dim < layout_->ndim(); ++dim) {
      const std::vector<TypeAnswer>& answers = call.answers[dim];
      type.types.push_back(*answers[std::min(i, answers.size() - 1)].type);
      if (!type.types[dim].is_s()) continue;
      type.order[dim] = 0;
      for (const ReadTensor& one : call.read) {
        if (one.type != nullptr && one.type->types[dim].is_s()) {
          type.order[dim] = one.type->order[dim];
        }
      }
    }
    has(made[i], type);
  }
  return results;
}

std::size_t TypedProgram::mesh_dim_of(CollectiveKind kind, const ProcessGroup& group) const {
  const auto own = layout_->coordinate_of(current_rank().rank);
  for (std::size_t dim = 0; own && dim < layout_->ndim(); ++dim) {
    if (std::ranges::equal(layout_->group_ranks(dim, *own), group.ranks())) return dim;
  }
  fail(Fix{"name the group of one dim, or write no_typecheck around it"},
       "{}: its group is that of no dim of mesh {}, along which its tensor has types",
       to_string(kind), layout_->text());
}

TensorType TypedProgram::collected(CollectiveKind kind, std::size_t mesh_dim, const DTensor& from,
                                   const DTensor& into) const {
  const TensorType* input = type_of(from);
  const TensorType* given = type_of(into);
  TensorType type = given != nullptr ? *given : *input;
  if (given == nullptr) {
    type.types[mesh_dim] =
        kind == CollectiveKind::kAllGather ? SpmdType::replicated() : SpmdType::varying();
    type.order[mesh_dim] = -1;
  }
  const SpmdType own = input == nullptr ? SpmdType::varying() : input->types[mesh_dim];
  const TypeAnswer answer = type_of_collective(kind, own, type.types[mesh_dim]);
  if (!answer.type) {
    refuse(to_string(kind), layout_->names()[mesh_dim], "the input " + to_string(own), answer);
  }
  type.types[mesh_dim] = *answer.type;
  return type;
}

Results TypedProgram::checked(const CollectiveEvent& event) {
  if (type_of(event.x) == nullptr) return next().perform(event);
  const std::size_t dim = mesh_dim_of(event.kind, *event.group);
  const TensorType type = collected(event.kind, dim, event.x, {});
  Results results = next().perform(event);
  if (!results.empty() && results[0].is_tensor()) has(results[0].tensor(), type);
  return results;
}

Results TypedProgram::checked(const CollectIntoEvent& event) {
  const bool typed = !event.inputs->empty() && type_of(event.inputs->front()) != nullptr;
  if (!typed) return next().perform(event);
  const std::size_t dim = mesh_dim_of(event.kind, *event.group);
  std::vector<TensorType> types;
  for (const DTensor& into : *event.outputs) {
    types.push_back(collected(event.kind, dim, event.inputs->front(), into));
  }
  Results results = next().perform(event);
  for (std::size_t i = 0; i < types.size(); ++i) has((*event.outputs)[i], types[i]);
  return results;
}

Results TypedProgram::checked(const BackwardEvent& event) {
  const TensorType* type = type_of(event.loss);
  const bool begins = type != nullptr && !event.seed.defined();
  for (std::size_t dim = 0; begins && dim < layout_->ndim(); ++dim) {
    const auto refusal = refused_loss(type->types[dim]);
    if (!refusal || layout_->size(dim) == 1) continue;
    refuse("backward", layout_->names()[dim], "loss " + to_string(type->types[dim]), *refusal);
  }
  Results results = next().perform(event);
  std::vector<std::pair<DTensor, TensorType>> gradients;
  for (const auto& [impl, known] : known_) {
    if (!known.watch.alive()) continue;
    const DTensor gradient = DTensor(Ref<DTensorImpl>(known.watch.impl())).grad();
    if (!gradient.defined() || known.layout != layout_ || type_of(gradient) != nullptr) continue;
    gradients.emplace_back(gradient, known.type);
    for (SpmdType& along : gradients.back().second.types) along = gradient_type(along);
  }
  for (const auto& [gradient, of] : gradients) has(gradient, of);
  return results;
}

Results TypedProgram::perform(const ProgramEvent& event) {
  if (!checks()) return checks_calls_ ? unchecked(event) : next().perform(event);
  if (const auto* op = std::get_if<OpEvent>(&event)) return checked(*op);
  if (const auto* call = std::get_if<CollectiveEvent>(&event)) return checked(*call);
  if (const auto* call = std::get_if<CollectIntoEvent>(&event)) return checked(*call);
  if (const auto* loss = std::get_if<BackwardEvent>(&event)) return checked(*loss);
  const auto* detached = std::get_if<DetachEvent>(&event);
  const TensorType* type = detached == nullptr ? nullptr : type_of(detached->x);
  for (std::size_t dim = 0; type != nullptr && dim < layout_->ndim(); ++dim) {
    if (how_.mode == TypeMode::kLocal || type->types[dim] != SpmdType::varying()) continue;
    refuse("detach", layout_->names()[dim], "self V", unsaid_dim());
  }
  Results results = next().perform(event);
  if (type != nullptr && !results.empty()) has(results[0].tensor(), TensorType(*type));
  return results;
}

}  // namespace shardlab
