// rank_context.h - everything that is per rank (B-3): device, world group, flags, random state,
// observer. A thread or fiber runs in exactly one context; a context is never active on two.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace shardlab {

// Known by name only: this header is below all of them. A context owns none of them.
class Device;
class ProcessGroup;
class Observer;
class PlanCache;
class ProgramCalls;
class MeshRegistry;
class Propagator;
class RankQuestions;
class Scheduler;
struct MemoryAccount;  // memory_account.h

/// State of the counter-based generator: equal on every rank of the world at every step of
/// a program that is not rank-dependent.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< in elements; advances by the global element count of each draw
};
/// A user's random generator, shared by reference, so that draws advance it.
using Generator = std::shared_ptr<RandomState>;

/// The place in a user's program where a rank is. Points into the program text, which outlives the
/// run.
struct SourcePosition {
  const char* file = nullptr;
  std::int32_t line = 0;
  std::int32_t column = 0;  ///< from 1; 0: in a program in C++
  bool in_cpp() const { return file != nullptr && column == 0; }
};
/// "line 12", or of a program in C++ "step.cpp:12".
std::string place_text(const SourcePosition& position);

/// Meaning of a plain tensor next to a DTensor (D-6): refused, or a replica on every mesh dim.
enum class MixedTensors : std::uint8_t { kRefuse, kReplicate };
/// Policy for an op's input that must be redistributed with communication.
enum class ImplicitRedistribution : std::uint8_t { kAllow, kWarn, kForbid };

/// The pass of a program that runs; reports list the two apart.
enum class Pass : std::uint8_t { kForward, kBackward };

/// Bits of the mode mask: one branch on the fast path tests whether any is set.
enum ModeBit : std::uint32_t {
  kModeAutograd = 1u << 0,  ///< record a tape
  kModeObserve = 1u << 1,   ///< `observer` is called on ops, redistributions, collectives
};

/// The fields that every collective and every op reads are on one cache line: other ranks ran on
/// this core in the meantime, so that each line that a rank reads first after a switch is likely a
/// cache miss.
struct alignas(64) RankContext {
  /// Number of this rank in the world, from 0.
  std::int64_t rank = 0;
  /// Runs this rank and its neighbours; null outside of a simulated world.
  Scheduler* scheduler = nullptr;
  /// Makes the tensors of this rank.
  Device* device = nullptr;
  /// Called only while kModeObserve is set.
  Observer* observer = nullptr;
  /// Bits of ModeBit.
  std::uint32_t mode = kModeAutograd;
  MixedTensors mixed = MixedTensors::kRefuse;
  ImplicitRedistribution implicit = ImplicitRedistribution::kAllow;
  Pass pass = Pass::kForward;
  const char* op = nullptr;  ///< ATen name of the op being dispatched; outlives the run
  SourcePosition position;

  /// Ranks of the run, those outside of every mesh included.
  std::int64_t world_size = 1;
  std::int64_t step = 0;              ///< ops dispatched so far, for messages
  std::uint64_t identity = 0;         ///< the run's number, times 2^32, + rank + 1; 0: not known
  MemoryAccount* memory = nullptr;    ///< outlives every Storage made on this rank; may be null
  ProcessGroup* world = nullptr;      ///< all ranks of the run
  ProgramCalls* calls = nullptr;      ///< the calls of a program here (autograd/program.h)
  ProgramCalls* own_calls = nullptr;  ///< the end of that chain: for programs inside of ops
  /// Called where the ranks that this one represents may part; null: it represents itself alone.
  RankQuestions* questions = nullptr;
  MeshRegistry* meshes = nullptr;    ///< the DeviceMeshes of this rank, by (layout, device type)
  Propagator* propagator = nullptr;  ///< decisions and plans, shared by all ranks of the process
  PlanCache* plans = nullptr;        ///< the propagator's; the part that the executor needs
  /// Source of the numbers that random ops draw when the call names no generator.
  RandomState random;
};

#ifdef __SANITIZE_THREAD__
RankContext* current_rank_or_null();
RankContext* set_current_rank(RankContext* context);
#else
/// The only thread_local of the code base; schedulers write it at each switch. A fiber keeps to its
/// OS thread, so that compilers may keep the address across switches.
extern thread_local constinit RankContext* running_rank;

/// Null outside of a rank.
inline RankContext* current_rank_or_null() { return running_rank; }
/// Makes `context` current on this thread or fiber (null: none) and returns the previous one.
/// For schedulers and worlds only.
inline RankContext* set_current_rank(RankContext* context) {
  return std::exchange(running_rank, context);
}
#endif

[[noreturn]] void refuse_outside_of_rank();
/// The context of the rank that runs here. Fails with Runtime outside of a rank.
inline RankContext& current_rank() {
  RankContext* context = current_rank_or_null();
  if (context == nullptr) [[unlikely]] {
    refuse_outside_of_rank();
  }
  return *context;
}

}  // namespace shardlab
