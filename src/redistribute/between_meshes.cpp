// A move that no plan on one mesh makes is made of messages: a message is one box of elements, and
// boxes have one order on both sides.
#include "redistribute/between_meshes.h"

#include <algorithm>

#include "base/error.h"
#include "comm/device_mesh.h"
#include "comm/filling.h"
#include "comm/observer.h"
#include "mesh/local_shape.h"
#include "mesh/mesh_views.h"
#include "plan/move_pieces.h"
#include "plan/plan.h"
#include "redistribute/local_math.h"
#include "redistribute/redistribute.h"

namespace shardlab {
namespace {

std::int64_t elements_of(const Box& box) {
  std::int64_t count = 1;
  for (const Shared& run : box) count *= run.size;
  return count;
}

Tensor box_of(Tensor piece, const Box& box, std::int64_t Shared::*first) {
  for (std::size_t dim = 0; dim < box.size(); ++dim) {
    piece = piece.narrow(dim, box[dim].*first, box[dim].size);
  }
  return piece;
}

/// The piece of `target` that this rank holds, from the pieces of `source`.
Tensor exchanged(const Tensor& x, const DTensorSpec& source, const DTensorSpec& target) {
  constexpr std::int64_t kMostRanks = 16384;  // each rank looks at the pieces of all others
  const std::int64_t own = current_rank().rank;
  ProcessGroup& world = *current_rank().world;
  if (world.size() > kMostRanks) {
    fail(ErrorKind::kUnsupported,
         Fix{"make it whole on its own mesh, and cut that: "
             "x.redistribute(x.device_mesh, [Replicate()]).redistribute(mesh, [Shard(0)])"},
         "a move between meshes of more than {} ranks that is no other view of the same pieces",
         kMostRanks);
  }
  const InUse<MovePieces> pieces = current_rank().plans->pieces(&source, &target);
  const Holder* here = pieces->to.at(own);
  const Holder* sender = pieces->from.at(own);
  Tensor result =
      empty(*current_rank().device, target.ndim() == 0 ? Dims{} : Dims{0}, target.dtype());
  if (here != nullptr) {
    const TensorMeta meta = local_meta(*here->spec, *here->spec->layout()->coordinate_of(own));
    result = empty(*current_rank().device, meta.shape, meta.dtype);
  }
  // Each has partners of its own; all others do the same.
  world.compare_answers([&](std::int64_t rank) -> std::uint64_t {
    return pieces->partners.contains(rank) ? static_cast<std::uint64_t>(rank) + 1 : 0;
  });
  std::vector<Tensor> sent;
  std::vector<std::pair<Tensor, Tensor>> arriving;  // each with its place
  using Partners = std::vector<const Holder*>;
  {
    const BatchScope batch;  // two ranks that send to each other would wait in a queue of both
    for (const Holder* to : sender == nullptr ? Partners() : pieces->receivers_of(*sender)) {
      if (to->rank == own) continue;
      for (const Box& box : shared_boxes(sender->view, to->view)) {
        const Tensor message = clone_contiguous(box_of(x, box, &Shared::from));
        sent.push_back(world.send(message, to->rank, kMoveTag, Issue::kAsync));
      }
    }
    for (const Holder* from : here == nullptr ? Partners() : pieces->sources_of(*here)) {
      for (const Box& box : shared_boxes(from->view, here->view)) {
        const Tensor place = box_of(result, box, &Shared::to);
        const TensorMeta meta = contiguous_meta(place.shape(), target.dtype());
        arriving.emplace_back(from->rank == own
                                  ? box_of(x, box, &Shared::from)
                                  : world.recv(meta, from->rank, kMoveTag, Issue::kAsync),
                              place);
      }
    }
  }
  for (const Tensor& message : sent) message.wait();
  for (auto& [piece, place] : arriving) {
    piece.wait();
    place.device()->copy(place, piece);
  }
  return result;
}

using Cuts = std::vector<std::vector<std::size_t>>;

/// Lists by tensor dim the dims of `fine` that cut it, in their order; empty if pieces of pieces
/// are not those of one cut.
std::optional<Cuts> cuts_on(const MeshLayout& fine, const DTensorSpec& spec) {
  const auto axes = axes_on(fine, *spec.layout());
  if (!axes) return std::nullopt;
  Cuts cuts(spec.ndim());
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    std::int64_t length = spec.shape()[dim], last = 0;  // of a piece; of one that is shorter
    for (const std::size_t mesh_dim :
         cutting_order(spec.placements(), spec.order(), static_cast<std::int64_t>(dim))) {
      if (spec.placement(mesh_dim).is_strided_shard()) return std::nullopt;
      for (const auto& [part, step] : (*axes)[mesh_dim]) {
        const auto cut = [&, count = fine.size(part)](std::int64_t whole) {
          return (whole + count - 1) / count;
        };
        // The first cut may be uneven, if its last piece is cut where the others are.
        const bool first = cuts[dim].empty();
        const std::int64_t piece = cut(length);
        const bool even = piece * fine.size(part) == length && (last == 0 || cut(last) == piece);
        if (!first && !even) return std::nullopt;
        if (piece != 0) last = (first ? length : last) % piece;
        length = piece;
        cuts[dim].push_back(part);
      }
    }
  }
  return cuts;
}

const DTensorSpec* spec_of_cuts(const MeshLayout& fine, const Cuts& cuts, const DTensorSpec& spec) {
  Placements placements(fine.ndim(), Placement::replicate());
  ShardOrder order(fine.ndim(), -1);
  for (std::size_t dim = 0; dim < cuts.size(); ++dim) {
    for (std::size_t i = 0; i < cuts[dim].size(); ++i) {
      placements[cuts[dim][i]] = Placement::shard(static_cast<std::int64_t>(dim));
      order[cuts[dim][i]] = static_cast<std::int32_t>(i);
    }
  }
  return fine.arena().spec(&fine, placements, order, spec.meta());
}

bool begins_all(const Cuts& shorter, const Cuts& longer) {
  return std::ranges::equal(shorter, longer, [](const auto& a, const auto& b) {
    return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
  });
}

/// The piece of `wants` at `at` out of x, which has all of it: the piece of `has` in view.
Tensor cut_out(const Tensor& x, const LocalView& has, const DTensorSpec& wants,
               const Coordinate& at) {
  const TensorMeta meta = local_meta(wants, at);
  Tensor piece = empty(*current_rank().device, meta.shape, meta.dtype);
  for (const Box& box : shared_boxes(has, local_view(wants, at))) {
    Tensor place = box_of(piece, box, &Shared::to);
    place.device()->copy(place, box_of(x, box, &Shared::from));
  }
  return piece;
}

/// Replicas on all ranks have each piece of the target, uneven ones too: nothing is sent.
std::optional<Tensor> cut_of_replicas(const Tensor& x, const DTensorSpec& source,
                                      const DTensorSpec& target) {
  const MeshLayout& from = *source.layout();
  const bool on_all = from.size() == current_rank().world->size() && !from.is_cut();
  const auto at = target.layout()->coordinate_of(current_rank().rank);
  if (!on_all || !at || !std::ranges::all_of(source.placements(), &Placement::is_replicate)) {
    return std::nullopt;
  }
  if (std::ranges::all_of(target.placements(), &Placement::is_replicate)) return x;
  const Coordinate own = *from.coordinate_of(current_rank().rank);
  return cut_out(x, local_view(source, own), target, *at);
}

/// The piece on the other mesh as the refinement of both gives it, if all ranks of the world are on
/// it: part of the own piece, or gathered by a plan, which sends what is lacked. No rank looks at
/// others. Parts of a mesh may hold values of their own, so that no plan is theirs.
std::optional<Tensor> refined(const Tensor& x, const DTensorSpec& source, const DTensorSpec& target,
                              const RedistributeOptions& options) {
  if (const auto own = cut_of_replicas(x, source, target)) return own;
  const MeshLayout* fine = refinement(*source.layout(), *target.layout());
  if (fine == nullptr || fine->size() != current_rank().world->size()) return std::nullopt;
  if (const auto specs = gathered_on_refinement(source, target)) {
    current_rank().meshes->construct(fine);
    return redistribute_tensor(DTensor(x, specs->first), specs->second, options).local();
  }
  const auto from = cuts_on(*fine, source), to = cuts_on(*fine, target);
  if (!from || !to) return std::nullopt;
  if (*from == *to) return x;
  if (!begins_all(*from, *to)) return std::nullopt;
  const DTensorSpec* has = spec_of_cuts(*fine, *from, source);
  const DTensorSpec* wants = spec_of_cuts(*fine, *to, target);
  const Coordinate at = *fine->coordinate_of(current_rank().rank);
  return cut_out(x, local_view(*has, at), *wants, at);
}

const DTensorSpec* reduced(const DTensorSpec& spec) {
  return spec.has_partial() ? spec.with(without_partials(spec.placements()), spec.order()) : &spec;
}

}  // namespace

