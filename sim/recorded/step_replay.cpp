// Values stay on the player's rank from event to event. Memory is laid out as the recorded program
// had it, since views follow it: attention's result is not row-major there. What was drawn is
// taken from the file; nothing else is.
#include "sim/recorded/step_replay.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/fix.h"
#include "base/text_of_list.h"
#include "sim/capture/recorded_json.h"
#include "sim/recorded/program_player.h"
#include "sim/recorded/step_print.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

Json head_of(const StepRecording& recording) {
  return {{"mesh", {1}},
          {"mesh_dim_names", {"all"}},
          {"n_values", recording.values},
          {"backend", recording.shapes_only ? "fake" : "local"}};
}

// Facts about a value, without its elements.
struct Known {
  StepOrigin origin;
  double size = 0;   // sum of magnitudes
  double noise = 0;  // rounding of an element, as a part of the mean magnitude
};

// Values before an op, by number.
using Snapshots = std::vector<std::pair<std::size_t, Tensor>>;

// Values that an event gives ("out"), then those that it writes to ("mut").
struct Given {
  const Json* value;
  std::string field;
  std::size_t index;  // in its list
  bool written;
};

std::vector<Given> given_by(const Json& event) {
  std::vector<Given> all;
  for (const char* key : {"out", "mut"}) {
    const auto list = event.find(key);
    if (list == event.end()) continue;
    std::size_t index = 0;
    for (const Json& value : *list) {
      if (value.is_object() && value.contains("v")) {
        all.push_back({&value, fmt::format("{}[{}]", key, index), index, key[0] == 'm'});
      }
      ++index;
    }
  }
  return all;
}

std::size_t number_in(const Json& value) { return integer_of<std::size_t>(value.at("v")); }

class StepPlayer {
 public:
  explicit StepPlayer(const StepRecording& recording)
      : recording_(recording), player_(head_of(recording)), known_(recording.values) {}

  StepReplay play() {
    for (at_ = 0; at_ < recording_.events.size(); ++at_) {
      try {
        play_event(recording_.events[at_]);
      } catch (const Json::exception& error) {
        refuse(error.what());
      } catch (const std::logic_error& error) {
        refuse(error.what());
      }
    }
    return std::move(replay_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::kValue, Fix{"record the step again: shardlab record train.py"},
         "{}: event {}: {}", recording_.path, at_ + 1, why);
  }

  void play_event(const Json& event) {
    const auto kind = event.at("k").get<std::string>();
    if (kind == "input" || kind == "const") {
      put(event, DTensor(recorded_tensor(player_.device(), recording_, event)));
      known_.at(number_in(event)) = first_known(event);
    } else if (kind == "alias") {
      alias(event);
    } else if (kind == "local_op") {
      play_op(event);
    } else if (kind == "check") {
      check(event);
    }
  }

  void put(const Json& event, DTensor value) { player_.put(number_in(event), 0, std::move(value)); }

  const Tensor& tensor_of(std::size_t number) const { return player_.value(number).local(); }
  bool has(std::size_t number) const { return player_.value(number).defined(); }

  Known first_known(const Json& event) const {
    Known known;
    const Tensor& tensor = tensor_of(number_in(event));
    known.origin.coarsest = tensor.dtype();
    if (!recording_.shapes_only) known.size = StepPrint(tensor).sizes[0];
    return known;
  }

  // A view that no op has made.
  void alias(const Json& event) {
    const auto base = integer_of<std::size_t>(event.at("of"));
    if (!has(base)) return;
    const TensorMeta meta = recorded_meta(event);
    const Tensor& whole = tensor_of(base);
    const auto offset = integer_of<std::int64_t>(event.at("offset"));
    std::int64_t last = offset;
    for (std::size_t i = 0; i < meta.shape.size(); ++i) {
      last += (std::max<std::int64_t>(meta.shape[i], 1) - 1) * meta.stride[i];
    }
    const std::int64_t held = whole.storage()->buffer()->size_bytes() / item_bytes(meta.dtype);
    if (offset < 0 || last >= std::max<std::int64_t>(held, 1)) {
      fail(ErrorKind::kValue, Fix{"record the step again: shardlab record train.py"},
           "{}: event {}: a view beyond the memory of value {}", recording_.path, at_ + 1, base);
    }
    put(event, DTensor(whole.as_view(meta, offset)));
    known_.at(number_in(event)) = known_.at(base);
  }

