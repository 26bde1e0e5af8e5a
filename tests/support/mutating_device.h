// mutating_device.h - a device that gives one wrong result, which the verifier must notice. A
// wrapper around any device that has data.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tensor/device.h"

namespace shardlab {

/// Mistakes as they are made in kernels that depend on a rank's position, or in the memory of their
/// results.
enum class KernelMistake : std::uint8_t {
  kWrongOffset,   ///< the kernel computes the piece that is one element further on
  kNoMask,        ///< a masked lookup finds something everywhere: the first entry
  kStaleResult,   ///< the result is that of an earlier launch of its shape, or zeros
  kSwappedHalves  ///< the two halves of the result along its first dim change places
};
inline constexpr KernelMistake kKernelMistakes[] = {
    KernelMistake::kWrongOffset, KernelMistake::kNoMask, KernelMistake::kStaleResult,
    KernelMistake::kSwappedHalves};
/// "wrong offset", ...
std::string_view to_string(KernelMistake mistake);

/// One launch by an observed rank.
struct Launch {
  KernelId kernel{};
  std::int64_t index = 0;  ///< among the rank's observed launches of this kernel
  bool positioned = false;
  bool masked = false;
};
/// Whether the mistake can be made in such a launch.
bool applies(KernelMistake mistake, const Launch& launch);

/// One wrong launch on each rank it concerns.
struct WrongLaunch {
  KernelMistake mistake = KernelMistake::kStaleResult;
  KernelId kernel{};
  std::int64_t index = 0;            ///< Launch::index
  std::optional<std::int64_t> rank;  ///< none: every rank
};

/// Launches of ranks while they were observed. Each rank writes its own list; read after the run.
struct LaunchLog {
  std::vector<std::vector<Launch>> by_rank;
  std::atomic<std::int64_t> changed{0};  ///< launches that were wrong, on all ranks together
};

/// Around `device`, which outlives it, for the ranks [0, ranks). The log is that of the device made
/// last. Launches from outside of ranks, or while the rank is not observed, are let through.
/// Thread-safe as far as `device` is.
std::unique_ptr<Device> plant_launch(Device& device, std::int64_t ranks,
                                     std::optional<WrongLaunch> wrong,
                                     std::shared_ptr<LaunchLog> log);

}  // namespace shardlab
