// Methods of lists, dicts and strings.
#include <algorithm>

#include "base/fixed_text.h"
#include "sim/language/run/augmented.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/python_error.h"
#include "sim/language/values/python_format.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_self(const Value* self, std::string_view method, std::string_view owner) {
  fail(Fix{fmt::format("use it on {}", owner)}, "{} has no '{}'", a_kind(*self), method);
}

Values& list_of(const Value* self, std::string_view method) {
  if (const auto* list = self->get<ListValue>()) return *list->items;
  refuse_self(self, method, "a list");
}

Values& own_items(const Value* self) { return *self->as<ListValue>().items; }
const DictValue& dict_of(const Value* self) { return self->as<DictValue>(); }
DictEntries& set_in(const Value* self) { return *self->as<DictValue>().entries; }
const std::string& text_of(const Value* self) { return self->as<std::string>(); }

const DictValue& dict_in(const Value* self, std::string_view method) {
  if (self->is<DictValue>() && !is_set(*self)) return dict_of(self);
  refuse_self(self, method, "a dict");
}

DictValue copied(const DictValue& from) {
  const DictValue copy = make_dict();
  copy.entries->is_set = from.entries->is_set;
  copy.entries->merge(*from.entries);
  return copy;
}

Value run_append(Interpreter&, const Value* self, const Parameters& given) {
  check_stored(*self, given["item"]);
  own_items(self).push_back(given["item"]);
  return {};
}

Value run_extend(Interpreter& in, const Value* self, const Parameters& given) {
  extend(in, *self, given["items"]);
  return {};
}

// dict.pop(key, default).
Value pop_entry(const DictValue& dict, CallValues call) {
  const Parameters given("pop(key, default=)", std::move(call));
  const Value* const found = dict.entries->find(given["key"]);
  if (found == nullptr) {
    if (given.given("default")) return given["default"];
    fail_as("KeyError: " + repr(given["key"]),
            Fix{"give what it is without the key: d.pop(key, None)"}, "pop: the dict has no {}",
            repr(given["key"]));
  }
  const Value value = *found;
  dict.entries->erase(given["key"]);
  return value;
}

Value run_pop(Interpreter&, const Value* self, CallValues call) {
  if (self->is<DictValue>()) return pop_entry(dict_in(self, "pop"), std::move(call));
  Values& items = list_of(self, "pop");
  const Parameters given("pop(index=)", std::move(call));
  const auto size = static_cast<std::int64_t>(items.size());
  std::int64_t index = given.integer_or("index", -1);
  if (index < -size || index >= size) {
    fail_as(size == 0 ? "IndexError: pop from empty list" : "IndexError: pop index out of range",
            Fix{"look first whether the list has it: len(items)"},
            "pop: index {} is out of range for a list of size {}", index, size);
  }
  if (index < 0) index += size;
  Value item = items[static_cast<std::size_t>(index)];
  items.erase(items.begin() + index);
  return item;
}

Value run_index(Interpreter& in, const Value* self, CallValues call) {
  if (self->is<std::string>()) {
    const Value at = find_builtin(text_methods(), "find")->run(in, self, std::move(call));
    if (!equal(at, -1)) return at;
    fail_as("ValueError: substring not found", Fix{"s.find(part) gives -1 where it is not there"},
            "index: the text does not have the part");
  }
  if (!self->is_sequence()) refuse_self(self, "index", "a list or a tuple");
  const Parameters given("index(item)", std::move(call));
  const Values& items = items_of(*self);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equal(items[i], given["item"])) return static_cast<std::int64_t>(i);
  }
  fail_as(self->is<TupleValue>() ? "ValueError: tuple.index(x): x not in tuple"
                                 : "ValueError: " + repr(given["item"]) + " is not in list",
          Fix{"look first whether it is there: if x in items"}, "index: {} is not in the {}",
          repr(given["item"]), kind_name(*self));
}

// A list that Python prints as one of its views of a dict.
Value view_of(Values items, std::string_view name) {
  const Value list = make_list(std::move(items));
  list.as<ListValue>().items->view = name;
  return list;
}

