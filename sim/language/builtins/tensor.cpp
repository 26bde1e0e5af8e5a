// Attributes and methods of tensors that are not one op.
#include "api/tensor_ops.h"
#include "autograd/program.h"
#include "base/error.h"
#include "base/fixed_text.h"
#include "base/tensor_dim.h"
#include "base/text.h"
#include "ops/torch/torch_names.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/run/module_hooks.h"
#include "sim/language/syntax/characters.h"
#include "sim/language/values/dict_entries.h"
#include "sim/language/values/rank_value.h"
#include "sim/language/values/size_value.h"
#include "sim/language/values/tensor_data.h"
#include "sim/world/rank_questions.h"

namespace shardlab {

namespace {

const DTensor& self_tensor(const Value* self) { return self->as<DTensor>(); }

Value run_tensor_size(Interpreter& in, const Value* self, const Parameters& given) {
  const DTensor& tensor = self_tensor(self);
  if (!given.has("dim")) return in.attribute(*self, "shape");
  const auto dim = static_cast<std::size_t>(wrap_dim(given.integer("dim"), tensor.ndim()));
  if (in.sizes() != nullptr) return in.sizes()->size(tensor, dim);
  return tensor.shape()[dim];
}

Value run_dim(Interpreter&, const Value* self, const Parameters&) {
  return static_cast<std::int64_t>(self_tensor(self).ndim());
}

Value run_numel(Interpreter& in, const Value* self, const Parameters&) {
  if (in.sizes() != nullptr) return in.sizes()->numel(self_tensor(self));
  return self_tensor(self).numel();
}

// Strides of the whole tensor, in elements.
Value run_stride(Interpreter& in, const Value* self, const Parameters&) {
  const DTensor& tensor = self_tensor(self);
  if (in.sizes() != nullptr) in.sizes()->fix(tensor);
  const auto own = [&] {
    return make_tuple(tensor.distributed() ? tensor.spec()->stride() : tensor.local().stride());
  };
  return in.answer(own, make_tuple(tensor.meta().stride));
}

// Reduces first when it must; a rank outside of the mesh gets zero.
Value run_item(Interpreter&, const Value* self, CallValues call) {
  const Parameters given("item()", std::move(call));
  const DTensor& tensor = self_tensor(self);
  const auto numbers = read_numbers(whole_item(tensor).local());
  const Number number = numbers.empty() ? Number(std::int64_t{0}) : numbers[0];
  if (tensor.dtype() == DType::kBool) return to_double(number) != 0;
  if (is_integral(tensor.dtype())) return make_number(number);
  return to_double(number);
}

Value nested_list(const Dims& shape, std::size_t dim, const std::vector<Number>& numbers,
                  std::size_t& at, DType dtype) {
  if (dim == shape.size()) {
    const Number number = numbers[at++];
    return dtype == DType::kBool ? Value(to_double(number) != 0) : make_number(number);
  }
  Values items;
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    items.push_back(nested_list(shape, dim + 1, numbers, at, dtype));
  }
  return make_list(std::move(items));
}

Value run_tolist(Interpreter&, const Value* self, const Parameters&) {
  const DTensor& tensor = self_tensor(self);
  if (tensor.distributed()) {
    fail(Fix{"x.full_tensor().tolist(), or x.to_local().tolist()"},
         "tolist: the tensor is distributed");
  }
  program_calls().perform(ReadEvent{tensor});
  std::size_t at = 0;
  return nested_list(tensor.shape(), 0, read_numbers(tensor.local()), at, tensor.dtype());
}

Value run_requires_grad(Interpreter&, const Value* self, const Parameters& given) {
  if (given.flag_or("requires_grad", true)) {
    require_grad(self_tensor(self));
  } else {
    require_no_grad(self_tensor(self));
  }
  return *self;
}

// The same functions, called with the tensor first: redistribute(x, tp=R).
template <FixedText kName>
Value run_function(Interpreter& in, const Value* self, CallValues call) {
  call.positional.insert(call.positional.begin(), *self);
  return find_function(kName)->run(in, nullptr, std::move(call));
}

DTensor transposed(Interpreter& in, const DTensor& tensor) {
  if (tensor.ndim() < 2) return tensor;
  if (tensor.ndim() == 2) return in.tensor_op("t", {tensor});
  Dims reversed;
  for (std::size_t i = tensor.ndim(); i-- > 0;) reversed.push_back(static_cast<std::int64_t>(i));
  return in.tensor_op("permute", {tensor, make_tuple(reversed)});
}

// Programs do not choose devices.
Value run_cuda(Interpreter&, const Value* self, CallValues) { return *self; }

Value placements_of(const DTensor& tensor) {
  if (!tensor.distributed()) return {};
  Values items;
  for (const Placement& placement : tensor.spec()->placements()) items.emplace_back(placement);
  return make_tuple(std::move(items));
}

std::optional<Value> tensor_attribute(Interpreter& in, const DTensor& tensor,
                                      std::string_view name) {
  if (name == "shape" && in.sizes() != nullptr) return in.sizes()->shape(tensor);
  if (name == "shape") return make_tuple(tensor.shape());
  if (name == "dtype") return tensor.dtype();
  if (name == "ndim") return static_cast<std::int64_t>(tensor.ndim());
  if (name == "T") return transposed(in, tensor);
  if (name == "mT") return in.tensor_op("transpose", {tensor, -2, -1});
  if (name == "mH") return in.tensor_op("adjoint", {tensor});
  if (name == "real" || name == "imag") return in.tensor_op(name, {tensor});
  if (name == "requires_grad") return requires_grad(tensor);
  if (name == "is_leaf") return is_leaf(tensor);
  if (name == "type") {
    if (in.sizes() != nullptr) in.sizes()->fix(tensor);
    const std::string own = type_string(tensor);
    return in.answer([&] { return Value(own); }, own);
  }
  if (name == "grad") {
    const DTensor grad = grad_of(tensor);
    return grad.defined() ? Value(grad) : Value();
  }
  if (name == "data") return detach(tensor);
  if (name == "device") return "cpu";
  if (name == "itemsize") return item_bytes(tensor.dtype());
  if (name == "_local_tensor") {
    return detach(find_function("to_local")->run(in, nullptr, {{tensor}, {}}).as<DTensor>());
  }
  if (name == "device_mesh" && (in.plain() || tensor.distributed())) {
    return in.plain() ? in.meshes()[0] : mesh_value(in, tensor.spec()->layout());
  }
  if (name == "placements") return in.answer([&] { return placements_of(tensor); });
  return std::nullopt;
}

constexpr std::string_view kAttributes[] = {
    "shape", "dtype",         "ndim",        "T",        "mT",           "real",
    "imag",  "requires_grad", "type",        "grad",     "placements",   "is_leaf",
    "data",  "device",        "device_mesh", "itemsize", "_local_tensor"};

}  // namespace

