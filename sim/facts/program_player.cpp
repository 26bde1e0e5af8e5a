// Each event is a run of its own in one world: what ranks hold outlives the run, so that the answer
// to every line can be looked at before the next one is read. Calls are made below autograd, as
// they were recorded; a recorded gradient is a call like any other.
#include "sim/facts/program_player.h"

#include <cmath>

#include "api/distribute.h"
#include "backends/fake/communicator.h"
#include "backends/fake/shape_device.h"
#include "base/fix.h"
#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "dispatch/all_ops.h"
#include "dispatch/plain_calls.h"
#include "mesh/local_shape.h"
#include "mesh/placement_dims.h"
#include "redistribute/redistribute.h"
#include "schema/op_row.h"
#include "schema/torch_spelling.h"
#include "sim/facts/fact_world.h"
#include "sim/facts/layout_facts.h"
#include "sim/facts/propagate_facts.h"
#include "sim/language/op_call.h"
#include "sim/world/devices.h"
#include "sim/world/rank_life.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// What the ranks of one call are told of it.
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

// Below autograd a detached tensor, and one that a number was lifted to, is an alias.
std::string row_name(const std::string& recorded) {
  std::string name = recorded;
  if (name.ends_with(".default")) name.resize(name.size() - 8);
  if (name == "aten.detach" || name == "aten.lift_fresh") return "aten::alias";
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) name.replace(dot, 1, "::");
  return name;
}

Tensor tensor_of(Device& device, const Dims& shape, DType dtype,
                 const std::vector<double>& values) {
  const Tensor tensor = empty(device, shape, dtype);
  const std::int64_t parts = is_complex(dtype) ? 2 : 1;
  if (static_cast<std::int64_t>(values.size()) != product(shape) * parts) {
    fail(ErrorKind::kValue, Fix{"give one number per element"},
         "a value of {} elements is recorded with {} numbers", product(shape), values.size());
  }
  if (is_integral(dtype)) {
    write_integers(tensor, std::vector<std::int64_t>(values.begin(), values.end()));
  } else {
    write_doubles(tensor, values);
  }
  return tensor;
}

template <typename Visit>
void for_each_number(const Json& json, const Visit& visit) {
  if (json.is_array()) {
    for (const Json& item : json) for_each_number(item, visit);
  } else if (json.is_object() && json.contains("v")) {
    visit(json.at("v").get<std::size_t>());
  }
}

template <typename Visit>
void for_each_operand(const Json& event, const Visit& visit) {
  // Of a call that failed, "in" says how its operands lay.
  if (event.contains("in") && !event.contains("args")) visit(event.at("in").get<std::size_t>());
  if (event.contains("args")) for_each_number(event.at("args"), visit);
  if (event.contains("kwargs")) {
    for (const auto& [name, value] : event.at("kwargs").items()) for_each_number(value, visit);
  }
  const bool looks = event.at("k") == "check";
  if (looks) visit(event.at("v").get<std::size_t>());
}

// Where our placements are others than the recorded ones, the recorded ones count for what follows.
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

Results flattened(const Results& results) {
  Results flat;
  for (const Argument& result : results) {
    if (result.is_list()) {
      for (const Argument& item : result.list()) flat.push_back(item);
    } else {
      flat.push_back(result);
    }
  }
  return flat;
}

void append_numbers(const Json& data, std::vector<double>& out) {
  if (data.is_array()) {
    for (const Json& item : data) append_numbers(item, out);
  } else if (data.is_boolean()) {
    out.push_back(data.get<bool>() ? 1 : 0);
  } else {
    out.push_back(number_of(data.is_object() ? data.at("f") : data));
  }
}

