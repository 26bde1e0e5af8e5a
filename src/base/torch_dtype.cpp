// Several words name one dtype, as in torch.
#include "base/torch_dtype.h"

#include <algorithm>
#include <iterator>

namespace shardlab {

namespace {

struct DTypeWord {
  std::string_view name;
  DType dtype;
};
constexpr DTypeWord kTorchDTypes[] = {
    {"float32", DType::kF32},     {"float", DType::kF32},
    {"float64", DType::kF64},     {"double", DType::kF64},
    {"float16", DType::kF16},     {"half", DType::kF16},
    {"bfloat16", DType::kBF16},   {"int64", DType::kI64},
    {"long", DType::kI64},        {"int32", DType::kI32},
    {"int", DType::kI32},         {"int16", DType::kI16},
    {"short", DType::kI16},       {"int8", DType::kI8},
    {"uint8", DType::kU8},        {"uint64", DType::kU64},
    {"bool", DType::kBool},       {"complex64", DType::kC64},
    {"complex128", DType::kC128}, {"cfloat", DType::kC64},
    {"cdouble", DType::kC128},    {"float8_e4m3fn", DType::kF8E4M3FN},
};

}  // namespace

std::optional<DType> parse_torch_dtype(std::string_view name) {
  const auto row = std::ranges::find(kTorchDTypes, name, &DTypeWord::name);
  return row == std::end(kTorchDTypes) ? std::nullopt : std::optional(row->dtype);
}

std::optional<DType> parse_written_dtype(std::string_view name) {
  const auto own = parse_dtype(name);
  return own ? own : parse_torch_dtype(name);
}

}  // namespace shardlab