DTensor move_between(const DTensor& x, const DTensorSpec* target,
                     const RedistributeOptions& options) {
  const DTensor whole = redistribute_tensor(x, reduced(*x.spec()), options);
  const DTensorSpec* arrives = reduced(*target);
  if (Observer* const observer = observer_to_tell()) {
    observer->redistribution({.source = whole.spec(),
                              .target = arrives,
                              .argument = options.argument,
                              .backward = options.direction == Direction::kBackward,
                              .position = current_rank().position});
  }
  std::optional<Tensor> piece = refined(whole.local(), *whole.spec(), *arrives, options);
  if (!piece) piece = exchanged(whole.local(), *whole.spec(), *arrives);
  const DTensor arrived(*piece, arrives);
  report_placed(PlacedRecord::Kind::kRedistribute, whole, arrived, options.argument);
  return redistribute_tensor(arrived, target, options);
}

MoveCost cost_between(const DTensorSpec& source, const DTensorSpec& target) {
  const MovePieces pieces(*reduced(source), *reduced(target));
  const auto item = static_cast<double>(item_bytes(source.dtype()));
  MoveCost cost;
  for (const auto& [rank, receiver] : pieces.to.by_rank) {
    double bytes = 0;
    for (const Holder* holder : pieces.sources_of(receiver)) {
      if (holder->rank == rank) continue;
      for (const Box& box : shared_boxes(holder->view, receiver.view)) {
        bytes += static_cast<double>(elements_of(box)) * item;
        ++cost.messages;
      }
    }
    cost.most_bytes = std::max(cost.most_bytes, bytes);
    cost.all_bytes += bytes;
  }
  return cost;
}

std::optional<std::pair<const DTensorSpec*, const DTensorSpec*>> gathered_on_refinement(
    const DTensorSpec& source, const DTensorSpec& target) {
  if (source.layout()->is_cut() || target.layout()->is_cut()) return std::nullopt;
  const MeshLayout* fine = refinement(*source.layout(), *target.layout());
  const auto from = fine == nullptr ? std::nullopt : cuts_on(*fine, source);
  const auto to = fine == nullptr ? std::nullopt : cuts_on(*fine, target);
  if (!from || !to || *from == *to || !begins_all(*to, *from)) return std::nullopt;
  return std::pair(spec_of_cuts(*fine, *from, source), spec_of_cuts(*fine, *to, target));
}

}  // namespace shardlab
