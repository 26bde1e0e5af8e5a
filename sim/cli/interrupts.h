// interrupts.h - the progress of a long run for a person at a terminal: a line with its place, and
// the same on Ctrl-C.
#pragma once

#include <cstddef>
#include <string>

#include "sim/log/progress.h"

namespace shardlab {

/// Filled by the current run; one a process, since signals are the process's.
Progress& shown_progress();

/// For `test`: while one lives, a scenario of the program's `count` is under way. `name` outlives
/// it. Used by several threads.
class CaseUnderWay {
 public:
  CaseUnderWay(const char* name, std::size_t count);
  ~CaseUnderWay();
  CaseUnderWay& operator=(CaseUnderWay&&) = delete;

 private:
  std::size_t place_;
};

/// From now on Ctrl-C prints the place of the run, and ends the process with 130. Once, at the
/// start.
void report_on_interrupt();

/// While one lives, stderr, if it is a terminal, has a line with the name, the place of the run and
/// its time so far: from two seconds on, every second. Removed in the end.
class ProgressLine {
 public:
  explicit ProgressLine(std::string name);
  ~ProgressLine();
  ProgressLine& operator=(ProgressLine&&) = delete;

 private:
  std::string name_;
  bool shows_;
};

}  // namespace shardlab
