// Replaces the backend where it is not built (-Dnccl=disabled).
#include "backends/nccl/nccl.h"
#include "base/error.h"

namespace shardlab::nccl {

namespace {

[[noreturn]] void refuse() {
  fail(ErrorKind::kUnsupported, Fix{"meson configure build -Dnccl=auto, then build again"},
       "this build has no backend nccl");
}

}  // namespace

process::ControlChannel& join() { refuse(); }

std::unique_ptr<Backend> make_backend(CollectiveChecks) { refuse(); }

int device_ordinal() { refuse(); }

std::string libraries() { refuse(); }

std::string launcher(std::int64_t) { refuse(); }

}  // namespace shardlab::nccl
