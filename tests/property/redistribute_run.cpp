#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/device_mesh.h"
#include "kernels/cpu_kernels.h"
#include "mesh/local_shape.h"
#include "plan/state.h"
#include "redistribute/redistribute.h"
#include "sim/world/world.h"
#include "tensor/host.h"
#include "tests/property/redistribute_case.h"
#include "tests/support/combined.h"

namespace shardlab::test {
namespace {

using Numbers = std::vector<double>;  // small integers: exact in every dtype that is drawn

Device& cpu() {
  static const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  return *device;
}

/// The terms that `count` holders of a partial have of `value`; reducing them gives it back.
/// `scale` divides a sum afterwards (avg).
Numbers terms_of(double value, std::int64_t count, const Placement& partial, double scale,
                 std::mt19937_64& random) {
  Numbers terms(static_cast<std::size_t>(count));
  const std::size_t holder = random() % terms.size();
  const ReduceOp op = partial.op;
  if (partial.kind == PlacementKind::kNormPartial) {  // one part holds all that is not 0
    terms[holder] = std::abs(value);
    return terms;
  }
  const auto noise = [&](int span) {
    return static_cast<double>(random() % static_cast<unsigned>(span));
  };
  for (double& term : terms) {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        term = noise(5) - 2;
        break;
      case ReduceOp::kMax:
        term = value - noise(5);
        break;
      case ReduceOp::kMin:
        term = value + noise(5);
        break;
      case ReduceOp::kProduct:
        term = 1;
        break;
      case ReduceOp::kBitAnd:
        term = -1;
        break;  // all bits
      case ReduceOp::kBitOr:
      case ReduceOp::kBitXor:
        term = 0;
        break;
    }
  }
  terms[holder] = value;
  if (op == ReduceOp::kSum || op == ReduceOp::kAvg) {
    terms[holder] = 0;
    terms[holder] = value * scale - std::accumulate(terms.begin(), terms.end(), 0.0);
  }
  return terms;
}

double norm_of(const Numbers& parts, double n) {
  double sum = 0, most = 0;
  for (const double part : parts) {
    sum += std::pow(std::abs(part), n);
    most = std::max(most, std::abs(part));
  }
  return std::isinf(n) ? most : std::pow(sum, 1 / n);
}

double reduced(const Numbers& terms, const Placement& partial, double scale) {
  if (partial.kind == PlacementKind::kNormPartial) return norm_of(terms, partial.norm);
  return combined(partial.op, terms) / scale;
}

/// One spec's pieces, by definition: every rank holds the elements that its index map names; along
/// partial mesh dims its coordinates pick the term.
class Pieces {
 public:
  explicit Pieces(const DTensorSpec* spec) : spec_(*spec) {
    for (std::size_t dim = 0; dim < spec_.placements().size(); ++dim) {
      if (!spec_.placement(dim).is_partial()) continue;
      partial_ = spec_.placement(dim);
      holders_ *= spec_.layout()->size(dim);
      if (partial_.is_partial(ReduceOp::kAvg))
        scale_ *= static_cast<double>(spec_.layout()->size(dim));
    }
  }
  std::int64_t holders() const { return holders_; }
  const Placement& partial() const { return partial_; }
  double scale() const { return scale_; }

  std::int64_t holder(const Coordinate& coordinate) const {
    std::int64_t index = 0;
    for (std::size_t dim = 0; dim < coordinate.size(); ++dim) {
      if (!spec_.placement(dim).is_partial()) continue;
      index = index * spec_.layout()->size(dim) + coordinate[dim];
    }
    return index;
  }
  bool masked() const { return partial_.kind == PlacementKind::kMaskPartial; }
  /// Row-major global index of every local element of a rank, in local row-major order.
  std::vector<std::size_t> elements(const Coordinate& coordinate) const {
    const LocalView view = local_view(spec_, coordinate);
    std::vector<std::size_t> indices{0};
    for (std::size_t dim = 0; dim < view.dims.size(); ++dim) {
      std::vector<std::size_t> next;
      const std::int64_t size = view.dims[dim].local_size();
      for (const std::size_t outer : indices) {
        for (std::int64_t local = 0; local < size; ++local) {
          const auto along = static_cast<std::size_t>(view.dims[dim].global_index(local));
          next.push_back(outer * static_cast<std::size_t>(view.global_shape[dim]) + along);
        }
      }
      indices = std::move(next);
    }
    return indices;
  }

