// trace.h - programs as graphs, and headers for programs that are compared with scenarios: inputs
// as scenarios draw them, planners, links and rules of a run, digests of final values. Also for
// captures of programs in another language: its functions on groups, hooks of its modules on
// backward, and texts of objects as expressions.
#pragma once

#include "api/digests.h"           // IWYU pragma: export
#include "api/inputs.h"            // IWYU pragma: export
#include "api/make_tensor.h"       // IWYU pragma: export
#include "api/traced_functions.h"  // IWYU pragma: export
#include "autograd/program.h"      // IWYU pragma: export
#include "dispatch/all_ops.h"      // IWYU pragma: export
#include "ops/core/factor_rule.h"  // IWYU pragma: export
#include "propagate/propagator.h"  // IWYU pragma: export
#include "shardlab/shardlab.h"     // IWYU pragma: export
#include "trace/backward_hooks.h"  // IWYU pragma: export
#include "trace/capture.h"         // IWYU pragma: export
#include "trace/digest.h"          // IWYU pragma: export
#include "trace/emitter.h"         // IWYU pragma: export
#include "trace/traced_capture.h"  // IWYU pragma: export
