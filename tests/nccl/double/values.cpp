// Reductions in rank order, with the accumulator of each type.
#include "tests/nccl/double/values.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"

namespace shardlab::nccl_double {

using nccl::DataType;
using nccl::RedOp;

namespace {

struct TypeRow {
  const char* name;
  std::size_t bytes;
};
constexpr TypeRow kTypes[] = {
    {"ncclInt8", 1},    {"ncclUint8", 1},    {"ncclInt32", 4},   {"ncclUint32", 4},
    {"ncclInt64", 8},   {"ncclUint64", 8},   {"ncclFloat16", 2}, {"ncclFloat32", 4},
    {"ncclFloat64", 8}, {"ncclBfloat16", 2},
};
constexpr const char* kOps[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};

float widen(Half value) { return to_float(value); }
float widen(BFloat16 value) { return to_float(value); }
template <typename T>
T widen(T value) {
  return value;
}
void narrow(float value, Half& to) { to = to_half(value); }
void narrow(float value, BFloat16& to) { to = to_bfloat16(value); }
template <typename T>
void narrow(T value, T& to) {
  to = value;
}

template <typename T>
T apply(RedOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == RedOp::kMax) return std::fmax(a, b);
    if (op == RedOp::kMin) return std::fmin(a, b);
    return op == RedOp::kProd ? a * b : a + b;
  } else {
    if (op == RedOp::kMax) return a > b ? a : b;
    if (op == RedOp::kMin) return a < b ? a : b;
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<T>(op == RedOp::kProd ? x * y : x + y);
  }
}

template <typename T>
void combine_as(RedOp op, const std::vector<const void*>& inputs, void* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto sum = widen(static_cast<const T*>(inputs[0])[i]);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      sum = apply(op, sum, widen(static_cast<const T*>(inputs[rank])[i]));
    }
    using Sum = decltype(sum);
    if (op == RedOp::kAvg) sum = static_cast<Sum>(sum / static_cast<Sum>(inputs.size()));
    narrow(sum, static_cast<T*>(to)[i]);
  }
}

}  // namespace

std::size_t bytes_of(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kTypes) ? kTypes[index].bytes : 0;
}

std::string name_of(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kTypes) ? kTypes[index].name : "no ncclDataType_t";
}

std::string name_of(RedOp op) {
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(kOps) ? kOps[index] : "no ncclRedOp_t";
}

void combine(DataType type, RedOp op, const std::vector<const void*>& inputs, void* to,
             std::size_t count) {
  switch (type) {
    case DataType::kInt8:
      return combine_as<std::int8_t>(op, inputs, to, count);
    case DataType::kUint8:
      return combine_as<std::uint8_t>(op, inputs, to, count);
    case DataType::kInt32:
      return combine_as<std::int32_t>(op, inputs, to, count);
    case DataType::kUint32:
      return combine_as<std::uint32_t>(op, inputs, to, count);
    case DataType::kInt64:
      return combine_as<std::int64_t>(op, inputs, to, count);
    case DataType::kUint64:
      return combine_as<std::uint64_t>(op, inputs, to, count);
    case DataType::kFloat16:
      return combine_as<Half>(op, inputs, to, count);
    case DataType::kFloat32:
      return combine_as<float>(op, inputs, to, count);
    case DataType::kFloat64:
      return combine_as<double>(op, inputs, to, count);
    case DataType::kBfloat16:
      return combine_as<BFloat16>(op, inputs, to, count);
  }
}

}  // namespace shardlab::nccl_double
