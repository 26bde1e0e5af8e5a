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
#include <set>

#include "backends/fake/agreement.h"
#include "backends/fake/communicator.h"
#include "base/hash.h"
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

// The cuts of tensors in all specs and plans of the program so far.
class KnownCuts {
 public:
  KnownCuts(const MeshLayout& layout, const PlanCache* plans) : layout_(layout), plans_(plans) {}

  /// The places of cuts that were not known before.
  std::vector<fake::CutPlace> update() {
    std::vector<fake::CutPlace> places;
    layout_.arena().visit_specs([&](const DTensorSpec& spec) {
      add(*spec.layout(), spec.shape(), spec.placements(), spec.order(), places);
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
    return std::ranges::all_of(
        cuts_, [&](const DimCut& cut) { return piece_length(cut, a) == piece_length(cut, b); });
  }

 private:
  void add(const MeshLayout& layout, const Dims& shape, const Placements& placements,
           const ShardOrder& order, std::vector<fake::CutPlace>& places) {
    const bool cut = std::ranges::any_of(
        placements, [](const Placement& placement) { return placement.is_shard(); });
    if (!cut) return;
    for (DimCut& piece : fake::cuts_of(layout, shape, placements, order, dims_of(layout))) {
      const auto [known, added] = cuts_.insert(std::move(piece));
      if (!added) continue;
      const std::vector<fake::CutPlace> more = places_of(*known);
      places.insert(places.end(), more.begin(), more.end());
    }
  }

  // A part of the mesh has its names; each rank has the part that holds it.
  std::vector<std::size_t> dims_of(const MeshLayout& layout) const {
    std::vector<std::size_t> dims;
    for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
      const auto same = layout_.find_dim(layout.names()[dim]);
      if (!same || layout_.size(*same) != layout.size(dim)) {
        throw Error(ErrorKind::kUnsupported, "a mesh that is not part of the scenario's")
            .with("mesh", fmt::format("{} next to {}", layout.text(), layout_.text()))
            .with("fix", "a shape-only mesh has parts (mesh[\"tp\"]), but no second mesh");
      }
      dims.push_back(*same);
    }
    return dims;
  }

  const MeshLayout& layout_;
  const PlanCache* plans_;
  std::set<DimCut> cuts_;
};

class Exploration final : public RankQuestions {
 public:
  Exploration(const WorldOptions& options, const RankBody& body)
      : options_(options),
        body_(body),
        device_(options.device(0)),
        grid_(*options.layout, options.ranks),
        cuts_(*options.layout, options.plans),
        nothing_(make_ref<Storage>(device_.allocate(0))) {
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) grid_.set_tag(cell, kUnknown);
  }

  // Until everybody who takes a message from any rank knows who sends it.
  fake::Agreement run() {
    for (;;) {
      for (std::size_t cell = 0; next_unknown(cell);) {
        if (next_run_ == options_.most_classes) refuse();
        explore(cell);
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
    const std::optional<Coordinate> coordinate = options_.layout->coordinate_of(rank_);
    for (std::size_t cell = 0; cell < grid_.cell_count(); ++cell) {
      if (grid_.tag(cell) == kUnknown && alike(cell, coordinate)) grid_.set_tag(cell, kCandidate);
    }
    ask([&](std::int64_t rank) {
      const auto known = senders_.find(rank);
      return known == senders_.end() ? 0 : hash_range(1, known->second);
    });
    const std::size_t index = free_.empty() ? logs_.size() : *free_.begin();
    if (free_.erase(index) == 0) {
      logs_.emplace_back();
      run_of_.emplace_back();
    }
    logs_[index] = std::make_shared<ClassLog>();
    run_of_[index] = next_run_++;
    serve(logs_[index], nullptr, run_of_[index]);
    ask_who_keeps_pieces();
    if (too_many_) refuse();  // again: thrown inside the program it is the program's failure
    grid_.cut(cuts_.update());
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
    RankFailure first{.rank = options_.ranks, .error = error, .foreign = {}, .consequence = true};
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

  void serve(const std::shared_ptr<ClassLog>& log, std::shared_ptr<const fake::Stop> stop,
             std::size_t index) {
    fake::ClassContext place{options_.layout,
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
                                 .foreign = {},
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
      if (fresh) result.classes.push_back({.index = run_of_[index], .where = {}});
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
  RankGrid grid_;
  KnownCuts cuts_;
  fake::LengthsTable lengths_;
  const Ref<Storage> nothing_;
  std::vector<std::shared_ptr<ClassLog>> logs_;  // by class
  std::set<std::size_t> free_;                   // classes that no rank is of any more
  std::vector<std::size_t> run_of_;              // by class
  std::map<std::int64_t, std::vector<std::int64_t>> senders_;  // by rank, of messages from any
  std::size_t next_run_ = 0;
  bool too_many_ = false;
  bool alone_ = false;    // no other rank may be of the class that runs
  bool settled_ = false;  // classes are known: questions no longer separate ranks
  std::int64_t rank_ = 0;
};

}  // namespace

WorldResult run_classes(const WorldOptions& options, const RankBody& body) {
  Exploration exploration(options, body);
  return exploration.result(exploration.run());
}

}  // namespace shardlab
