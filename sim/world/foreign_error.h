// foreign_error.h - an exception of a rank that is not an Error of ours.
#pragma once

#include <exception>
#include <new>

#include "base/error.h"

namespace shardlab {

/// Runtime where memory ran out, which is the program's wish; else Internal.
inline Error foreign_error(const std::exception& exception) {
  const bool out_of_memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
  if (!out_of_memory) return Error(ErrorKind::kInternal, exception.what());
  return Error(ErrorKind::kRuntime, "out of memory")
      .with("fix", "use fewer ranks or smaller tensors");
}

}  // namespace shardlab
