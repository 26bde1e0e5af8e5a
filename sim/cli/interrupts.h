// interrupts.h - what a person at a terminal sees of a run that takes long: a line that says where
// it is, and the same on Ctrl-C.
#pragma once

#include <cstddef>
#include <string>

#include "sim/record/progress.h"

namespace shardlab {

/// Filled by the run that goes on; one a process, since signals are the process's.
Progress& shown_progress();

/// Of `test`: while one lives, a scenario of the program's `count` is under way. `name` outlives
/// it. Used by several threads.
class CaseUnderWay {
 public:
  CaseUnderWay(const char* name, std::size_t count);
  ~CaseUnderWay();
  CaseUnderWay(const CaseUnderWay&) = delete;
  CaseUnderWay& operator=(const CaseUnderWay&) = delete;

 private:
  std::size_t place_;
};

/// From now on Ctrl-C says where the run is, and ends the process with 130. Once, at the start.
void tell_on_interrupt();

/// While one lives, stderr, if it is a terminal, has a line with the name, where the run is and for
/// how long it has run: from two seconds on, every second. Removed in the end.
class ProgressLine {
 public:
  explicit ProgressLine(std::string name);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  std::string name_;
  bool shows_;
};

}  // namespace shardlab
