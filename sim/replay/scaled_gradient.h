// scaled_gradient.h - the line that gave a gradient a factor, behind which others wrote to it.
#pragma once

#include "sim/replay/taken_values.h"

namespace shardlab {

/// Puts first the line that gave a gradient after the step its factor: the gradient was A's before
/// it, and A does not run its op there. If there is none, the last line that wrote the gradient
/// stays the one that is told. `points`: A's.
void look_for_scale(RecordingBlame& blame, const PointsOfA& points, const ComparedPrograms& both);

}  // namespace shardlab
