// library.h - opens NCCL and the CUDA runtime when a run needs them; nothing is linked, so that a
// program that does not communicate through NCCL pays nothing for it.
#pragma once

#include <cstdint>
#include <string>

#include "backends/nccl/api.h"

namespace shardlab::nccl {

/// The functions, by the names of the system's libraries: libnccl.so.2 and libcudart. A path opens
/// that file instead; where it has CUDA's functions, too (as the tests' double has), they are taken
/// from there. Stays open until the process ends. Fails with Unsupported, naming what is missing
/// and how to get it, and when the library is older than kOldestVersion.
const Api& open_library(const std::string& path);

/// Fails with Unsupported for a library that is older than kOldestVersion.
void check_version(int version);

/// "NCCL 2.28.9, CUDA 12.8, driver for CUDA 13.0".
std::string versions(const Api& api);

/// Throws Runtime with the call's text, the rank and the library's error text for `comm` (which may
/// be null), unless the call succeeded.
void check(const Api& api, Result result, const char* call, std::int64_t rank, Comm comm);
/// Throws Runtime unless the call succeeded.
void check(const Api& api, CudaError error, const char* call, std::int64_t rank);

}  // namespace shardlab::nccl
