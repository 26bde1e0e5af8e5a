// While arguments are bound they are plain ints far below any size, so that binding need not know
// of symbols.
#include "sim/language/values/size_value.h"

#include <algorithm>
#include <limits>

#include "autograd/program.h"
#include "schema/binder.h"
#include "schema/op_row.h"
#include "sim/language/values/dict_entries.h"
#include "sim/language/values/replaced.h"
#include "trace/guards.h"

namespace shardlab {

namespace {

constexpr std::int64_t kMark = std::numeric_limits<std::int64_t>::min() / 2;

std::int64_t now_of(const Value& value) {
  const SizeObject* size = size_of(value);
  return size != nullptr ? size->now() : std::get<0>(number_of(value));
}

Recorder::Number recorded(const Value& value) {
  const SizeObject* size = size_of(value);
  if (size != nullptr) return size->number();
  return std::get<0>(number_of(value));
}

// The value with `change` applied to every size in it.
Value changed(const Value& value, const auto& change) {
  return replaced(value, [&](const Value& part) -> std::optional<Value> {
    if (const SizeObject* size = size_of(part)) return change(*size);
    return holds_size(part) ? std::nullopt : std::optional(part);
  });
}

}  // namespace

const SizeObject* size_of(const Value& value) {
  const auto* object = value.get<ObjectValue>();
  return object != nullptr ? dynamic_cast<const SizeObject*>(object->object.get()) : nullptr;
}

bool holds_size(const Value& value) {
  if (size_of(value) != nullptr) return true;
  if (value.is_sequence()) return std::ranges::any_of(items_of(value), holds_size);
  if (const auto* slice = value.get<SliceValue>()) {
    return std::ranges::any_of(*slice->parts, holds_size);
  }
  const auto* dict = value.get<DictValue>();
  return dict != nullptr && std::ranges::any_of(*dict->entries, [](const auto& entry) {
           return holds_size(entry.second);
         });
}

Value SizeTrace::made(NumberRef number, std::int64_t now) {
  now_.resize(static_cast<std::size_t>(number.index) + 1);
  now_.back() = now;
  return ObjectValue{std::make_shared<SizeObject>(number, now)};
}

Value SizeTrace::size(const DTensor& x, std::size_t dim) {
  const auto signed_dim = static_cast<std::int64_t>(dim);
  const auto input = std::ranges::find_if(inputs_, same_as(x), &NamedTensor::value);
  const bool known = input != inputs_.end() && std::ranges::count(input->dynamic, signed_dim) == 0;
  if (known) return x.shape()[dim];
  return made(recorder_.size(x, signed_dim), x.shape()[dim]);
}

Value SizeTrace::shape(const DTensor& x) {
  Values sizes;
  for (std::size_t dim = 0; dim < x.ndim(); ++dim) sizes.push_back(size(x, dim));
  return make_tuple(std::move(sizes));
}

Value SizeTrace::numel(const DTensor& x) {
  Value product = 1;
  for (std::size_t dim = 0; dim < x.ndim(); ++dim) {
    const Value next = size(x, dim);
    const bool symbols = size_of(product) != nullptr || size_of(next) != nullptr;
    product = symbols ? arithmetic(ast::BinaryOp::kMul, product, next)
                      : Value(now_of(product) * now_of(next));
  }
  return product;
}

Value SizeTrace::arithmetic(ast::BinaryOp op, const Value& a, const Value& b) {
  const std::string name(ast::to_string(op));
  const auto takes_part = [](const Value& value) {
    return size_of(value) != nullptr || value.is<std::int64_t>();
  };
  if (!takes_part(a) || !takes_part(b)) return {};
  const auto now = size_arithmetic(name, now_of(a), now_of(b));
  if (!now) return {};
  return made(recorder_.number(name, recorded(a), recorded(b)), *now);
}

bool SizeTrace::compare(ast::CompareOp op, const Value& a, const Value& b) {
  const std::string name(ast::to_string(op));
  const bool holds = *size_comparison(name, now_of(a), now_of(b));
  recorder_.guard_sizes(name, recorded(a), recorded(b), holds);
  return holds;
}

Value SizeTrace::fixed(const Value& value) {
  return changed(value, [&](const SizeObject& size) {
    recorder_.guard_sizes("==", size.number(), size.now(), true);
    return Value(size.now());
  });
}

void SizeTrace::fix(const DTensor& x) { fixed(shape(x)); }

Value SizeTrace::marked(const Value& value) const {
  return changed(value, [](const SizeObject& size) { return Value(kMark - size.number().index); });
}

CallValues SizeTrace::marked(const CallValues& call) const {
  CallValues copy = call;
  for (Value& value : copy.positional) value = marked(value);
  for (auto& [keyword, value] : copy.keywords) value = marked(value);
  return copy;
}

std::optional<NumberRef> SizeTrace::number_marked(std::int64_t value) const {
  const std::int64_t index = kMark - value;
  if (index < 0 || index >= static_cast<std::int64_t>(now_.size())) return std::nullopt;
  return NumberRef{static_cast<std::int32_t>(index)};
}

// A number next to a tensor is a tensor without dims of the dtype of its kind.
Argument SizeTrace::as_tensor(NumberRef number) {
  const OpRow& full = program_calls().find("aten::full");
  const std::int64_t now = now_[static_cast<std::size_t>(number.index)];
  const Arguments args =
      bind_arguments(full, {Dims{}, Scalar(now)}, {{"dtype", Argument(DType::kI64)}});
  recorder_.next_follows({{.index = 1, .number = number}});
  return program_calls().call(full, args).at(0);
}

void SizeTrace::unmark(const OpRow& row, Arguments& args) {
  std::vector<Recorder::SizeArgument> follows;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].is_scalar() && args[i].scalar().is_integral()) {
      const auto number = number_marked(args[i].scalar().to_int());
      if (!number) continue;
      if (row.op.arguments[i].type.is_tensor()) {
        args[i] = as_tensor(*number);
        continue;
      }
      args[i] = Scalar(now_[static_cast<std::size_t>(number->index)]);
      follows.push_back({.index = i, .number = *number});
    } else if (args[i].is_ints()) {
      Dims sizes = args[i].ints();
      for (std::size_t item = 0; item < sizes.size(); ++item) {
        const auto number = number_marked(sizes[item]);
        if (!number) continue;
        sizes[item] = now_[static_cast<std::size_t>(number->index)];
        follows.push_back({.index = i, .item = item, .number = *number});
      }
      args[i] = std::move(sizes);
    }
  }
  recorder_.next_follows(std::move(follows));
}

}  // namespace shardlab
