// view_rows.h - the view family: ops that only rename or regroup dims. One candidate each, computed
// from the input's placements over the whole mesh; a view never moves data, its copying relatives
// may gather.
#pragma once

#include "schema/op_row.h"

namespace shardlab {

void register_views(OpRegistry& registry);

}  // namespace shardlab
