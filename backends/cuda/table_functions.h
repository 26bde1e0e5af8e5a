// table_functions.h - all functions of a Table under their own names. Included between the braces
// of one, where these functions are known: for GPUs and on the host.
// clang-format off
.open = open,
.close = close,
.description = description,
.stream = stream,
.allocate = allocate,
.release = release,
.copy_in = copy_in,
.copy_out = copy_out,
.idle = idle,
.pointwise = pointwise,
.move = move,
.fold = fold,
.scan = scan,
.lookup = lookup,
.scatter = scatter,
.draw = draw,
.product = product,
.combine = combine,
.order = order,
.bad_indices = bad_indices,
              // clang-format on
