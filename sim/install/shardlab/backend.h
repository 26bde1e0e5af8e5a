// backend.h - headers for authors of backends and of wrappers: the doors, the shared parts of
// backends, and the registry. backends/README.md has an example.
#pragma once

#include "backends/shared/call.h"          // IWYU pragma: export
#include "backends/shared/meeting.h"       // IWYU pragma: export
#include "backends/shared/reduce.h"        // IWYU pragma: export
#include "backends/threads/threads.h"      // IWYU pragma: export
#include "comm/backend.h"                  // IWYU pragma: export
#include "comm/forwarding_communicator.h"  // IWYU pragma: export
#include "sim/world/backends.h"            // IWYU pragma: export
