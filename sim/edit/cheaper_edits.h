// cheaper_edits.h - edits of a program that may spare moves and collectives, by what its run moved:
// one redistribution for several, none, another placement of an input, a piece in place of a slice
// of what was gathered. None is known to hold or to help before it has been tried.
#pragma once

#include <string>
#include <vector>

#include "sim/edit/block_edits.h"
#include "sim/judge/scenario_run.h"

namespace shardlab {

// The statements of a program with the loops and defs around them, and edits
// that move or drop whole statements. Pure. Private to the files that propose edits.

/// A statement and where it is.
struct StatementPlace {
  const ast::Statement* statement = nullptr;
  const ast::Statement* loop = nullptr;  ///< the outermost one around it in its def
  SourceSpan scope;                      ///< the def's, or the program's
};

class ProgramPlaces {
 public:
  /// `program` outlives this.
  explicit ProgramPlaces(const ast::Program& program);

  std::int64_t line_of(std::uint32_t offset) const { return program_.source->place(offset).line; }
  void each_expression(const std::function<void(const ast::Expression&)>& visit) const;
  /// The statement that holds a place of the text; null: it is before all.
  const StatementPlace* at(std::uint32_t offset) const;
  /// A name that the program does not have, made of another.
  std::string fresh(const std::string& name) const;
  /// The statement in a line of its own in front of another one.
  TextEdit inserted(const ast::Statement& before, const std::string& statement) const;
  /// The lines of a statement that ends at `last`; none where it shares one.
  std::optional<TextEdit> without(const ast::Statement& statement, std::uint32_t last) const;

  const ProgramText text;
  const std::vector<Token> tokens;
  std::vector<StatementPlace> all;

 private:
  void collect(const ast::Block& block, const ast::Statement* loop, SourceSpan scope);

  const ast::Program& program_;
};

/// The call of this method, whatever its object; null: it is none.
const ast::Attribute* method_of(const ast::Expression& expression, const char* name);

struct CheaperEdit {
  std::vector<TextEdit> edits;  ///< of the program's text, in its order
  std::string input, type;      ///< an input and its type then; empty: inputs stay
  std::string what;             ///< "one redistribute(tp=R)"
  std::string spares;           ///< edits that spare the same: the best of them is enough
  std::string within = {};      ///< a name that may hold another value on the way
  bool of_pieces = false;       ///< one device may compute something else, too
  std::vector<std::string> placings = {};  ///< other layouts of a recording
  std::string where = {};                  ///< the user's line that the first is about
};

/// Each once; those that may spare most come first.
std::vector<CheaperEdit> cheaper_edits(const ScenarioResult& result);
/// Those that ask for a rank's own piece, or none, of what a collective gives to all; some twice.
std::vector<CheaperEdit> pieces_for_wholes(const ProgramPlaces& places);

}  // namespace shardlab