 private:
  const DTensorSpec& spec_;
  std::int64_t holders_ = 1;
  double scale_ = 1;
  Placement partial_;
};

class CaseRun {
 public:
  explicit CaseRun(const RedistributeCase& one) : one_(one), random_(one.values) {
    MeshLayout::Init init;
    init.shape = one.mesh;
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(product(one.mesh) + one.outsiders));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::shuffle(ranks.begin(), ranks.end(), random_);
    world_size_ = static_cast<std::int64_t>(ranks.size());
    ranks.resize(static_cast<std::size_t>(product(one.mesh)));
    init.ranks = std::move(ranks);
    layout_ = arena_.layout(std::move(init));
    const TensorMeta meta = contiguous_meta(one.shape, one.dtype);
    source_ = arena_.spec(layout_, one.source, one.source_order, meta);
    target_ = arena_.spec(layout_, one.target, one.target_order, meta);
  }

  std::optional<std::string> fault() {
    draw_values();
    if (auto failed = run_world_once()) return failed;
    // Masked terms stay as they are, rubbish included, until something moves.
    if (!moves_ && Pieces(source_).masked()) return std::nullopt;
    return target_->has_partial() ? compare_terms() : compare_pieces();
  }

 private:
  void draw_values() {
    const Pieces pieces(source_);
    if (pieces.masked()) draw_mask();
    for (std::int64_t i = 0; i < product(one_.shape); ++i) {
      values_.push_back(draw_value(pieces));
      terms_.push_back(pieces.masked() ? terms_with_rubbish(i, pieces.holders())
                                       : terms_of(values_.back(), pieces.holders(),
                                                  pieces.partial(), pieces.scale(), random_));
    }
  }

  /// A mask has an entry for each element, or one for each row.
  void draw_mask() {
    const bool rows = !one_.shape.empty() && random_() % 2 == 0;
    mask_dims_ = one_.shape.size() - (rows ? 1 : 0);
    row_ = rows ? one_.shape.back() : 1;
  }

  /// Only the holder that the mask names has the right term; the others hold the result of a lookup
  /// of any row.
  Numbers terms_with_rubbish(std::int64_t element, std::int64_t count) {
    if (element % row_ == 0) holders_.push_back(random_() % static_cast<std::size_t>(count));
    Numbers terms(static_cast<std::size_t>(count));
    for (double& term : terms) term = static_cast<double>(random_() % 100);
    terms[holders_.back()] = values_.back();
    return terms;
  }

  /// K-18: true where this rank's term does not count.
  Tensor mask_of(const Coordinate& coordinate) const {
    const Pieces pieces(source_);
    const Dims local = local_shape(*source_, coordinate);
    const Dims shape(local.begin(), local.begin() + static_cast<std::ptrdiff_t>(mask_dims_));
    const std::int64_t row = mask_dims_ < local.size() ? local.back() : 1;
    const std::vector<std::size_t> elements = pieces.elements(coordinate);
    Numbers entries;
    for (std::size_t i = 0; i < elements.size(); i += static_cast<std::size_t>(row)) {
      const std::size_t holder = holders_[elements[i] / static_cast<std::size_t>(row_)];
      entries.push_back(holder != static_cast<std::size_t>(pieces.holder(coordinate)));
    }
    entries.resize(static_cast<std::size_t>(product(shape)), 1);  // rows of no columns
    const Tensor mask = empty(cpu(), shape, DType::kBool);
    write_doubles(mask, entries);
    return mask;
  }

  double draw_value(const Pieces& pieces) {
    if (one_.dtype == DType::kBool) return static_cast<double>(random_() % 2);
    const double value = static_cast<double>(random_() % 13) - 4;
    return pieces.partial().kind == PlacementKind::kNormPartial ? std::abs(value) : value;
  }