  bool has_operands(const Json& event) const { return player_.has_operands(event); }

  void play_op(const Json& event) {
    const auto op = event.at("op").get<std::string>();
    const OpRow* row = recorded_row(event);
    if (row == nullptr || !row->runs()) {
      if (std::ranges::find(replay_.missing, op) == replay_.missing.end()) {
        replay_.missing.push_back(op);
      }
      return player_.forget(event);
    }
    if (!has_operands(event)) {
      ++replay_.skipped;
      return player_.forget(event);
    }
    ++replay_.ops;
    before_.clear();
    for_each_operand(event, [&](std::size_t number) {
      if (!recording_.shapes_only) before_.emplace_back(number, tensor_of(number).snapshot());
    });
    PlayedEvent played = player_.play(event);
    if (played.error || event.contains("error")) return compare_errors(event, played);
    Results& results = played.kept.at(0);
    const std::vector<Given> given = given_by(event);
    for (const Given& one : given) {
      if (!one.written && one.index < results.size()) settle(event, one, results[one.index]);
    }
    player_.keep(event, played);
    for (const Given& one : given) {
      if (!has(number_in(*one.value))) continue;
      if (one.value->contains("raw")) take_drawn(*one.value);
      compare(event, one, given.size());
    }
  }

  void compare_errors(const Json& event, const PlayedEvent& played) {
    player_.forget(event);
    // Of shapes alone nobody knows a number that is read from a tensor; the file has its shape.
    if (recording_.shapes_only && played.error && played.error->kind() == ErrorKind::kUnsupported) {
      ++replay_.skipped;
      return player_.suppose(event);
    }
    if (!event.contains("error")) {
      add_difference(event, "error", "a result", played.error->text());
    } else if (!played.error) {
      add_difference(event, "error", event.at("error").dump(), "a result");
    }
  }

  // Memory of its own is laid out as it was recorded.
  void settle(const Json& event, const Given& one, Argument& result) {
    if (!result.is_tensor() || !result.tensor().defined()) return;
    const Tensor& ours = result.tensor().local();
    const TensorMeta meta = recorded_meta(*one.value);
    if (ours.shape() != meta.shape || ours.dtype() != meta.dtype || ours.stride() == meta.stride) {
      return;
    }
    bool shared = false;
    for_each_operand(event, [&](std::size_t number) {
      shared = shared || tensor_of(number).storage() == ours.storage();
    });
    if (shared) return;
    Tensor laid = empty(player_.device(), meta);
    if (!recording_.shapes_only) player_.device().copy(laid, ours);
    result = DTensor(laid);
  }

  // The recorded random numbers, in place of those drawn here.
  void take_drawn(const Json& value) {
    if (recording_.shapes_only) return;
    const Tensor& ours = tensor_of(number_in(value));
    player_.device().copy(ours, recorded_tensor(player_.device(), recording_, value));
  }

  // Of the operands of one result: of lists that have one for each result, its own.
  Known known_of(const Json& event, const Given& one, std::size_t results) const {
    Known result;
    StepOrigin& origin = result.origin;
    origin.coarsest = dtype_of(one.value->at("dtype"));
    origin.exact = is_integral(origin.coarsest);
    bool any = false;
    const auto visit = [&](std::size_t number) {
      const Known& known = known_.at(number);
      origin.coarsest = coarser(origin.coarsest, known.origin.coarsest);
      origin.drift = std::max(origin.drift, known.origin.drift);
      result.noise = std::max(result.noise, known.noise);
      const bool floating = unit_roundoff(tensor_of(number).dtype()) > 0;
      origin.exact = origin.exact && known.origin.exact && !floating;
      if (!floating || known.size == 0) return;
      origin.terms = any ? std::min(origin.terms, known.size) : known.size;
      any = true;
    };
    const auto visit_argument = [&](const Json& argument) {
      const bool list = argument.is_array() && argument.size() > 1 && argument.at(0).is_object();
      if (list && results % argument.size() == 0) {
        return for_each_number(argument.at(one.index % argument.size()), visit);
      }
      for_each_number(argument, visit);
    };
    for (const Json& argument : event.at("args")) visit_argument(argument);
    if (event.contains("kwargs")) {
      for (const Json& argument : event.at("kwargs")) visit_argument(argument);
    }
    return result;
  }

