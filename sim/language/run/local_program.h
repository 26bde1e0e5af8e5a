// local_program.h - the local program of a sharding rule, written in the language of programs: a
// rank's computation of an op on its pieces, collectives included.
//
//   def log_softmax(self, dim, b):
//       most = self.amax([dim], True)
//       for group in b:
//           most = all_reduce(most, "max", group=group)
//       ...
#pragma once

#include <memory>

#include "ops/core/factor_rule.h"
#include "sim/language/syntax/ast.h"

namespace shardlab {

/// The program of an op under the rule of factors `rule`. Its last def computes. A parameter that
/// is named like an argument of the op is that argument, a tensor this rank's piece; one that is
/// named like a letter of the rule is the list of process groups along which the letter's dim is
/// cut in this call, first cut first. The def returns this rank's piece of the result.
///   fails  ScenarioError: something else than defs; a parameter that is neither; an unknown name
FactorProgram local_program(std::shared_ptr<const ast::Program> program, const OpRow& row,
                            const std::string& rule, const OpRegistry& registry);

}  // namespace shardlab