template <FixedText kName, Value (*part)(const Value& key, const Value& value)>
Value run_view(Interpreter&, const Value* self, CallValues) {
  if (!self->is<DictValue>() || is_set(*self)) {
    refuse_self(self, std::string_view(kName).substr(5), "a dict");
  }
  Values out;
  for (const auto& [key, value] : *dict_of(self).entries) out.push_back(part(key, value));
  return view_of(std::move(out), kName);
}
Value view_key(const Value& key, const Value&) { return key; }
Value view_value(const Value&, const Value& value) { return value; }
Value view_entry(const Value& key, const Value& value) { return make_tuple({key, value}); }

Value run_get(Interpreter&, const Value* self, const Parameters& given) {
  const DictValue& dict = dict_of(self);
  const Value* const found = dict.entries->find(given["key"]);
  return found != nullptr ? *found : given["default"];
}

Value run_join(Interpreter& in, const Value* self, const Parameters& given) {
  const std::string& separator = text_of(self);
  std::string out;
  bool first = true;
  for (const Value& item : in.iterate(given["items"])) {
    if (!item.is<std::string>()) {
      fail(Fix{"convert the items first: [str(x) for x in items]"},
           "join: an item is {}, not a str", a_kind(item));
    }
    out += (std::exchange(first, false) ? "" : separator) + item.as<std::string>();
    check_text_size(out.size());
  }
  return out;
}

Value run_insert(Interpreter&, const Value* self, const Parameters& given) {
  Values& all = own_items(self);
  check_stored(*self, given["item"]);
  const auto size = static_cast<std::int64_t>(all.size());
  std::int64_t index = given.integer("index");
  if (index < 0) index += size;
  all.insert(all.begin() + std::clamp<std::int64_t>(index, 0, size), given["item"]);
  return {};
}

Value run_remove_item(Interpreter&, const Value* self, CallValues call) {
  if (is_set(*self)) {
    const Parameters given("remove(item)", std::move(call));
    if (self->as<DictValue>().entries->erase(given["item"])) return {};
    fail_as("KeyError: " + repr(given["item"]), Fix{"s.discard(x) takes it out where it is there"},
            "remove: {} is not in the set", repr(given["item"]));
  }
  Values& items = list_of(self, "remove");
  const Parameters given("remove(item)", std::move(call));
  const auto found =
      std::ranges::find_if(items, [&](const Value& item) { return equal(item, given["item"]); });
  if (found == items.end()) {
    fail_as("ValueError: list.remove(x): x not in list",
            Fix{"look first whether it is there: if x in items"}, "remove: {} is not in the list",
            repr(given["item"]));
  }
  items.erase(found);
  return {};
}

Value run_reverse(Interpreter&, const Value* self, const Parameters&) {
  std::ranges::reverse(own_items(self));
  return {};
}

Value run_sort(Interpreter& in, const Value* self, CallValues call) {
  Values& items = list_of(self, "sort");
  call.positional.insert(call.positional.begin(), *self);
  items = items_of(find_function("sorted")->run(in, nullptr, std::move(call)));
  return {};
}

Value run_clear(Interpreter&, const Value* self, const Parameters&) {
  if (const auto* dict = self->get<DictValue>()) {
    dict->entries->clear();
  } else {
    list_of(self, "clear").clear();
  }
  return {};
}

