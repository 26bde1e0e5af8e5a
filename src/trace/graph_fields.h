// graph_fields.h - the fields of one object on a line of a graph, taken one by one: a field that is
// not of its kind, out of its range, missing or left over is refused with its line and its path.
// Only for src/trace.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/inline_vector.h"
#include "tensor/scalar.h"
#include "trace/graph_objects.h"

namespace shardlab {

/// Refers to the object, which must outlive it. Every refusal is a Value error.
class GraphFields {
 public:
  /// `path`: the place of the object inside of its line, "" for the line itself.
  GraphFields(const GraphObject& object, std::size_t line, std::string path);

  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;

  bool has(const char* key) const { return object_.contains(key); }
  /// Null where there is none.
  const GraphObject* find(const char* key);
  const GraphObject& at(const char* key);
  /// Empty where there is none.
  const GraphObject& list(const char* key);
  std::string text(const char* key);
  std::string text_or(const char* key, std::string otherwise);
  bool flag(const char* key, bool otherwise);
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most);
  std::int64_t integer_or(const char* key, std::int64_t otherwise, std::int64_t least,
                          std::int64_t most);
  std::uint64_t natural(const char* key);
  std::optional<double> real(const char* key);
  std::vector<std::int64_t> integers(const char* key, std::int64_t least, std::int64_t most);
  std::vector<std::string> texts(const char* key);
  Dims sizes(const char* key);
  DType dtype(const char* key);
  GraphFields inside(const GraphObject& object, const char* key) const;
  /// Refuses fields that were not taken.
  void end() const;

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
