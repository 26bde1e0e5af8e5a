// Printing and comparing values as Python does. One list may hold another many times over, so that
// both stop at a bound instead of taking exponential time.
#include "sim/language/values/value.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "mesh/mesh_layout.h"
#include "schema/op_row.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/object.h"

namespace shardlab {

std::int64_t RangeValue::size() const {
  // Unsigned: the distance between two numbers may not fit into 63 bits.
  const auto count = [](std::int64_t low, std::int64_t high, std::uint64_t by) {
    const auto distance = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(std::min((distance - 1) / by + 1, kMost));
  };
  if (step > 0) return start < stop ? count(start, stop, static_cast<std::uint64_t>(step)) : 0;
  return start > stop ? count(stop, start, -static_cast<std::uint64_t>(step)) : 0;
}

Value make_list(Values items) {
  for (const Value& item : items) check_level(item, 1);
  return ListValue{std::make_shared<ListItems>(std::move(items))};
}

Value make_tuple(Values items, const OpRow* fields) {
  for (const Value& item : items) check_level(item, 1);
  return TupleValue{std::make_shared<const ListItems>(std::move(items), fields)};
}

const Value* field_of(const Value& value, std::string_view name) {
  const auto* tuple = value.get<TupleValue>();
  if (tuple == nullptr || tuple->items->fields == nullptr) return nullptr;
  const auto& returns = tuple->items->fields->op.returns;
  const auto found = std::ranges::find(returns, name, &SchemaReturn::name);
  if (found == returns.end()) return nullptr;
  return &(*tuple->items)[static_cast<std::size_t>(found - returns.begin())];
}

DictValue make_dict() { return DictValue{std::make_shared<DictEntries>()}; }

Value make_tuple(const Dims& sizes) { return make_tuple(Values(sizes.begin(), sizes.end())); }

Value make_number(Number number) {
  return std::visit([](auto value) { return Value(value); }, number);
}

const Values& items_of(const Value& sequence) {
  if (const auto* list = sequence.get<ListValue>()) return *list->items;
  if (const auto* tuple = sequence.get<TupleValue>()) return *tuple->items;
  fail(Fix{"write a list: [x], or [x, y]"}, "{} is given where a list is needed", a_kind(sequence));
}

Number number_of(const Value& value) {
  if (const auto* flag = value.get<bool>()) return std::int64_t{*flag ? 1 : 0};
  if (const auto* integer = value.get<std::int64_t>()) return *integer;
  if (const auto* real = value.get<double>()) return *real;
  fail(ErrorKind::kInternal, "{} is not a number", kind_name(value));
}

std::string_view kind_name(const Value& value) {
  static constexpr std::string_view kNames[] = {
      "None",      "...",      "bool",   "int",   "float", "str",    "dtype",    "reduction",
      "placement", "tensor",   "list",   "tuple", "dict",  "range",  "function", "function",
      "function",  "function", "module", "mesh",  "group", "object", "slice",    "varying"};
  static_assert(std::size(kNames) == std::variant_size_v<Value::Variant>);
  if (const auto* object = value.get<ObjectValue>()) return object->object->kind();
  if (is_set(value)) return "set";
  return kNames[value.variant().index()];
}

std::string a_kind(const Value& value) {
  const std::string_view name = kind_name(value);
  if (const auto* none = value.get<ast::None>()) {
    if (none->from.empty()) return std::string(name);
    return fmt::format("None (from {}, which writes its argument)", none->from);
  }
  return fmt::format("{} {}", name.front() == 'i' ? "an" : "a", name);
}

const std::string& group_name(const GroupValue& group) {
  static const std::string kWorld = "world";
  return group.is_world() ? kWorld : group.mesh.reported->names()[group.dim];
}

bool is_outside(const Value& group) {
  if (const auto* value = group.get<GroupValue>()) return value->outside;
  const auto* number = group.get<std::int64_t>();
  return number != nullptr && *number == kNonGroupMember;
}

namespace {

// Writes a string like Python: in single quotes unless it has some and no double ones; invisible
// characters by their number.
std::string quoted(const std::string& text) {
  const bool single = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = single ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (c == '\n' || c == '\t' || c == '\r') {
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    } else if (c == quote || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xC2 && (next <= 0xA0 || next == 0xAD)) {
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      out += c;
    }
  }
  return out + quote;
}

// The longest text of repr(), and the most items that equal() compares: a list may hold one list
// many times, and that one another.
constexpr std::size_t kLongestText = 16u << 20;
constexpr std::int64_t kMostCompared = 10'000'000;

// Appends to `out`.
struct Repr {
  std::string& out;

