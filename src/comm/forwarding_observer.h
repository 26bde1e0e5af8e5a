// forwarding_observer.h - an observer that is put in front of another one and passes everything on.
// A derived class overrides the functions that it needs, and calls the function of this class in
// each.
#pragma once

#include "comm/observer.h"

namespace shardlab {

/// Used only by the rank whose observer it is. Records are not copied: they are valid during the
/// call only, for the next observer as for this one.
class ForwardingObserver : public Observer {
 public:
  /// `next` outlives this one; null: the chain ends here.
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
  // Changes of placements without an op, and collectives of the program with their tensors.
  void placed(const PlacedRecord& record) override {
    if (next_ != nullptr) next_->placed(record);
  }
  void collective_ends(const CollectiveCall& call) override {
    if (next_ != nullptr) next_->collective_ends(call);
  }
  // Backward: the gradient that runs, and the leaf that has received one.
  void gradient_begins(std::uint64_t sequence) override {
    if (next_ != nullptr) next_->gradient_begins(sequence);
  }
  void gradient_ends() override {
    if (next_ != nullptr) next_->gradient_ends();
  }
  void leaf_written(const DTensor& leaf) override {
    if (next_ != nullptr) next_->leaf_written(leaf);
  }
  // Ops with a distributed tensor, with the decision of propagation for them.
  void op_begins(const OpSchema& schema, const OutputSharding& sharding) override {
    if (next_ != nullptr) next_->op_begins(schema, sharding);
  }
  void op_ends() override {
    if (next_ != nullptr) next_->op_ends();
  }
  // Moves between ranks: plans before they run, collectives as they are entered and waited for.
  void redistribution(const RedistributionRecord& record) override {
    if (next_ != nullptr) next_->redistribution(record);
  }
  void collective(const CollectiveRecord& record) override {
    if (next_ != nullptr) next_->collective(record);
  }
  void collective_waits(const CollectiveRecord& record) override {
    if (next_ != nullptr) next_->collective_waits(record);
  }
  // Messages for the user: an observer that does not pass one on hides it from the report.
  void warning(const std::string& text) override {
    if (next_ != nullptr) next_->warning(text);
  }

 private:
  // Not owned; null at the end of the chain.
  Observer* next_;
};

}  // namespace shardlab
