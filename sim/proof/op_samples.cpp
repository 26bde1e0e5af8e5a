// The table is data: programs that prove no op do not read it.
#include "sim/proof/op_samples.h"

#include <algorithm>

#include "base/program_path.h"
#include "sim/files/text_lines.h"
#include "sim/proof/read_samples.h"

namespace shardlab {

std::span<const OpSample> all_samples() {
  static const std::vector<OpSample> samples = [] {
    const std::string path = shipped_file("samples.txt", "sim/proof/samples.txt").string();
    std::vector<OpSample> all = read_samples(read_text(path), path);
    std::stable_partition(all.begin(), all.end(),
                          [](const OpSample& sample) { return !sample.fixed; });
    for (OpSample& sample : samples_of_several_calls()) {
      sample.fixed = true;
      all.push_back(std::move(sample));
    }
    return all;
  }();
  return samples;
}

std::span<const OpSample> op_samples() {
  const std::span<const OpSample> all = all_samples();
  return all.first(
      static_cast<std::size_t>(std::ranges::find(all, true, &OpSample::fixed) - all.begin()));
}

}  // namespace shardlab
