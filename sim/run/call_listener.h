// call_listener.h - hears what all ranks of a run do, call by call.
#pragma once

#include <cstdint>

namespace shardlab {

class Observer;

class CallListener {
 public:
  virtual ~CallListener() = default;
  /// What the rank tells from here on; passes everything on to `next`, which outlives it or is
  /// null. Once per rank, before its program.
  virtual Observer& listen(std::int64_t rank, Observer* next) = 0;
  /// At the end of a rank's program.
  virtual void finish(std::int64_t rank) = 0;
};

}  // namespace shardlab
