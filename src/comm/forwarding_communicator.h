// forwarding_communicator.h - a wrapper of a communicator: faults, counts, times. It overrides
// perform(), which every collective passes, and wrap(), which wraps the groups that are made of
// this one; all else, also calls that only shape-only ranks make, reaches the real one.
//
//   class Counting final : public ForwardingCommunicator {
//    public:
//     Counting(std::unique_ptr<Communicator> real, Counts& counts) : ... {}
//     Tensor perform(Call& call) override { counts_.add(call.kind); return real().perform(call); }
//    protected:
//     std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
//       return std::make_unique<Counting>(std::move(part), counts_);
//     }
//   };
//
// Used by its rank alone, like the communicator that it wraps.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace shardlab {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> real) : real_(std::move(real)) {}

  std::int64_t rank() const override { return real_->rank(); }
  std::int64_t size() const override { return real_->size(); }
  std::span<const std::int64_t> ranks() const override { return real_->ranks(); }
  const std::string& name() const override { return real_->name(); }

  Tensor perform(Call& call) override { return real_->perform(call); }
  void compare_answers(const std::function<std::uint64_t(std::int64_t)>& answer) override;
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override;
  std::unique_ptr<Communicator> along(const MeshLayout& layout,
                                      std::span<const std::size_t> mesh_dims) override;
  void abort(const Error& reason) override { real_->abort(reason); }

 protected:
  Communicator& real() { return *real_; }
  /// Around a group made of this one, never null.
  virtual std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) = 0;

 private:
  const std::unique_ptr<Communicator> real_;
};

/// Wraps a rank's communicator of the world. Called on each rank, once; where one rank represents
/// many, once for each that runs.
using CommunicatorDecorator =
    std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;

}  // namespace shardlab
