// The question is for a capability, and for no backend by name.
#include "backends/shared/stream_device.h"

namespace shardlab::backends {

// The door itself has no streams: this tests for a capability, not for a backend.
StreamDevice* stream_of(Device& device) { return dynamic_cast<StreamDevice*>(&device); }

}  // namespace shardlab::backends
