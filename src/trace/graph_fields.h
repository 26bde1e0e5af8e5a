// graph_fields.h - the fields of one object on a line of a graph: GraphFields takes them one by one
// and refuses one that is not of its kind, out of its range, missing or left over, with its line
// and its path; GraphFieldsOut writes them. Both have the same members, so that one function says
// what an object has. Only for src/trace.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/inline_vector.h"
#include "tensor/scalar.h"
#include "trace/graph_objects.h"

namespace shardlab {

/// Whether a field that holds its default, or an empty list, is written.
enum class Written : std::uint8_t { kIfOther, kAlways };

GraphObject json_of(double value);
GraphObject json_of(const Scalar& scalar);
GraphObject json_of(const auto& items) {
  GraphObject list = GraphObject::array();
  for (const auto& item : items) {
    if constexpr (std::is_same_v<std::decay_t<decltype(item)>, Scalar>) {
      list.push_back(json_of(item));
    } else {
      list.push_back(item);
    }
  }
  return list;
}

/// Writes fields in the order of the calls.
class GraphFieldsOut {
 public:
  void put(const char* key, GraphObject value) { object_[key] = std::move(value); }
  GraphObject object() && { return std::move(object_); }

  void check(bool, std::string_view, std::string_view) {}
  void text(const char* key, const std::string& value) { put(key, value); }
  void text_or_empty(const char* key, const std::string& value) {
    if (!value.empty()) put(key, value);
  }
  void flag(const char* key, bool value, bool otherwise) {
    if (value != otherwise) put(key, value);
  }
  void integer(const char* key, std::int64_t value, std::int64_t, std::int64_t) { put(key, value); }
  void integer(const char* key, std::int64_t value, std::int64_t otherwise, std::int64_t,
               std::int64_t, Written written = Written::kIfOther) {
    if (value != otherwise || written == Written::kAlways) put(key, value);
  }
  void natural(const char* key, std::uint64_t value) { put(key, value); }
  void real(const char* key, double value, double otherwise) {
    if (value != otherwise) put(key, json_of(value));
  }
  void integers(const char* key, const std::vector<std::int64_t>& values, std::int64_t,
                std::int64_t) {
    if (!values.empty()) put(key, values);
  }
  void texts(const char* key, const std::vector<std::string>& values,
             Written written = Written::kIfOther) {
    if (!values.empty() || written == Written::kAlways) put(key, values);
  }
  void sizes(const char* key, const Dims& sizes) { put(key, json_of(sizes)); }
  void scalars(const char* key, const std::vector<Scalar>& values) {
    if (!values.empty()) put(key, json_of(values));
  }
  template <typename Word, typename Parse>
  void word(const char* key, Word value, const Parse&, std::string_view) {
    put(key, to_string(value));
  }
  /// Calls `field` if there is a value.
  template <typename Value, typename Field>
  void optional(const char*, const std::optional<Value>& value, const Field& field) {
    if (value) field(*this, *value);
  }
  /// `write` gives the object of an item, `read` reads one.
  template <typename Items, typename Read, typename Write>
  void items(const char* key, const Items& all, const Read&, const Write& write,
             Written written = Written::kIfOther) {
    if (all.empty() && written == Written::kIfOther) return;
    GraphObject list = GraphObject::array();
    for (const auto& item : all) list.push_back(write(item));
    put(key, std::move(list));
  }
  void object(const char* key, const auto& value, const auto& form) {
    GraphFieldsOut inside;
    form(inside, value);
    put(key, std::move(inside).object());
  }

 private:
  GraphObject object_ = GraphObject::object();
};

/// Refers to the object, which must outlive it. Every refusal is a Value error.
class GraphFields {
 public:
  /// `path`: the place of the object inside of its line, "" for the line itself.
  GraphFields(const GraphObject& object, std::size_t line, std::string path);

  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;
  void check(bool fits, std::string_view key, std::string_view what) const {
    if (!fits) refuse(key, what);
  }

  bool has(const char* key) const { return object_.contains(key); }
  /// Null where there is none.
  const GraphObject* find(const char* key);
  const GraphObject& at(const char* key);
  /// Empty where there is none.
  const GraphObject& list(const char* key);
  std::string text(const char* key);
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most);
  std::vector<std::int64_t> integers(const char* key, std::int64_t least, std::int64_t most);
  Dims sizes(const char* key);
  GraphFields inside(const GraphObject& object, const char* key) const;
  /// Refuses fields that were not taken.
  void end() const;

  // Those that GraphFieldsOut writes.
  void text(const char* key, std::string& value) { value = text(key); }
  void text_or_empty(const char* key, std::string& value) { value = has(key) ? text(key) : ""; }
  void flag(const char* key, bool& value, bool otherwise);
  template <typename Integer>
  void integer(const char* key, Integer& value, std::int64_t least, std::int64_t most) {
    value = static_cast<Integer>(integer(key, least, most));
  }
  template <typename Integer>
  void integer(const char* key, Integer& value, std::int64_t otherwise, std::int64_t least,
               std::int64_t most, Written = Written::kIfOther) {
    value = static_cast<Integer>(has(key) ? integer(key, least, most) : otherwise);
  }
  void natural(const char* key, std::uint64_t& value);
  void real(const char* key, double& value, double otherwise);
  void integers(const char* key, std::vector<std::int64_t>& values, std::int64_t least,
                std::int64_t most) {
    values = integers(key, least, most);
  }
  void texts(const char* key, std::vector<std::string>& values, Written = Written::kIfOther);
  void sizes(const char* key, Dims& value) { value = sizes(key); }
  void scalars(const char* key, std::vector<Scalar>& values) {
    values = scalars_of(list(key), key);
  }
  template <typename Word, typename Parse>
  void word(const char* key, Word& value, const Parse& parse, std::string_view what) {
    const std::optional<Word> parsed = parse(text(key));
    if (!parsed) refuse(key, what);
    value = *parsed;
  }
  template <typename Value, typename Field>
  void optional(const char* key, std::optional<Value>& value, const Field& field) {
    if (has(key)) field(*this, value.emplace());
  }
  template <typename Items, typename Read, typename Write>
  void items(const char* key, Items& all, const Read& read, const Write&,
             Written = Written::kIfOther) {
    for (const GraphObject& json : list(key)) all.push_back(read(*this, json));
  }
  void object(const char* key, auto& value, const auto& form) { read(at(key), key, value, form); }
  void read(const GraphObject& object, const char* key, auto& value, const auto& form) const {
    GraphFields fields = inside(object, key);
    form(fields, value);
    fields.end();
  }

  /// The value of field `key`, as a value of its kind.
  std::int64_t integer_of(const GraphObject& value, const char* key, std::int64_t least,
                          std::int64_t most) const;
  Scalar scalar_of(const GraphObject& value, const char* key) const;
  std::vector<Scalar> scalars_of(const GraphObject& value, const char* key) const;

 private:
  double real_of(const GraphObject& value, const char* key) const;

  const GraphObject& object_;
  std::size_t line_;
  std::string path_;
  std::set<std::string> taken_;
};

}  // namespace shardlab
