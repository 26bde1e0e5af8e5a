// json_number.h - numbers in JSON, which has neither NaN nor infinities.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace shardlab {

/// The number, or "nan", "inf" or "-inf".
inline nlohmann::json json_number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace shardlab