  void operator()(ast::None) const { out += "None"; }
  void operator()(ast::Ellipsis) const { out += "Ellipsis"; }
  void operator()(bool value) const { out += value ? "True" : "False"; }
  void operator()(std::int64_t value) const { out += fmt::format("{}", value); }
  void operator()(double value) const { out += float_text(value); }
  void operator()(const std::string& value) const { out += quoted(value); }
  void operator()(DType value) const { out += to_string(value); }
  void operator()(ReduceOp value) const { out += to_string(value); }
  void operator()(const Placement& value) const { out += to_string(value); }
  void operator()(const DTensor& value) const { out += type_string(value); }
  void operator()(const ListValue& value) const {
    const std::string_view view = value.items->view;
    if (!view.empty()) out += std::string(view) + "(";
    items('[', *value.items, "]");
    if (!view.empty()) out += ")";
  }
  void operator()(const TupleValue& value) const {
    items('(', *value.items, value.items->size() == 1 ? ",)" : ")");
  }
  void operator()(const DictValue& value) const {
    const bool set = value.entries->is_set;
    if (set && value.entries->empty()) {
      out += "set()";
      return;
    }
    out += '{';
    bool first = true;
    for (const auto& [key, item] : *value.entries) {
      if (!std::exchange(first, false)) out += ", ";
      append(key);
      if (set) continue;
      out += ": ";
      append(item);
    }
    out += '}';
  }
  void operator()(const RangeValue& value) const {
    const std::string step = value.step == 1 ? "" : fmt::format(", {}", value.step);
    out += fmt::format("range({}, {}{})", value.start, value.stop, step);
  }
  void operator()(const FunctionValue& value) const { out += value.function->name; }
  void operator()(const BuiltinValue& value) const { out += value.builtin->name; }
  void operator()(const OpValue& value) const { out += value.name; }
  void operator()(const RowValue& value) const { out += value.row->name(); }
  void operator()(const ModuleValue& value) const { out += value.path; }
  void operator()(const MeshValue& value) const {
    out += value.reported ? value.reported->text() : "{}";
  }
  void operator()(const GroupValue& value) const {
    out += value.outside ? fmt::format("{}", kNonGroupMember)
                         : fmt::format("group({})", group_name(value));
  }
  void operator()(const ObjectValue& value) const { out += value.object->text(); }
  void operator()(const SliceValue& value) const {
    out += "slice";
    items('(', *value.parts, ")");
  }

  void operator()(const RankValue& value) const { append(*value.here); }

  void append(const Value& value) const {
    if (out.size() > kLongestText) {
      fail(Fix{"print parts of it: x[:10]"}, "the text of a value has more than {} bytes",
           kLongestText);
    }
    std::visit(*this, value.variant());
  }
  void items(char open, const Values& values, std::string_view close) const {
    out += open;
    bool first = true;
    for (const Value& item : values) {
      if (!std::exchange(first, false)) out += ", ";
      append(item);
    }
    out += close;
  }
};

// Counts the compared items.
class Equality {
 public:
  bool equal(const Value& a, const Value& b);

 private:
  bool equal_items(const Values& a, const Values& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!equal(a[i], b[i])) return false;
    }
    return true;
  }

  bool equal_dicts(const DictValue& a, const DictValue& b) {
    if (a.entries->size() != b.entries->size()) return false;
    if (a.entries->is_set != b.entries->is_set) return false;
    for (const auto& [key, value] : *a.entries) {
      const Value* const other = b.entries->find(key);
      if (other == nullptr || !equal(value, *other)) return false;
    }
    return true;
  }

  std::int64_t compared_ = 0;
};

bool Equality::equal(const Value& a, const Value& b) {
  if (++compared_ > kMostCompared) {
    fail(ErrorKind::kUnsupported, Fix{"compare parts of them, or tensors"},
         "the values to compare have more than {} items", kMostCompared);
  }
  if (a.is_number() && b.is_number()) {
    return compare(ast::CompareOp::kEqual, number_of(a), number_of(b));
  }
  if (is_outside(a) && is_outside(b)) return true;
  if (a.variant().index() != b.variant().index()) return false;
  if (a.is_sequence()) return equal_items(items_of(a), items_of(b));
  if (const auto* dict = a.get<DictValue>()) return equal_dicts(*dict, b.as<DictValue>());
  if (const auto* text = a.get<std::string>()) return *text == b.as<std::string>();
  if (const auto* dtype = a.get<DType>()) return *dtype == b.as<DType>();
  if (const auto* op = a.get<ReduceOp>()) return *op == b.as<ReduceOp>();
  if (const auto* placement = a.get<Placement>()) return *placement == b.as<Placement>();
  if (const auto* tensor = a.get<DTensor>()) return tensor->is_same(b.as<DTensor>());
  if (const auto* mesh = a.get<MeshValue>()) return mesh->reported == b.as<MeshValue>().reported;
  if (const auto* row = a.get<RowValue>()) return row->row == b.as<RowValue>().row;
  if (const auto* def = a.get<FunctionValue>())
    return def->defaults == b.as<FunctionValue>().defaults;
  if (const auto* object = a.get<ObjectValue>())
    return object->object == b.as<ObjectValue>().object;
  return repr(a) == repr(b);
}

}  // namespace

std::string repr(const Value& value) {
  std::string out;
  Repr{out}.append(value);
  return out;
}

std::string str(const Value& value) {
  if (const auto* text = value.get<std::string>()) return *text;
  if (const auto* ranks = value.get<RankValue>()) return str(*ranks->here);
  return repr(value);
}

bool equal(const Value& a, const Value& b) { return Equality().equal(a, b); }

}  // namespace shardlab
