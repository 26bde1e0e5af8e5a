// kernel_args.h - typed access to the arguments of a kernel call. A wrong kind is Internal: the
// dispatcher checks arguments against the schema.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device.h"

namespace shardlab {

/// The argument at schema index `index`.
const Tensor& tensor_arg(const KernelCall& call, std::size_t index);
/// Null for None.
const Tensor* optional_tensor_arg(const KernelCall& call, std::size_t index);
const std::vector<Tensor>& tensor_list_arg(const KernelCall& call, std::size_t index);
const Scalar& scalar_arg(const KernelCall& call, std::size_t index);
/// Null for None and for arguments that the schema does not have.
const Scalar* optional_scalar_arg(const KernelCall& call, std::size_t index);
std::int64_t int_arg(const KernelCall& call, std::size_t index);
/// Null for None, other kinds and absent arguments.
const Dims* optional_dims_arg(const KernelCall& call, std::size_t index);
const std::string* optional_text_arg(const KernelCall& call, std::size_t index);
/// Fails with Value: the number `name` of a law is not `wanted`.
[[noreturn]] void refuse_law(std::string_view op, std::string_view name, double value,
                             std::string_view wanted);
/// `dim` with negative values counted from the end; a 0-dim tensor counts as one dim.
std::size_t wrapped_dim(std::int64_t dim, std::size_t dims);

}  // namespace shardlab
