// exchange.h - one collective as NCCL's calls: packing before, the calls that are posted, and the
// final steps when it is over.
#pragma once

#include <functional>
#include <vector>

#include "backends/nccl/communicator.h"
#include "backends/nccl/group.h"
#include "backends/shared/call.h"

namespace shardlab::nccl {

/// Packed and ready to be posted. `held` lives until the exchange is over.
struct Exchange {
  std::vector<GroupCall> calls;    ///< NCCL's, as one group; none: nothing moves
  std::function<Tensor()> finish;  ///< when they are over: unpacks, reduces; the result
  std::vector<Tensor> held;
};

/// Plans a kind whose result is one tensor, which has this shape. Checked by Communicator.
Exchange plan_exchange(Session& session, const GroupPlace& place, const backends::Call& call,
                       const Dims& shape);
/// Plans a batch; results are stored in its part when finished, the tensor is undefined.
Exchange plan_batch(Session& session, const GroupPlace& place, backends::Call& call);

}  // namespace shardlab::nccl
