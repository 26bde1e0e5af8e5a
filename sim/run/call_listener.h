// call_listener.h - hears the calls of all ranks of a run.
#pragma once

#include <cstdint>
#include <vector>

namespace shardlab {

class Observer;
class ProgramCalls;
class SizeTrace;
struct GivenInput;  // sim/run/inputs.h

class CallListener {
 public:
  virtual ~CallListener() = default;
  /// The calls that the rank's program makes, which pass everything on to `next`; both outlive the
  /// program. Once per rank, before listen(), when the inputs exist.
  virtual ProgramCalls& around(std::int64_t rank, ProgramCalls& next,
                               const std::vector<GivenInput>& inputs) {
    static_cast<void>(rank), static_cast<void>(inputs);
    return next;
  }
  /// The trace of sizes that the rank's program reads; null: they are numbers. Called after
  /// around().
  virtual SizeTrace* sizes(std::int64_t rank) {
    static_cast<void>(rank);
    return nullptr;
  }
  /// The observer of the rank from here on; passes everything on to `next`, which outlives it or is
  /// null. Once per rank, before its program.
  virtual Observer& listen(std::int64_t rank, Observer* next) = 0;
  /// At the end of a rank's program.
  virtual void finish(std::int64_t rank) = 0;
};

/// Several listeners that all hear everything; they outlive this one.
class CallListeners final : public CallListener {
 public:
  void add(CallListener& listener) { all_.push_back(&listener); }
  bool empty() const { return all_.empty(); }

  ProgramCalls& around(std::int64_t rank, ProgramCalls& next,
                       const std::vector<GivenInput>& inputs) override {
    ProgramCalls* calls = &next;
    for (CallListener* listener : all_) calls = &listener->around(rank, *calls, inputs);
    return *calls;
  }
  /// The trace of one of them.
  SizeTrace* sizes(std::int64_t rank) override {
    for (CallListener* listener : all_) {
      if (SizeTrace* sizes = listener->sizes(rank)) return sizes;
    }
    return nullptr;
  }
  Observer& listen(std::int64_t rank, Observer* next) override {
    for (CallListener* listener : all_) next = &listener->listen(rank, next);
    return *next;
  }
  void finish(std::int64_t rank) override {
    for (CallListener* listener : all_) listener->finish(rank);
  }

 private:
  std::vector<CallListener*> all_;
};

}  // namespace shardlab
