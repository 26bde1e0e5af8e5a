// op_row.h - an op is one row (src/README.md, "Why these walls"). Columns answer one question each;
// nothing else in the code base switches on op names. Rows are immutable after registration and
// shared by all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "base/source_line.h"
#include "schema/computation.h"
#include "schema/gradient_reads.h"
#include "schema/op_schema.h"
#include "schema/sharding_rule.h"

namespace shardlab {

/// The facts of a row about its op, one column per question of the library; the in-place and out=
/// variants of an op have the same.
struct OpColumns {
  MetaFn meta = nullptr;
  ShardingRule rule;
  MeshFilterFn filter = nullptr;  ///< drops whole-mesh combinations of a rule for one mesh dim
  RuntimeSchemaInfo info;
  Compute compute;
  Gradient gradient;
  std::uint32_t flags = 0;
  /// Runs in place of `compute` on the pieces of a call that the rule decided; null: `compute`
  /// does. Plain tensors are computed by `compute` in any case.
  std::shared_ptr<const PiecesProgram> on_pieces;
  /// The tensor whose position the kernel needs (kNeedsPosition): -1 = output 0, else a tensor
  /// argument index.
  int position_argument = -1;
  /// Arguments that hold output 0's shape and stride, which are local when it is sharded (K-30).
  int shape_argument = -1;
  int stride_argument = -1;
  const char* why = "";
  /// The place where a table has the row; the place of registration (OpRegistry::add) where no
  /// table has it.
  SourceLine source{"", 0};
};

/// An op: its schema and its columns. Filled in by its family, completed by OpRegistry::add, and
/// never changed while ranks run.
struct OpRow : OpColumns {
  OpDescriptor op;
  const OpRow* base = nullptr;  ///< derived rows (in-place, out=, copy): the row that they are
                                ///< derived from

  /// Whether the row carries the flag.
  bool has(OpFlag flag) const { return (flags & flag) != 0; }
  /// Something computes the op. Rows that nothing computes have rules and metadata only; calling
  /// one is Unsupported.
  bool runs() const { return compute.index() != 0; }
  /// The kernel that computes it on one rank; kNone (0) where none does.
  KernelId kernel() const;
  /// Null for ops that are not local views: the results of one share storage with argument 0.
  ViewFn view() const {
    const auto* view = std::get_if<ViewFn>(&compute);
    return view == nullptr ? nullptr : *view;
  }
  /// Null for ops that are not composite.
  PartsFn parts() const;
  /// Other ops compute its pieces: those of a local program, or its parts.
  bool computed_by_program() const {
    return std::holds_alternative<ProgramFn>(compute) || std::holds_alternative<PartsFn>(compute) ||
           std::holds_alternative<RuleOrParts>(compute);
  }
  /// True for a handler whose results need not be the op's.
  bool opaque() const;
  /// Values that its gradient keeps: everything, when the row does not list them.
  const GradientReads& gradient_reads() const { return gradient_reads_; }
  /// "aten::add.Tensor".
  const std::string& name() const { return name_; }
  /// Parsed defaults, one per argument; None where there is no default.
  const Arguments& defaults() const { return defaults_; }
  /// From the descriptor, computed once: the dispatcher reads these on every call.
  bool inplace() const { return inplace_; }
  bool out_variant() const { return out_variant_; }

 private:
  friend class OpRegistry;
  std::string name_;
  Arguments defaults_;
  GradientReads gradient_reads_;
  bool inplace_ = false;
  bool out_variant_ = false;
};

}  // namespace shardlab
