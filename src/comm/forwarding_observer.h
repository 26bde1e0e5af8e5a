// forwarding_observer.h - an observer that stands in front of another one and passes everything on.
// Who listens in between overrides what it is about, and calls the function of this class in it.
#pragma once

#include "comm/observer.h"

namespace shardlab {

/// Used by the rank whose observer it is, and by no other. What it is told is not copied: records
/// are valid during the call only, for the next observer as for this one.
class ForwardingObserver : public Observer {
 public:
  /// `next` outlives this one; null: nobody is told.
  explicit ForwardingObserver(Observer* next) : next_(next) {}

  // Calls of ops, on plain and on distributed tensors: each begins, then ends or fails.
  void call_begins(const CallRecord& call) override {
    if (next_ != nullptr) next_->call_begins(call);
  }
  void call_ends(const CallRecord& call) override {
    if (next_ != nullptr) next_->call_ends(call);
  }
  void call_fails() override {
    if (next_ != nullptr) next_->call_fails();
  }
  // What changes placements without being an op, and collectives of the program with their tensors.
  void placed(const PlacedRecord& record) override {
    if (next_ != nullptr) next_->placed(record);
  }
  void collective_ends(const CollectiveCall& call) override {
    if (next_ != nullptr) next_->collective_ends(call);
  }
  // Backward: which gradient runs, and which leaf has got one.
  void gradient_begins(std::uint64_t sequence) override {
    if (next_ != nullptr) next_->gradient_begins(sequence);
  }
  void gradient_ends() override {
    if (next_ != nullptr) next_->gradient_ends();
  }
  void leaf_written(const DTensor& leaf) override {
    if (next_ != nullptr) next_->leaf_written(leaf);
  }
  // Ops with a distributed tensor, with what propagation has decided for them.
  void op_begins(const OpSchema& schema, const OutputSharding& sharding) override {
    if (next_ != nullptr) next_->op_begins(schema, sharding);
  }
  void op_ends() override {
    if (next_ != nullptr) next_->op_ends();
  }
  // What moves between ranks: plans before they run, collectives as they are entered and waited
  // for.
  void redistribution(const RedistributionRecord& record) override {
    if (next_ != nullptr) next_->redistribution(record);
  }
  void collective(const CollectiveRecord& record) override {
    if (next_ != nullptr) next_->collective(record);
  }
  void collective_waits(const CollectiveRecord& record) override {
    if (next_ != nullptr) next_->collective_waits(record);
  }
  // What the user should know: an observer that keeps it back hides it from the report.
  void warning(const std::string& text) override {
    if (next_ != nullptr) next_->warning(text);
  }

 private:
  // Not owned; null at the end of the chain.
  Observer* next_;
};

}  // namespace shardlab
