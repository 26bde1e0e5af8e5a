// Factories: a plain tensor, equal on all ranks, or with placements (randn([7, 4], tp=S(0))) a
// distributed one with the same values.
#include "api/factories.h"
#include "api/make_tensor.h"
#include "api/mesh.h"
#include "base/error.h"
#include "base/fixed_text.h"
#include "ops/torch/torch_names.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/language/builtins/placing.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/generator.h"
#include "sim/language/values/op_call.h"
#include "sim/language/values/size_value.h"
#include "sim/language/values/tensor_data.h"
#include "sim/types/typed_program.h"

namespace shardlab {

namespace {

constexpr std::string_view kOwn[] = {"generator", "mesh", "requires_grad"};

bool is_op_argument(Interpreter& in, std::string_view op, std::string_view keyword) {
  for (const OpRow* row : in.setup().registry->overloads(op)) {
    if (row->op.find_argument(keyword)) return true;
  }
  return false;
}

// The keywords that place the result, taken out of the call; the rest belongs to the op.
struct Placing {
  Value mesh;
  Value placements;     ///< a list, as PyTorch has it; None: by name
  Generator generator;  ///< null: the rank's own
  bool requires_grad = false;
  std::vector<std::pair<std::string, Value>> dims;
};

Generator drawn_from(std::string_view op, const Value& value) {
  if (value.is_none()) return nullptr;
  if (const GeneratorObject* generator = generator_of(value)) return generator->state();
  fail(Fix{"make one: g = torch.Generator().manual_seed(7)"},
       "{}: argument 'generator' is {}, not a generator", op, a_kind(value));
}

Placing take_placing(Interpreter& in, std::string_view op, CallValues& call) {
  Placing placing;
  std::vector<std::pair<std::string, Value>> rest;
  for (auto& [keyword, value] : call.keywords) {
    const bool own = std::ranges::find(kOwn, keyword) != std::end(kOwn);
    if (keyword == "mesh" || keyword == "device_mesh")
      placing.mesh = value;
    else if (keyword == "placements")
      placing.placements = value;
    else if (keyword == "generator")
      placing.generator = drawn_from(op, value);
    else if (own)
      placing.requires_grad = in.truth(value);
    else if (is_op_argument(in, op, keyword))
      rest.emplace_back(keyword, std::move(value));
    else
      placing.dims.emplace_back(keyword, std::move(value));
  }
  call.keywords = std::move(rest);
  return placing;
}

Placements listed(const MeshLayout& layout, const Value& list, std::string_view op) {
  if (list.is_none()) return Placements(layout.ndim());
  Placements placements;
  if (list.is_sequence()) {
    for (const Value& item : items_of(list)) placements.push_back(placement_of(item));
  }
  check_count(placements, layout, op);
  return placements;
}

// Every rank makes its piece; terms of a pending reduction are dealt out of it.
DTensor placed(Interpreter& in, std::string_view op, const Placing& placing,
               const ResolvedCall& call) {
  const MeshLayout* layout = construct_mesh(layout_of(in, placing.mesh));
  const Placements placements =
      placements_of(*layout, listed(*layout, placing.placements, op), placing.dims, op);
  Placements pieces = placements;
  for (Placement& placement : pieces) {
    if (placement.is_partial()) placement = Placement::replicate();
  }
  const DTensor made = make_tensor(*call.row, call.args, layout, pieces, placing.generator);
  if (pieces == placements) return made;
  const DTensorSpec* terms = spec_of(placements, layout, made.meta());
  return program_calls().perform(DealEvent{made, terms}).at(0).tensor();
}

Value make(Interpreter& in, std::string_view op, CallValues call) {
  const Placing placing = take_placing(in, op, call);
  SizeTrace* sizes = in.sizes();
  if (sizes != nullptr) call = sizes->marked(call);
  ResolvedCall resolved = resolve_torch_call(*in.setup().registry, op, arguments_of(op, call));
  if (sizes != nullptr) sizes->unmark(*resolved.row, resolved.args);
  // A tensor that is made as a leaf is a parameter.
  const MakingScope scope(placing.requires_grad ? HeldFor::kInput : HeldFor::kOther);
  const bool on_mesh = !in.plain() && !(placing.dims.empty() && placing.mesh.is_none() &&
                                        placing.placements.is_none());
  const DTensor made =
      on_mesh ? placed(in, op, placing, resolved)
              : make_tensor(*resolved.row, resolved.args, nullptr, {}, placing.generator);
  if (placing.requires_grad) require_grad(made);
  return made;
}

template <FixedText kName>
Value run_factory(Interpreter& in, const Value*, CallValues call) {
  return make(in, kName, std::move(call));
}

[[noreturn]] void refuse_rows() {
  fail(Fix{"give all rows the same number of items"}, "tensor: the rows have different lengths");
}

void flatten(const Value& value, Dims& shape, std::size_t depth, std::vector<Value>& out) {
  if (!value.is_sequence()) {
    if (!value.is_number()) {
      fail(Fix{value.is_tensor() ? "use stack for tensors: torch.stack([x, y])"
                                 : "write numbers: tensor([[1., 2.], [3., 4.]])"},
           "tensor: an item is {}, not a number", a_kind(value));
    }
    if (depth != shape.size()) refuse_rows();
    out.push_back(value);
    return;
  }
  const Values& items = items_of(value);
  const auto size = static_cast<std::int64_t>(items.size());
  if (depth == shape.size() && out.empty()) shape.push_back(size);
  if (depth >= shape.size() || shape[depth] != size) refuse_rows();
  for (const Value& item : items) flatten(item, shape, depth + 1, out);
}

Value run_generator(Interpreter&, const Value*, const Parameters&) {
  return ObjectValue{std::make_shared<GeneratorObject>()};
}

Value run_manual_seed(Interpreter&, const Value* self, const Parameters& given) {
  manual_seed(static_cast<std::uint64_t>(given.integer("seed")), generator_of(*self)->state());
  return *self;
}

// torch.manual_seed: of all draws that name no generator.
Value run_seed(Interpreter&, const Value*, const Parameters& given) {
  manual_seed(static_cast<std::uint64_t>(given.integer("seed")));
  return {};
}

Value run_initial_seed(Interpreter&, const Value* self, const Parameters&) {
  return static_cast<std::int64_t>(generator_of(*self)->state()->seed);
}

Value run_tensor(Interpreter&, const Value*, CallValues call) {
  const Parameters given("tensor(data, dtype=)", std::move(call));
  Dims shape;
  std::vector<Value> flat;
  flatten(given["data"], shape, 0, flat);
  std::vector<Number> numbers;
  DType dtype = flat.empty() ? DType::kF32 : DType::kBool;
  for (const Value& value : flat) {
    numbers.push_back(number_of(value));
    if (value.is<double>())
      dtype = DType::kF32;
    else if (value.is<std::int64_t>() && dtype == DType::kBool)
      dtype = DType::kI64;
  }
  dtype = given.dtype("dtype").value_or(dtype);
  const Tensor made = tensor_of(*current_rank().device, shape, dtype, numbers);
  const DTensor tensor = Interpreter::cast(DTensor(made), program_calls().dtype_of(dtype));
  if (TypedProgram* typed = typed_program()) typed->is_everywhere(tensor);
  return tensor;
}

Value run_as_tensor(Interpreter& in, const Value*, CallValues call) {
  if (call.positional.empty() || !call.positional[0].is_tensor()) {
    return run_tensor(in, nullptr, std::move(call));
  }
  const Parameters given("as_tensor(data, dtype=, device=)", std::move(call));
  const DTensor tensor = given.tensor("data");
  return Interpreter::cast(tensor, given.dtype("dtype").value_or(tensor.dtype()));
}

}  // namespace

const GeneratorObject* generator_of(const Value& value) {
  const auto* object = value.get<ObjectValue>();
  return object != nullptr ? dynamic_cast<const GeneratorObject*>(object->object.get()) : nullptr;
}

BuiltinTable generator_methods() {
  static const Builtin kTable[] = {
      {"initial_seed", "()", run_initial_seed},
      {"manual_seed", "(seed)", run_manual_seed},
  };
  return kTable;
}

BuiltinTable factory_builtins() {
  static const Builtin kTable[] = {
      {"Generator", "(device=)", run_generator},
      {"arange", run_factory<"arange">},
      {"as_tensor", run_as_tensor},
      {"empty", run_factory<"empty">},
      {"eye", run_factory<"eye">},
      {"full", run_factory<"full">},
      {"linspace", run_factory<"linspace">},
      {"manual_seed", "(seed)", run_seed},
      {"ones", run_factory<"ones">},
      {"rand", run_factory<"rand">},
      {"randint", run_factory<"randint">},
      {"randn", run_factory<"randn">},
      {"tensor", run_tensor},
      {"zeros", run_factory<"zeros">},
  };
  return kTable;
}

}  // namespace shardlab