  void compare(const Json& event, const Given& one, std::size_t results) {
    const std::size_t number = number_in(*one.value);
    const Tensor& ours = tensor_of(number);
    const TensorMeta meta = recorded_meta(*one.value);
    if (ours.shape() != meta.shape || ours.dtype() != meta.dtype) {
      return add_difference(
          event, one.field, one.value->dump(),
          fmt::format("{}[{}]", to_string(ours.dtype()), text_of_list(ours.shape(), ", ")));
    }
    Known known;
    if (!recording_.shapes_only) known = known_of(event, one, results);
    judge(event, one.field, *one.value, known);
    known_.at(number) = known;
  }

  void judge(const Json& event, const std::string& field, const Json& value, Known& known) {
    if (recording_.shapes_only || !value.contains("fp")) {
      ++replay_.unknown;
      if (!recording_.shapes_only) known = first_known(value);
      return;
    }
    const StepPrint print(tensor_of(number_in(value)));
    known.size = print.sizes[0];
    PrintComparison found = compare_prints(value.at("fp"), print, known.origin);
    known.origin.drift = found.drift;
    known.noise = std::max(known.noise, noise_of(known));
    if (found.verdict == PrintVerdict::kDiffers && is_rounding(event, value, print)) {
      found.verdict = PrintVerdict::kUndecided;
    }
    if (found.verdict == PrintVerdict::kAgrees) ++replay_.agree;
    if (found.verdict == PrintVerdict::kUndecided) ++replay_.undecided;
    if (found.verdict == PrintVerdict::kDiffers) {
      add_difference(event, field, value.at("fp").dump(), print.json().dump());
    }
  }

  // A sum that cancels keeps the rounding of its terms.
  static double noise_of(const Known& known) {
    if (known.origin.exact || known.size == 0) return 0;
    const double own = 8 * unit_roundoff(known.origin.coarsest);
    return std::min(1.0, own * std::max(1.0, known.origin.terms / known.size));
  }

  // Whether the op, on operands that are off by their rounding, gives as different a result: of
  // a quotient of what cancels, as optimizers have it, that is much.
  bool is_rounding(const Json& event, const Json& value, const StepPrint& print) {
    if (event.at("k") != "local_op" || known_.at(number_in(value)).origin.exact) return false;
    constexpr int kSamples = 4;
    constexpr double kFactor = 8;
    double moved = 0, off = 0;
    for (int sample = 0; sample < kSamples; ++sample) {
      const std::optional<StepPrint> again = print_of_perturbed(event, value, sample);
      if (!again) return false;
      for (const std::size_t i : {0, 1}) {
        moved = std::max(
            moved, std::fabs(again->sums[i] - print.sums[i]) / static_cast<double>(i * 3 + 1));
        const double expected = number_of(value.at("fp").at(i));
        off = std::max(off, std::fabs(expected - print.sums[i]) / static_cast<double>(i * 3 + 1));
      }
    }
    return off <= kFactor * moved;
  }

  std::optional<StepPrint> print_of_perturbed(const Json& event, const Json& value, int sample) {
    Snapshots now;
    for (const auto& [number, tensor] : before_) {
      now.emplace_back(number, tensor_of(number));
      player_.put(number, 0, DTensor(perturbed(tensor, known_.at(number).noise, sample)));
    }
    PlayedEvent played = player_.play(event);
    std::optional<StepPrint> print;
    const std::size_t number = number_in(value);
    const bool takes =
        std::ranges::find(before_, number, &Snapshots::value_type::first) != before_.end();
    if (!played.error && takes) print.emplace(tensor_of(number));
    std::size_t index = 0;
    for (const Json& out : event.value("out", Json::array())) {
      const bool same = out.is_object() && out.contains("v") && number_in(out) == number;
      if (!played.error && !takes && same) {
        print.emplace(played.results.at(0).at(index).tensor().local());
      }
      ++index;
    }
    for (const auto& [own, tensor] : now) player_.put(own, 0, DTensor(tensor));
    return print;
  }

