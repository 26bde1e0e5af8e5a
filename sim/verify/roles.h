// roles.h - the role of each value of a program, and the things before it that one device cannot
// have, by the text of the program; then the outcome of each. Private to the files that verify and
// judge.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sim/verify/verify.h"

namespace shardlab {

/// Facts that the text does not give.
struct RoleInputs {
  const DefUse* flow = nullptr;
  std::set<std::string> expected;  ///< names of [expect]: types, gradients
  /// Parts that ranks take by their number and that make the value that they are taken out of: they
  /// are pieces, and nothing that follows from a rank.
  std::set<SourceSpan> pieces;
  /// Mesh dims along which one device is one of several, which send each other messages.
  std::set<std::string> kept;
  /// Lines at which an element of a cut dim is taken by a local index.
  std::set<int> cut_elements;
  std::map<std::string, std::string> types = {};  ///< of inputs, by name
};

/// Fills in the facts that the text gives: roles, and what is before each value.
void find_roles(const RoleInputs& inputs, std::vector<ValueReport>& reports);

/// The rows of all values. Those on the way are judged by what is made of them.
void find_outcomes(const DefUse& flow, std::vector<ValueReport>& reports);

/// Leaves out, of the nodes that a name holds after the statement at `begin`, those from before
/// that went into it: a value that shares memory with an earlier one does not lead where that
/// leads.
DefUse::Ids made_from(const DefUse& flow, const DefUse::Ids& held, std::uint32_t begin);

/// Some node is in both, of which `b` is sorted.
bool meet(const DefUse::Ids& a, const DefUse::Ids& b);
/// The nodes of a value.
DefUse::Ids nodes_of(const DefUse& flow, const ValueReport& report);

}  // namespace shardlab
