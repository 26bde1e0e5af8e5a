// work.h - a pending result (K-20). Completes on first use of the data, on wait, or on a cast.
#pragma once

#include "base/ref.h"

namespace shardlab {

/// One asynchronous collective of one rank. Used by that rank only.
class Work : public Counted {
 public:
  /// Returns when the result is in place; may be called again. Throws what the collective threw.
  virtual void wait() = 0;
  /// True when wait() would return at once. Never blocks.
  virtual bool done() const = 0;
};

}  // namespace shardlab
