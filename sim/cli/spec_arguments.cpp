// A mesh, a type or a link from the command line; errors of types point into the argument.
#include "sim/cli/spec_arguments.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "api/mesh.h"
#include "base/error.h"
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

// "Shard(0)" as S(0), "Partial(\"sum\")" as P(sum).
std::string in_short(std::string word) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {{"_StridedShard", "_S"},
                                                                      {"Shard", "S"},
                                                                      {"Replicate()", "R"},
                                                                      {"Partial()", "P(sum)"},
                                                                      {"Partial", "P"},
                                                                      {"dim=", ""},
                                                                      {"split_factor=", ""},
                                                                      {"'", ""},
                                                                      {"\"", ""},
                                                                      {" ", ""}};
  for (const auto& [from, to] : kShort) {
    for (std::size_t at; (at = word.find(from)) != word.npos;) word.replace(at, from.size(), to);
  }
  return word;
}

// "[Shard(0), Replicate()]", alone or behind a type without placements: PyTorch's list, one for
// each mesh dim. Alone it cuts a tensor whose dims, two or more, have two elements for each rank.
std::optional<ParsedType> parse_list(const std::string& text, const MeshLayout& layout) {
  const std::size_t open = text.rfind('['), call = text.find('(', open);
  const bool listed = open != text.npos && call != text.npos && std::isalpha(text[call - 1]) != 0;
  if (!listed || text.back() != ']') return std::nullopt;
  ParsedType type;
  const bool alone = text.find_first_not_of(' ') == open;
  if (!alone) type = parse_type(text.substr(0, open), layout);
  type.placements.clear();
  std::int64_t ndim = 2;
  for (std::size_t at = open + 1; at < text.size();) {
    std::size_t end = at;
    for (int depth = 0; end + 1 < text.size() && (depth > 0 || text[end] != ','); ++end) {
      depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    }
    const auto placement = parse_placement(in_short(text.substr(at, end - at)));
    if (!placement) {
      TypeStringError error("this is not a placement", {at, 1});
      error.with("fix", "write Shard(0), Replicate() or Partial() for each mesh dim");
      throw error;
    }
    if (placement->is_shard()) ndim = std::max<std::int64_t>(ndim, placement->dim + 1);
    type.placements.push_back(*placement);
    at = end + 1;
  }
  if (type.placements.size() != layout.ndim()) {
    fail(Fix{"give one for each mesh dim"}, "{} has {} placements, and mesh {} has {} dims", text,
         type.placements.size(), layout.text(), layout.ndim());
  }
  if (alone) type.shape.assign(static_cast<std::size_t>(ndim), 2 * layout.size());
  normalize_dims(type.placements, type.shape.size());
  type.order = default_order(type.placements);
  return type;
}

}  // namespace

const DTensorSpec* parse_spec(const std::string& text, const MeshLayout* layout) {
  try {
    const auto listed = parse_list(text, *layout);
    const ParsedType parsed = listed ? *listed : parse_type(text, *layout);
    const TensorMeta meta = contiguous_meta(parsed.shape, parsed.dtype.value_or(DType::kF32));
    return layout->arena().spec(layout, parsed.placements, parsed.order, meta);
  } catch (const TypeStringError& error) {
    refuse_type(text, error, error.span());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    refuse_type(text, error, {});
  }
}

std::optional<std::vector<double>> numbers_above_zero(std::string_view text, std::size_t count) {
  std::vector<double> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at <= end;) {
    const char* const stop = std::find(at, end, ',');
    double number = 0;
    if (read_real(at, stop, number) != std::from_chars_result{stop, {}} || !(number > 0))
      return std::nullopt;
    numbers.push_back(number);
    at = stop + 1;
  }
  if (numbers.size() != count) return std::nullopt;
  return numbers;
}

LinkArgument parse_link(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos) {
    const auto numbers = numbers_above_zero(std::string_view(text).substr(equals + 1), 2);
    if (numbers) return {text.substr(0, equals), (*numbers)[0], (*numbers)[1]};
  }
  fail(Fix{"--link tp=400,1.5: GB/s and microseconds, both above 0"}, "--link: can't read \"{}\"",
       text);
}

}  // namespace shardlab
