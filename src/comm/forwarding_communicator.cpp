// Ranks outside of a new group have no communicator to wrap.
#include "comm/forwarding_communicator.h"

namespace shardlab {

void ForwardingCommunicator::compare_answers(
    const std::function<std::uint64_t(std::int64_t)>& answer) {
  real_->compare_answers(answer);
}

std::unique_ptr<Communicator> ForwardingCommunicator::split(std::int64_t color, std::int64_t key,
                                                            std::string name) {
  std::unique_ptr<Communicator> part = real_->split(color, key, std::move(name));
  return part ? wrap(std::move(part)) : nullptr;
}

std::unique_ptr<Communicator> ForwardingCommunicator::along(
    const MeshLayout& layout, std::span<const std::size_t> mesh_dims) {
  std::unique_ptr<Communicator> part = real_->along(layout, mesh_dims);
  return part ? wrap(std::move(part)) : nullptr;
}

}  // namespace shardlab
