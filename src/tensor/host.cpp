// Values leave and enter a device as one packed copy, and are converted on the host; those that are
// there already, in order, are converted in place.
#include "tensor/host.h"

#include <cstring>

#include "base/error.h"
#include "tensor/visit_elements.h"

namespace shardlab {

bool on_host(const Tensor& tensor) { return tensor.device()->type() == "cpu"; }

const std::byte* first_byte(const Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.storage()->buffer()->data()) +
         tensor.offset() * item_bytes(tensor.dtype());
}

std::vector<std::byte> read_bytes(const Tensor& tensor) {
  Device& device = *tensor.device();
  // Refused before memory is made for bytes that nobody has.
  if (device.shape_only()) device.read(tensor, nullptr);
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
  device.read(tensor, bytes.data());
  return bytes;
}

std::span<const std::byte> bytes_of(const Tensor& tensor, std::vector<std::byte>& copy) {
  if (on_host(tensor) && tensor.contiguous() && tensor.numel() > 0)
    return {first_byte(tensor), static_cast<std::size_t>(tensor.size_bytes())};
  copy = read_bytes(tensor);
  return copy;
}

namespace {

// Calls visit(T{}) with the type that stores truth values, reals and parts of complex numbers.
void with_stored_type(DType dtype, const auto& visit) {
  const bool known = visit_elements(dtype, [&](auto example) {
    using T = decltype(example);
    if constexpr (std::is_same_v<T, bool>) {
      visit(std::uint8_t{});
    } else if constexpr (kIsComplex<T>) {
      visit(typename T::value_type{});
    } else {
      visit(example);
    }
  });
  if (known) return;
  fail(ErrorKind::kUnsupported, Fix{"cast the tensor to a dtype of 32 or 64 bits first"},
       "values of dtype {} cannot be read or written", to_string(dtype));
}

template <typename T>
double widen(T value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<double>(to_float(value));
  }
}

template <typename T>
T narrow_to(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, Float8E4M3>) {
    return to_float8(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

std::size_t numbers_in(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * (is_complex(tensor.dtype()) ? 2 : 1);
}

template <typename Out, typename Convert>
std::vector<Out> read_as(const Tensor& tensor, Convert convert) {
  std::vector<std::byte> copy;
  const std::byte* bytes = bytes_of(tensor, copy).data();
  std::vector<Out> values(numbers_in(tensor));
  with_stored_type(tensor.dtype(), [&](auto example) {
    using T = decltype(example);
    for (std::size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
      values[i] = convert(value);
    }
  });
  return values;
}

template <typename In, typename Convert>
void write_as(const Tensor& tensor, std::span<const In> values, Convert convert) {
  if (values.size() != numbers_in(tensor)) {
    fail(ErrorKind::kValue, Fix{"give one number per element, and two per complex one"},
         "{} numbers are to be written to {} elements of {}", values.size(), tensor.numel(),
         to_string(tensor.dtype()));
  }
  with_stored_type(tensor.dtype(), [&](auto example) {
    using T = decltype(example);
    if (on_host(tensor) && tensor.contiguous() && tensor.numel() > 0) {
      auto* to = static_cast<T*>(tensor.storage()->writable()->data()) +
                 tensor.offset() * static_cast<std::int64_t>(values.size()) / tensor.numel();
      for (std::size_t i = 0; i < values.size(); ++i) to[i] = convert(example, values[i]);
      return;
    }
    std::vector<T> stored(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) stored[i] = convert(example, values[i]);
    tensor.device()->write(tensor, stored.data());
  });
}

void check_integral(const char* function, const char* instead, const Tensor& tensor) {
  if (is_integral(tensor.dtype())) return;
  fail(ErrorKind::kValue, Fix{instead}, "{}: the elements are {}, no integers", function,
       to_string(tensor.dtype()));
}

}  // namespace

Scalar read_scalar(const Tensor& tensor) {
  if (tensor.numel() != 1) {
    fail(ErrorKind::kValue, Fix{"index it or reduce it first: x[0], x.sum()"},
         "a tensor of {} elements is not one number; it must have exactly 1 element",
         tensor.numel());
  }
  if (tensor.dtype() == DType::kBool) return Scalar(read_integers(tensor)[0] != 0);
  if (is_integral(tensor.dtype())) return Scalar(read_integers(tensor)[0]);
  const std::vector<double> values = read_doubles(tensor);
  if (is_complex(tensor.dtype())) return Scalar(std::complex<double>(values[0], values[1]));
  return Scalar(values[0]);
}

std::vector<double> read_doubles(const Tensor& tensor) {
  return read_as<double>(tensor, [](auto value) { return widen(value); });
}

std::vector<std::int64_t> read_integers(const Tensor& tensor) {
  check_integral("read_integers", "read_doubles(x), or to(x, DType::kI64) first", tensor);
  return read_as<std::int64_t>(tensor, [](auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) {
      return static_cast<std::int64_t>(value);
    } else {
      return std::int64_t{0};
    }
  });
}

void write_doubles(const Tensor& tensor, std::span<const double> values) {
  const bool truth = tensor.dtype() == DType::kBool;
  write_as<double>(tensor, values, [truth](auto example, double value) {
    return narrow_to<decltype(example)>(truth ? (value != 0 ? 1.0 : 0.0) : value);
  });
}

void write_integers(const Tensor& tensor, std::span<const std::int64_t> values) {
  check_integral("write_integers", "write_doubles(x, values)", tensor);
  const bool truth = tensor.dtype() == DType::kBool;
  write_as<std::int64_t>(tensor, values, [truth](auto example, std::int64_t value) {
    using T = decltype(example);
    if (truth) value = value != 0 ? 1 : 0;
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(value);
    } else {
      return narrow_to<T>(static_cast<double>(value));
    }
  });
}

}  // namespace shardlab
