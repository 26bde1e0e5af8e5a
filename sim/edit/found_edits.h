// found_edits.h - edits of one statement by their kinds, and the files that find them. Pure.
// Private to the files that propose edits.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/edit/proposals.h"

namespace shardlab {

enum class EditKind : std::uint8_t {
  kReduction,   ///< one more
  kLess,        ///< one less
  kTermAfter,   ///< what is added is put behind the reduction
  kAverage,     ///< in place of a sum, or the other way
  kFactor,      ///< a count of ranks
  kGroup,       ///< another one, or another count of ranks
  kLabel,       ///< placements of what is labelled, and of gradients
  kWhole,       ///< distributed tensors instead of pieces
  kOffset,      ///< a rank's place
  kDim,         ///< 0 for 1
  kDropped,     ///< a method that is called
  kWeighted,    ///< a mean of means becomes a sum over a count
  kOutOfPlace,  ///< a new value instead of a write
  kShape,       ///< of the whole, in from_local
  kAveraged,    ///< weights after the step, not gradients: the last resort
};
constexpr int kKinds = 15;

class FoundEdits {
 public:
  /// `suspicion` outlives this.
  explicit FoundEdits(const Suspicion& suspicion)
      : text(suspicion.program->source->text()), of(suspicion) {}

  void add(EditKind kind, const ast::Expression& place, std::string edited, std::string what);
  /// One for each mesh dim, which is {0} of both patterns; {1} is `part`.
  void add_for_dims(EditKind kind, const ast::Expression& place, const char* pattern,
                    const char* what, const std::string& part = "");
  std::vector<Proposal>& operator[](EditKind kind) {
    return by_kind[static_cast<std::size_t>(kind)];
  }

  const ProgramText text;
  const Suspicion& of;
  std::array<std::vector<Proposal>, kKinds> by_kind;
};

/// torch, dist, mesh: no value.
bool is_module(const ast::Expression& expression);

/// Other labels of what a call labels or takes apart, and distributed tensors in place of pieces.
void find_labels(const ast::Expression& expression, const ast::Call& call, FoundEdits& found);
/// One of two operands on other meshes is moved to the mesh of the other, where the op was refused.
void find_moves(const ast::Expression& left, const ast::Expression& right, FoundEdits& found);
/// Another group, or none, for a collective; a term, or a division, that goes behind it.
void find_reductions(const ast::Expression& expression, const ast::Call& call, FoundEdits& found);

}  // namespace shardlab
