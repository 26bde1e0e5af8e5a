// Each row is one rule of the reference or one deliberate difference (X in tests/behaviour.md): the
// kind of op, and the text that the message has to contain. An error of any other op, or with any
// other message, is not a refusal.
#include "tests/property/ops_refusals.h"

#include <algorithm>

#include "schema/op_row.h"

namespace shardlab::test {
namespace {

bool says(const Error& error, std::string_view text) {
  return error.summary().find(text) != std::string::npos;
}

/// A refusal by view_placements.cpp: the pieces would have to move, and a view never moves data.
bool is_view_refusal(const Error& error) {
  constexpr std::string_view kTexts[] = {
      "cannot flatten dim", "cannot unflatten dim", "the view removes or reshapes dim",
      "is sharded and has no dim of its own in the view's result", "unbind along dim"};
  return std::ranges::any_of(kTexts, [&](std::string_view text) { return says(error, text); });
}

bool within_composite(const Error& error) { return error.find("part of") != nullptr; }

constexpr RefusalReason kReasons[] = {
    {"outsiders have no results (D-39)", 60,
     [](const OpRow&, const OpsCase& one, const Error& error) {
       return one.outsider && error.kind() == ErrorKind::kUnsupported;
     }},
    {"written in place, but the tensor would have to move (X-13)", 70,
     [](const OpRow& row, const OpsCase&, const Error& error) {
       return row.inplace() && error.kind() == ErrorKind::kRuntime &&
              says(error, "would have to move");
     }},
    {"written in place into terms that cannot be made of the operand (X-2)", 4,
     [](const OpRow& row, const OpsCase&, const Error& error) {
       return row.inplace() && says(error, "can not redistribute from") && says(error, "to P(");
     }},
    {"running statistics that would have to move (X-13)", 40,
     [](const OpRow&, const OpsCase&, const Error& error) {
       return error.kind() == ErrorKind::kRuntime && says(error, "would need running_");
     }},
    {"drawn in place into terms of a sum, by dropout", 10,
     [](const OpRow& row, const OpsCase&, const Error& error) {
       return row.name() == "aten::dropout" &&
              says(error, "aten::bernoulli_.float: written in place");
     }},
    {"rows of a table that are bounded in place would have to move (X-13)", 20,
     [](const OpRow& row, const OpsCase&, const Error& error) {
       return row.name().starts_with("functional::embedding") &&
              says(error, "aten::mul_.Tensor: written in place");
     }},
    {"integers cannot be split into terms of a mean (X-10)", 6,
     [](const OpRow&, const OpsCase&, const Error& error) {
       return error.kind() == ErrorKind::kValue && says(error, "i64 terms on");
     }},
    {"a view that would have to move its input", 75,
     [](const OpRow&, const OpsCase&, const Error& error) {
       return is_view_refusal(error) && !within_composite(error);
     }},
    {"the same within a composite op", 180,
     [](const OpRow& row, const OpsCase&, const Error& error) {
       return row.parts() != nullptr && is_view_refusal(error) && within_composite(error);
     }},
};

}  // namespace

std::span<const RefusalReason> refusal_reasons() { return kReasons; }

const RefusalReason* refusal_reason(const OpRow& row, const OpsCase& one, const Error& error) {
  for (const RefusalReason& reason : kReasons) {
    if (reason.is(row, one, error)) return &reason;
  }
  return nullptr;
}

}  // namespace shardlab::test