  /// Complex values are v - iv.
  Numbers written(const Numbers& values) const {
    if (!is_complex(one_.dtype)) return values;
    Numbers pairs;
    for (const double value : values) pairs.insert(pairs.end(), {value, -value});
    return pairs;
  }
  Numbers read(const Tensor& tensor) const {
    const Numbers all = read_doubles(tensor);
    if (!is_complex(one_.dtype)) return all;
    Numbers values;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      values.push_back(all[i] == -all[i + 1] ? all[i] : std::nan(""));
    }
    return values;
  }

  Numbers piece_before(const Coordinate& coordinate) const {
    const Pieces pieces(source_);
    Numbers piece;
    for (const std::size_t element : pieces.elements(coordinate)) {
      piece.push_back(terms_[element][static_cast<std::size_t>(pieces.holder(coordinate))]);
    }
    return piece;
  }

  std::optional<std::string> run_world_once() {
    WorldOptions options;
    options.ranks = world_size_;
    options.device = [](std::int64_t) -> Device& { return cpu(); };
    PlanCache plans(PlanOptions{}, 8);
    options.plans = &plans;
    plan_ = *plans.find(source_, target_, one_.planner);
    moves_ = !plan_.steps.empty();
    results_.resize(static_cast<std::size_t>(layout_->size()));
    accounts_.resize(static_cast<std::size_t>(world_size_));
    const WorldResult result = run_world(options, [&](RankContext& context) {
      const DeviceMesh& mesh = context.meshes->construct(layout_);
      if (!mesh.participates()) return run_outsider();
      run_rank(context, *mesh.coordinate());
    });
    if (result.ok()) return std::nullopt;
    return result.merged().text();
  }

  void run_outsider() const {
    const Tensor nothing = empty(cpu(), Dims{0}, one_.dtype);
    const Tensor same = redistribute_local(nothing, source_, target_, options());
    check_invariant(same.storage() == nothing.storage(), "R-46 outsiders keep their tensor");
  }

  /// Bytes that a plan may allocate on a rank while the source is held: the fullest step's pieces
  /// and one chunk, which is the largest piece of any rank (in a simulation the rank that comes
  /// last works for all). Masking counts as a step.
  std::int64_t allowed_bytes(const Coordinate& coordinate) const {
    std::int64_t fullest = 0, chunk = 0;
    for (std::size_t step = 0; step < plan_.steps.size(); ++step) {
      const PlanState before = state_before(plan_, step);
      const PlanState after{plan_.steps[step].after, plan_.steps[step].order_after};
      const std::int64_t new_piece = product(state_shape(*source_, after, coordinate));
      const std::int64_t old_piece = product(state_shape(*source_, before, coordinate));
      const bool owned = step > 0 || Pieces(source_).masked();
      // a partial becomes whole before it becomes a strided shard.
      const bool reduced_first = plan_.steps[step].from.is_partial();
      const std::int64_t whole = strided_whole(plan_.steps[step], before);
      fullest = std::max(fullest,
                         std::max(new_piece, reduced_first ? whole : 0) + (owned ? old_piece : 0));
      const Coordinate first(one_.mesh.size(), 0);
      chunk = std::max({chunk, product(state_shape(*source_, before, first)),
                        product(state_shape(*source_, after, first)), whole});
    }
    return (fullest + chunk) * bytes_of_an_item();
  }
  /// norms of f16 are reduced in f32: terms that are converted, and their powers.
  std::int64_t bytes_of_an_item() const {
    const auto adds_powers = [](const Placement& placement) {
      return placement.kind == PlacementKind::kNormPartial;
    };
    const auto size = static_cast<std::int64_t>(item_bytes(one_.dtype));
    const bool wide = one_.dtype == DType::kF16 && std::ranges::any_of(one_.source, adds_powers);
    return wide ? 4 * size : size;
  }
  /// strided shards become others, and partials become them, through the whole.
  std::int64_t strided_whole(const PlanStep& step, PlanState state) const {
    if (!step.from.is_strided_shard() && !step.to.is_strided_shard()) return 0;
    advance(state, step.mesh_dims[0], Placement::replicate());
    return product(state_shape(*source_, state, Coordinate(one_.mesh.size(), 0)));
  }

  void run_rank(RankContext& context, const Coordinate& coordinate) {
    MemoryAccount& account = accounts_[static_cast<std::size_t>(context.rank)];
    context.memory = &account;
    const Tensor local = empty(cpu(), local_shape(*source_, coordinate), one_.dtype);
    const Numbers before = piece_before(coordinate);
    write_doubles(local, written(before));
    TensorExtras extras;
    if (Pieces(source_).masked()) extras.mask = mask_of(coordinate);
    account.peak_bytes = account.held_bytes;
    const std::int64_t held = account.held_bytes;
    const Tensor result = redistribute_local(local, source_, target_, options(), &extras);
    result.wait();
    const std::int64_t used = account.peak_bytes - held;
    if (used > allowed_bytes(coordinate)) {
      fail(ErrorKind::kRuntime, "rank {} used {} bytes beside the source, {} are allowed",
           context.rank, used, allowed_bytes(coordinate));
    }
    if (plan_.steps.empty()) {
      check_invariant(result.storage() == local.storage(), "R-47 an empty plan copies nothing");
    }
    const Dims shape = local_shape(*target_, coordinate);
    check_invariant(result.shape() == shape, "the result has the target's local shape");
    check_invariant(result.contiguous(), "results are contiguous");
    results_[static_cast<std::size_t>(layout_->index_of(coordinate))] = read(result);
    check_invariant(read(local) == before, "R-69 the input is not written to");
  }

  RedistributeOptions options() const {
    return {.issue = one_.async ? Issue::kAsync : Issue::kWait, .planner = one_.planner};
  }

  std::optional<std::string> compare_pieces() const {
    const Pieces pieces(target_);
    const Pieces before(source_);
    const bool norm = before.partial().kind == PlacementKind::kNormPartial;
    const double slack = before.scale() == 1 && !norm ? 0 : rounding_slack();
    for (std::int64_t index = 0; index < layout_->size(); ++index) {
      const Coordinate coordinate = layout_->coordinate_at_index(index);
      const Numbers& got = results_[static_cast<std::size_t>(index)];
      const auto elements = pieces.elements(coordinate);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const double off = std::abs(got[i] - values_[elements[i]]);
        if (!(off <= slack)) return describe(index, elements[i], got[i]);
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> compare_terms() const {
    const Pieces pieces(target_);
    std::vector<Numbers> held(values_.size());
    for (std::int64_t index = 0; index < layout_->size(); ++index) {
      const Coordinate coordinate = layout_->coordinate_at_index(index);
      const auto elements = pieces.elements(coordinate);
      for (std::size_t i = 0; i < elements.size(); ++i) {
        Numbers& terms = held[elements[i]];
        terms.resize(static_cast<std::size_t>(pieces.holders()), std::nan(""));
        terms[static_cast<std::size_t>(pieces.holder(coordinate))] =
            results_[static_cast<std::size_t>(index)][i];
      }
    }
    for (std::size_t element = 0; element < held.size(); ++element) {
      const double got = reduced(held[element], pieces.partial(), pieces.scale());
      if (!(std::abs(got - values_[element]) <= rounding_slack()))
        return describe(-1, element, got);
    }
    return std::nullopt;
  }

  /// A division by 3 rounds, and sums of such terms are off by a few units of the dtype. Terms are
  /// below 2^8.
  double rounding_slack() const {
    return is_integral(one_.dtype) ? 0 : 2048 * unit_roundoff(one_.dtype);
  }

  std::string describe(std::int64_t index, std::size_t element, double got) const {
    const std::string who =
        index < 0 ? "the terms"
                  : fmt::format("mesh index {} (rank {})", index, layout_->rank_at_index(index));
    return fmt::format("global element {}: {} give {}, expected {}", element, who, got,
                       values_[element]);
  }

  const RedistributeCase& one_;
  std::mt19937_64 random_;
  Arena arena_;
  const MeshLayout* layout_ = nullptr;
  const DTensorSpec* source_ = nullptr;
  const DTensorSpec* target_ = nullptr;
  std::int64_t world_size_ = 0;
  Numbers values_;                       ///< by global element
  std::vector<Numbers> terms_;           ///< of the source, by global element, then holder
  std::size_t mask_dims_ = 0;            ///< the mask's, the first ones of the tensor
  std::int64_t row_ = 1;                 ///< elements that share an entry of the mask
  std::vector<std::size_t> holders_;     ///< by entry of the mask
  std::vector<Numbers> results_;         ///< by mesh index
  std::vector<MemoryAccount> accounts_;  ///< by rank; they outlive every tensor
  Plan plan_;
  bool moves_ = false;  ///< the plan has steps
};

}  // namespace

std::optional<std::string> fault_of(const RedistributeCase& one) {
  try {
    return CaseRun(one).fault();
  } catch (const Error& error) {
    return error.text();
  }
}

}  // namespace shardlab::test