Value run_copy(Interpreter&, const Value* self, const Parameters&) {
  if (!self->is<DictValue>()) return make_list(list_of(self, "copy"));
  return copied(self->as<DictValue>());
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

// count() of a list, a tuple or a string.
Value run_count(Interpreter&, const Value* self, const Parameters& given) {
  if (const auto* text = self->get<std::string>()) {
    const std::string part = given.text("item");
    if (part.empty()) given.refuse("item", "a text that is not empty", "\"a\"");
    return static_cast<std::int64_t>(count_of(*text, part));
  }
  if (!self->is_sequence()) refuse_self(self, "count", "a list, a tuple or a string");
  return static_cast<std::int64_t>(std::ranges::count_if(
      items_of(*self), [&](const Value& item) { return equal(item, given["item"]); }));
}

Value run_setdefault(Interpreter&, const Value* self, const Parameters& given) {
  const DictValue& dict = dict_of(self);
  if (dict.entries->find(given["key"]) == nullptr) store(dict, given["key"], given["default"]);
  return *dict.entries->find(given["key"]);
}

void check_set(const Value* self, std::string_view method) {
  if (!is_set(*self)) refuse_self(self, method, "a set");
}

Value set_of(Interpreter& in, const Value& items) {
  const Value made = make_set({});
  extend(in, made, items);
  return made;
}

Value run_add(Interpreter&, const Value* self, const Parameters& given) {
  store(self->as<DictValue>(), given["item"], {});
  return {};
}

Value run_discard(Interpreter&, const Value* self, const Parameters& given) {
  set_in(self).erase(given["item"]);
  return {};
}

Value run_union(Interpreter& in, const Value* self, CallValues call) {
  check_set(self, "union");
  const Value made = copied(self->as<DictValue>());
  for (const Value& other : call.positional) extend(in, made, other);
  return made;
}

Value run_intersection(Interpreter& in, const Value* self, CallValues call) {
  check_set(self, "intersection");
  if (call.positional.empty()) return copied(self->as<DictValue>());
  Value made = *self;
  for (const Value& other : call.positional) {
    const DictEntries& before = *made.as<DictValue>().entries;
    const Value both = make_set({});
    DictEntries& kept = *both.as<DictValue>().entries;
    if (is_set(other)) {
      intersect(before, *other.as<DictValue>().entries, kept);
    } else {
      for (const Value& item : in.iterate(other)) {
        if (before.find(item) != nullptr) kept.set(item, {});
      }
    }
    made = both;
  }
  return made;
}

Value run_difference(Interpreter& in, const Value* self, CallValues call) {
  check_set(self, "difference");
  const DictEntries& own = set_in(self);
  if (call.positional.empty() || !call.positional[0].is<DictValue>()) {
    const DictValue made = copied(self->as<DictValue>());
    for (const Value& other : call.positional) {
      made.entries->subtract(*set_of(in, other).as<DictValue>().entries);
    }
    return made;
  }
  const Value made = make_set({});
  DictEntries& left = *made.as<DictValue>().entries;
  difference(own, *call.positional[0].as<DictValue>().entries, left);
  for (std::size_t i = 1; i < call.positional.size(); ++i) {
    left.subtract(*set_of(in, call.positional[i]).as<DictValue>().entries);
  }
  return made;
}

Value run_symmetric_difference(Interpreter& in, const Value* self, const Parameters& given) {
  const Value made = set_of(in, given["other"]);
  made.as<DictValue>().entries->toggle(set_in(self));
  return made;
}

template <ast::CompareOp kOp>
Value run_set_compares(Interpreter& in, const Value* self, const Parameters& given) {
  return in.truth(in.compare(kOp, *self, set_of(in, given["other"])));
}
Value run_isdisjoint(Interpreter& in, const Value* self, CallValues call) {
  return !in.truth(run_intersection(in, self, std::move(call)));
}

Value run_popitem(Interpreter&, const Value* self, const Parameters&) {
  DictEntries& entries = *dict_of(self).entries;
  if (entries.empty()) {
    fail_as("KeyError: 'popitem(): dictionary is empty'",
            Fix{"look first whether it is empty: if d"}, "popitem: the dict is empty");
  }
  const auto& [key, value] = *std::prev(entries.end());
  const Value last = make_tuple({key, value});
  entries.erase(items_of(last)[0]);
  return last;
}

std::vector<Builtin> joined(std::vector<Builtin> own) {
  const BuiltinTable more = text_methods();
  own.insert(own.end(), more.begin(), more.end());
  return own;
}

Value run_update(Interpreter& in, const Value* self, CallValues call) {
  if (is_set(*self)) {
    for (const Value& more : call.positional) extend(in, *self, more);
    return {};
  }
  const DictValue& dict = dict_in(self, "update");
  const Parameters given("update(other=, **)", std::move(call));
  if (given.has("other")) {
    const auto* other = given["other"].get<DictValue>();
    if (other == nullptr) given.refuse("other", "a dict", "{\"a\": 1}");
    for (const auto& [key, value] : *other->entries) store(dict, key, value);
  }
  for (const auto& [key, value] : given.others()) store(dict, key, value);
  return {};
}

// numel() of a shape: the number of elements.
Value run_shape_numel(Interpreter&, const Value* self, const Parameters&) {
  const auto dims = dims_of(*self);
  if (!dims) refuse_self(self, "numel", "a tensor or its shape");
  return product(*dims);
}

constexpr std::string_view kBlanks = " \t\n\r\f\v";

// Without the characters at its ends, or at one of them.
template <bool kLeft, bool kRight>
Value run_strip(Interpreter&, const Value* self, const Parameters& given) {
  std::string_view text = text_of(self);
  const std::string own = given.text_or("characters", std::string(kBlanks));
  while (kLeft && !text.empty() && own.find(text.front()) != own.npos) text.remove_prefix(1);
  while (kRight && !text.empty() && own.find(text.back()) != own.npos) text.remove_suffix(1);
  return std::string(text);
}

Value run_split(Interpreter&, const Value* self, const Parameters& given) {
  const std::string& text = text_of(self);
  std::int64_t left = given.integer_or("maxsplit", -1);
  Values parts;
  if (!given.has("separator")) {
    for (std::size_t at = text.find_first_not_of(kBlanks); at != text.npos;) {
      std::size_t end = left-- == 0 ? text.npos : text.find_first_of(kBlanks, at);
      parts.emplace_back(text.substr(at, end - at));
      at = end == text.npos ? end : text.find_first_not_of(kBlanks, end);
    }
    return make_list(std::move(parts));
  }
  const std::string separator = given.text("separator");
  if (separator.empty()) given.refuse("separator", "a text that is not empty", "\",\"");
  std::size_t at = 0;
  for (std::size_t end; left-- != 0 && (end = text.find(separator, at)) != text.npos;) {
    parts.emplace_back(text.substr(at, end - at));
    at = end + separator.size();
  }
  parts.emplace_back(text.substr(at));
  return make_list(std::move(parts));
}

Value run_replace(Interpreter&, const Value* self, const Parameters& given) {
  const std::string& text = text_of(self);
  const std::string old = given.text("old"), by = given.text("new");
  if (old.empty()) given.refuse("old", "a text that is not empty", "\"a\"");
  std::string out;
  std::size_t at = 0;
  for (std::size_t next = text.find(old); next != text.npos; next = text.find(old, at)) {
    out += text.substr(at, next - at) + by;
    check_text_size(out.size());
    at = next + old.size();
  }
  return out + text.substr(at);
}

Value run_format(Interpreter&, const Value* self, CallValues call) {
  if (!self->is<std::string>()) refuse_self(self, "format", "a string");
  return formatted(text_of(self), call);
}

Value run_startswith(Interpreter&, const Value* self, const Parameters& given) {
  return text_of(self).starts_with(given.text("prefix"));
}

Value run_endswith(Interpreter&, const Value* self, const Parameters& given) {
  return text_of(self).ends_with(given.text("suffix"));
}

}  // namespace

