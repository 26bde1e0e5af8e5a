// Ranks are cells of a grid, split as finely as anything was seen to depend on them: lengths of
// pieces, the mesh, and values of `rank` that the program asked about. One rank runs; while it
// does, every question that could be answered differently elsewhere splits the grid, and cells with
// another answer wait for a run of their own. Afterwards the cells that agree with it in all
// questions and all piece lengths are its class, since all else in a rank's run follows from these.
// This continues until every cell has a class; at the end the logs of the classes are replayed
// against each other, which finds mismatches and deadlocks as a full run would.
#include "sim/world/class_world.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "backends/fake/agreement.h"
#include "backends/fake/communicator.h"
#include "base/hash.h"
#include "mesh/mesh_views.h"
#include "mesh/seen_mesh.h"
#include "plan/plan.h"
#include "sim/world/rank_life.h"
#include "tensor/device.h"

namespace shardlab {

namespace {

using fake::ClassLog;
using fake::DimCut;
using fake::RankGrid;

// Tags of cells that have no class yet.
constexpr int kUnknown = -1;    ///< not looked at
constexpr int kCandidate = -2;  ///< so far like the rank that runs
constexpr int kOther = -3;      ///< unlike it

// The cuts of tensors in all specs and plans of the program so far, by the meshes that they are on.
class KnownCuts {
 public:
  KnownCuts(const MeshLayout& grid, const PlanCache* plans) : grid_(grid), plans_(plans) {}

  /// The places of cuts that were not known before. `lacks` becomes a mesh whose dims are none of
  /// the grid, if there is one.
  std::vector<fake::CutPlace> update(const MeshLayout*& lacks) {
    std::vector<fake::CutPlace> places;
    grid_.arena().visit_specs([&](const DTensorSpec& spec) {
      if (!add(*spec.layout(), spec.shape(), spec.placements(), spec.order(), places)) {
        lacks = spec.layout();
      }
    });
    if (plans_ == nullptr) return places;
    plans_->visit([&](const Plan& plan) {
      const DTensorSpec& source = *plan.source;
      for (const PlanStep& step : plan.steps) {
        add(*source.layout(), source.shape(), step.after, step.order_after, places);
      }
    });
    return places;
  }

  bool alike(const Coordinate& a, const Coordinate& b) const {
    return std::ranges::all_of(cuts_, [&](const auto& of_mesh) {
      const Coordinate at_a = on_mesh(of_mesh.first, a), at_b = on_mesh(of_mesh.first, b);
      return std::ranges::all_of(of_mesh.second, [&](const DimCut& cut) {
        return piece_length(cut, at_a) == piece_length(cut, at_b);
      });
    });
  }

 private:
  using Axes = std::vector<MeshAxis>;

  bool add(const MeshLayout& layout, const Dims& shape, const Placements& placements,
           const ShardOrder& order, std::vector<fake::CutPlace>& places) {
    const bool cut = std::ranges::any_of(
        placements, [](const Placement& placement) { return placement.is_shard(); });
    if (!cut) return true;
    const auto [entry, is_new] = axes_.try_emplace(&layout);
    if (is_new) entry->second = axes_on(grid_, seen_from(grid_, layout));
    if (!entry->second) return false;
    const Axes& axes = *entry->second;
    std::vector<std::size_t> dims(layout.ndim());
    std::iota(dims.begin(), dims.end(), 0);
    for (DimCut& piece : fake::cuts_of(layout, shape, placements, order, dims)) {
      const auto [known, added] = cuts_[axes].insert(std::move(piece));
      if (!added) continue;
      for (const fake::CutPlace& place : places_of(*known)) {
        add_places(axes[place.mesh_dim], place.coordinate, places);
      }
    }
    return true;
  }

  // A coordinate of several dims: those above it in the first dim, then those in the next.
  void add_places(const MeshAxis& axis, std::int64_t coordinate,
                  std::vector<fake::CutPlace>& places) const {
    for (const auto& [dim, step] : axis) {
      places.push_back({dim, coordinate / step});
      coordinate %= step;
      if (coordinate == 0) return;
      if (places.back().coordinate + 1 < grid_.size(dim)) {
        places.push_back({dim, places.back().coordinate + 1});
      }
    }
  }

  static Coordinate on_mesh(const Axes& axes, const Coordinate& at) {
    Coordinate coordinate(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      for (const auto& [dim, step] : axes[i]) coordinate[i] += at[dim] * step;
    }
    return coordinate;
  }

