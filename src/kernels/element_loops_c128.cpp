// The loops of the element functions over c128.
#include <complex>

#include "kernels/element_loops.h"

namespace shardlab {

template std::span<const ElementLoop> element_loops<std::complex<double>>();

}  // namespace shardlab
