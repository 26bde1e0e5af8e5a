// Typed access to arguments. A wrong kind is a defect of the caller and not of the user: the schema
// has been checked before.
#include "kernels/kernel_args.h"

#include "base/error.h"
#include "base/tensor_dim.h"
#include "kernels/eigen_core.h"

namespace shardlab {

namespace {

template <typename T>
const T* find_arg(const KernelCall& call, std::size_t index) {
  return index < call.args.size() ? std::get_if<T>(&call.args[index]) : nullptr;
}

template <typename T>
const T& require_arg(const KernelCall& call, std::size_t index, const char* what) {
  const T* found = find_arg<T>(call, index);
  check_invariant(found != nullptr, what);
  return *found;
}

}  // namespace

void eigen_refused(const char* condition) {
  fail(ErrorKind::kInternal, Fix{"let the metadata of the op's row refuse such operands"},
       "a kernel met operands that do not fit together: {}", condition);
}

const Tensor& tensor_arg(const KernelCall& call, std::size_t index) {
  return require_arg<Tensor>(call, index, "a kernel argument is a tensor");
}

const Tensor* optional_tensor_arg(const KernelCall& call, std::size_t index) {
  const Tensor* found = find_arg<Tensor>(call, index);
  return found != nullptr && found->defined() ? found : nullptr;
}

const std::vector<Tensor>& tensor_list_arg(const KernelCall& call, std::size_t index) {
  return require_arg<std::vector<Tensor>>(call, index, "a kernel argument is a tensor list");
}

const Scalar& scalar_arg(const KernelCall& call, std::size_t index) {
  return require_arg<Scalar>(call, index, "a kernel argument is a number");
}

const Scalar* optional_scalar_arg(const KernelCall& call, std::size_t index) {
  return find_arg<Scalar>(call, index);
}

std::int64_t int_arg(const KernelCall& call, std::size_t index) {
  return scalar_arg(call, index).to_int();
}

const Dims* optional_dims_arg(const KernelCall& call, std::size_t index) {
  return find_arg<Dims>(call, index);
}

const std::string* optional_text_arg(const KernelCall& call, std::size_t index) {
  return find_arg<std::string>(call, index);
}

void refuse_law(std::string_view op, std::string_view name, double value, std::string_view wanted) {
  fail(Fix{"choose a number that the law has"}, "{}: {} is {}; it must be {}", op, name, value,
       wanted);
}

std::size_t wrapped_dim(std::int64_t dim, std::size_t dims) {
  return static_cast<std::size_t>(wrap_dim(dim, dims));
}

}  // namespace shardlab