  const MeshLayout& grid_;
  const PlanCache* plans_;
  std::map<const MeshLayout*, std::optional<Axes>> axes_;
  std::map<Axes, std::set<DimCut>> cuts_;
};

class Exploration final : public RankQuestions {
 public:
  /// `layout` is the mesh of the grid, `runs` how many there were before.
  Exploration(const WorldOptions& options, const RankBody& body, const MeshLayout& layout,
              std::size_t runs)
      : options_(options),
        body_(body),
        device_(options.device(0)),
        layout_(layout),
        grid_(layout, options.ranks),
        cuts_(layout, options.plans),
        nothing_(make_ref<Storage>(device_.allocate(0))),
        next_run_(runs) {
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) grid_.set_tag(cell, kUnknown);
  }
  std::size_t runs() const { return next_run_; }
  /// The mesh of a grid that has the dims of another view of the ranks, too. Null: this one does.
  const MeshLayout* finer() const { return finer_; }

  // Until everybody who takes a message from any rank knows who sends it.
  fake::Agreement run() {
    for (;;) {
      for (std::size_t cell = 0; next_unknown(cell);) {
        if (next_run_ == options_.most_classes) refuse();
        explore(cell);
        if (finer_ != nullptr) return {};
      }
      std::vector<const ClassLog*> logs;
      for (const auto& log : logs_) logs.push_back(log.get());
      fake::Agreement agreement = fake::replay(grid_, logs);
      if (agreement.senders.empty()) return agreement;
      for (const auto& [cell, sender] : agreement.senders) go_on(cell, sender);
    }
  }

  WorldResult result(const fake::Agreement& agreement) {
    WorldResult result;
    result.verdict = agreement.verdict;
    if (result.verdict) {
      if (result.verdict->kind == VerdictKind::kRankFailed) add_failures(agreement, result);
      RankFailure stopped = run_to_the_stop(agreement, to_error(*result.verdict));
      if (result.failures.empty()) result.failures.push_back(std::move(stopped));
    }
    list_classes(result);
    return result;
  }

  bool settled() const override { return settled_ || alone_; }
  void ask(const std::function<std::uint64_t(std::int64_t)>& answer) override {
    if (settled()) return;
    const std::uint64_t mine = answer(rank_);
    grid_.split(answer, [&](std::size_t cell) { return grid_.tag(cell) == kCandidate; });
    std::set<std::uint64_t> others;
    std::int64_t candidates = 0;
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      if (grid_.tag(cell) != kCandidate) continue;
      const std::uint64_t theirs = answer(grid_.first_rank(cell));
      if (theirs == mine) candidates += grid_.size(cell);
      if (theirs == mine) continue;
      grid_.set_tag(cell, kOther);
      others.insert(theirs);
    }
    alone_ = candidates == 1;
    // Refused at once, rather than after running that many classes.
    too_many_ = too_many_ || logs_.size() + others.size() > options_.most_classes;
    if (too_many_) refuse();
  }

