// Elements are those of torch: little-endian, row-major, a bool in one byte.
#include "sim/recording/recorded_program.h"

#include <numeric>

#include "base/error.h"
#include "sim/recording/advice.h"
#include "tensor/host.h"

namespace shardlab {

TensorMeta EventValue::meta(std::size_t rank) const {
  if (!of_ranks.empty()) return of_ranks[rank];
  return {type.shape, type.stride, type.dtype};
}

std::string_view to_string(RecordedKind kind) {
  constexpr std::string_view kNames[] = {"input",          "const",        "alias",
                                         "of_ranks",       "call",         "op",
                                         "coll",           "redistribute", "redistribute_bwd",
                                         "to_local",       "to_local_bwd", "from_local",
                                         "from_local_bwd", "module",       "function",
                                         "rule",           "backward",     "gradients",
                                         "read",           "check",        "arrived",
                                         "storage",        "typed",        "wait"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(RecordedKind::kOther) + 1);
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<std::int64_t> dim_along(const Dims& shape, const RecordedGroup& groups) {
  std::int64_t step = 1;
  for (std::size_t dim = shape.size(); dim-- > 0; step *= shape[dim]) {
    const auto along = [&](const std::vector<std::int64_t>& ranks) {
      if (std::ssize(ranks) != shape[dim] || ranks[0] / step % shape[dim] != 0) return false;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (ranks[i] != ranks[0] + static_cast<std::int64_t>(i) * step) return false;
      }
      return true;
    };
    if (std::ranges::all_of(groups, along)) return static_cast<std::int64_t>(dim);
  }
  return std::nullopt;
}

const std::string& module_of(const RecordedProgram& program, const RecordedEvent& event) {
  static const std::string kNone;
  return event.module < 0 ? kNone : program.modules[static_cast<std::size_t>(event.module)];
}

std::string place_text(const std::string& module, const RecordedPlace* place) {
  if (place == nullptr) return module;
  return fmt::format("{}{}{}:{}", module, module.empty() ? "" : "  ", place->file, place->line);
}

std::string place_of(const RecordedProgram& program, const RecordedEvent& event) {
  const auto at = static_cast<std::size_t>(event.place);
  return place_text(module_of(program, event), event.place < 0 ? nullptr : &program.places[at]);
}

void refuse_event(const RecordedProgram& program, const RecordedEvent& event,
                  std::string_view what) {
  std::string place = place_of(program, event);
  if (!place.empty()) place = " (" + place + ")";
  fail(Fix{record_again()}, "{}: event {}{}: {}", program.path, event.line, place, what);
}

std::pair<std::int64_t, std::size_t> place_along(const std::vector<RecordedType>& types,
                                                 std::size_t rank) {
  const auto own = static_cast<std::int64_t>(rank);
  std::int64_t place = 0, first = own;
  for (const RecordedType& type : types) {
    for (const auto& [size, stride] : type.of) {
      const std::int64_t here = own / stride % size;
      place = place * size + here;
      first -= here * stride;
    }
  }
  return {place, static_cast<std::size_t>(first)};
}

std::string op_text(const RecordedEvent& event) {
  return event.op.empty() ? std::string(to_string(event.kind)) : event.op;
}

std::string_view bare_op(std::string_view op) {
  const std::size_t begin = op.find('.');
  if (begin == std::string_view::npos) return op;
  return op.substr(begin + 1, op.find('.', begin + 1) - begin - 1);
}

bool is_in_place(std::string_view op) { return bare_op(op).ends_with('_'); }

bool is_recorded_send(const RecordedEvent& event) { return event.op == "c10d.send.default"; }

bool is_recorded_message(const RecordedEvent& event) {
  return is_recorded_send(event) || event.op == "c10d.recv_.default";
}

std::int32_t value_of_message(const RecordedEvent& event) {
  const auto& tensors = std::get<std::vector<GraphArgument>>(event.args[0].value);
  return std::get<ValueRef>(tensors[0].value).id;
}

bool is_gradient_check(const RecordedEvent& event) {
  return event.kind == RecordedKind::kCheck && event.pass == RecordedPass::kBackward;
}

bool is_of_optimizer(const RecordedEvent& event) {
  return event.kind == RecordedKind::kOp && event.pass == RecordedPass::kOptimizer;
}

const std::vector<std::int64_t>& members_of(const RecordedProgram& program,
                                            const RecordedEvent& event, std::size_t rank) {
  const RecordedGroup& groups = program.groups.at(static_cast<std::size_t>(event.group));
  return groups.at(groups.size() == 1 ? 0 : rank);
}

std::optional<std::int64_t> number_at(const std::vector<GraphArgument>& args, std::size_t at) {
  const auto* number = at < args.size() ? std::get_if<Scalar>(&args[at].value) : nullptr;
  const bool whole = number != nullptr && number->category() == Category::kInteger;
  return whole ? std::optional(number->to_int()) : std::nullopt;
}

std::vector<std::size_t> ranks_meant(std::int32_t rank, std::size_t ranks) {
  if (rank >= 0) return {static_cast<std::size_t>(rank)};
  std::vector<std::size_t> all(ranks);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::string without_op(std::string_view op) {
  // Kernels of a library that PyTorch takes for whole layers.
  if (op.find("mkldnn") != std::string_view::npos) {
    return "record it with torch.backends.mkldnn.enabled = False";
  }
  return "write it with ops that are here: shardlab ops";
}

Tensor recorded_tensor(Device& device, const RecordedProgram& program, const EventValue& value,
                       std::size_t rank, const TensorMeta& meta) {
  Tensor tensor = empty(device, meta);
  if (device.shape_only()) return tensor;
  const RecordedElements elements = value.elements.empty()
                                        ? RecordedElements{}
                                        : value.elements[value.elements.size() == 1 ? 0 : rank];
  const std::int64_t count = tensor.numel();
  if (elements.stored == RecordedElements::Stored::kNowhere) {
    fail(Fix{"record it with a larger data_limit"},
         "{}: the elements of value {} are not in the file", program.path, value.id.id);
  }
  if (elements.stored == RecordedElements::Stored::kBytes) {
    if (elements.bytes != static_cast<std::size_t>(count * item_bytes(meta.dtype))) {
      fail(Fix{record_again()}, "{}: value {} has {} bytes on rank {}, whose piece has {} elements",
           program.path, value.id.id, elements.bytes, rank, count);
    }
    device.write(tensor, program.raw->data() + elements.at);
    return tensor;
  }
  const std::vector<double> numbers = equal_or_formula(elements, meta.dtype, count);
  if (is_integral(meta.dtype)) {
    write_integers(tensor, std::vector<std::int64_t>(numbers.begin(), numbers.end()));
  } else {
    write_doubles(tensor, numbers);
  }
  return tensor;
}

}  // namespace shardlab