// "fill" of an input: its row-major elements (the README's formula).
std::vector<double> filled(const Json& fill, DType dtype, std::int64_t count) {
  std::vector<double> values;
  const std::int64_t seed = fill.at("seed").get<std::int64_t>();
  const std::int64_t parts = is_complex(dtype) ? 2 : 1;
  for (std::int64_t i = 0; i < count * parts; ++i) {
    const std::int64_t h = (i + 1) * 7919 + (seed + 1) * 104729 + ((i * i) % 251) * 31;
    if (dtype == DType::kBool) {
      values.push_back(static_cast<double>((h / 7) % 2));
    } else if (is_integral(dtype)) {
      values.push_back(static_cast<double>(h % fill.at("mod").get<std::int64_t>()));
    } else {
      const double step = static_cast<double>(h % 509 - 254) / 256;
      values.push_back(fill.at("bias").get<double>() + fill.at("scale").get<double>() * step);
    }
  }
  return values;
}

}  // namespace

std::vector<double> recorded_numbers(const Json& data) {
  std::vector<double> numbers;
  append_numbers(data, numbers);
  return numbers;
}

// One rank's part of one event.
class ProgramPlayer::Rank {
 public:
  Rank(ProgramPlayer& player, RankContext& rank, std::vector<DTensor>& values, const Json& event)
      : player_(player), rank_(rank), values_(values), event_(event) {}

  Results run() {
    const std::string kind = event_.at("k").get<std::string>();
    if (kind == "input" || kind == "const") return {given(kind == "const")};
    if (kind == "op" || kind == "local_op") return call();
    if (kind == "check") return {value(event_.at("v"))};
    const DTensor& x = value(event_.at("in"));
    if (kind == "redistribute") return {moved(x)};
    if (kind == "redistribute_bwd") return {moved_back(x)};
    if (kind == "to_local") return {DTensor(x.local())};
    if (kind == "from_local") return {labelled(x, event_.at("to"))};
    if (kind == "to_local_bwd") return {labelled(x, event_.at("forward_from"))};
    if (kind == "from_local_bwd") return {unlabelled(x)};
    fail(ErrorKind::kValue, Fix{"see tests/golden/facts/programs/README.md"},
         "a program has no event '{}'", kind);
  }

 private:
  const DTensor& value(const Json& number) const { return values_.at(number.get<std::size_t>()); }

  // The mesh that a recorded value lies on.
  const MeshLayout* mesh_of_value(const Json& recorded) const {
    if (!recorded.contains("mesh")) return player_.layout_;
    const auto names = recorded.at("mesh").get<std::vector<std::string>>();
    const auto coordinate = player_.layout_->coordinate_of(rank_.rank);
    return slice_layout(player_.layout_, names, *coordinate);
  }

  // Of what was recorded for each rank, this one's part.
  const Json& own(const char* key) const {
    return event_.at(key).at(static_cast<std::size_t>(rank_.rank));
  }

  std::vector<double> elements(DType dtype, std::int64_t count) const {
    if (event_.contains("data_ranks")) return recorded_numbers(own("data_ranks"));
    if (event_.contains("data")) return recorded_numbers(event_.at("data"));
    if (event_.contains("fill")) return filled(event_.at("fill"), dtype, count);
    return std::vector<double>(static_cast<std::size_t>(is_complex(dtype) ? 2 * count : count));
  }

  DTensor given(bool constant) const {
    const DType dtype = dtype_of(event_.at("dtype"));
    const Dims shape = dims_of(event_.contains("shapes") ? own("shapes") : event_.at("shape"));
    const Tensor whole = given_whole(shape, dtype);
    if (constant || event_.value("local", false)) return DTensor(whole);
    const MeshLayout* layout = mesh_of_value(event_);
    return distribute(
        whole, layout->arena().spec(layout, placements_of(event_.at("placements")), whole.meta()));
  }

