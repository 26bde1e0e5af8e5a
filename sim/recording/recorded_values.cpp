// A value that passes here can be used without a check: its shape fits in memory, its elements are
// in the file, its placements are those of its mesh.
#include "sim/recording/recorded_values.h"

#include <algorithm>

#include "base/error.h"
#include "base/saturating.h"
#include "mesh/spec.h"
#include "sim/files/json_value.h"
#include "sim/recording/advice.h"

namespace shardlab {

namespace {

const Json* found(const Json& object, const char* key) {
  const auto member = object.find(key);
  return member == object.end() ? nullptr : &*member;
}

// One entry, or one of each rank.
const Json& list_of_ranks(const Json& list, std::size_t ranks, const char* what) {
  if (list.is_array() && list.size() == ranks) return list;
  refuse_recorded(fmt::format("{} has one entry of each rank, {} in all", what, ranks));
}

RecordedElements stored(const Json& raw, std::size_t held) {
  if (raw.is_object()) {
    return {.stored = RecordedElements::Stored::kEqual, .value = number_of(raw.at("all"))};
  }
  if (!raw.is_array() || raw.size() != 2)
    refuse_recorded("'raw' is where elements begin, and bytes");
  const auto from = integer_of<std::size_t>(raw.at(0)), bytes = integer_of<std::size_t>(raw.at(1));
  if (from > held || bytes > held - from) {
    refuse_recorded(fmt::format("elements at {} to {} of {} bytes", from, from + bytes, held));
  }
  return {.stored = RecordedElements::Stored::kBytes, .at = from, .bytes = bytes};
}

RecordedElements formula(const Json& fill, DType dtype) {
  RecordedElements elements{.stored = RecordedElements::Stored::kFormula};
  elements.seed = integer_of<std::int64_t>(fill.at("seed"));
  if (elements.seed < 0 || elements.seed > 1'000'000) refuse_recorded("the seed of a formula");
  if (dtype == DType::kBool) return elements;
  if (is_integral(dtype)) {
    elements.below = integer_of<std::int64_t>(fill.at("mod"));
    if (elements.below <= 0) refuse_recorded("'mod' of a formula");
    return elements;
  }
  if (!fill.at("bias").is_number() || !fill.at("scale").is_number()) {
    refuse_recorded("a formula's bias and scale are numbers");
  }
  elements.bias = fill.at("bias").get<double>();
  elements.scale = fill.at("scale").get<double>();
  return elements;
}

RecordedPrint print_of(const Json& print) {
  if (!print.is_array() || print.size() != 2) refuse_recorded("a fingerprint is two numbers");
  return {number_of(print.at(0)), number_of(print.at(1))};
}

void read_prints(EventValue& value, const Json& print, std::size_t ranks) {
  if (!print.is_object()) {
    value.prints = {print_of(print)};
    return;
  }
  if (!is_of_ranks(print)) refuse_recorded("a fingerprint is two numbers");
  const Json& all = list_of_ranks(print.at("ranks"), ranks, "'ranks' of a fingerprint");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (all[rank].is_null()) {
      value.unwritten.push_back(rank);
    } else {
      value.prints.push_back(print_of(all[rank]));
    }
  }
  if (!value.unwritten.empty()) value.prints.clear();
}

void label(EventValue& value, const Json& json, const RecordedProgram& program) {
  const std::int32_t mesh = integer_or<std::int32_t>(json, "on", 0);
  if (mesh < 0 || mesh >= std::ssize(program.meshes)) refuse_recorded("a mesh that is not there");
  value.type.mesh = mesh;
  value.type.placements = placements_of(json.at("placements"));
  const std::size_t dims = program.meshes[static_cast<std::size_t>(mesh)].shape.size();
  if (value.type.placements.size() != dims) {
    refuse_recorded(
        fmt::format("{} placements on a mesh of {} dims", value.type.placements.size(), dims));
  }
  for (const Placement& one : value.type.placements) {
    if (!one.is_shard() || (one.dim >= 0 && one.dim < std::ssize(value.type.shape))) continue;
    refuse_recorded(
        fmt::format("{} of a tensor of {} dims", to_string(one), value.type.shape.size()));
  }
  value.type.order = default_order(value.type.placements);
}

}  // namespace

void refuse_recorded(const std::string& what) { fail(Fix{record_again()}, "{}", what); }

bool is_of_ranks(const Json& value) {
  return value.is_object() && value.size() == 1 && value.contains("ranks");
}

void require_ranks(const Json& value, std::size_t ranks) {
  list_of_ranks(value.at("ranks"), ranks, "'ranks'");
}

const Json& of_rank(const Json& value, std::size_t rank) { return value.at("ranks").at(rank); }

Json of_first_rank(const Json& value) {
  if (is_of_ranks(value) && value.at("ranks").is_array()) {
    const Json& ranks = value.at("ranks");
    const auto first = std::ranges::find_if(ranks, [](const Json& one) { return !one.is_null(); });
    return first == ranks.end() ? Json() : *first;
  }
  Json own = value;
  if (own.is_structured()) {
    for (Json& item : own) item = of_first_rank(item);
  }
  return own;
}

