// Each event is a run of its own in one world: values of ranks outlive the run, so that the answer
// to every line can be compared before the next one is read. Calls are made below autograd, as they
// were recorded; a recorded gradient is a call like any other.
#include "tests/facts/program_player.h"

#include <cmath>

#include "api/distribute.h"
#include "backends/fake/communicator.h"
#include "backends/fake/shape_device.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/all_ops.h"
#include "dispatch/plain_calls.h"
#include "mesh/local_shape.h"
#include "mesh/mesh_views.h"
#include "mesh/placement_dims.h"
#include "redistribute/redistribute.h"
#include "schema/torch_spelling.h"
#include "sim/language/values/op_call.h"
#include "sim/recording/recorded_program.h"
#include "sim/world/devices.h"
#include "sim/world/rank_life.h"
#include "tensor/host.h"
#include "tests/facts/fact_json.h"

namespace shardlab {

namespace {

// Notes the events that the ranks of one call report.
class EventObserver final : public Observer {
 public:
  EventObserver(PlayedEvent& event, const MeshLayout& layout) : event_(event), layout_(layout) {}

  void op_begins(const OpSchema&, const OutputSharding&) override { ++depth_; }
  void op_ends() override { --depth_; }
  void redistribution(const RedistributionRecord& record) override {
    if (record.argument < 0 || depth_ != 1) return;
    event_.moves.push_back({{"t", record.argument},
                            {"from", texts_of(record.source->placements())},
                            {"to", texts_of(record.target->placements())}});
  }
  void collective(const CollectiveRecord& record) override {
    Json json = {{"c", name_of(record.kind)}};
    if (record.group.mesh_dims.size() == 1) {
      const std::string& name = record.group.layout->names()[record.group.mesh_dims[0]];
      json["dim"] = *layout_.find_dim(name);
    }
    const bool reduces =
        record.kind == CollectiveKind::kAllReduce || record.kind == CollectiveKind::kReduceScatter;
    if (reduces) json["reduce"] = to_string(record.op);
    event_.collectives.push_back(std::move(json));
  }

 private:
  static std::string name_of(CollectiveKind kind) {
    return kind == CollectiveKind::kAllToAll ? "shard_dim_alltoall" : recorded_collective(kind);
  }

