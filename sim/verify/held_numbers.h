// held_numbers.h - questions to the numbers that ranks hold, whatever their dtype. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/verify/global_value.h"

namespace shardlab {

/// Integers and bools as floats; others as they are.
GlobalValue in_reals(GlobalValue value);
/// Equal shapes and equal numbers.
bool same_numbers(const GlobalValue& a, const GlobalValue& b);
/// Equal shapes and integers, reals within `relative` of the largest of `a`.
bool close_numbers(const GlobalValue& a, const GlobalValue& b, double relative);
/// The place of a row-major element along each dim.
Dims index_of(std::int64_t element, const Dims& shape);
/// Whether ranks along one mesh dim hold the same; `held` by mesh index.
bool alike_along(const std::vector<GlobalValue>& held, const MeshLayout& layout, std::size_t dim);

}  // namespace shardlab
