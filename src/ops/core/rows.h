// rows.h - the one form in which families write their ops. A table has a row per op, sorted by
// name. Its in-place and out= variants follow from the row and from ATen's schemas (derived.h):
// they share everything but schema and metadata.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "schema/computation.h"
#include "schema/meta_args.h"
#include "schema/sharding_rule.h"

namespace shardlab {

class OpRegistry;
struct OpRow;

/// The arguments of a call, besides tensors, that decide its sharding (RuntimeSchemaInfo). By
/// default it follows from the schema: every plain positional value, and the keywords that shape a
/// result.
struct Decisive {
  int first = RuntimeSchemaInfo{}.static_argnum;  ///< first positional index that counts
  const char* keyword = nullptr;                  ///< the keyword that counts
};

/// The beginning of a row, and its place: {"add.Tensor"_op, ...}. (Without the ending g++ does not
/// know the line of a text in a long table.)
struct OpText {
  const char* text;
};
constexpr OpText operator""_op(const char* text, std::size_t) { return {text}; }
struct RowText {
  const char* text;
  SourceLine source;

  constexpr RowText(OpText of_row, SourceLine place = {}) : text(of_row.text), source(place) {}
};

struct Row {
  /// "add.Tensor", an op of ATen, whose table has the schema; or the schema itself of an op that
  /// ATen does not have: "shardlab::cbrt(Tensor self) -> Tensor".
  RowText name;
  MetaFn meta = nullptr;
  ShardingRule rule;
  Compute compute;
  Gradient gradient;
  const char* why = "";
  std::uint32_t flags = 0;  ///< OpFlag
  Decisive decisive;
  MeshFilterFn filter = nullptr;
  /// Arguments that hold output 0's shape and stride, which are local when it is sharded (K-30).
  int shape_argument = -1;
  int stride_argument = -1;
};

/// The row of an op that is a program of other ops, which know shapes and placements. `gradient`
/// is for one that is not differentiated through its parts.
constexpr Row composite(RowText name, Compute parts, Gradient gradient, const char* why,
                        std::uint32_t flags = 0) {
  return {name, nullptr, {}, parts, gradient, why, flags};
}
constexpr Row composite(RowText name, Compute parts, const char* why, std::uint32_t flags = 0) {
  return composite(name, parts, {}, why, flags);
}

/// Registers an op and its variants, and returns the op's row. Fails with Internal for a name that
/// ATen does not have, and for a gradient that reads names which the schema does not have.
const OpRow& add_row(OpRegistry& registry, const Row& row);
/// A schema of ATen (aten_schemas.h), with the facts that it leaves out: state that is written,
/// tensors that may be None.
OpDescriptor aten_descriptor(std::string_view schema);
/// An in-place or out= form of a registered op: it shares everything with the op but its schema and
/// the rule, which are given.
void add_variant(OpRegistry& registry, const OpRow& base, OpDescriptor op, ShardingRule rule);
/// All of a table; `flags` count for each of its rows.
void add_rows(OpRegistry& registry, std::span<const Row> rows, std::uint32_t flags = 0);

}  // namespace shardlab
