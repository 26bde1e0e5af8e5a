// fact_world.h - runs recorded redistributions on simulated ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "plan/plan.h"
#include "tensor/device.h"
#include "tests/facts/check.h"
#include "tests/facts/redistribute_facts.h"

namespace shardlab {

/// Collectives of one rank by the name the facts use (`all_gather_into_tensor`, ...). The
/// recordings were made where an all-to-all is an all-gather and a local cut (K-11).
using FactCounts = std::map<std::string, std::int64_t>;

/// Worlds of all sizes with one arena and one device. Tensors of a run live as long as this. Used
/// by one thread.
class FactWorld {
 public:
  FactWorld();
  ~FactWorld();

  Arena& arena() { return arena_; }
  Device& device() { return *device_; }

  /// Runs `body` on every rank of a world as large as the layout, with the layout's mesh made.
  /// Throws what the ranks threw. Collectives of rank 0 are added to `counts` when given.
  void run(const MeshLayout* layout, const std::function<void(std::size_t rank)>& body,
           FactCounts* counts);

  /// `[shape, row-major values]` as a tensor, and back.
  Tensor tensor_of(const Json& piece, DType dtype);
  static Json json_of(const Tensor& tensor);

 private:
  Arena arena_;
  std::unique_ptr<Device> device_;
  PlanCache plans_;
};

/// Compares pieces of all ranks: shapes exactly, values to 1e-6 relative.
void expect_pieces(std::string_view field, const Json& expected, const std::vector<Json>& got,
                   CaseReport& report);

}  // namespace shardlab
