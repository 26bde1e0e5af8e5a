// Methods of lists, dicts and strings.
#include <algorithm>

#include "base/fix.h"
#include "sim/language/run/augmented.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/nesting.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_self(const Value* self, std::string_view method, std::string_view owner) {
  fail(ErrorKind::kValue, Fix{fmt::format("use it on {}", owner)}, "{} has no '{}'", a_kind(*self),
       method);
}

Values& list_of(const Value* self, std::string_view method) {
  if (const auto* list = self->get<ListValue>()) return *list->items;
  refuse_self(self, method, "a list");
}

const DictValue& dict_of(const Value* self, std::string_view method) {
  if (const auto* dict = self->get<DictValue>()) return *dict;
  refuse_self(self, method, "a dict");
}

const std::string& text_of(const Value* self, std::string_view method) {
  if (const auto* text = self->get<std::string>()) return *text;
  refuse_self(self, method, "a string");
}

Value run_append(Interpreter&, const Value* self, CallValues call) {
  Values& items = list_of(self, "append");
  const Parameters given("append", {"item"}, std::move(call));
  check_stored(*self, given["item"]);
  items.push_back(given["item"]);
  return {};
}

Value run_extend(Interpreter& in, const Value* self, CallValues call) {
  list_of(self, "extend");
  const Parameters given("extend", {"items"}, std::move(call));
  extend(in, *self, given["items"]);
  return {};
}

Value run_pop(Interpreter&, const Value* self, CallValues call) {
  Values& items = list_of(self, "pop");
  const Parameters given("pop", {"index="}, std::move(call));
  const auto size = static_cast<std::int64_t>(items.size());
  std::int64_t index = given.integer_or("index", -1);
  if (index < -size || index >= size) {
    fail(ErrorKind::kValue, Fix{"look first whether the list has it: len(items)"},
         "pop: index {} is out of range for a list of size {}", index, size);
  }
  if (index < 0) index += size;
  Value item = items[static_cast<std::size_t>(index)];
  items.erase(items.begin() + index);
  return item;
}

Value run_index(Interpreter&, const Value* self, CallValues call) {
  if (!self->is_sequence()) refuse_self(self, "index", "a list or a tuple");
  const Parameters given("index", {"item"}, std::move(call));
  const Values& items = items_of(*self);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], given["item"])) return static_cast<std::int64_t>(i);
  }
  fail(ErrorKind::kValue, Fix{"look first whether it is there: if x in items"},
       "index: {} is not in the {}", repr(given["item"]), kind_name(*self));
}

Value run_keys(Interpreter&, const Value* self, CallValues) {
  Values out;
  for (const auto& [key, value] : *dict_of(self, "keys").entries) out.push_back(key);
  return make_list(std::move(out));
}

Value run_values(Interpreter&, const Value* self, CallValues) {
  Values out;
  for (const auto& [key, value] : *dict_of(self, "values").entries) out.push_back(value);
  return make_list(std::move(out));
}

Value run_items(Interpreter&, const Value* self, CallValues) {
  Values out;
  for (const auto& [key, value] : *dict_of(self, "items").entries) {
    out.push_back(make_tuple({key, value}));
  }
  return make_list(std::move(out));
}

Value run_get(Interpreter&, const Value* self, CallValues call) {
  const DictValue& dict = dict_of(self, "get");
  const Parameters given("get", {"key", "default="}, std::move(call));
  const Value* found = find(dict, given["key"]);
  return found != nullptr ? *found : given["default"];
}

Value run_join(Interpreter& in, const Value* self, CallValues call) {
  const std::string& separator = text_of(self, "join");
  const Parameters given("join", {"items"}, std::move(call));
  std::string out;
  bool first = true;
  for (const Value& item : in.iterate(given["items"])) {
    if (!item.is<std::string>()) {
      fail(ErrorKind::kValue, Fix{"convert the items first: [str(x) for x in items]"},
           "join: an item is {}, not a str", a_kind(item));
    }
    out += (std::exchange(first, false) ? "" : separator) + item.as<std::string>();
    check_text_size(out.size());
  }
  return out;
}

Value run_startswith(Interpreter&, const Value* self, CallValues call) {
  const std::string& text = text_of(self, "startswith");
  return text.starts_with(Parameters("startswith", {"prefix"}, std::move(call)).text("prefix"));
}

Value run_endswith(Interpreter&, const Value* self, CallValues call) {
  const std::string& text = text_of(self, "endswith");
  return text.ends_with(Parameters("endswith", {"suffix"}, std::move(call)).text("suffix"));
}

}  // namespace

BuiltinTable container_methods() {
  static const Builtin kTable[] = {
      {"append", run_append}, {"endswith", run_endswith},
      {"extend", run_extend}, {"get", run_get},
      {"index", run_index},   {"items", run_items},
      {"join", run_join},     {"keys", run_keys},
      {"pop", run_pop},       {"startswith", run_startswith},
      {"values", run_values},
  };
  return kTable;
}

}  // namespace shardlab
