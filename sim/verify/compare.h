// compare.h - the verdict on numbers (design section 9): bitwise where movement and pointwise ops
// alone made a value, otherwise the envelope around a single-device program in f64.
#pragma once

#include <optional>
#include <string>

#include "sim/verify/global_value.h"

namespace shardlab {

enum class Agreement : std::uint8_t {
  kBitwise,    ///< right, bit for bit
  kEnvelope,   ///< right, within the envelope
  kTolerance,  ///< right by the user's tolerance only
  kUndecided,  ///< integers or bools that depend on floats inside their envelope
  kWrong,
};
std::string_view to_string(Agreement agreement);

struct Comparison {
  Agreement agreement = Agreement::kBitwise;
  double error = 0;               ///< max |sharded - ref| (bitwise: against the single device)
  double allowed = 0;             ///< 4 e1 + 16 u s, or the user's tolerance
  std::int64_t worst_index = -1;  ///< row-major global element with the largest error
  double got = 0, expected = 0;   ///< there
  std::string what;               ///< one line when wrong
};

/// How a value is judged.
struct Judgement {
  bool exact = false;                        ///< bitwise against `single`
  std::optional<double> relative_tolerance;  ///< the user's, for the dtype
};

/// `single`: one device, same dtypes. `reference`: one device in f64. All row-major and global.
Comparison compare(const GlobalValue& sharded, const GlobalValue& single,
                   const GlobalValue& reference, const Judgement& judgement);

}  // namespace shardlab
