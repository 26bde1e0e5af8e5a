// stack_overflow.h - a rank that runs over the end of its fiber's stack is reported as such.
#pragma once

#include <cstddef>
#include <memory>

namespace shardlab {

class StackPool;

/// Faults in the guards of these stacks are reported on stderr, with the rank, before the program
/// ends as it would have: by the former handler of the signal, at first the system's. Any thread;
/// stacks that are made or freed while another thread faults may be missed. Up to 64 pools at a
/// time.
void watch_guards(const StackPool& stacks);
void forget_guards(const StackPool& stacks);

/// While one lives, the calling thread can report: it has a stack for the handler.
class OverflowWatch {
 public:
  OverflowWatch();
  ~OverflowWatch();
  OverflowWatch& operator=(OverflowWatch&&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;  ///< null if the thread has such a stack already
};

}  // namespace shardlab