BuiltinTable container_methods() {
  static const std::vector<Builtin> kTable = joined({
      {"add", "a set or a tensor: (item)", run_add},
      {"append", "a list: (item)", run_append},
      {"clear", "()", run_clear},
      {"copy", "()", run_copy},
      {"count", "(item)", run_count},
      {"discard", "a set: (item)", run_discard},
      {"endswith", "a string: (suffix)", run_endswith},
      {"extend", "a list: (items)", run_extend},
      {"format", run_format},
      {"get", "a dict: (key, default=)", run_get},
      {"index", run_index},
      {"insert", "a list: (index, item)", run_insert},
      {"items", run_view<"dict_items", view_entry>},
      {"join", "a string: (items)", run_join},
      {"keys", run_view<"dict_keys", view_key>},
      {"lstrip", "a string: (characters=)", run_strip<true, false>},
      {"numel", "()", run_shape_numel},
      {"pop", run_pop},
      {"remove", run_remove_item},
      {"replace", "a string: (old, new)", run_replace},
      {"reverse", "a list: ()", run_reverse},
      {"rstrip", "a string: (characters=)", run_strip<false, true>},
      {"setdefault", "a dict: (key, default=)", run_setdefault},
      {"sort", run_sort},
      {"split", "a string: (separator=, maxsplit=)", run_split},
      {"startswith", "a string: (prefix)", run_startswith},
      {"strip", "a string: (characters=)", run_strip<true, true>},
      {"update", run_update},
      {"values", run_view<"dict_values", view_value>},
      {"popitem", "a dict: ()", run_popitem},

      {"union", run_union},
      {"intersection", run_intersection},
      {"difference", run_difference},
      {"symmetric_difference", "a set: (other)", run_symmetric_difference},
      {"issubset", "a set: (other)", run_set_compares<ast::CompareOp::kLessEqual>},
      {"issuperset", "a set: (other)", run_set_compares<ast::CompareOp::kGreaterEqual>},
      {"isdisjoint", run_isdisjoint},
  });
  return kTable;
}

}  // namespace shardlab
