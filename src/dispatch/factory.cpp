// A factory draws for the whole tensor and fills one piece of it: kernels that depend on position
// get the piece's view, and the random state advances by the global number of elements on every
// rank, outsiders included.
#include "dispatch/factory.h"

#include "comm/device_mesh.h"
#include "dispatch/local_call.h"
#include "dispatch/observed_op.h"
#include "dispatch/plain_calls.h"
#include "dispatch/prepare.h"
#include "dispatch/random_draw.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "schema/op_row.h"

namespace shardlab {

DTensor dispatch_factory(const OpRow& row, const Arguments& args, const DTensorSpec* spec,
                         RandomState* random) {
  if (spec->has_partial()) {
    throw Error(ErrorKind::kValue,
                fmt::format("{}: a factory can't make a partial value", row.name()))
        .with("placements", type_string(*spec))
        .with("fix", "make it replicated, then redistribute");
  }
  const RandomState before = draw(row, args, spec->numel(), random);
  const DeviceMesh& mesh = device_mesh(spec->layout());
  if (!mesh.participates()) return DTensor(outsider_value(*spec), spec);
  ObservedCall observed(row, args, &before);
  const LocalView view = local_view(*spec, *mesh.coordinate());
  const LocalCall call{.row = &row,
                       .args = &args,
                       .tensors = {},
                       .view = row.has(kNeedsPosition) ? &view : nullptr,
                       .random = before,
                       .device = current_rank().device,
                       .calls = &plain_calls()};
  const OutputMeta meta{.meta = local_meta(*spec, *mesh.coordinate()), .present = true};
  Results results{DTensor(run_local(call, {meta}).front(), spec)};
  observed.ended(results);
  return results.front().tensor();
}

}  // namespace shardlab