 private:
  // The one with the smallest index comes first: the mesh's first rank reports.
  bool next_unknown(std::size_t& found) const {
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      if (grid_.tag(cell) != kUnknown) continue;
      found = cell;
      return true;
    }
    return false;
  }

  bool alike(std::size_t cell, const std::optional<Coordinate>& coordinate) const {
    if (grid_.inside(cell) != coordinate.has_value()) return false;
    return !coordinate || cuts_.alike(grid_.first_coordinate(cell), *coordinate);
  }

  void explore(std::size_t first) {
    alone_ = false;
    rank_ = grid_.first_rank(first);
    const std::optional<Coordinate> coordinate = layout_.coordinate_of(rank_);
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      if (grid_.tag(cell) == kUnknown && alike(cell, coordinate)) grid_.set_tag(cell, kCandidate);
    }
    if (!senders_.empty()) {
      ask([&](std::int64_t rank) {
        const auto known = senders_.find(rank);
        return known == senders_.end() ? 0 : hash_range(1, known->second);
      });
    }
    const std::size_t index = free_.empty() ? logs_.size() : *free_.begin();
    if (free_.erase(index) == 0) {
      logs_.emplace_back();
      run_of_.emplace_back();
    }
    logs_[index] = std::make_shared<ClassLog>();
    run_of_[index] = next_run_++;
    const MeshLayout* lacks = serve(logs_[index], nullptr, run_of_[index]);
    ask_who_keeps_pieces();
    if (too_many_) refuse();  // again: thrown inside the program it is the program's failure
    const std::vector<fake::CutPlace> places = cuts_.update(lacks);
    if (lacks != nullptr) {
      finer_ = refinement(layout_, seen_from(layout_, *lacks));
      if (finer_ != nullptr && finer_ != &layout_) return;
      finer_ = nullptr;
      if (!logs_[index]->error) logs_[index]->error = fake::no_view(*lacks, layout_);
    }
    grid_.cut(places);
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      const int tag = grid_.tag(cell);
      if (tag == kCandidate && alike(cell, coordinate)) {
        grid_.set_tag(cell, static_cast<int>(index));
      } else if (tag == kCandidate || tag == kOther) {
        grid_.set_tag(cell, kUnknown);
      }
    }
  }

  // The ranks of the cell run again, with what is known now. Its class may live on in other cells.
  void go_on(std::size_t cell, std::int64_t sender) {
    for (const std::int64_t rank : grid_.ranks([&](std::size_t other) { return other == cell; })) {
      senders_[rank].push_back(sender);
    }
    const int before = grid_.tag(cell);
    grid_.set_tag(cell, kUnknown);
    if (!is_class(before)) free_.insert(static_cast<std::size_t>(before));
  }
  bool is_class(int tag) const {
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      if (grid_.tag(cell) == tag) return true;
    }
    return false;
  }

  // In an exchange of whole pieces, ranks that keep theirs send nothing.
  void ask_who_keeps_pieces() {
    if (options_.plans == nullptr) return;
    options_.plans->visit([&](const Plan& plan) {
      const MeshLayout& layout = *plan.source->layout();
      for (const PlanStep& step : plan.steps) {
        if (step.senders.empty()) continue;
        ask([&](std::int64_t rank) -> std::uint64_t {
          const auto coordinate = layout.coordinate_of(rank);
          if (!coordinate) return 2;
          const std::int64_t index = layout.index_of(*coordinate);
          return step.senders[static_cast<std::size_t>(index)] == index ? 1 : 0;
        });
      }
    });
  }

  // Classes that wait forever run again, but only up to the call where they wait: their later calls
  // never happen. Returns the lowest rank's failure.
  RankFailure run_to_the_stop(const fake::Agreement& agreement, const Error& error) {
    settled_ = true;
    RankFailure first{.rank = options_.ranks, .error = error, .consequence = true};
    const std::size_t runs = logs_.size();
    std::vector<bool> done(runs);
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      const auto index = static_cast<std::size_t>(grid_.tag(cell));
      if (!agreement.stops[cell] || done[index]) continue;
      done[index] = true;
      const auto log = std::make_shared<ClassLog>();
      rank_ = grid_.first_rank(cell);
      const std::size_t again = next_run_++;
      serve(log, std::make_shared<const fake::Stop>(fake::Stop{*agreement.stops[cell], error}),
            again);
      run_of_[index] = again;
      if (rank_ > first.rank || !log->error) continue;
      first.rank = rank_;
      first.error = *log->error;
    }
    return first;
  }

  /// Gives a mesh of the program that the grid lacks, or null.
  const MeshLayout* serve(const std::shared_ptr<ClassLog>& log,
                          std::shared_ptr<const fake::Stop> stop, std::size_t index) {
    fake::ClassContext place{&layout_,
                             options_.ranks,
                             rank_,
                             log,
                             &lengths_,
                             nothing_,
                             std::move(stop),
                             senders_[rank_],
                             [this](const auto& answer) { ask(answer); }};
    RankLife life(options_, 0, rank_, &device_, nullptr);
    log->error = life.run([&] { return fake::make_world_communicator(place); },
                          [&](RankContext& context) {
                            context.questions = this;
                            body_(context, {.index = index, .questions = this});
                          })
                     .error;
    return place.lacks;
  }

  [[noreturn]] void refuse() const {
    const auto any = [](const auto& of_rank) { return !of_rank.second.empty(); };
    if (std::ranges::any_of(senders_, any)) {
      throw Error(
          ErrorKind::kUnsupported,
          fmt::format("on a shape-only mesh a class of ranks runs again for each message that "
                      "it takes from any rank: more than {} runs",
                      options_.most_classes))
          .with("fix", "name who sends, or run it on a backend that computes");
    }
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the ranks of a shape-only mesh are of more than {} classes",
                            options_.most_classes))
        .with("mesh", options_.layout->text())
        .with("fix", "let fewer values of `rank` decide what runs, or use a smaller mesh");
  }

  // One failure per class: of those of its ranks that reached the end of its program.
  void add_failures(const fake::Agreement& agreement, WorldResult& result) const {
    std::map<int, std::vector<bool>> cells_of;  // by class, its cells
    for (const std::size_t cell : agreement.failed_cells) {
      auto& cells = cells_of[grid_.tag(cell)];
      cells.resize(grid_.cell_count());
      cells[cell] = true;
    }
    for (const auto& [tag, cells] : cells_of) {
      std::vector<std::int64_t> ranks =
          grid_.ranks([&cells = cells](std::size_t cell) { return cells[cell]; });
      result.failures.push_back({.rank = *std::ranges::min_element(ranks),
                                 .error = *logs_[static_cast<std::size_t>(tag)]->error,
                                 .ranks = std::move(ranks)});
    }
    std::ranges::sort(result.failures, {}, &RankFailure::rank);
  }

  void list_classes(WorldResult& result) {
    std::map<std::string, int> known;
    std::vector<int> merged_into;
    for (std::size_t index = 0; index < logs_.size(); ++index) {
      if (!is_class(static_cast<int>(index))) {
        merged_into.push_back(kUnknown);
        continue;
      }
      const auto [entry, fresh] =
          known.try_emplace(text_of(index), static_cast<int>(result.classes.size()));
      merged_into.push_back(entry->second);
      if (fresh) result.classes.push_back({.index = run_of_[index]});
    }
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      const int tag = merged_into[static_cast<std::size_t>(grid_.tag(cell))];
      grid_.set_tag(cell, tag);
      RankClass& ranks = result.classes[static_cast<std::size_t>(tag)];
      const std::int64_t first = grid_.first_rank(cell);
      ranks.first_rank = ranks.size == 0 ? first : std::min(ranks.first_rank, first);
      ranks.size += grid_.size(cell);
    }
    for (std::size_t i = 0; i < result.classes.size(); ++i) {
      result.classes[i].where = grid_.where(static_cast<int>(i));
    }
    constexpr std::int64_t kMostListed = 4096;
    if (options_.ranks > kMostListed) return;
    result.class_of.resize(static_cast<std::size_t>(options_.ranks));
    for (std::size_t i = 0; i < result.classes.size(); ++i) {
      const auto members =
          grid_.ranks([&](std::size_t cell) { return grid_.tag(cell) == static_cast<int>(i); });
      for (const std::int64_t rank : members) result.class_of[static_cast<std::size_t>(rank)] = i;
    }
  }

  // The text of the run of this class. One alone has nothing to be compared with.
  std::string text_of(std::size_t index) const {
    if (logs_.size() == 1) return {};
    return options_.seen_by ? options_.seen_by(run_of_[index]) : std::to_string(index);
  }

  const WorldOptions& options_;
  const RankBody& body_;
  Device& device_;
  const MeshLayout& layout_;  // of the grid
  const MeshLayout* finer_ = nullptr;
  RankGrid grid_;
  KnownCuts cuts_;
  fake::LengthsTable lengths_;
  const Ref<Storage> nothing_;
  std::vector<std::shared_ptr<ClassLog>> logs_;  // by class
  std::set<std::size_t> free_;                   // classes that no rank is of any more
  std::vector<std::size_t> run_of_;              // by class
  std::map<std::int64_t, std::vector<std::int64_t>> senders_;  // by rank, of messages from any
  std::size_t next_run_;
  bool too_many_ = false;
  bool alone_ = false;    // no other rank may be of the class that runs
  bool settled_ = false;  // classes are known: questions no longer separate ranks
  std::int64_t rank_ = 0;
};

}  // namespace

WorldResult run_classes(const WorldOptions& options, const RankBody& body) {
  const MeshLayout* layout = options.layout;
  for (std::size_t runs = 0;;) {
    Exploration exploration(options, body, *layout, runs);
    const fake::Agreement agreement = exploration.run();
    if (exploration.finer() == nullptr) return exploration.result(agreement);
    layout = exploration.finer();
    runs = exploration.runs();
  }
}

}  // namespace shardlab
