// A capability is asked for, and no backend by name.
#include "backends/shared/stream_device.h"

namespace shardlab::backends {

// The door itself knows nothing of streams: this asks for a capability, not for a backend.
StreamDevice* stream_of(Device& device) { return dynamic_cast<StreamDevice*>(&device); }

}  // namespace shardlab::backends
