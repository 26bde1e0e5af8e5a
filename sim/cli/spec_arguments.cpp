// A mesh and a type from the command line, with errors that point into the argument.
#include "sim/cli/spec_arguments.h"

#include <fmt/format.h>

#include "api/mesh.h"
#include "mesh/type_string.h"

namespace shardlab {

const MeshLayout* parse_mesh(const std::string& text) {
  MeshLayout::Init init;
  try {
    for (MeshDim& dim : parse_mesh_dims(text)) {
      init.names.push_back(std::move(dim.name));
      init.shape.push_back(dim.size);
    }
  } catch (const Error& error) {
    throw Error(ErrorKind::kValue, "--mesh: " + error.summary())
        .with("fix", "name every dim with its size: --mesh x=2,y=3");
  }
  return process_arena().layout(std::move(init));
}

namespace {

[[noreturn]] void refuse_type(const std::string& text, const Error& error, TextSpan span) {
  Error shown(error.kind(), error.summary());
  shown.with("at",
             fmt::format("{}\n{}^", text, std::string(std::min(span.offset, text.size()), ' ')));
  if (const std::string* fix = error.find("fix")) shown.with("fix", *fix);
  throw shown;
}

}  // namespace

const DTensorSpec* parse_spec(const std::string& text, const MeshLayout* layout) {
  try {
    const ParsedType parsed = parse_type(text, *layout);
    const TensorMeta meta = contiguous_meta(parsed.shape, parsed.dtype.value_or(DType::kF32));
    return layout->arena().spec(layout, parsed.placements, parsed.order, meta);
  } catch (const TypeStringError& error) {
    refuse_type(text, error, error.span());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    refuse_type(text, error, {});
  }
}

}  // namespace shardlab
