#include "schema/op_runs.h"

namespace shardlab {

bool runs(const OpRow& row) {
  return !row.has(kIncomplete) && (row.kernel != KernelId{} || row.view != nullptr ||
                                   row.local != nullptr || row.decompose != nullptr ||
                                   row.handler != HandlerId::kNone || row.user_handler != nullptr);
}

}  // namespace shardlab
