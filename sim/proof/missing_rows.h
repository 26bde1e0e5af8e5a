// missing_rows.h - placings that send something, or are refused, though the op on the pieces alone
// would give a placement of the right result: rows that a rule could offer.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sim/proof/expected_call.h"
#include "sim/proof/placings.h"

namespace shardlab {

/// The piece of an input with these placements on a rank of the mesh.
using PieceOf =
    std::function<DTensor(std::size_t rank, std::size_t slot, const Placements& placements)>;

class MissingRows {
 public:
  /// `sample` outlives it.
  explicit MissingRows(const OpSample& sample) : sample_(sample) {}

  /// Searches these placings on a mesh of one dim; `expected` is the result of one device. Runs on
  /// a rank that is alone. A row that one mesh does not show is not found.
  void look(const MeshLayout* layout, const std::vector<Placing>& placings, const PieceOf& piece_of,
            const ExpectedCall& expected);
  /// "S(0), R -> S(0)", those that every mesh has shown; in order.
  std::vector<std::string> found() const;
  /// The number of rows, which are placements of the inputs and of one result, that were compared
  /// with the op on the pieces alone, whether it gives them or not.
  std::int64_t judged() const { return judged_; }

 private:
  bool may_be_row(const std::string& inputs) const;

  const OpSample& sample_;
  std::set<std::string> rows_;
  std::int64_t judged_ = 0;
  bool looked_ = false;
};

}  // namespace shardlab