BuiltinTable tensor_methods() {
  static const Builtin kTable[] = {
      {"backward", run_function<"backward">},
      {"detach", run_function<"detach">},
      {"detach_", run_function<"detach_">},
      {"cuda", run_cuda},
      {"dim", "()", run_dim},
      {"element_size", "()",
       [](auto&, auto* self, auto&) -> Value { return item_bytes(self_tensor(self).dtype()); }},
      {"full_tensor", run_function<"full_tensor">},
      {"item", run_item},
      {"nelement", "numel()", run_numel},
      {"numel", "()", run_numel},
      {"redistribute", run_function<"redistribute">},
      {"register_hook", run_register_hook},
      {"requires_grad_", "(requires_grad=)", run_requires_grad},
      {"size", "(dim=)", run_tensor_size},
      {"stride", "()", run_stride},
      {"to_local", run_function<"to_local">},
      {"tolist", "()", run_tolist},
  };
  return kTable;
}

bool is_tensor_attribute(std::string_view name) {
  return std::ranges::find(kAttributes, name) != std::end(kAttributes) || name == "mH";
}

void refuse_attribute(const Value& object, std::string_view name, const OpRegistry& registry) {
  std::vector<std::string> known;
  const auto add = [&](BuiltinTable table) {
    for (const Builtin& method : table) known.push_back(method.name);
  };
  if (object.is_tensor()) {
    known.assign(std::begin(kAttributes), std::end(kAttributes));
    add(tensor_methods());
    for (std::string& op : torch_names(registry)) known.push_back(std::move(op));
  } else if (object.is_sequence() || object.is<DictValue, std::string>() ||
             members_of(object).data() != container_methods().data()) {
    add(members_of(object));
  }
  const bool is_no_method = std::ranges::find(known, name) != known.end();
  fail(Fix{known.empty()  ? "use it on a tensor, a list, a dict, a string or a mesh"
           : is_no_method ? fmt::format("it is no method: write x.{}, without a call", name)
                          : suggest(name, known)},
       "{} has no '{}'", a_kind(object), name);
}

