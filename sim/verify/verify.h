// verify.h - every recorded value of all ranks against one device (design section 9).
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/verify/compare.h"
#include "sim/verify/kept_value.h"
#include "sim/verify/recording.h"

namespace shardlab {

/// One value of the program and what became of it.
struct ValueReport {
  std::string name;
  std::int64_t occurrence = 0;
  Where where;
  std::string type;       ///< "f32[8@dp, 16]" on the first rank
  std::size_t event = 0;  ///< how many events the reporting rank's trace had before
  bool verified = false;
  std::string not_verified;  ///< the reason otherwise
  Comparison comparison;
  std::string holders;  ///< of the wrong element: "ranks 0,4 at [3, 1]"
  /// One; or one a rank where ranks hold their own, one a sub-mesh for a slice of the mesh.
  std::vector<KeptValue> kept;
};

struct VerifyInputs {
  std::vector<const Recording*> ranks;  ///< by global rank
  /// One device, the program's dtypes. One recording, or, for programs that read their rank, one
  /// per rank told that rank's number. None: nothing is verified, values are only kept.
  std::vector<const Recording*> single;
  std::vector<const Recording*> reference;  ///< likewise, in f64
  std::vector<std::pair<DType, double>> tolerance;
  std::int64_t keep = 0;  ///< elements of each value to keep; 0: no values
  /// Of a value that is compared; a view can have more than there is memory for.
  std::int64_t most_elements = std::numeric_limits<std::int64_t>::max();
};

/// Adds a report for each recorded value that has none yet, with the reason why nothing is known of
/// its elements.
void list_values(const Recording& recording, const std::string& reason,
                 std::vector<ValueReport>& reports);

/// In the order of the first rank that recorded a value; values that only some ranks have come
/// last.
std::vector<ValueReport> verify_values(const VerifyInputs& inputs);

}  // namespace shardlab
