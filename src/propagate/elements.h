// elements.h - the decisions that a call needs: one, or one per list element (foreach family, O-15,
// K-31).
#pragma once

#include "propagate/expansion.h"

namespace shardlab {

/// Metas of every tensor argument as declared, lists flattened; null for None and numbers.
MetaList argument_metas(const OpSchema& schema);
/// Global metadata of a call's results (K-22).
OutputMetas infer_outputs(const OpSchema& schema);

/// The places of a list element's tensors among the call's.
struct ElementOfList {
  OpSchema schema;                     ///< lists replaced by their element
  OutputMetas outputs;                 ///< of this element
  std::vector<std::size_t> positions;  ///< per tensor of the element: index among the call's
};

/// The elements of a foreach call that gives `outputs`. Fails with Value for lists of different
/// lengths, or none at all.
std::vector<ElementOfList> list_elements(const OpSchema& schema, const OutputMetas& outputs);
/// True when the call is decided element by element.
bool independent_lists(const OpSchema& schema);

/// The call, or list element, as the expansion takes it. `schema` must outlive the result.
Element make_element(const OpSchema& schema, OutputMetas outputs);

}  // namespace shardlab
