// local_map: a function of pieces as one of distributed tensors. On one device it is called as it
// is. Gradients of inputs are labelled as the program says, else as the inputs are.
#include <algorithm>

#include "api/mesh.h"
#include "autograd/autograd.h"
#include "base/fix.h"
#include "mesh/placement_dims.h"
#include "mesh/type_string.h"
#include "sim/language/builtins/local_map.h"
#include "sim/language/run/mesh_value.h"
#include "sim/language/values/object.h"

namespace shardlab {

namespace {

bool is_placement_list(const Value& value) {
  return value.is_sequence() && std::ranges::all_of(items_of(value), [](const Value& item) {
           return item.is<Placement>();
         });
}

Placements placements_in(const Value& list, std::size_t ndim) {
  Placements placements;
  for (const Value& item : items_of(list)) placements.push_back(placement_of(item));
  return normalized(std::move(placements), ndim);
}

// The entry for an argument or result: of one list for all, or of a list of lists.
Value entry_of(const Value& lists, std::size_t index) {
  if (lists.is_none() || !lists.is_sequence()) return {};
  if (is_placement_list(lists) && !items_of(lists).empty()) return index == 0 ? lists : Value();
  return index < items_of(lists).size() ? items_of(lists)[index] : Value();
}

class LocalMap final : public Callable {
 public:
  explicit LocalMap(const Parameters& given)
      : function_(given["func"]),
        out_(given["out_placements"]),
        in_(given["in_placements"]),
        gradients_(given["in_grad_placements"]),
        mesh_(given["device_mesh"]),
        redistributes_(given.flag_or("redistribute_inputs", false)) {}
  std::string_view kind() const override { return "local_map"; }

  Value call(Interpreter& in, CallValues call) override {
    if (in.plain()) return in.call(function_, std::move(call));
    const MeshLayout* mesh = mesh_.is_none() ? nullptr : construct_mesh(layout_of(in, mesh_));
    bool distributed = false;
    for (std::size_t i = 0; i < call.positional.size(); ++i) {
      Value& argument = call.positional[i];
      if (!argument.is_tensor() || !argument.as<DTensor>().distributed()) continue;
      if (mesh == nullptr) mesh = argument.as<DTensor>().spec()->layout();
      distributed = true;
      argument = piece_of(argument.as<DTensor>(), i);
    }
    const Value result = in.call(function_, std::move(call));
    if (!distributed) return result;
    if (result.is_tensor()) return labelled(result, 0, mesh);
    if (!result.is_sequence()) return result;
    Values results;
    for (std::size_t i = 0; i < items_of(result).size(); ++i) {
      results.push_back(labelled(items_of(result)[i], i, mesh));
    }
    return make_tuple(std::move(results));
  }

 private:
  DTensor piece_of(DTensor x, std::size_t index) const {
    if (const Value wanted = entry_of(in_, index); !wanted.is_none()) {
      const Placements placements = placements_in(wanted, x.ndim());
      if (x.spec()->placements() != placements) {
        if (!redistributes_) {
          fail(Fix{"redistribute_inputs=True moves it, or x.redistribute(...)"},
               "local_map: argument {} is {}, in_placements have {}", index, type_string(x),
               to_string(placements));
        }
        x = redistribute(x, placements);
      }
    }
    const Value label = entry_of(gradients_, index);
    return label.is_none() ? to_local(x) : to_local(x, placements_in(label, x.ndim()));
  }

  Value labelled(const Value& result, std::size_t index, const MeshLayout* mesh) const {
    const Value label = entry_of(out_, index);
    if (!result.is_tensor() || label.is_none()) return result;
    const DTensor& piece = result.as<DTensor>();
    return from_local(piece, mesh, placements_in(label, piece.ndim()), std::nullopt);
  }

  const Value function_, out_, in_, gradients_, mesh_;
  const bool redistributes_;
};

}  // namespace

Value run_local_map(Interpreter&, const Value*, CallValues call) {
  const Parameters given("local_map",
                         {"func", "out_placements", "in_placements=", "in_grad_placements=",
                          "device_mesh=", "redistribute_inputs="},
                         std::move(call));
  return ObjectValue{std::make_shared<LocalMap>(given)};
}

}  // namespace shardlab
