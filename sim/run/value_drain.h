// value_drain.h - values of a run whose elements nobody needs any more: they are let go while the
// program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "mesh/dtensor.h"

namespace shardlab {

struct RecordedValue;

/// Names that only statements at the top of a program mention, which keeps the last value of each
/// to its end without using it.
struct UnusedNames {
  std::unordered_set<std::string> all;
  /// Those that a statement and all behind it do not mention, by the offset at which it begins.
  std::unordered_map<std::uint32_t, std::vector<std::string>> from;
};

/// Hears of the values that ranks keep, and knows which of them may go. All ranks call at a time.
class ValueDrain {
 public:
  virtual ~ValueDrain() = default;
  /// A value that a name got, or that it holds when nothing will use or change it any more.
  virtual void kept(std::size_t rank, const RecordedValue& value) = 0;
  /// Whether nobody will look at the elements of this value again.
  virtual bool is_spent(std::size_t rank, const DTensor& value) const = 0;
  virtual const UnusedNames& unused() const = 0;
};

/// The elements are gone, and must not be read. Shape and counted bytes stay.
void let_go(const Tensor& tensor);
bool is_gone(const Tensor& tensor);

/// Whether they are the same types and the same bytes. A value that was let go as part of its
/// memory has not changed; the program's own is compared with what is known of one that went alone.
bool same_elements(const Tensor& before, const Tensor& now);

/// A value of a program, and the record of it.
struct HeldValue {
  std::string name;
  DTensor own;                                               ///< as the program holds it
  DTensor recorded;                                          ///< a snapshot
  std::uint64_t version = own.local().storage()->version();  ///< of its memory, when recorded
  bool unused = false;
};

/// Program values of one rank that no statement will use some time. They still count for the rank,
/// which alone uses this.
class UnusedValues {
 public:
  using IsSpent = std::function<bool(const DTensor& recorded)>;
  /// Records the value as it is now, behind all writes in place.
  using Ends = std::function<DTensor(const HeldValue& value)>;

  /// The name has no other value from now on.
  void add(HeldValue value);
  /// No statement uses it from now on.
  void is_unused(const std::string& name);
  /// Lets go of records that are spent and whose memory the program has written to, and of unused
  /// values whose memory nothing else holds, as backward does, once their last records are spent.
  void let_go(const IsSpent& is_spent, const Ends& ends);
  /// The number of values that let_go() looks at.
  std::size_t size() const { return waiting_.size() + replaced_.size(); }

 private:
  // Values of one memory; whether they are gone.
  bool let_go_together(std::span<HeldValue* const> values, const IsSpent& is_spent,
                       const Ends& ends);

  std::unordered_map<std::string, HeldValue> waiting_;  // by name
  std::vector<DTensor> replaced_;  // recorded, of names that have another value now
};

}  // namespace shardlab