  Tensor given_whole(const Dims& shape, DType dtype) const {
    if (rank_.device->shape_only()) return empty(*rank_.device, shape, dtype);
    constexpr std::int64_t kMostElements = std::int64_t{1} << 24;  // a damaged line may say more
    if (product(shape) > kMostElements) {
      fail(ErrorKind::kValue, Fix{"record it on smaller tensors"}, "a value of {} elements",
           product(shape));
    }
    return tensor_of(*rank_.device, shape, dtype, elements(dtype, product(shape)));
  }

  Argument argument(const Json& recorded) const {
    if (recorded.is_object() && recorded.contains("v")) return value(recorded.at("v"));
    if (recorded.is_object() && recorded.contains("f")) return number_of(recorded.at("f"));
    if (recorded.is_object() && recorded.contains("memory_format")) {
      return recorded.at("memory_format").get<std::string>() + "_format";
    }
    if (!recorded.is_array()) return fact_argument(nullptr, recorded);
    ArgumentList list;
    bool ints = true;
    Dims sizes;
    for (const Json& item : recorded) {
      ints = ints && item.is_number_integer();
      if (ints) sizes.push_back(item.get<std::int64_t>());
      list.push_back(argument(item));
    }
    return ints ? Argument(std::move(sizes)) : Argument(std::move(list));
  }

  // add.Tensor(x, 1.0) means add.Scalar, where there is one.
  static ResolvedCall resolved(const OpRow& row, const GivenArguments& given) {
    bool number = false;
    for (std::size_t i = 0; i < given.positional.size(); ++i) {
      number = number || (given.positional[i].is_scalar() && row.op.arguments[i].type.is_tensor());
    }
    if (number) return resolve_call(all_ops(), bare_name(row.op), given);
    return {&row, bind_arguments(row, given.positional, given.keywords)};
  }

  Results call() const {
    GivenArguments given;
    for (const Json& recorded : event_.at("args")) given.positional.push_back(argument(recorded));
    const Json keywords = event_.value("kwargs", Json::object());
    for (const auto& [name, recorded] : keywords.items()) {
      given.keywords.emplace_back(name, argument(recorded));
    }
    ResolvedCall call = resolved(*player_.row_of(event_), given);
    wrap_numbers(*call.row, call.args);
    return flattened(plain_calls().call(*call.row, call.args));
  }

  // A handle of its own, also where nothing moves.
  static DTensor apart(const DTensor& x, const DTensorSpec* target,
                       const RedistributeOptions& options = {}) {
    const DTensor result = redistribute_tensor(x, target, options);
    return result == x ? DTensor(x.local(), x.spec()) : result;
  }

  DTensor moved(const DTensor& x) const {
    return apart(x, x.spec()->with(placements_of(event_.at("to"))));
  }

  DTensor moved_back(const DTensor& gradient) const {
    const DTensorSpec* forward = gradient.spec()->with(placements_of(event_.at("forward_from")));
    return apart(gradient, gradient_target(gradient.spec(), forward),
                 {.direction = Direction::kBackward});
  }

  DTensor labelled(const DTensor& local, const Json& placements) const {
    const Json& out = event_.at("out").at(0);
    const MeshLayout* layout = mesh_of_value(out);
    const Placements label = placements_of(placements);
    TensorMeta meta = global_meta(*layout, label, local.local().meta());
    // Pieces that are uneven do not say how large the whole is.
    const Dims shape = dims_of(out.at("shape"));
    if (meta.shape != shape) meta = contiguous_meta(shape, local.dtype());
    return DTensor(local.local(), layout->arena().spec(layout, label, meta));
  }

  DTensor unlabelled(const DTensor& gradient) const {
    const DTensorSpec* forward = gradient.spec()->with(placements_of(event_.at("forward_to")));
    const DTensorSpec* target = gradient_target(gradient.spec(), forward);
    target = target->with(without_partials(target->placements()), target->order());
    return DTensor(
        redistribute_tensor(gradient, target, {.direction = Direction::kBackward}).local());
  }

  ProgramPlayer& player_;
  RankContext& rank_;
  std::vector<DTensor>& values_;
  const Json& event_;
};

