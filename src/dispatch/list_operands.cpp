// The first element's call decides the placement of the tensor next to the lists, and all others
// use it. A written element keeps its placements: it may stay pending only where its own
// call and the first element's move nothing.
#include "dispatch/list_operands.h"

#include <algorithm>

#include "dispatch/prepare.h"
#include "dispatch/unwrap.h"
#include "redistribute/redistribute.h"
#include "schema/list_element.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

DTensor without_terms(const DTensor& x) {
  if (!x.distributed() || !x.spec()->has_partial()) return x;
  return redistribute_tensor(x, x.spec()->with(Placements(x.spec()->layout()->ndim())));
}

bool mixes_tensors_and_lists(const Arguments& args) {
  return std::ranges::any_of(args, [](const Argument& argument) {
    return argument.is_tensor() && argument.tensor().defined();
  });
}

// Whether the op on element k takes its operands as they are placed.
bool moves_nothing(const OpRow& row, const Arguments& args, std::size_t k) {
  const OpRow* one = element_row(row);
  if (one == nullptr) return false;
  const Unwrapped call = unwrap(*one, element_arguments(row, args, k));
  return !call.distributed || !decide(call)->needs_redistribute;
}

void check_written_terms(const OpRow& row, const Arguments& args, const ArgumentList& list) {
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (!list[k].is_tensor() || !list[k].tensor().distributed()) continue;
    if (!list[k].tensor().spec()->has_partial()) continue;
    if (moves_nothing(row, args, k) && moves_nothing(row, args, 0)) continue;
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: a pending reduction would need the tensor next to the lists "
                            "differently than the other elements",
                            row.name()))
        .with("op", fmt::format("element {}", type_string(list[k].tensor())))
        .with("fix", "redistribute it to R first, or call the op for each element");
  }
}

}  // namespace

Arguments with_whole_operands(const OpRow& row, const Arguments& args) {
  if (!mixes_tensors_and_lists(args)) return args;
  Arguments whole = args;
  for (Argument& argument : whole) {
    if (!argument.is_tensor() || !argument.tensor().defined()) continue;
    argument = without_terms(argument.tensor());
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!whole[i].is_list()) continue;
    if (row.inplace() && !only_read(row, i)) {
      check_written_terms(row, whole, whole[i].list());
      continue;
    }
    ArgumentList items = whole[i].list();
    for (Argument& item : items) {
      if (item.is_tensor() && item.tensor().defined()) item = without_terms(item.tensor());
    }
    whole[i] = std::move(items);
  }
  return whole;
}

}  // namespace shardlab
