// block_edits.h - edits of a program that change several of its places together. Pure. Private to
// the files that propose edits.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/edit/line_edits.h"

namespace shardlab {

struct Proposal {
  std::vector<TextEdit> edits;  ///< of the program's text, in its order
  std::string what;             ///< "another group"
  bool moves_alone = false;     ///< only places change, or the order in which ranks meet
  std::string_view undoes;      ///< the id of a cause
};

/// The call of a function, or method, with one of these names; null: it is none.
const ast::Call* call_of(const ast::Expression& expression,
                         std::initializer_list<const char*> names);

/// The method that it calls; null: a function, or there is no call.
const ast::Attribute* called_method(const ast::Call* call);
/// The call that a statement is; null: it is none.
const ast::Call* call_alone(const ast::Statement& statement);

/// The place and the ranks along one mesh dim wherever the program reads its rank and the number of
/// all ranks.
std::vector<Proposal> along_dims(const ast::Program& program, const std::vector<std::string>& dims);
/// Distributed tensors all the way, or whole ones, between one place or all places and back.
std::vector<Proposal> at_borders(const ast::Program& program);
/// A branch that only some ranks take gives way to its statements.
std::vector<Proposal> unwrapped(const ast::Program& program);
/// Sends that do not wait, and a send with its receive in one batch.
std::vector<Proposal> of_messages(const ast::Program& program);

}  // namespace shardlab