  PlayedEvent& event_;
  const MeshLayout& layout_;  // of the program; a part of it has the same names
  int depth_ = 0;
};

// If our placements differ from the recorded ones, the recorded ones count for later calls.
void restored(const Json& event, Results& results) {
  if (!event.contains("out")) return;
  std::size_t index = 0;
  for (const Json& out : event.at("out")) {
    if (index >= results.size()) return;
    Argument& result = results[index++];
    const bool placed = out.is_object() && out.contains("placements") && result.is_tensor() &&
                        result.tensor().defined() && result.tensor().distributed();
    if (!placed) continue;
    const DTensor& x = result.tensor();
    const DTensorSpec* recorded = x.spec()->with(placements_of(out.at("placements")));
    if (recorded == x.spec() || recorded->shape() != dims_of(out.at("shape"))) continue;
    const DTensorSpec* whole = x.spec()->with(Placements(x.spec()->layout()->ndim()));
    const DTensor full = redistribute_tensor(x, whole);
    result = recorded->has_partial() ? distribute(full.local(), recorded)
                                     : redistribute_tensor(full, recorded);
  }
}

}  // namespace

ProgramPlayer::ProgramPlayer(const Json& program, std::int64_t most_bytes)
    : shapes_only_(program.at("backend") == "fake"),
      one_rank_recorded_(shapes_only_ || program.at("backend") == "gloo"),
      propagator_(all_ops(), PlanOptions{}) {
  layout_ = recorded_mesh(arena_, program);
  for (const Json& names : list_at(program, "meshes")) {
    submeshes_.push_back(names.get<std::vector<std::string>>());
  }
  DeviceChoice choice;
  choice.most_bytes = most_bytes;
  device_ = shapes_only_ ? make_shape_device() : make_device(choice, "threads");
  WorldOptions options;
  options.ranks = layout_->size();
  options.device = [this](std::int64_t) -> Device& { return *device_; };
  options.propagator = &propagator_;
  options.plans = &propagator_.plans();
  options.mixed = MixedTensors::kReplicate;  // as under implicit_replication()
  world_ = std::make_unique<World>(std::move(options));
  // With shapes alone the first rank's calls were recorded.
  const auto ranks = shapes_only_ ? 1 : static_cast<std::size_t>(layout_->size());
  values_.assign(ranks, std::vector<DTensor>(recorded_values(program)));
}

ProgramPlayer::~ProgramPlayer() = default;

bool ProgramPlayer::has_operands(const Json& event) const {
  bool all = true;
  for (std::size_t rank = 0; rank < values_.size(); ++rank) {
    for_each_operand(event,
                     [&](std::size_t number) { all = all && values_[rank].at(number).defined(); });
  }
  return all;
}

PlayedEvent ProgramPlayer::play(const Json& event) {
  PlayedEvent played;
  played.results.resize(values_.size());
  played.kept.resize(values_.size());
  if (event.contains("mesh") && event.at("k") == "input") {
    const auto names = event.at("mesh").get<std::vector<std::string>>();
    if (std::ranges::find(submeshes_, names) == submeshes_.end()) submeshes_.push_back(names);
  }
  played.error = run_ranks([&](RankContext& rank, const RunsFor& runs) {
    rank.meshes->construct(layout_);
    for (const std::vector<std::string>& names : submeshes_) {
      rank.meshes->construct(slice_layout(layout_, names, *layout_->coordinate_of(rank.rank)));
    }
    EventObserver observer(played, *layout_);
    std::optional<ObserverScope> observed;
    if (rank.rank == 0) observed.emplace(observer);
    Results results = run_recorded(event, layout_, values_[runs.index]);
    for_each_tensor(results, [](DTensor& x) {
      if (x.defined() && x.local().pending()) x.local().wait();
    });
    played.results[runs.index] = results;
    observed.reset();
    restored(event, results);
    played.kept[runs.index] = std::move(results);
  });
  return played;
}

// With shapes alone no data is exchanged, so that one rank needs no others: a call of thousands of
// ranks would otherwise be a world of all classes of ranks.
std::optional<Error> ProgramPlayer::run_ranks(const RankBody& body) {
  if (!shapes_only_) {
    const WorldResult result = world_->run(body);
    return result.ok() ? std::nullopt : std::optional<Error>(result.merged());
  }
  fake::LengthsTable lengths;
  fake::ClassContext place{.layout = layout_,
                           .world_size = layout_->size(),
                           .rank = 0,
                           .log = std::make_shared<fake::ClassLog>(),
                           .lengths = &lengths,
                           .nothing = make_ref<Storage>(device_->allocate(0)),
                           .stop = nullptr,
                           .ask = [](const auto&) {}};
  RankLife life(world_->options(), 0, 0, device_.get(), nullptr);
  return life
      .run([&] { return fake::make_world_communicator(place); },
           [&](RankContext& rank) { body(rank, {}); })
      .error;
}

const DTensorSpec* ProgramPlayer::spec_of(const Json& value, std::size_t rank) const {
  const MeshLayout* layout = recorded_layout(value, layout_, static_cast<std::int64_t>(rank));
  const TensorMeta meta = contiguous_meta(dims_of(value.at("shape")), dtype_of(value.at("dtype")));
  return layout->arena().spec(layout, placements_of(value.at("placements")), meta);
}

void ProgramPlayer::keep(const Json& event, const PlayedEvent& played) {
  for (std::size_t rank = 0; rank < values_.size(); ++rank) {
    keep_recorded(event, played.kept[rank], values_[rank]);
  }
}

void ProgramPlayer::suppose(const Json& event) {
  PlayedEvent played;
  played.kept.resize(values_.size());
  if (!event.contains("out")) return;
  run_ranks([&](RankContext& rank, const RunsFor&) {
    for (const Json& out : event.at("out")) {
      Results& kept = played.kept[0];
      if (!out.is_object() || !out.contains("shape")) {
        kept.emplace_back();
        continue;
      }
      const TensorMeta meta = contiguous_meta(dims_of(out.at("shape")), dtype_of(out.at("dtype")));
      if (out.value("local", false)) {
        kept.emplace_back(DTensor(empty(*rank.device, meta)));
        continue;
      }
      const DTensorSpec* spec = spec_of(out, 0);
      const Coordinate here = *spec->layout()->coordinate_of(rank.rank);
      kept.emplace_back(DTensor(empty(*rank.device, local_shape(*spec, here), meta.dtype), spec));
    }
  });
  keep(event, played);
}

void ProgramPlayer::forget(const Json& event) {
  const bool in_place = is_in_place(event.value("op", ""));
  for (const std::string key : {"out", "mut"}) {
    if (!event.contains(key)) continue;
    for_each_number(event.at(key), [&](std::size_t number) {
      for (std::vector<DTensor>& rank : values_) {
        const DTensor written = std::exchange(rank.at(number), {});
        if (!written.defined() || (key == "out" && !in_place)) continue;
        // Memory that is written is that of its views, too.
        for (DTensor& value : rank) {
          if (value.defined() && value.local().storage() == written.local().storage()) value = {};
        }
      }
    });
  }
}

std::vector<DTensor> ProgramPlayer::values(std::int64_t number) const {
  std::vector<DTensor> all;
  for (const std::vector<DTensor>& rank : values_) {
    all.push_back(rank.at(static_cast<std::size_t>(number)));
  }
  return all;
}

}  // namespace shardlab
