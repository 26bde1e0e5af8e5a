// cells.h - variables of a def that functions inside of it use. They live as long as one of these
// functions does; a function may hold itself through such a variable, and functions may hold each
// other in long chains. Used by one rank.
#pragma once

#include <memory>
#include <optional>
#include <unordered_set>

#include "sim/language/values/value.h"

namespace shardlab {

class Cells;

/// One variable; empty before the first assignment.
struct Cell {
  explicit Cell(std::shared_ptr<Cells> owner);
  ~Cell();
  Cell& operator=(Cell&&) = delete;

  std::optional<Value> value;

 private:
  std::shared_ptr<Cells> owner_;
};

/// The variables of one program.
class Cells : public std::enable_shared_from_this<Cells> {
 public:
  std::shared_ptr<Cell> make() { return std::make_shared<Cell>(shared_from_this()); }
  /// Empties all living variables: when the program has ended they are not read any more, and those
  /// that hold themselves are freed.
  void clear();

 private:
  friend struct Cell;
  // One after the other: a chain of functions is not freed by recursion.
  void drop(Value value);

  std::unordered_set<Cell*> living_;
  Values dropped_;
  bool dropping_ = false;
};

}  // namespace shardlab
