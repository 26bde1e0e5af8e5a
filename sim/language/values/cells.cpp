// A variable that is destroyed puts its value into a list, which the first of nested destructors
// empties.
#include "sim/language/values/cells.h"

#include <utility>

namespace shardlab {

Cell::Cell(std::shared_ptr<Cells> owner) : owner_(std::move(owner)) {
  owner_->living_.insert(this);
}

Cell::~Cell() {
  owner_->living_.erase(this);
  if (value) owner_->drop(std::move(*value));
}

void Cells::drop(Value value) {
  dropped_.push_back(std::move(value));
  if (std::exchange(dropping_, true)) return;
  while (!dropped_.empty()) {
    const Value last = std::move(dropped_.back());
    dropped_.pop_back();
  }
  dropping_ = false;
}

void Cells::clear() {
  Values values;
  for (Cell* cell : living_) {
    if (cell->value) values.push_back(std::move(*cell->value));
    cell->value.reset();
  }
  for (Value& value : values) drop(std::move(value));
}

}  // namespace shardlab
