// Calls by name bind their arguments first; those that fit as given take the short way.
#include "schema/calls.h"

#include "schema/binder.h"
#include "schema/op_row.h"

namespace shardlab {

Results Calls::operator()(std::string_view name, Arguments args) {
  const OpRow& row = find(name);
  if (bind_as_given(row, args)) return call(row, args);
  return call(row, bind_arguments(row, std::move(args)));
}

DTensor Calls::one(std::string_view name, Arguments args) {
  Results results = (*this)(name, std::move(args));
  check_invariant(results.size() == 1 && results[0].is_tensor(), "the op has one tensor result");
  return std::move(std::get<DTensor>(results[0].variant()));
}

}  // namespace shardlab