ProgramPlayer::ProgramPlayer(const Json& program)
    : shapes_only_(program.at("backend") == "fake"),
      one_rank_recorded_(shapes_only_ || program.at("backend") == "gloo"),
      propagator_(all_ops(), PlanOptions{}) {
  MeshLayout::Init init;
  init.shape = dims_of(program.at("mesh"));
  init.names = program.at("mesh_dim_names").get<std::vector<std::string>>();
  if (product(init.shape) > 4096) {
    fail(ErrorKind::kUnsupported, Fix{"record it on fewer ranks"}, "a mesh of {} ranks",
         product(init.shape));
  }
  layout_ = arena_.layout(std::move(init));
  DeviceChoice choice;
  choice.most_bytes = std::int64_t{1} << 30;
  device_ = shapes_only_ ? make_shape_device() : make_device(choice, "threads");
  WorldOptions options;
  options.ranks = layout_->size();
  options.device = [this](std::int64_t) -> Device& { return *device_; };
  options.propagator = &propagator_;
  options.plans = &propagator_.plans();
  options.mixed = MixedTensors::kReplicate;  // as under implicit_replication()
  world_ = std::make_unique<World>(std::move(options));
  // Of shapes alone the first rank's calls were recorded.
  const auto ranks = shapes_only_ ? 1 : static_cast<std::size_t>(layout_->size());
  const auto count = program.at("n_values").get<std::size_t>();
  if (count > 10'000'000) {
    fail(ErrorKind::kValue, Fix{"see tests/golden/facts/programs/README.md"},
         "a program of {} values", count);
  }
  values_.assign(ranks, std::vector<DTensor>(count));
}

ProgramPlayer::~ProgramPlayer() = default;

const OpRow* ProgramPlayer::row_of(const Json& event) const {
  return all_ops().find(row_name(event.at("op").get<std::string>()));
}

bool ProgramPlayer::has_operands(const Json& event) const {
  bool all = true;
  for_each_operand(event,
                   [&](std::size_t number) { all = all && values_[0].at(number).defined(); });
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
    Results results = Rank(*this, rank, values_[runs.index], event).run();
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

// Of shapes alone nothing is exchanged, so that one rank needs no others: a call of thousands would
// else be a world of all classes of ranks.
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
  RankLife life(world_->options(), 0, device_.get(), nullptr);
  return life
      .run([&] { return fake::make_world_communicator(place); },
           [&](RankContext& rank) { body(rank, {}); })
      .error;
}

void ProgramPlayer::keep(const Json& event, const PlayedEvent& played) {
  const auto keep_one = [&](const Json& out, std::size_t index) {
    if (!out.is_object() || !out.contains("v")) return;
    const auto number = out.at("v").get<std::size_t>();
    for (std::size_t rank = 0; rank < values_.size(); ++rank) {
      const Results& results = played.kept[rank];
      DTensor& kept = values_[rank].at(number);
      if (kept.defined() || index >= results.size() || !results[index].is_tensor()) continue;
      kept = results[index].tensor();
    }
  };
  if (!event.contains("out")) return keep_one(event, 0);
  std::size_t index = 0;
  for (const Json& out : event.at("out")) keep_one(out, index++);
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
      const DTensorSpec* spec = arena_.spec(layout_, placements_of(out.at("placements")), meta);
      const Coordinate here = *layout_->coordinate_of(rank.rank);
      kept.emplace_back(DTensor(empty(*rank.device, local_shape(*spec, here), meta.dtype), spec));
    }
  });
  keep(event, played);
}

void ProgramPlayer::forget(const Json& event) {
  for (const char* key : {"out", "mut"}) {
    if (!event.contains(key)) continue;
    for_each_number(event.at(key), [&](std::size_t number) {
      for (std::vector<DTensor>& rank : values_) rank.at(number) = {};
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
