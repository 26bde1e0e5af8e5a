// causes.h - the reason why a value may be wrong: common mistakes are tried on the numbers, and the
// one that fits is described in a sentence. Pure: numbers in, text out. Private to the files that
// verify.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mesh/spec.h"
#include "sim/scenario/cause.h"
#include "sim/verify/global_value.h"

namespace shardlab {

/// A number that a mistake may multiply or divide by: "the size of mesh dim tp".
struct NamedCount {
  std::int64_t count = 0;
  std::string what;
  bool of_mesh = false;  ///< the size of a mesh dim
};

/// A right value of the same program that a mistake may add: an input, an earlier value.
struct KnownValue {
  std::string name;
  GlobalValue value;
};

/// A number of the program that is not the same on all ranks.
struct UnequalNumber {
  std::string name;
  std::vector<std::pair<std::int64_t, double>> on_ranks;  ///< first rank, its number
};

/// Facts about one wrong value. Floats only; all are row-major.
struct Evidence {
  GlobalValue got;                     ///< as the ranks hold it together
  GlobalValue expected;                ///< of the single-device run
  const DTensorSpec* spec = nullptr;   ///< null: plain, each rank holds its own
  const MeshLayout* layout = nullptr;  ///< the mesh of `held`
  std::vector<GlobalValue> held;       ///< the value of each rank of the mesh, by mesh index
  std::vector<NamedCount> counts;
  std::vector<KnownValue> known;
  std::vector<UnequalNumber> numbers;
  bool gradient = false;   ///< labelled where its leaf is taken apart
  double relative = 1e-6;  ///< numbers this close, relative to the largest, are taken as equal
};

inline constexpr std::string_view kNoCause = "no simple cause fits";

/// The mistake that fits the numbers; empty if none does.
Cause cause_of(const Evidence& evidence);
/// For lack of a better cause: rows in another order, one factor for all ranks, ranks whose pieces
/// are right. kNone if none of these fits.
Cause last_resort(const Evidence& evidence);

}  // namespace shardlab
