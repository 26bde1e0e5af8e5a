// shape_device.h - a device without data: tensors have shapes, strides and sizes, never values.
#pragma once

#include <memory>

#include "tensor/device.h"

namespace shardlab {

/// Type "meta". Kernels and copies do nothing, writes are dropped; reading fails with Unsupported.
/// Holds no memory, however large its Buffers are. Thread-safe.
std::unique_ptr<Device> make_shape_device();

}  // namespace shardlab
