// A mesh, a type or a link from the command line; errors of types point into the argument.
#include "sim/cli/spec_arguments.h"

#include <charconv>
#include <string_view>

#include "api/mesh.h"
#include "base/fix.h"
#include "base/read_real.h"
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
    fail(Fix{"name every dim with its size: --mesh x=2,y=3"}, "--mesh: {}", error.summary());
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

LinkArgument parse_link(const std::string& text) {
  const std::size_t equals = text.find('='), comma = text.find(',');
  const auto above_zero = [&text](std::size_t begin, std::size_t end) {
    double value = 0;
    const char* const stop = text.data() + end;
    const bool read =
        read_real(text.data() + begin, stop, value) == std::from_chars_result{stop, {}};
    return read && value > 0 ? value : 0;
  };
  if (equals != std::string::npos && comma != std::string::npos && equals < comma) {
    const double gbps = above_zero(equals + 1, comma), us = above_zero(comma + 1, text.size());
    if (gbps > 0 && us > 0) return {text.substr(0, equals), gbps, us};
  }
  fail(Fix{"--link tp=400,1.5: GB/s and microseconds, both above 0"}, "--link: can't read \"{}\"",
       text);
}

}  // namespace shardlab
