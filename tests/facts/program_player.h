// program_player.h - a program that was recorded elsewhere, run here call by call on all its ranks
// (tests/golden/facts/programs/README.md).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "propagate/propagator.h"
#include "sim/world/world.h"
#include "tensor/device.h"
#include "tests/facts/recorded_event.h"

namespace shardlab {

/// The results of one event.
struct PlayedEvent {
  std::vector<Results> results;      ///< by rank; lists flattened, None is undefined
  std::vector<Results> kept;         ///< the same with the recorded placements
  Json moves = Json::array();        ///< of rank 0: operands that the call had redistributed
  Json collectives = Json::array();  ///< of rank 0, in order: kind, mesh dim, reduction
  std::optional<Error> error;
};

/// Runs events in the order of the file, and keeps the values that they made under their numbers.
/// Used by one thread.
class ProgramPlayer {
 public:
  /// `program`: the first line of the file; `most_bytes`: of the memory of all ranks. Fails with
  /// Value if it is malformed, Unsupported for a mesh that is too large to run.
  ProgramPlayer(const Json& program, std::int64_t most_bytes);
  ~ProgramPlayer();
  ProgramPlayer(const ProgramPlayer&) = delete;
  ProgramPlayer& operator=(const ProgramPlayer&) = delete;

  const MeshLayout* layout() const { return layout_; }
  /// Values of plain tensors were recorded on rank 0 alone, and pieces exchanged by an all-gather
  /// and a cut (K-11).
  bool one_rank_recorded() const { return one_rank_recorded_; }
  /// Nothing holds data: values are shapes.
  bool shapes_only() const { return shapes_only_; }
  /// Whether every value that the event takes is there.
  bool has_operands(const Json& event) const;

  /// Inputs and constants too: they return the values they describe.
  PlayedEvent play(const Json& event);
  std::size_t ranks() const { return values_.size(); }
  /// The placements of a recorded value, as a rank sees them.
  const DTensorSpec* spec_of(const Json& value, std::size_t rank) const;
  /// The device of the values.
  Device& device() const { return *device_; }
  /// From now on this is the value of a number on one rank.
  void put(std::size_t number, std::size_t rank, DTensor value) {
    values_.at(rank).at(number) = std::move(value);
  }
  /// From now on these are the values of the numbers in the event's "out"; existing ones stay.
  void keep(const Json& event, const PlayedEvent& played);
  /// With shapes alone: the results of the event are those in the file, without a computation.
  void suppose(const Json& event);
  /// Values of these numbers are unknown from now on: those that the event returns or writes to.
  void forget(const Json& event);
  /// The value of a number on a rank; undefined if there is none.
  const DTensor& value(std::size_t number, std::size_t rank = 0) const {
    return values_[rank].at(number);
  }
  /// The value of a number on each rank.
  std::vector<DTensor> values(std::int64_t number) const;

 private:
  std::optional<Error> run_ranks(const RankBody& body);

  Arena arena_;
  const MeshLayout* layout_ = nullptr;
  bool shapes_only_ = false;
  bool one_rank_recorded_ = false;
  std::unique_ptr<Device> device_;
  Propagator propagator_;
  std::unique_ptr<World> world_;
  std::vector<std::vector<std::string>> submeshes_;
  /// Indexed by rank, then by number; with shapes alone the first rank has all.
  std::vector<std::vector<DTensor>> values_;
};

}  // namespace shardlab
