#include "dispatch/factory.h"

#include <cstddef>

#include "base/rank_context.h"
#include "comm/device_mesh.h"
#include "dispatch/local_call.h"
#include "dispatch/observed_op.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"

namespace shardlab {

Tensor outsider_value(const DTensorSpec& spec) {
  Device& device = *current_rank().device;
  Tensor value = empty(device, spec.ndim() == 0 ? Dims{} : Dims{0}, spec.dtype());
  if (spec.ndim() == 0 && !device.shape_only()) {
    const std::vector<std::byte> zero(static_cast<std::size_t>(item_bytes(spec.dtype())));
    device.write(value, zero.data());
  }
  return value;
}

DTensor dispatch_factory(const OpRow& row, const Arguments& args, const DTensorSpec* spec,
                         RandomState* random) {
  if (spec->has_partial()) {
    throw Error(ErrorKind::kValue,
                fmt::format("{}: a factory can't make a partial value", row.name()))
        .with("placements", type_string(*spec))
        .with("fix", "make it replicated, then redistribute");
  }
  RankContext& rank = current_rank();
  RandomState before;
  if (row.has(kRandom)) {
    RandomState& state = random != nullptr ? *random : rank.random;
    before = state;
    state.offset += static_cast<std::uint64_t>(spec->numel());
  }
  const DeviceMesh& mesh = device_mesh(spec->layout());
  if (!mesh.participates()) return DTensor(outsider_value(*spec), spec);
  ObservedCall observed(row, args, &before);
  const LocalView view = local_view(*spec, *mesh.coordinate());
  const LocalCall call{.row = &row,
                       .args = &args,
                       .tensors = {},
                       .view = row.has(kNeedsPosition) ? &view : nullptr,
                       .random = before,
                       .device = rank.device};
  const OutputMeta meta{.meta = local_meta(*spec, *mesh.coordinate()), .present = true};
  Results results{DTensor(run_local(call, {&meta, 1}).front(), spec)};
  observed.ended(results);
  return results.front().tensor();
}

}  // namespace shardlab