Value Interpreter::attribute(const Value& object, const std::string& name) {
  if (const auto* module = object.get<ModuleValue>()) {
    if (const Value* found = known_name(module->path, name)) return *found;
    fail(Fix{suggest(name, torch_names(*setup_.registry))}, "{} has no '{}'", module->path, name);
  }
  if (const auto* tensor = object.get<DTensor>()) {
    if (auto found = tensor_attribute(*this, *tensor, name)) return std::move(*found);
  }
  if (const Value* field = field_of(object, name)) return *field;
  const auto shared = [&] { return std::make_shared<const Value>(object); };
  if (const auto* owner = object.get<ObjectValue>()) {
    if (const Value* own = owner->object->find(name)) return *own;
  }
  if (const Builtin* member = find_builtin(members_of(object), name)) {
    if (member->member != Member::kMethod) return member->run(*this, &object, {});
    return BuiltinValue{member, shared()};
  }
  if (object.is_tensor() && is_torch_name(*setup_.registry, name)) return OpValue{name, shared()};
  refuse_attribute(object, name, *setup_.registry);
}

Value Interpreter::answer(const std::function<Value()>& own, const Value& otherwise) {
  if (plain()) {
    const auto found = setup_.follows != nullptr ? setup_.follows->next(position_) : std::nullopt;
    return found.value_or(otherwise);
  }
  Value value = own();
  if (setup_.keeps != nullptr) setup_.keeps->keep(position_, value);
  return value;
}

// A branch that rounding turned takes the direction that it took on the ranks.
bool Interpreter::truth(const Value& value) {
  const SourceSpan place = position_;
  const bool own = own_truth(value);
  if (setup_.keeps != nullptr) setup_.keeps->keep(place, own);
  return setup_.follows != nullptr ? setup_.follows->branch(place, own) : own;
}

bool Interpreter::own_truth(const Value& value) {
  if (sizes_ != nullptr && size_of(value) != nullptr) {
    return sizes_->compare(ast::CompareOp::kNotEqual, value, 0);
  }
  if (value.is<RankValue>()) {
    setup_.questions->ask([&](std::int64_t rank) {
      return fingerprint([&] { return Value(own_truth(at_rank(value, rank))); });
    });
    return own_truth(here(value));
  }
  if (value.is_number()) return to_double(number_of(value)) != 0;
  if (value.is_none()) return false;
  if (const auto* text = value.get<std::string>()) return !text->empty();
  if (value.is_sequence()) return !items_of(value).empty();
  if (const auto* dict = value.get<DictValue>()) return !dict->entries->empty();
  if (const auto* range = value.get<RangeValue>()) return range->size() > 0;
  if (value.is_tensor()) return own_truth(run_item(*this, &value, {}));
  return true;
}

Values Interpreter::iterate(const Value& value) {
  constexpr std::int64_t kMost = 1'000'000;
  if (value.is<RankValue>()) return iterate(settle(value));
  if (value.is_sequence()) return items_of(value);
  Values out;
  if (const auto* range = value.get<RangeValue>()) {
    if (range->size() > kMost) {
      fail(ErrorKind::kUnsupported,
           Fix{"go through it with a for statement, or use arange for a tensor"},
           "the range has more than {} items for a list", kMost);
    }
    for (std::int64_t i = 0; i < range->size(); ++i) out.emplace_back((*range)[i]);
    return out;
  }
  if (const auto* text = value.get<std::string>()) {
    for (const std::string_view one : characters_of(*text)) out.emplace_back(std::string(one));
    return out;
  }
  if (const auto* dict = value.get<DictValue>()) {
    for (const auto& [key, item] : *dict->entries) out.push_back(key);
    return out;
  }
  if (const auto* tensor = value.get<DTensor>(); tensor && tensor->ndim() > 0) {
    if (sizes_ != nullptr) sizes_->fixed(sizes_->size(*tensor, 0));
    for (std::int64_t i = 0; i < tensor->shape()[0]; ++i) {
      out.emplace_back(tensor_op("select", {value, 0, i}));
    }
    return out;
  }
  fail(Fix{"go through a list, a tuple, a dict, a string, a range or a tensor"},
       "{} cannot be iterated over", a_kind(value));
}

}  // namespace shardlab
