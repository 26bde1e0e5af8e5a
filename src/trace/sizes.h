// sizes.h - arithmetic on sizes, as programs do it and graphs repeat it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardlab {

/// "+", "-", "*", "//" or "%", the last two rounded down as in Python. None: another op, a division
/// by zero, a result that does not fit.
std::optional<std::int64_t> size_arithmetic(std::string_view op, std::int64_t a, std::int64_t b);
/// "==", "!=", "<", "<=", ">" or ">=". None: another op.
std::optional<bool> size_comparison(std::string_view op, std::int64_t a, std::int64_t b);

}  // namespace shardlab
