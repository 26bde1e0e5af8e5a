// Shapes and statistics of norms over channels.
#include "ops/nn/normalization.h"

#include "mesh/type_string.h"
#include "ops/family.h"

namespace shardlab::normalization {
namespace {

void require_vector(const MetaArgs& args, std::size_t index, std::int64_t channels) {
  const TensorMeta& vector = *args.tensor(index);
  if (vector.shape == Dims{channels}) return;
  fail(Fix{fmt::format("give it the shape [{}]", channels)},
       "{}: {} has the shape [{}]; it must have one number per channel", args.op().name(),
       args.op().arguments[index].name, text_of_list(vector.shape, ", "));
}

}  // namespace

std::size_t place_of(const OpDescriptor& op, Names names) {
  for (const std::string_view name : names) {
    if (const auto found = op.find_argument(name)) return *found;
  }
  return kAbsent;
}

const TensorMeta& with_channels(const MetaArgs& args, std::size_t index) {
  const TensorMeta& input = *args.tensor(index);
  require_float(args.op().name(), input.dtype);
  if (input.shape.size() >= 2 && !is_complex(input.dtype)) return input;
  fail(Fix{"give real numbers [samples, channels, ..]"},
       "{}: the input {} has no channels to normalise", args.op().name(), type_string(input));
}

TensorMeta normalized_meta(const TensorMeta& input) {
  const bool inside = input.shape.size() > 3 && input.stride[1] == 1 && input.shape[1] > 1 &&
                      input.stride.back() == input.shape[1] && is_dense(input);
  return inside ? input : contiguous_meta(input.shape, input.dtype);
}

bool mixes_with(DType vector, DType input) {
  return vector == input || (vector == DType::kF32 && item_bytes(input) == 2);
}

DType checked_vectors(const MetaArgs& args, const TensorMeta& input) {
  DType dtype = input.dtype;
  bool found = false;
  for (const std::string_view name : kVectors) {
    const std::size_t index = place_of(args.op(), {name});
    if (index == kAbsent || args.tensor(index) == nullptr) continue;
    require_vector(args, index, input.shape[1]);
    const DType own = args.tensor(index)->dtype;
    if (!mixes_with(own, input.dtype) || (found && own != dtype)) {
      fail(Fix{fmt::format("cast it to {}", to_string(input.dtype))},
           "{}: {} is {}; its dtype must go with that of the input, {}", args.op().name(), name,
           to_string(own), to_string(input.dtype));
    }
    dtype = own;
    found = true;
  }
  return dtype;
}

void require_statistics(const MetaArgs& args, std::size_t index, std::size_t input, DType dtype) {
  const DType own = args.tensor(index)->dtype;
  if (own == dtype) return;
  fail(Fix{"give the statistics that the forward op returned"},
       "{}: {} is {}; it must be {}, next to an input of {}", args.op().base,
       args.op().arguments[index].name, to_string(own), to_string(dtype),
       to_string(args.tensor(input)->dtype));
}

bool wanted_gradient(const Argument& mask, std::size_t index) {
  return mask.is_none() || mask.list()[index].to_bool();
}

void require_shape(const MetaArgs& args, std::size_t index, const Dims& shape) {
  if (index != kAbsent) check_argument_shape(args, index, shape);
}

OutputMetas gradient_metas(const MetaArgs& args, const TensorMeta& input, DType of_vectors) {
  const Argument& mask = named(args.op(), args, {"output_mask"});
  const TensorMeta vector = contiguous_meta(Dims{input.shape[1]}, of_vectors);
  return {{contiguous_meta(input.shape, input.dtype), wanted_gradient(mask, 0)},
          {vector, wanted_gradient(mask, 1)},
          {vector, wanted_gradient(mask, 2)}};
}

Spread spread_of(const Expression& x, const Dims& dims) {
  Calls& calls = x.calls();
  const Results both = calls("aten::var_mean.correction", {x, dims, 0, true});
  return {{calls, both[1].tensor()}, {calls, both[0].tensor()}};
}

Expression WayBack::rest(const Expression& x) const {
  if (takes_out == TakesOut::kNothing) return x;
  const Expression scaled = x - normal * mean(x * normal);
  return takes_out == TakesOut::kSlope ? scaled : scaled - mean(x);
}

Expression WayBack::of_normal() const {
  if (takes_out == TakesOut::kNothing) return into_normal;
  const Expression along = into_input * mean(flow * normal);
  return into_normal - root * (along + flow * mean(into_input * normal));
}

Expression WayBack::of_root() const {
  return (sum(of_normal() * normal) / root).plus(sum(into_input * rest(flow)));
}

Expression WayBack::of_input() const {
  if (takes_out == TakesOut::kNothing) return root * of_normal();
  const Expression direct = root * rest(of_normal());
  return direct - (root * root * normal).times(mean(into_input * rest(flow)));
}

}  // namespace shardlab::normalization
