#include "sim/scenario/value.h"

#include <fmt/format.h>

#include "base/error.h"
#include "mesh/mesh_layout.h"
#include "schema/op_row.h"
#include "sim/scenario/builtin.h"

namespace shardlab {

std::int64_t RangeValue::size() const {
  if (step > 0) return start < stop ? (stop - start + step - 1) / step : 0;
  return start > stop ? (start - stop - step - 1) / -step : 0;
}

Value make_list(Values items) { return ListValue{std::make_shared<Values>(std::move(items))}; }

Value make_tuple(Values items) {
  return TupleValue{std::make_shared<const Values>(std::move(items))};
}

Value make_tuple(const Dims& sizes) { return make_tuple(Values(sizes.begin(), sizes.end())); }

Value make_number(Number number) {
  return std::visit([](auto value) { return Value(value); }, number);
}

const Values& items_of(const Value& sequence) {
  if (const auto* list = sequence.get<ListValue>()) return *list->items;
  return *sequence.as<TupleValue>().items;
}

Number number_of(const Value& value) {
  if (const auto* flag = value.get<bool>()) return std::int64_t{*flag ? 1 : 0};
  if (const auto* integer = value.get<std::int64_t>()) return *integer;
  if (const auto* real = value.get<double>()) return *real;
  fail(ErrorKind::kInternal, "{} is not a number", kind_name(value));
}

std::string_view kind_name(const Value& value) {
  static constexpr std::string_view kNames[] = {
      "None",      "...",       "bool",     "int",      "float",  "str",  "dtype",
      "reduction", "placement", "tensor",   "list",     "tuple",  "dict", "range",
      "function",  "function",  "function", "function", "module", "mesh", "slice"};
  static_assert(std::size(kNames) == std::variant_size_v<Value::Variant>);
  return kNames[value.variant().index()];
}

namespace {

std::string quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\\' || c == quote)
      out += '\\', out += c;
    else
      out += c;
  }
  return out + quote;
}

std::string joined(const Values& items) {
  std::string out;
  for (const Value& item : items) out += (out.empty() ? "" : ", ") + repr(item);
  return out;
}

struct Repr {
  std::string operator()(ast::None) const { return "None"; }
  std::string operator()(ast::Ellipsis) const { return "Ellipsis"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return float_text(value); }
  std::string operator()(const std::string& value) const { return quoted(value); }
  std::string operator()(DType value) const { return std::string(to_string(value)); }
  std::string operator()(ReduceOp value) const { return std::string(to_string(value)); }
  std::string operator()(const Placement& value) const { return to_string(value); }
  std::string operator()(const DTensor& value) const { return type_string(value); }
  std::string operator()(const ListValue& value) const { return "[" + joined(*value.items) + "]"; }
  std::string operator()(const TupleValue& value) const {
    return "(" + joined(*value.items) + (value.items->size() == 1 ? ",)" : ")");
  }
  std::string operator()(const DictValue& value) const {
    std::string out;
    for (const auto& [key, item] : *value.entries) {
      out += (out.empty() ? "" : ", ") + repr(key) + ": " + repr(item);
    }
    return "{" + out + "}";
  }
  std::string operator()(const RangeValue& value) const {
    const std::string step = value.step == 1 ? "" : fmt::format(", {}", value.step);
    return fmt::format("range({}, {}{})", value.start, value.stop, step);
  }
  std::string operator()(const FunctionValue& value) const { return value.function->name; }
  std::string operator()(const BuiltinValue& value) const { return value.builtin->name; }
  std::string operator()(const OpValue& value) const { return value.name; }
  std::string operator()(const RowValue& value) const { return value.row->name(); }
  std::string operator()(const ModuleValue& value) const { return value.path; }
  std::string operator()(const MeshValue& value) const {
    return value.reported ? value.reported->text() : "{}";
  }
  std::string operator()(const SliceValue& value) const {
    return "slice(" + joined(*value.parts) + ")";
  }
};

bool equal_items(const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

bool equal_dicts(const DictValue& a, const DictValue& b) {
  if (a.entries->size() != b.entries->size()) return false;
  for (const auto& [key, value] : *a.entries) {
    bool found = false;
    for (const auto& [other_key, other] : *b.entries) {
      found = found || (equal(key, other_key) && equal(value, other));
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace

std::string repr(const Value& value) { return std::visit(Repr{}, value.variant()); }

std::string str(const Value& value) {
  if (const auto* text = value.get<std::string>()) return *text;
  return repr(value);
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return compare(ast::CompareOp::kEqual, number_of(a), number_of(b));
  }
  if (a.variant().index() != b.variant().index()) return false;
  if (a.is_sequence()) return equal_items(items_of(a), items_of(b));
  if (const auto* dict = a.get<DictValue>()) return equal_dicts(*dict, b.as<DictValue>());
  if (const auto* text = a.get<std::string>()) return *text == b.as<std::string>();
  if (const auto* dtype = a.get<DType>()) return *dtype == b.as<DType>();
  if (const auto* op = a.get<ReduceOp>()) return *op == b.as<ReduceOp>();
  if (const auto* placement = a.get<Placement>()) return *placement == b.as<Placement>();
  if (const auto* tensor = a.get<DTensor>()) return *tensor == b.as<DTensor>();
  if (const auto* mesh = a.get<MeshValue>()) return mesh->reported == b.as<MeshValue>().reported;
  if (const auto* row = a.get<RowValue>()) return row->row == b.as<RowValue>().row;
  return repr(a) == repr(b);
}

}  // namespace shardlab