  // Elements moved up or down by the noise, by a fixed draw.
  Tensor perturbed(const Tensor& tensor, double noise, int sample) {
    if (unit_roundoff(tensor.dtype()) == 0 || is_complex(tensor.dtype())) return tensor.snapshot();
    std::vector<double> elements = read_doubles(tensor);
    double size = 0;
    for (const double element : elements) size += std::fabs(element);
    const double mean = elements.empty() ? 0 : size / static_cast<double>(elements.size());
    std::uint64_t draw = 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(sample + 1);
    for (double& element : elements) {
      draw = draw * 6364136223846793005ull + 1442695040888963407ull;
      element += ((draw >> 40) % 2 == 0 ? noise : -noise) * mean;
    }
    Tensor result = empty(player_.device(), tensor.meta());
    write_doubles(result, elements);
    return result;
  }

  // A value once more, by name.
  void check(const Json& event) {
    const std::size_t number = number_in(event);
    if (!has(number)) return;
    Known known = known_.at(number);
    judge(event, event.at("name").get<std::string>(), event, known);
  }

  void add_difference(const Json& event, const std::string& field, std::string expected,
                      std::string got) {
    replay_.differences.push_back({at_ + 1, place_of(recording_, event), event.value("op", "check"),
                                   field, std::move(expected), std::move(got)});
  }

  const StepRecording& recording_;
  ProgramPlayer player_;
  std::vector<Known> known_;
  Snapshots before_;  // operands of the op that is being judged
  StepReplay replay_;
  std::size_t at_ = 0;
};

}  // namespace

StepReplay replay_step(const StepRecording& recording) { return StepPlayer(recording).play(); }

std::string text(const StepDifference& difference) {
  return fmt::format("FAIL event {}  {}  {}  {}\n  expected {}\n  got      {}\n", difference.event,
                     difference.place, difference.op, difference.field, difference.expected,
                     difference.got);
}

std::string replay_text(const StepRecording& recording, const StepReplay& replay) {
  constexpr std::size_t kMostShown = 20;
  std::string shown;
  for (std::size_t i = 0; i < std::min(kMostShown, replay.differences.size()); ++i) {
    shown += text(replay.differences[i]);
  }
  if (replay.differences.size() > kMostShown) {
    shown += fmt::format("... and {} more\n", replay.differences.size() - kMostShown);
  }
  for (const std::string& op : replay.missing) {
    shown += fmt::format("{} does not exist here\n", op);
  }
  if (!recording.program_error.empty()) {
    shown += fmt::format("the program failed when it was recorded: {}\n", recording.program_error);
  }
  std::string rest;
  if (replay.undecided > 0) rest += fmt::format(", {} rounding alone", replay.undecided);
  if (replay.unknown > 0) rest += fmt::format(", {} without a recorded value", replay.unknown);
  if (replay.skipped > 0) rest += fmt::format(", {} ops skipped", replay.skipped);
  return shown + fmt::format("{:6} {}  PyTorch {}, {} ops: {} results agree, {} differ{}\n",
                             replay.ok() ? "ok" : "FAILED", recording.path, recording.torch,
                             replay.ops, replay.agree, replay.differences.size(), rest);
}

Json replay_json(const StepRecording& recording, const StepReplay& replay) {
  Json json = {{"file", recording.path},
               {"torch", recording.torch},
               {"ok", replay.ok()},
               {"ops", replay.ops},
               {"agree", replay.agree},
               {"differ", replay.differences.size()},
               {"undecided", replay.undecided},
               {"unknown", replay.unknown},
               {"skipped", replay.skipped},
               {"missing", replay.missing},
               {"differences", Json::array()}};
  for (const StepDifference& one : replay.differences) {
    json["differences"].push_back({{"event", one.event},
                                   {"place", one.place},
                                   {"op", one.op},
                                   {"field", one.field},
                                   {"expected", one.expected},
                                   {"got", one.got}});
  }
  return json;
}

}  // namespace shardlab
