// value_drain.h - values of a run whose elements nobody needs any more: they are let go while the
// program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mesh/dtensor.h"

namespace shardlab {

struct RecordedValue;

/// Names that get one value, at the top of a program, which keeps it to its end without using it.
struct UnusedNames {
  std::unordered_set<std::string> all;
  /// Those that a statement and all behind it do not mention, by the offset at which it begins.
  std::unordered_map<std::uint32_t, std::vector<std::string>> from;
};

/// Hears of the values that ranks keep, and knows which of them may go. All ranks call at a time.
class ValueDrain {
 public:
  virtual ~ValueDrain() = default;
  /// `index`: of the value among those of the rank.
  virtual void kept(std::size_t rank, std::size_t index, const RecordedValue& value) = 0;
  /// Whether nobody will look at the elements of this value again.
  virtual bool is_spent(std::size_t rank, std::size_t index) const = 0;
  virtual const UnusedNames& unused() const = 0;
};

/// The elements are gone, and must not be read. Shape and counted bytes stay.
void let_go(const Tensor& tensor);

/// Whether they are the same types and the same bytes; a value that is let go has not changed.
bool same_elements(const Tensor& before, const Tensor& now);

/// A value of a program, and the record of it.
struct HeldValue {
  DTensor own;                      ///< as the program holds it
  DTensor recorded;                 ///< a snapshot
  std::size_t rank = 0, index = 0;  ///< of the record
};

/// Program values that no statement will use. They still count for the rank, which alone uses this.
class UnusedValues {
 public:
  void add(HeldValue value);
  /// Lets go of values that are spent and whose memory nothing else holds, as backward does.
  void let_go(const ValueDrain& drain);

 private:
  std::vector<HeldValue> waiting_;
};

}  // namespace shardlab
