// shardlab.h - all that a program in C++ needs on a rank: tensors, meshes, ops, gradients, and
// calls of ops by name, recording_calls().one("aten::abs", {x}). Runs of many simulated ranks are
// started by sim/world/spmd.h.
#pragma once

#include "api/collectives.h"           // IWYU pragma: export
#include "api/debug_mode.h"            // IWYU pragma: export
#include "api/distribute.h"            // IWYU pragma: export
#include "api/factories.h"             // IWYU pragma: export
#include "api/files.h"                 // IWYU pragma: export
#include "api/groups.h"                // IWYU pragma: export
#include "api/mesh.h"                  // IWYU pragma: export
#include "api/modules.h"               // IWYU pragma: export
#include "api/optimizers.h"            // IWYU pragma: export
#include "api/parallel.h"              // IWYU pragma: export
#include "api/tensor_ops.h"            // IWYU pragma: export
#include "autograd/autograd.h"         // IWYU pragma: export
#include "autograd/custom_function.h"  // IWYU pragma: export
#include "autograd/grad_mode.h"        // IWYU pragma: export
#include "autograd/hooks.h"            // IWYU pragma: export
#include "autograd/tape.h"             // IWYU pragma: export
#include "comm/device_mesh.h"          // IWYU pragma: export
#include "mesh/type_string.h"          // IWYU pragma: export
#include "schema/calls.h"              // IWYU pragma: export
#include "tensor/host.h"               // IWYU pragma: export
