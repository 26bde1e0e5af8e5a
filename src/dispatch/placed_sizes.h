// placed_sizes.h - a cache: sizes of local outputs that were found to fit these local inputs.
#pragma once

#include <array>
#include <cstdint>

#include "dispatch/local_call.h"
#include "mesh/mesh_layout.h"

namespace shardlab {

/// Remembers the results of a decision on a coordinate for pieces of these sizes: a pure function
/// of the three, so that the same call need not be checked twice. A bounded table, of one OS
/// thread.
class PlacedSizes {
 public:
  /// The table of the calling thread.
  static PlacedSizes& of_thread();

  /// The output metas that were kept, or null. Valid until the next keep().
  const OutputMetas* find(std::uint64_t decision, const Coordinate& coordinate,
                          const LocalTensors& pieces) const;
  /// Replaces another entry, if there is one.
  void keep(std::uint64_t decision, const Coordinate& coordinate, const LocalTensors& pieces,
            const OutputMetas& metas);

 private:
  static constexpr std::size_t kEntries = 256;  // a power of two
  struct Entry {
    std::uint64_t decision = 0;  // 0: none
    Coordinate coordinate;
    InlineVector<std::int64_t, 8> sizes;  // of each piece: number of dims, then their sizes
    OutputMetas metas;
  };
  static std::size_t place_of(std::uint64_t decision, const Coordinate& coordinate);

  std::array<Entry, kEntries> entries_;
};

}  // namespace shardlab
