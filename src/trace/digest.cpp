// Bits are compared, not values: a replay that rounds otherwise is another computation, and a NaN
// is equal to itself.
#include "trace/digest.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/rank_context.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// FNV-1a over words: the same in every process and on every machine of its byte order.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x100000001B3ull;
  return hash ^ (hash >> 29);
}

std::uint64_t mixed(std::uint64_t hash, const std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, &bytes[at], std::min(sizeof word, bytes.size() - at));
    hash = mixed(hash, word);
  }
  return hash;
}

}  // namespace

std::uint64_t digest_of(const Tensor& tensor) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char letter : to_string(tensor.dtype())) {
    hash = mixed(hash, static_cast<unsigned char>(letter));
  }
  for (const std::int64_t size : tensor.shape())
    hash = mixed(hash, static_cast<std::uint64_t>(size));
  if (tensor.device()->shape_only() || tensor.numel() == 0) return hash;
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.size_bytes()));
  tensor.device()->read(tensor, bytes.data());
  return mixed(hash, bytes);
}

std::uint64_t combined_digest(const std::vector<std::uint64_t>& digests) {
  std::uint64_t hash = 0;
  for (const std::uint64_t digest : digests) hash = mixed(hash, digest);
  return hash;
}

std::vector<Scalar> scalars_of(const Tensor& tensor) {
  std::vector<Scalar> values;
  if (tensor.numel() == 0 || tensor.device()->shape_only()) return values;
  if (is_integral(tensor.dtype())) {
    for (const std::int64_t value : read_integers(tensor)) {
      values.emplace_back(tensor.dtype() == DType::kBool ? Scalar(value != 0) : Scalar(value));
    }
    return values;
  }
  const std::vector<double> parts = read_doubles(tensor);
  if (!is_complex(tensor.dtype())) return {parts.begin(), parts.end()};
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    values.emplace_back(std::complex<double>(parts[i], parts[i + 1]));
  }
  return values;
}

Tensor tensor_from(const std::vector<Scalar>& values, const Dims& shape, DType dtype) {
  Device& device = *current_rank().device;
  if (device.shape_only()) return empty(device, shape, dtype);
  if (static_cast<std::int64_t>(values.size()) != product(shape)) {
    fail(Fix{"give one number per element"}, "a value of {} elements has {} numbers",
         product(shape), values.size());
  }
  const Tensor tensor = empty(device, shape, dtype);
  if (is_integral(dtype)) {
    std::vector<std::int64_t> integers;
    for (const Scalar& value : values) integers.push_back(value.to_int());
    write_integers(tensor, integers);
    return tensor;
  }
  std::vector<double> doubles;
  for (const Scalar& value : values) {
    doubles.push_back(value.to_double());
    if (is_complex(dtype)) doubles.push_back(value.imaginary());
  }
  write_doubles(tensor, doubles);
  return tensor;
}

}  // namespace shardlab