Dims dims_of(const Json& list) {
  if (!list.is_array()) refuse_recorded(list.dump() + " is no shape");
  Dims dims;
  for (const Json& item : list) dims.push_back(integer_of<std::int64_t>(item));
  return dims;
}

DType dtype_of(const Json& name) {
  const auto& text = name.get_ref<const std::string&>();
  const auto dtype = parse_dtype(text == "complex32" ? "c32" : text);
  if (!dtype) fail(ErrorKind::kValue, "unknown dtype '{}'", text);
  return *dtype;
}

Placements placements_of(const Json& texts) {
  Placements placements;
  for (const Json& text : texts) {
    const auto placement = parse_placement(text.get_ref<const std::string&>());
    if (!placement) fail(ErrorKind::kValue, "'{}' is not a placement", text.dump());
    placements.push_back(*placement);
  }
  return placements;
}

std::vector<RecordedElements> elements_of(const Json& value, DType dtype, std::size_t held,
                                          std::size_t ranks) {
  std::vector<RecordedElements> elements;
  if (const Json* fill = found(value, "fill")) {
    elements = {formula(*fill, dtype)};
  } else if (const Json* raw = found(value, "raw")) {
    elements = {stored(*raw, held)};
  } else if (const Json* all = found(value, "raw_ranks")) {
    for (const Json& raw : list_of_ranks(*all, ranks, "'raw_ranks'")) {
      elements.push_back(stored(raw, held));
    }
  }
  return elements;
}

bool fits_in_memory(const TensorMeta& meta) {
  std::int64_t bytes = item_bytes(meta.dtype);
  return std::ranges::all_of(meta.shape, [&](std::int64_t size) {
    bytes = saturating_product(bytes, std::max<std::int64_t>(size, 1));
    return size >= 0 && bytes <= kMostValueBytes;
  });
}

TensorMeta recorded_meta(const Json& value, std::size_t rank) {
  const Json* shapes = found(value, "shapes");
  const Json& shape = shapes == nullptr ? value.at("shape") : shapes->at(rank);
  const Json& dtype = value.at("dtype");
  TensorMeta meta = {
      dims_of(shape), {}, dtype_of(is_of_ranks(dtype) ? of_rank(dtype, rank) : dtype)};
  if (!fits_in_memory(meta)) refuse_recorded(shape.dump() + " is no shape");
  const Json* strides = found(value, "strides");
  const Json* stride = strides == nullptr ? found(value, "stride") : &strides->at(rank);
  if (stride != nullptr && stride->is_null()) stride = nullptr;
  meta.stride = stride != nullptr ? dims_of(*stride) : contiguous_strides(meta.shape);
  bool fits = meta.stride.size() == meta.shape.size();
  for (const std::int64_t step : meta.stride) fits = fits && step >= 0 && step <= kMostValueBytes;
  if (!fits) refuse_recorded(stride->dump() + " are no strides");
  return meta;
}

EventValue recorded_value(const Json& json, const RecordedProgram& program) {
  EventValue value;
  if (json.is_null()) return value;
  if (const Json* given = found(json, "scalar")) {
    const Json numbers = of_first_rank(*given);
    if (numbers.is_array()) {
      for (const Json& one : numbers) value.numbers.push_back(number_of(one));
    } else if (numbers.is_boolean()) {
      value.numbers = {numbers.get<bool>() ? 1.0 : 0.0};
    } else if (numbers.is_number() || numbers.is_string()) {
      value.numbers = {number_of(numbers)};
    }
    return value;
  }
  json.at("v");
  const Json shapes = json.value("shapes", Json()), strides = json.value("strides", Json());
  for (const Json* list : {&shapes, &strides}) {
    if (!list->is_null()) list_of_ranks(*list, program.ranks, "'shapes' and 'strides'");
  }
  if (is_of_ranks(json.at("dtype"))) require_ranks(json.at("dtype"), program.ranks);
  value.type = plain_type(recorded_meta(json));
  const bool labelled = json.contains("placements");
  if (!shapes.is_null() || !strides.is_null() || is_of_ranks(json.at("dtype"))) {
    if (labelled) refuse_recorded("'shapes' are those of a plain value on each rank");
    for (std::size_t rank = 0; rank < program.ranks; ++rank) {
      value.of_ranks.push_back(recorded_meta(json, rank));
    }
  }
  if (labelled) label(value, json, program);
  value.elements = elements_of(json, value.type.dtype, program.raw->size(), program.ranks);
  const bool plain = !labelled && value.elements.size() == 1 && value.of_ranks.empty();
  if (plain && value.elements[0].stored == RecordedElements::Stored::kBytes) {
    const auto wanted =
        static_cast<std::size_t>(product(value.type.shape) * item_bytes(value.type.dtype));
    if (value.elements[0].bytes != wanted) {
      refuse_recorded(
          fmt::format("{} bytes of elements where {} belong", value.elements[0].bytes, wanted));
    }
  }
  if (const Json* print = found(json, "fp")) read_prints(value, *print, program.ranks);
  return value;
}

}  // namespace shardlab
