// op_registry.h - all rows, by name. Its users need not know the columns of a row.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/source_line.h"
#include "schema/computation.h"
#include "schema/sharding_rule.h"

namespace shardlab {

struct OpRow;

/// All rows, by name. Filled by explicit calls (register_all_ops in ops/); a test builds its own.
/// Read-only and thread-safe afterwards.
class OpRegistry {
 public:
  OpRegistry();
  ~OpRegistry();
  OpRegistry(OpRegistry&&) noexcept;  // rows stay where they are
  OpRegistry& operator=(OpRegistry&&) noexcept;
  /// Fails with Internal for a duplicate name. The stored row's address is stable. A row without a
  /// source gets that of the row it is derived from, or of this call.
  const OpRow& add(OpRow row, SourceLine added = {});
  /// Gives a registered op and the variants derived from it another rule; before ranks run. Fails
  /// as at(). With a program that computes on pieces nothing else computes where the rule decides:
  /// no handler, and no parts of a composite op. Ops on lists that apply it to each element keep
  /// their own.
  ///   fails  Unsupported: a program for an op that gives views or draws numbers
  void set_rule(std::string_view name, ShardingRule rule, PiecesProgram program = nullptr);
  /// Gives a registered op, without its variants, a handler; before ranks run. Fails as at().
  void set_handler(std::string_view name, Handler handler);
  /// A copy of `text` that lives as long as the registry: rows point to the text of their rule.
  const char* keep(std::string text);
  /// "aten::add.Tensor", "add.Tensor", "aten.add.Tensor"; the default overload may be spelled
  /// ".default" or left out. Null when unknown.
  const OpRow* find(std::string_view name) const;
  /// The same as find; an unknown op is Unsupported and names the nearest registered ones.
  const OpRow& at(std::string_view name) const;
  /// Overloads of a base name ("aten::sum" or "sum"), in registration order. Lives as long as the
  /// registry, until the next add.
  const std::vector<const OpRow*>& overloads(std::string_view base) const;
  /// In registration order.
  const std::vector<const OpRow*>& rows() const { return order_; }

 private:
  OpRow& mutable_row(std::string_view name);

  std::vector<std::unique_ptr<OpRow>> storage_;
  std::deque<std::string> texts_;
  std::vector<const OpRow*> order_;
  // Names differ in length and at their end. This finds names that every gradient looks up sooner
  // than the library's hash of the whole.
  struct NameHash {
    std::size_t operator()(std::string_view name) const;
  };

  // The names are those of the rows, which do not move.
  std::unordered_map<std::string_view, const OpRow*, NameHash> by_name_;
  std::unordered_map<std::string_view, std::vector<const OpRow*>, NameHash> by_base_;
};

}  // namespace shardlab
