// resample.h - common parts of resampling and pooling: they change the sizes of the last dims, and
// not those of samples and channels, which are in front. Pure.
#pragma once

#include <cstddef>

#include "schema/meta_args.h"

namespace shardlab {

/// Number of last dims that change: "upsample_nearest2d", "_adaptive_avg_pool3d_backward".
std::size_t spatial_dims(const OpDescriptor& op);

/// fails  Value: fewer dims than `least`, or more than samples, channels and sizes
void require_dims(const MetaArgs& args, const TensorMeta& self, std::size_t least);

/// The gradient has the sizes of its result.
///   fails  Value
void require_gradient(const MetaArgs& args, const TensorMeta& gradient, const Dims& sizes);

/// The front of `like`, and these sizes. Dense inputs with channels innermost keep them there.
TensorMeta resized(const TensorMeta& like, const Dims& sizes);

/// The reason for their rows.
inline constexpr const char* kLinearMap = "linear, and samples and channels go by themselves";

}  // namespace shardlab
