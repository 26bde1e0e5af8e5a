// Composite ops that move values: pixels and channels between dims, pieces of a dim, tensors side
// by side. Each is a program over views and copies, so that placements and gradients are theirs.
#include <algorithm>

#include "ops/family.h"
#include "ops/shape/as_strided.h"

namespace shardlab {
namespace {

using namespace grad;

std::int64_t size_at(const DTensor& x, std::int64_t from_the_end) {
  return x.shape()[x.ndim() - index_of(from_the_end)];
}

void require_ndim(std::string_view op, const DTensor& x, std::size_t least) {
  if (x.ndim() >= least) return;
  fail(Fix{"x.unsqueeze(0) adds a dim"}, "{} takes a tensor of at least {} dims, not {}", op, least,
       x.ndim());
}

/// x with its last dims seen as `sizes`, permuted by `order` and joined again as `joined`.
DTensor reshuffled(Calls& calls, const DTensor& x, std::size_t kept, const Dims& sizes,
                   const Dims& order, const Dims& joined) {
  Dims apart(x.shape().begin(), x.shape().begin() + static_cast<std::ptrdiff_t>(kept));
  Dims together = apart, dims;
  for (std::size_t d = 0; d < kept; ++d) dims.push_back(static_cast<std::int64_t>(d));
  for (const std::int64_t size : sizes) apart.push_back(size);
  for (const std::int64_t size : joined) together.push_back(size);
  for (const std::int64_t dim : order) dims.push_back(dim + static_cast<std::int64_t>(kept));
  return regrouped(calls, calls.one("permute", {regrouped(calls, x, apart), dims}), together);
}

/// pixel_shuffle(self, upscale_factor): [.., channels * r * r, h, w] -> [.., channels, h * r, w *
/// r]
Results pixel_shuffle(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t r = args[1].to_int();
  require_ndim("pixel_shuffle", x, 3);
  const std::int64_t channels = size_at(x, 3), h = size_at(x, 2), w = size_at(x, 1);
  if (r < 1 || r > 1 << 15 || channels % (r * r) != 0) {
    fail(Fix{"give a factor whose square divides the channels"},
         "pixel_shuffle: {} channels cannot be spread over squares of side {}", channels, r);
  }
  const std::int64_t left = channels / (r * r);
  return {reshuffled(calls, x, x.ndim() - 3, {left, r, r, h, w}, {0, 3, 1, 4, 2},
                     {left, h * r, w * r})};
}

/// pixel_unshuffle(self, downscale_factor): the way back
Results pixel_unshuffle(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t r = args[1].to_int();
  require_ndim("pixel_unshuffle", x, 3);
  const std::int64_t channels = size_at(x, 3), h = size_at(x, 2), w = size_at(x, 1);
  if (r < 1 || r > 1 << 15 || h % r != 0 || w % r != 0) {
    fail(Fix{"give a factor that divides height and width"},
         "pixel_unshuffle: {} by {} pixels are not squares of side {}", h, w, r);
  }
  return {reshuffled(calls, x, x.ndim() - 3, {channels, h / r, r, w / r, r}, {0, 2, 4, 1, 3},
                     {channels * r * r, h / r, w / r})};
}

/// channel_shuffle(self, groups): channels of all groups in turn
Results channel_shuffle(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const std::int64_t groups = args[1].to_int();
  require_ndim("channel_shuffle", x, 3);
  const std::int64_t channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0) {
    fail(Fix{"give a number of groups that divides the channels"},
         "channel_shuffle: {} channels do not make {} equal groups", channels, groups);
  }
  Dims sizes{groups, channels / groups}, order{1, 0}, joined{channels};
  for (std::size_t d = 2; d < x.ndim(); ++d) {
    sizes.push_back(x.shape()[d]);
    order.push_back(static_cast<std::int64_t>(d));
    joined.push_back(x.shape()[d]);
  }
  return {reshuffled(calls, x, 1, sizes, order, joined)};
}

/// rot90(self, k, dims)
Results rot90(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Dims given = ints_of(args[2]);
  const Dims dims = given.size() == 2 && x.ndim() >= 2 ? wrap_dims(given, x.ndim()) : Dims{0, 0};
  if (dims[0] == dims[1]) {
    fail(Fix{"name two different dims of the tensor"},
         "rot90 turns in a plane of two dims, not in [{}] of {} dims", text_of_list(given, ", "),
         x.ndim());
  }
  const auto flipped = [&](const DTensor& value, std::int64_t dim) {
    return calls.one("flip", {value, Dims{dim}});
  };
  switch (((args[1].to_int() % 4) + 4) % 4) {
    case 1:
      return {calls.one("transpose.int", {flipped(x, dims[1]), dims[0], dims[1]})};
    case 2:
      return {calls.one("flip", {x, dims})};
    case 3:
      return {calls.one("transpose.int", {flipped(x, dims[0]), dims[0], dims[1]})};
    default:
      return {calls.one("clone", {x, "contiguous_format"})};
  }
}

std::vector<DTensor> tensors_of(const Argument& list, std::string_view op) {
  std::vector<DTensor> tensors;
  for (const Argument& element : list.list()) tensors.push_back(element.tensor());
  if (tensors.empty()) {
    fail(Fix{"give a list of tensors"}, "{} takes at least one tensor", op);
  }
  return tensors;
}

Results as_list(const std::vector<DTensor>& tensors) {
  return {Argument(ArgumentList(tensors.begin(), tensors.end()))};
}

/// broadcast_tensors(tensors)
Results broadcast_tensors(Calls& calls, const Arguments& args) {
  std::vector<DTensor> tensors = tensors_of(args[0], "broadcast_tensors");
  std::vector<const TensorMeta*> metas;
  for (const DTensor& x : tensors) metas.push_back(&x.meta());
  const Dims shape = broadcast_shapes(calls.find("broadcast_tensors").op, metas);
  for (DTensor& x : tensors) x = calls.one("expand", {x, shape});
  return as_list(tensors);
}

/// meshgrid(tensors), meshgrid.indexing(tensors, *, indexing): "xy" exchanges the first two
Results meshgrid(Calls& calls, const Arguments& args) {
  std::vector<DTensor> tensors = tensors_of(args[0], "meshgrid");
  const std::string indexing = args.size() > 1 ? args[1].string() : "ij";
  if (indexing != "ij" && indexing != "xy") {
    fail(Fix{"write \"ij\" or \"xy\""}, "meshgrid: indexing is \"{}\"; it must be \"ij\" or \"xy\"",
         indexing);
  }
  const bool exchanged = indexing == "xy" && tensors.size() >= 2;
  if (exchanged) std::swap(tensors[0], tensors[1]);
  Dims shape;
  for (const DTensor& x : tensors) {
    if (x.ndim() > 1) {
      fail(Fix{"flatten it: x.flatten()"}, "meshgrid takes tensors of at most one dim, not {}",
           x.ndim());
    }
    if (x.dtype() != tensors[0].dtype()) {
      fail(Fix{"cast them to one dtype first"},
           "meshgrid takes tensors of one dtype, not {} and {}", to_string(tensors[0].dtype()),
           to_string(x.dtype()));
    }
    shape.push_back(x.numel());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Dims line(tensors.size(), 1);
    line[i] = shape[i];
    tensors[i] = calls.one("expand", {regrouped(calls, tensors[i], line), shape});
  }
  if (exchanged) std::swap(tensors[0], tensors[1]);
  return as_list(tensors);
}

/// block_diag(tensors): matrices down a diagonal
Results block_diag(Calls& calls, const Arguments& args) {
  std::vector<DTensor> blocks = tensors_of(args[0], "block_diag");
  std::int64_t columns = 0, before = 0;
  for (DTensor& block : blocks) {
    if (block.ndim() > 2) {
      fail(Fix{"give matrices: x.flatten(1)"},
           "block_diag takes tensors of at most two dims, not {}", block.ndim());
    }
    while (block.ndim() < 2) block = calls.one("unsqueeze", {block, 0});
    columns += block.shape()[1];
  }
  for (DTensor& block : blocks) {
    const std::int64_t width = block.shape()[1];
    block = calls.one("constant_pad_nd", {block, Dims{before, columns - before - width}});
    before += width;
  }
  return {calls.one("cat", {ArgumentList(blocks.begin(), blocks.end()), 0})};
}

/// pad_sequence(sequences, batch_first, padding_value, padding_side)
Results pad_sequence(Calls& calls, const Arguments& args) {
  std::vector<DTensor> sequences = tensors_of(args[0], "pad_sequence");
  const std::string side = args[3].string();
  if (side != "right" && side != "left") {
    fail(Fix{"write \"left\" or \"right\""},
         "pad_sequence: padding_side is \"{}\"; it must be \"left\" or \"right\"", side);
  }
  std::int64_t longest = 0;
  for (const DTensor& x : sequences) {
    require_ndim("pad_sequence", x, 1);
    longest = std::max(longest, x.shape()[0]);
  }
  for (DTensor& x : sequences) {
    Dims pad(2 * x.ndim(), 0);
    pad[2 * x.ndim() - (side == "left" ? 2 : 1)] = longest - x.shape()[0];
    x = cast_to(calls, x, sequences.front().dtype());
    x = calls.one("constant_pad_nd", {x, pad, args[2]});
  }
  return {calls.one("stack",
                    {ArgumentList(sequences.begin(), sequences.end()), args[1].to_bool() ? 0 : 1})};
}

// Pieces of a dim.

/// The first pieces are longer by one.
Results split_in(Calls& calls, const DTensor& x, std::int64_t sections, const Argument& dim) {
  require_ndim("tensor_split", x, 1);
  const std::int64_t length = x.shape()[index_of(wrap_dim(dim.to_int(), x.ndim()))];
  constexpr std::int64_t kMostPieces = 1 << 20;
  if (sections < 1 || sections > kMostPieces) {
    fail(Fix{"give the number of pieces"},
         "tensor_split: the number of pieces is {}; it must be from 1 to {}", sections,
         kMostPieces);
  }
  Dims sizes(index_of(sections), length / sections);
  for (std::int64_t i = 0; i < length % sections; ++i) ++sizes[index_of(i)];
  return calls("split_with_sizes", {x, sizes, dim});
}

Results split_at(Calls& calls, const DTensor& x, const Dims& indices, const Argument& dim) {
  require_ndim("tensor_split", x, 1);
  ArgumentList pieces;
  Argument start = 0;
  for (const std::int64_t index : indices) {
    pieces.emplace_back(calls.one("slice.Tensor", {x, dim, start, index}));
    start = index;
  }
  pieces.emplace_back(calls.one("slice.Tensor", {x, dim, start}));
  return {Argument(std::move(pieces))};
}

Results tensor_split_sections(Calls& calls, const Arguments& args) {
  return split_in(calls, args[0].tensor(), args[1].to_int(), args[2]);
}
Results tensor_split_indices(Calls& calls, const Arguments& args) {
  return split_at(calls, args[0].tensor(), ints_of(args[1]), args[2]);
}
Results tensor_split_tensor(Calls& calls, const Arguments& args) {
  const DTensor& where = args[1].tensor();
  if (where.ndim() > 1 || !is_integral(where.dtype())) {
    fail(Fix{"give a number, or a list of positions"},
         "tensor_split takes integers of at most one dim, not {} of {} dims",
         to_string(where.dtype()), where.ndim());
  }
  if (where.ndim() == 0) {
    return split_in(calls, args[0].tensor(), integer_in(calls, where), args[2]);
  }
  Dims indices;
  for (std::int64_t i = 0; i < where.shape()[0]; ++i) {
    indices.push_back(integer_in(calls, calls.one("select.int", {where, 0, i})));
  }
  return split_at(calls, args[0].tensor(), indices, args[2]);
}

/// narrow.Tensor(self, dim, start, length)
Results narrow_from(Calls& calls, const Arguments& args) {
  return calls("narrow", {args[0], args[1], integer_in(calls, args[2].tensor()), args[3]});
}

/// _chunk_cat(tensors, dim, num_chunks): tensors padded to equal chunks, chunk by chunk side by
/// side
Results chunk_cat(Calls& calls, const Arguments& args) {
  std::vector<DTensor> tensors = tensors_of(args[0], "_chunk_cat");
  const std::int64_t chunks = args[2].to_int();
  const std::int64_t dim = wrap_dim(args[1].to_int(), tensors[0].ndim());
  const DType dtype = tensors[0].dtype();
  if (chunks < 1) {
    fail(Fix{"give the number of chunks"},
         "_chunk_cat: the number of chunks is {}; it must be at least 1", chunks);
  }
  for (DTensor& x : tensors) {
    require_ndim("_chunk_cat", x, index_of(dim) + 1);
    if (x.dtype() != dtype) {
      fail(Fix{"cast the tensors to one dtype"},
           "_chunk_cat: the tensors are {} and {}; they must have one dtype", to_string(dtype),
           to_string(x.dtype()));
    }
    if (x.numel() == 0) {
      fail(Fix{"leave out the tensors that have no elements"},
           "_chunk_cat: a tensor has shape [{}]; it must have elements",
           text_of_list(x.shape(), ", "));
    }
    const std::int64_t size = x.shape()[index_of(dim)];
    const std::int64_t missing = (chunks - size % chunks) % chunks;
    Dims pad(2 * (x.ndim() - index_of(dim)), 0);
    pad.back() = missing;
    if (missing > 0) x = calls.one("constant_pad_nd", {x, pad});
    Dims shape(x.shape().begin(), x.shape().begin() + static_cast<std::ptrdiff_t>(dim));
    shape.push_back(chunks);
    std::int64_t rest = 1;
    for (std::size_t d = index_of(dim); d < x.ndim(); ++d) rest *= x.shape()[d];
    shape.push_back(rest / chunks);
    x = regrouped(calls, x, shape);
  }
  return {calls.one("cat", {ArgumentList(tensors.begin(), tensors.end()), dim + 1})};
}

/// repeat_interleave.self_int(self, repeats, dim, *, output_size)
Results repeat_interleave(Calls& calls, const Arguments& args) {
  DTensor x = args[0].tensor();
  const std::int64_t times = args[1].to_int();
  if (times < 0) {
    fail(Fix{"give how often each element is repeated"},
         "repeat_interleave: repeats is {}; it must not be negative", times);
  }
  if (args[2].is_none() || x.ndim() == 0) x = regrouped(calls, x, Dims{x.numel()});
  const std::int64_t dim = wrap_dim(int_or(args[2], 0), x.ndim());
  Dims apart = x.shape(), joined = x.shape();
  apart.insert(index_of(dim) + 1, times);
  joined[index_of(dim)] *= times;
  const DTensor repeated = calls.one("expand", {calls.one("unsqueeze", {x, dim + 1}), apart});
  return {regrouped(calls, repeated, joined)};
}

/// repeat_interleave.self_Tensor(self, repeats, dim, *, output_size): each by its own number
Results repeat_interleave_each(Calls& calls, const Arguments& args) {
  DTensor x = args[0].tensor();
  DTensor repeats = args[1].tensor();
  if (args[2].is_none() || x.ndim() == 0) x = regrouped(calls, x, Dims{x.numel()});
  const std::int64_t dim = wrap_dim(int_or(args[2], 0), x.ndim());
  const std::int64_t length = x.shape()[index_of(dim)];
  const bool fits = repeats.ndim() <= 1 && is_integral(repeats.dtype()) &&
                    (repeats.numel() == 1 || repeats.numel() == length);
  if (!fits) {
    fail(Fix{fmt::format("give one number, or {} of them", length)},
         "repeat_interleave: repeats of dtype {} and shape [{}] do not fit dim {} of size {}",
         to_string(repeats.dtype()), text_of_list(repeats.shape(), ", "), dim, length);
  }
  repeats = calls.one("expand", {regrouped(calls, repeats, Dims{repeats.numel()}), Dims{length}});
  const DTensor ends = calls.one("cumsum", {repeats, 0});
  const std::int64_t total =
      length == 0 ? 0 : integer_in(calls, calls.one("select.int", {ends, 0, -1}));
  if (length > 0 && integer_in(calls, calls.one("min", {repeats})) < 0) {
    fail(Fix{"give numbers of at least 0"}, "repeat_interleave: a repeat is negative");
  }
  const DTensor places =
      calls.one("bucketize.Tensor", {counted(calls, repeats, total), ends, false, true});
  return {calls.one("index_select", {x, dim, places})};
}

/// resize_as(self, the_template, *, memory_format): elements in row-major order; zeros behind them
Results resize_as(Calls& calls, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  const Dims& shape = args[1].tensor().shape();
  const std::int64_t missing = product(shape) - x.numel();
  const DTensor flat = regrouped(calls, x, Dims{x.numel()});
  return {regrouped(calls, calls.one("constant_pad_nd", {flat, Dims{0, missing}}), shape)};
}

/// as_strided_scatter(self, src, size, stride, storage_offset)
Results as_strided_scatter(Calls& calls, const Arguments& args) {
  // Whole, since a tensor that is written in place cannot move.
  const DTensor& self = args[0].tensor();
  const Placements nowhere_cut(self.distributed() ? self.spec()->layout()->ndim() : 0);
  const DTensor whole = copied_memory(calls, calls.redistribute(self, nowhere_cut));
  const DTensor part = calls.one("as_strided", {whole, args[2], args[3], args[4]});
  require_part_shape("as_strided_scatter", args[1].tensor().shape(), part.shape());
  calls("copy_", {part, args[1]});
  return {whole};
}

/// The part belongs to src, all else to self.
Gradients grad_as_strided_scatter(const GradContext& context) {
  Calls& calls = context.calls;
  const Arguments place(context.inputs.begin() + 2, context.inputs.end());
  const DTensor gradient = contiguous(calls, context.grads[0]);
  Gradients gradients(2);
  if (context.needs(0)) {
    Arguments args{gradient, zeros_like(calls, input(context, 1))};
    args.insert(args.end(), place.begin(), place.end());
    gradients[0] = calls.one("aten::as_strided_scatter", std::move(args));
  }
  if (context.needs(1)) {
    Arguments args{gradient};
    args.insert(args.end(), place.begin(), place.end());
    gradients[1] = calls.one("aten::as_strided", std::move(args));
  }
  return gradients;
}

/// set_.source_Tensor_storage_offset(self, source, storage_offset, size, stride): self becomes a
/// part of source's memory.
Results set_memory(Calls& calls, const Arguments& args) {
  const DTensor &self = args[0].tensor(), &source = args[1].tensor();
  if (self.distributed() || source.distributed()) {
    fail(ErrorKind::kUnsupported, Fix{"use copy_, or x = y"},
         "set_: a tensor in pieces has no memory of its own");
  }
  if (self.dtype() != source.dtype()) {
    fail(Fix{"cast the source: source.to(x.dtype)"},
         "set_: the source is {}; it must have the dtype of the tensor, {}",
         to_string(source.dtype()), to_string(self.dtype()));
  }
  const Dims size = ints_of(args[3]), stride = ints_of(args[4]);
  const DTensor part = calls.one(
      "as_strided", {source, size, stride.empty() ? contiguous_strides(size) : stride, args[2]});
  self.impl()->local = part.local();
  return {args[0]};
}

/// resize_(self, size, *, memory_format): the same memory under another shape; zeros behind its
/// end.
Results resize_memory(Calls& calls, const Arguments& args) {
  const DTensor& self = args[0].tensor();
  if (self.distributed()) {
    fail(ErrorKind::kUnsupported, Fix{"use x.reshape(..), or x[..] for a part of it"},
         "resize_: a tensor in pieces has no memory of its own");
  }
  if (self.requires_grad()) {
    fail(ErrorKind::kRuntime, Fix{"use x.reshape(..), which has one, or x.detach()"},
         "resize_: the tensor requires a gradient");
  }
  const Dims size = ints_of(args[1]);
  if (size == self.shape()) return {args[0]};
  const Tensor before = self.local();
  const auto held = static_cast<std::int64_t>(before.storage()->buffer()->size_bytes()) /
                    item_bytes(before.dtype());
  const std::int64_t missing = product(size) - (held - before.offset());
  DTensor memory(before);
  if (missing > 0) {
    memory =
        calls.one("as_strided", {memory, Dims{held - before.offset()}, Dims{1}, before.offset()});
    memory = calls.one("constant_pad_nd", {memory, Dims{0, missing}});
  }
  const std::int64_t offset = missing > 0 ? 0 : before.offset();
  self.impl()->local =
      calls.one("as_strided", {memory, size, contiguous_strides(size), offset}).local();
  return {args[0]};
}

// Sorted by name; but one number is that of pieces before it is a list of positions.
// clang-format off
constexpr Row kRearrangeRows[] = {
    composite("_chunk_cat"_op, chunk_cat, "cat of padded views"),
    composite("_reshape_alias"_op, by_op<"view", 0, 1>, "view"),
    composite("as_strided_scatter"_op, as_strided_scatter, {grad_as_strided_scatter, ""},
              "copy_ into as_strided"),
    composite("block_diag"_op, block_diag, "cat of padded blocks"),
    composite("broadcast_tensors"_op, broadcast_tensors, "expand"),
    composite("channel_shuffle"_op, channel_shuffle, "permute between reshapes"),
    composite("meshgrid"_op, meshgrid, "expand"),
    composite("meshgrid.indexing"_op, meshgrid, "expand"),
    composite("narrow.Tensor"_op, narrow_from, "narrow", kDataDependent),
    composite("pad_sequence"_op, pad_sequence, "stack of padded sequences"),
    composite("pixel_shuffle"_op, pixel_shuffle, "permute between reshapes"),
    composite("pixel_unshuffle"_op, pixel_unshuffle, "permute between reshapes"),
    composite("repeat_interleave.self_Tensor"_op, repeat_interleave_each, "index_select",
              kDataDependent),
    composite("repeat_interleave.self_int"_op, repeat_interleave, "expand"),
    composite("resize_"_op, resize_memory, "as_strided", kNotDifferentiable),
    composite("resize_as"_op, resize_as, "reshape"),
    composite("rot90"_op, rot90, "flip and transpose"),
    composite("set_.source_Tensor_storage_offset"_op, set_memory, "as_strided", kNotDifferentiable),
    composite("split.sizes"_op, by_op<"split_with_sizes">, "split_with_sizes"),
    composite("tensor_split.sections"_op, tensor_split_sections, "split_with_sizes"),
    composite("tensor_split.indices"_op, tensor_split_indices, "slices"),
    composite("tensor_split.tensor_indices_or_sections"_op, tensor_split_tensor,
              "slices or split_with_sizes", kDataDependent),
    composite("unsafe_chunk"_op, by_op<"chunk">, "chunk"),
    composite("unsafe_split.Tensor"_op, by_op<"split.Tensor">, "split"),
    composite("unsafe_split_with_sizes"_op, by_op<"split_with_sizes">, "split_with_sizes"),
};
// clang-format on

}  // namespace

void register_rearrange(OpRegistry& registry) { add_rows(registry, kRearrangeRows); }

}  // namespace shardlab
