// A factory is one call of the ATen op of its name. Without a mesh it is an ordinary recorded call;
// with one the row's shape function gives the global shape, and dispatch_factory() fills this
// rank's piece only.
#include "api/factories.h"

#include "api/make_tensor.h"
#include "api/mesh.h"
#include "autograd/at_place.h"
#include "autograd/program.h"
#include "base/error.h"
#include "base/text.h"
#include "mesh/type_string.h"
#include "schema/binder.h"
#include "schema/meta_args.h"
#include "schema/op_row.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

DTensor make(std::string_view name, Arguments positional, const Factory& options,
             const SourceLine& place) {
  const OpRow& row = program_calls().find(name);
  std::vector<std::pair<std::string, Argument>> keywords;
  if (options.dtype) keywords.emplace_back("dtype", *options.dtype);
  return at_place(place, [&] {
    const Arguments args = bind_arguments(row, std::move(positional), std::move(keywords));
    return make_tensor(row, args, options.mesh, options.placements);
  });
}

}  // namespace

DTensor make_tensor(const OpRow& row, const Arguments& args, const MeshLayout* mesh,
                    const Placements& placements, const Generator& generator) {
  ProgramCalls& calls = program_calls();
  if (mesh == nullptr) {
    if (placements.empty()) return calls.perform(OpEvent{&row, &args, generator}).at(0).tensor();
    fail(Fix{"name the mesh that the placements are for"}, "{}: placements are given, but no mesh",
         row.name());
  }
  const OutputMeta output = row.meta(MetaArgs(row.op, args, {})).at(0);
  const Placements all = placements.empty() ? Placements(mesh->ndim()) : placements;
  const DTensorSpec* spec = spec_of(all, mesh, output.meta);
  return calls.perform(FactoryEvent{&row, &args, spec, generator}).at(0).tensor();
}

void manual_seed(std::uint64_t seed, const Generator& generator) {
  program_calls().perform(SeedEvent{generator, seed});
}

DTensor zeros(const Dims& shape, const Factory& options, SourceLine place) {
  return make("aten::zeros", {shape}, options, place);
}
DTensor ones(const Dims& shape, const Factory& options, SourceLine place) {
  return make("aten::ones", {shape}, options, place);
}
DTensor full(const Dims& shape, Scalar value, const Factory& options, SourceLine place) {
  return make("aten::full", {shape, value}, options, place);
}
DTensor arange(std::int64_t end, const Factory& options, SourceLine place) {
  return make("aten::arange", {end}, options, place);
}
DTensor rand(const Dims& shape, const Factory& options, SourceLine place) {
  return make("aten::rand", {shape}, options, place);
}
DTensor randn(const Dims& shape, const Factory& options, SourceLine place) {
  return make("aten::randn", {shape}, options, place);
}

DTensor tensor(const std::vector<double>& values, const Dims& shape, DType dtype,
               SourceLine place) {
  return at_place(place, [&] {
    if (is_complex(dtype)) {
      fail(ErrorKind::kUnsupported,
           Fix{"give both parts as a last dim of 2 floats, then use view_as_complex"},
           "not yet supported: tensor() of complex");
    }
    if (static_cast<std::int64_t>(values.size()) != product(shape)) {
      fail(Fix{"give one value per element"},
           "tensor: there are {} values for the shape [{}], which holds {}", values.size(),
           text_of_list(shape, ", "), product(shape));
    }
    const Tensor out = empty(*current_rank().device, shape, dtype);
    if (is_integral(dtype)) {
      write_integers(out, std::vector<std::int64_t>(values.begin(), values.end()));
    } else {
      write_doubles(out, values);
    }
    return DTensor(out);
  });
}

DTensor from_bytes(std::span<const std::byte> elements, const Dims& shape, DType dtype,
                   SourceLine place) {
  return at_place(place, [&] {
    const std::int64_t item = item_bytes(dtype);
    if (static_cast<std::int64_t>(elements.size()) != product(shape) * item) {
      fail(Fix{"give one element for each place of the shape"},
           "from_span: {} elements of {} for the shape [{}], which holds {}",
           static_cast<std::int64_t>(elements.size()) / item, to_string(dtype),
           text_of_list(shape, ", "), product(shape));
    }
    const Tensor out = empty(*current_rank().device, shape, dtype);
    if (!elements.empty()) out.device()->write(out, elements.data());
    return DTensor(out);
  });
}

const Tensor& host_piece(const DTensor& x) {
  const Tensor& piece = x.local();
  if (!on_host(piece)) {
    fail(ErrorKind::kUnsupported, Fix{"read_doubles(x.local()), or read_bytes, copies it"},
         "as_span: {} is on device {}, not in memory of the program", type_string(x),
         piece.device()->type());
  }
  if (!piece.contiguous()) {
    fail(Fix{"x.clone() puts them one after the other"},
         "as_span: the elements of {} have gaps or another order in memory", type_string(x));
  }
  return piece;
}

}  // namespace shardlab
