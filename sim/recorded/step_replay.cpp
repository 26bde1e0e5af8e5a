// Values stay on the player's rank from event to event. Memory is laid out as in the recorded
// program, since views depend on it: attention's result is not row-major there. Only random values
// are taken from the file.
#include "sim/recorded/step_replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/fix.h"
#include "base/text_of_list.h"
#include "mesh/local_shape.h"
#include "sim/capture/library_calls.h"
#include "sim/capture/recorded_json.h"
#include "sim/record/step_streams.h"
#include "sim/recorded/program_player.h"
#include "sim/recorded/recorded_moves.h"
#include "sim/recorded/reference_errors.h"
#include "sim/recorded/step_print.h"
#include "sim/verify/global_value.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// The release whose placements, moves and collectives we follow.
constexpr std::string_view kRelease = "2.15.";

// Facts about a value, without its elements.
struct Known {
  StepOrigin origin;
  double size = 0;      // sum of magnitudes; below 0: not known
  double noise = 0;     // rounding of an element, as a part of the mean magnitude
  bool parted = false;  // ranks hold replicas that differ, or values computed from such
  bool vague = false;   // its rounding is as large as the value
  // It is computed from floats that are all vague: whatever it is may be rounding.
  bool of_vague = false;
};

// A message on its way: the value sent, or the receive that waits for it.
struct Message {
  std::size_t event = 0;
  std::size_t value = 0;  // its number
  std::size_t rank = 0;
  Tensor sent;  // its value when it was sent
  Known known;
};
// From, to, tag, group.
using Route = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::size_t>;

// Values before an op, by number: of each rank that the op runs on.
using Snapshots = std::vector<std::pair<std::size_t, std::vector<DTensor>>>;

// Values that an event returns ("out"), then those that it writes to ("mut").
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

bool is_whole(const Json& value) { return value.contains("placements"); }

// Calls visit(number) for every number in an event that may be a value's; those of calls that a
// backward is "of" are among them.
template <typename Visit>
void for_each_named(const Json& json, const Visit& visit, bool is_number = false) {
  if (is_number && json.is_number_unsigned()) return visit(integer_of<std::size_t>(json));
  if (json.is_array()) {
    for (const Json& item : json) for_each_named(item, visit, is_number);
  } else if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      for_each_named(value, visit, key == "v" || key == "of" || key == "in" || key == "out");
    }
  }
}

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// For each value the index of the last event that names it. Those of messages stay: either side may
// come first.
std::vector<std::size_t> last_uses(const StepRecording& recording) {
  std::vector<std::size_t> last(recording.values, 0);
  for (std::size_t i = 0; i < recording.events.size(); ++i) {
    const Json& event = recording.events[i];
    const std::size_t use = is_recorded_message(event) ? kNever : i;
    for_each_named(event, [&](std::size_t number) {
      if (number < last.size()) last[number] = std::max(last[number], use);
    });
  }
  return last;
}

// This rank's fingerprint, if each rank has one.
const Json& print_on(const Json& print, std::size_t rank) {
  return print.is_object() ? print.at("ranks").at(rank) : print;
}

std::vector<double> doubles_of(GlobalValue&& value) {
  if (!value.is_integral()) return std::move(value.reals);
  return {value.integers.begin(), value.integers.end()};
}

// Strides of a dense piece whose dims follow each other as those of the whole.
Dims strides_like(const Dims& shape, const TensorMeta& whole) {
  std::vector<std::size_t> dims(shape.size());
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = i;
  std::ranges::stable_sort(
      dims, [&](std::size_t a, std::size_t b) { return whole.stride[a] < whole.stride[b]; });
  Dims strides(shape.size());
  std::int64_t step = 1, whole_step = 1;
  for (const std::size_t dim : dims) {
    if (whole.shape[dim] > 1 && whole.stride[dim] != whole_step) return contiguous_strides(shape);
    strides[dim] = step;
    step *= std::max<std::int64_t>(shape[dim], 1);
    whole_step *= whole.shape[dim];
  }
  return strides;
}

class StepPlayer {
 public:
  StepPlayer(const StepRecording& recording, std::int64_t most_bytes)
      : recording_(recording),
        player_(recording.mesh, most_bytes),
        known_(recording.values),
        last_use_(last_uses(recording)) {}

  StepReplay play(const AfterEvent& after) {
    replay_.rules_are_ours = recording_.torch.starts_with(kRelease);
    for (at_ = 0; at_ < recording_.events.size(); ++at_) {
      const Json& event = recording_.events[at_];
      try {
        read_or_refuse([&] { play_and_drop(event, after); },
                       [&](const char* what) { refuse(what); });
      } catch (const Error& error) {
        if (!is_out_of_memory(error)) throw;
        const std::string place = place_of(recording_, event);
        throw Error(error).with(
            "event",
            fmt::format("{}  {}", at_ + 1, place.empty() ? event.value("name", "") : place));
      }
    }
    for (const auto& [route, messages] : sent_) {
      for (const Message& one : messages) left_over(one, "a rank that receives it");
    }
    for (const auto& [route, messages] : awaited_) {
      for (const Message& one : messages) left_over(one, "a rank that sends it");
    }
    return std::move(replay_);
  }

 private:
  // Values that no later event names are dropped.
  void play_and_drop(const Json& event, const AfterEvent& after) {
    play_event(event);
    if (after) after(at_, player_);
    for_each_named(event, [&](std::size_t number) {
      if (number < last_use_.size() && last_use_[number] == at_) let_go(number);
    });
  }

  [[noreturn]] void refuse(const std::string& why) const {
    refuse_event(recording_, &recording_.events[at_], why);
  }

  // A value that no later event names needs no memory.
  void let_go(std::size_t number) {
    for (std::size_t rank = 0; rank < player_.ranks(); ++rank) {
      const DTensor& value = player_.value(number, rank);
      if (!value.defined()) continue;
      const auto sharing = by_memory_.find(value.local().storage().get());
      if (sharing != by_memory_.end()) {
        std::erase(sharing->second, number);
        if (sharing->second.empty()) by_memory_.erase(sharing);
      }
      player_.put(number, rank, {});
    }
  }

  // A call that had no memory says nothing about its values.
  PlayedEvent played_by(const Json& event) {
    PlayedEvent played = player_.play(event);
    if (played.error && is_out_of_memory(*played.error)) throw Error(*played.error);
    return played;
  }

  void play_event(const Json& event) {
    const auto kind = event.at("k").get<std::string>();
    if (!choose_ranks(event)) return;
    if (kind == "input" || kind == "const") {
      give(event);
    } else if (kind == "alias") {
      alias(event);
    } else if (kind == "check" || kind == "arrived") {
      check(event);
    } else if (is_recorded_message(event)) {
      play_message(event);
    } else if (is_call(event) || is_move(event) || kind == "each") {
      play_op(event);
    }
  }

  // The ranks of an event; false: with shapes alone only the first is played.
  bool choose_ranks(const Json& event) {
    first_ = 0;
    end_ = player_.ranks();
    if (!event.contains("at")) return true;
    first_ = integer_of<std::size_t>(event.at("at"));
    const bool there = first_ < end_;
    end_ = first_ + 1;
    return there;
  }

  // The calls of other programs are played as the ops that they are made of.
  bool is_call(const Json& event) const {
    return (recording_.exported && event.at("k") == "call") || event.at("k") == "local_op" ||
           event.at("k") == "op" || event.at("k") == "coll";
  }

  // Modules have lists of values in "in".
  static bool is_move(const Json& event) {
    return event.contains("in") && event.at("in").is_number();
  }

  const Tensor& tensor_of(std::size_t number, std::size_t rank) const {
    return player_.value(number, rank).local();
  }
  const Tensor& tensor_of(std::size_t number) const { return tensor_of(number, first_); }
  // On every rank of the event.
  bool has(std::size_t number) const { return ranks_with(number) == end_ - first_; }
  std::size_t ranks_with(std::size_t number) const {
    std::size_t count = 0;
    for (std::size_t rank = first_; rank < end_; ++rank) {
      if (player_.value(number, rank).defined()) ++count;
    }
    return count;
  }
  // The values of the event's ranks.
  std::vector<DTensor> values_of(std::size_t number) const {
    std::vector<DTensor> values;
    for (std::size_t rank = first_; rank < end_; ++rank) {
      values.push_back(player_.value(number, rank));
    }
    return values;
  }

  // Inputs and constants. A formula is that of the whole; elements in the file are of pieces.
  void give(const Json& event) {
    if (is_whole(event) && (event.contains("fill") || recording_.shapes_only)) {
      const PlayedEvent played = played_by(event);
      if (played.error) throw Error(*played.error);
      player_.keep(event, played);
    } else {
      for (std::size_t rank = first_; rank < end_; ++rank) give_piece(event, rank);
    }
    known_.at(number_in(event)) = first_known(event);
    note_memory(number_in(event));
  }

  void give_piece(const Json& event, std::size_t rank) {
    const DTensorSpec* spec = is_whole(event) ? player_.spec_of(event, rank) : nullptr;
    TensorMeta meta = recorded_meta(event, rank);
    if (spec != nullptr) {
      const auto here = *spec->layout()->coordinate_of(static_cast<std::int64_t>(rank));
      meta = contiguous_meta(local_shape(*spec, here), meta.dtype);
    }
    Tensor piece = recorded_tensor(player_.device(), recording_, event, rank, meta);
    player_.put(number_in(event), rank, DTensor(std::move(piece), spec));
  }

  Known first_known(const Json& event) const {
    Known known;
    const std::size_t number = number_in(event);
    known.origin.coarsest = tensor_of(number).dtype();
    if (!recording_.shapes_only) known.size = size_of(number);
    return known;
  }

  // The sum of magnitudes; of terms of a sum, of theirs, whose rounding the sum has.
  double size_of(std::size_t number) const {
    const DTensor& first = player_.value(number, first_);
    const bool terms = !first.distributed() || first.spec()->has_partial();
    if (!terms) {
      std::vector<AssemblyFault> faults;
      return prints_of(number, faults).at(0).sizes[0];
    }
    double size = 0;
    for (std::size_t rank = first_; rank < end_; ++rank) {
      const double own = StepPrint(tensor_of(number, rank)).sizes[0];
      size = first.distributed() ? size + own : std::max(size, own);
    }
    return size;
  }

  double size_of(std::size_t number, const std::vector<StepPrint>& prints) const {
    const DTensor& first = player_.value(number, first_);
    if (first.distributed() && first.spec()->has_partial()) return size_of(number);
    double size = 0;
    for (const StepPrint& print : prints) size = std::max(size, print.sizes[0]);
    return size;
  }

  // One of the whole, or one of each rank.
  std::vector<StepPrint> prints_of(std::size_t number, std::vector<AssemblyFault>& faults) const {
    return prints_of(values_of(number), faults);
  }

  static std::vector<StepPrint> prints_of(const std::vector<DTensor>& values,
                                          std::vector<AssemblyFault>& faults) {
    std::vector<StepPrint> prints;
    if (values.at(0).distributed()) {
      prints.push_back(print_of_whole(values, faults));
    } else {
      for (const DTensor& value : values) prints.emplace_back(value.local());
    }
    return prints;
  }

  static StepPrint print_of_whole(const std::vector<DTensor>& values,
                                  std::vector<AssemblyFault>& faults) {
    const DTensorSpec& spec = *values.at(0).spec();
    if (spec.has_partial()) return StepPrint(doubles_of(whole_of(values, faults)));
    const std::vector<DTensor> pieces = pieces_of(values);
    PrintSum sum;
    for (const std::int64_t index : pieces_to_read(spec, pieces, faults)) {
      const LocalView view = local_view(spec, spec.layout()->coordinate_at_index(index));
      sum.add_piece(pieces.at(static_cast<std::size_t>(index)).local(), view);
    }
    return sum.print();
  }

  // A view that no op has made.
  void alias(const Json& event) {
    const auto base = integer_of<std::size_t>(event.at("of"));
    if (!has(base)) return;
    for (std::size_t rank = first_; rank < end_; ++rank) {
      player_.put(number_in(event), rank, DTensor(view_of(event, base, rank)));
    }
    known_.at(number_in(event)) = known_.at(base);
    note_memory(number_in(event));
  }

  Tensor view_of(const Json& event, std::size_t base, std::size_t rank) const {
    const TensorMeta meta = recorded_meta(event, rank);
    const Tensor& whole = tensor_of(base, rank);
    const Json& given = event.at("offset");
    const auto offset =
        integer_of<std::int64_t>(given.is_object() ? given.at("ranks").at(rank) : given);
    std::int64_t last = offset;
    for (std::size_t i = 0; i < meta.shape.size(); ++i) {
      last += (std::max<std::int64_t>(meta.shape[i], 1) - 1) * meta.stride[i];
    }
    const std::int64_t held = whole.storage()->buffer()->size_bytes() / item_bytes(meta.dtype);
    if (offset < 0 || last >= std::max<std::int64_t>(held, 1)) {
      refuse(fmt::format("a view beyond the memory of value {}", base));
    }
    return whole.as_view(meta, offset);
  }

  bool runs_here(const Json& event) {
    if (!is_call(event)) return true;
    const OpRow* row = recorded_row(event);
    const auto op = event.at("op").get<std::string>();
    if ((row != nullptr && row->runs()) || is_library_call(op)) return true;
    if (std::ranges::find(replay_.missing, op) == replay_.missing.end()) {
      replay_.missing.push_back(op);
    }
    return false;
  }

  // The event, or the parts of each rank.
  std::vector<const Json*> parts_of(const Json& event) const {
    if (!event.contains("each")) return {&event};
    std::vector<const Json*> parts;
    for (std::size_t rank = 0; rank < player_.ranks(); ++rank) {
      if (const Json* own = event_on(event, rank)) parts.push_back(own);
    }
    return parts;
  }

  void play_op(const Json& event) {
    const std::vector<const Json*> parts = parts_of(event);
    if (parts.empty()) return;
    const bool runs = std::ranges::all_of(parts, [&](const Json* one) { return runs_here(*one); });
    if (!runs) return player_.forget(event);
    if (!player_.has_operands(event)) {
      ++replay_.skipped;
      return player_.forget(event);
    }
    replay_.ops += std::ssize(parts);
    before_.clear();
    if (parts.size() == 1) {
      for_each_operand(event, [&](std::size_t number) {
        if (!recording_.shapes_only) before_.emplace_back(number, snapshots_of(number));
      });
    }
    PlayedEvent played = played_by(event);
    if (played.error || parts[0]->contains("error")) {
      player_.forget(event);
      return compare_errors(*parts[0], played);
    }
    compare_rule(*parts[0], played);
    for (const Json* one : parts) {
      choose_ranks(*one);
      settle_all(*one, played);
    }
    player_.keep(event, played);
    for (const Json* one : parts) {
      choose_ranks(*one);
      compare_all_of(*one);
    }
  }

  void settle_all(const Json& event, PlayedEvent& played) {
    for (const Given& one : given_by(event)) {
      if (one.written) continue;
      for (std::size_t rank = first_; rank < end_; ++rank) {
        if (one.index >= played.kept[rank].size()) continue;
        settle(event, *one.value, rank, played.kept[rank][one.index]);
      }
    }
  }

  void compare_all_of(const Json& event) {
    const std::vector<Given> given = given_by(event);
    for (const Given& one : given) {
      const std::size_t number = number_in(*one.value);
      if (!has(number)) continue;
      if (one.value->contains("raw") || one.value->contains("raw_ranks")) take_drawn(*one.value);
      compare(event, one, given.size());
      note_memory(number);
      if (one.written) spread(number);
    }
  }

  void note_memory(std::size_t number) {
    std::vector<std::size_t>& sharing = by_memory_[tensor_of(number).storage().get()];
    if (std::ranges::find(sharing, number) == sharing.end()) sharing.push_back(number);
  }

  // A write through one value shows in all that share its memory.
  void spread(std::size_t number) {
    const Known known = known_.at(number);
    for (const std::size_t other : by_memory_.at(tensor_of(number).storage().get())) {
      if (other == number) continue;
      Known& theirs = known_.at(other);
      theirs.origin.coarsest = coarser(theirs.origin.coarsest, known.origin.coarsest);
      theirs.origin.drift = std::max(theirs.origin.drift, known.origin.drift);
      theirs.origin.exact = theirs.origin.exact && known.origin.exact;
      theirs.noise = std::max(theirs.noise, known.noise);
      theirs.parted = theirs.parted || known.parted;
      theirs.size = -1;
    }
  }

  // Ranks play their events one by one, so that a message is stored here for its receiver, or a
  // receive for its message.
  void play_message(const Json& event) {
    const std::size_t number = number_in(event.at("args").at(0).at(0));
    if (!has(number)) {
      ++replay_.skipped;
      return player_.forget(event);
    }
    ++replay_.ops;
    const bool sends = is_recorded_send(event);
    const auto own = integer_of<std::int64_t>(event.at("at")),
               peer = integer_of<std::int64_t>(event.at("peer")),
               tag = integer_of<std::int64_t>(event.at("args").at(3));
    const Route route{sends ? own : peer, sends ? peer : own, tag,
                      integer_of<std::size_t>(event.at("group"))};
    Message message{at_, number, first_, {}, known_.at(number)};
    if (sends) message.sent = laid_out(tensor_of(number));
    std::deque<Message>& mine = (sends ? sent_ : awaited_)[route];
    std::deque<Message>& theirs = (sends ? awaited_ : sent_)[route];
    if (theirs.empty()) {
      mine.push_back(std::move(message));
      return;
    }
    const Message other = std::move(theirs.front());
    theirs.pop_front();
    sends ? deliver(message, other) : deliver(other, message);
  }

  Tensor laid_out(const Tensor& tensor) const {
    Tensor laid = empty(player_.device(), tensor.shape(), tensor.dtype());
    if (!recording_.shapes_only) player_.device().copy(laid, tensor);
    return laid;
  }

  void deliver(const Message& from, const Message& to) {
    const Tensor& target = tensor_of(to.value, to.rank);
    if (from.sent.numel() != target.numel() || from.sent.dtype() != target.dtype()) {
      return message_differs(to, reported(target), reported(from.sent));
    }
    const TensorMeta meta = contiguous_meta(target.shape(), target.dtype());
    if (!recording_.shapes_only) player_.device().copy(target, from.sent.as_view(meta, 0));
    Known& known = known_.at(to.value);
    known = from.known;
    const std::size_t first = std::exchange(first_, to.rank);
    note_memory(to.value);
    spread(to.value);
    first_ = first;
  }

  static std::string reported(const Tensor& tensor) {
    return fmt::format("{}[{}]", to_string(tensor.dtype()), text_of_list(tensor.shape(), ", "));
  }

  void left_over(const Message& message, const std::string& expected) {
    message_differs(message, expected, "none");
  }

  void message_differs(const Message& message, std::string expected, std::string got) {
    const std::size_t now = std::exchange(at_, message.event);
    add_difference(recording_.events[at_], "message", std::move(expected), std::move(got));
    at_ = now;
  }

  std::vector<DTensor> snapshots_of(std::size_t number) const {
    std::vector<DTensor> all;
    for (const DTensor& value : values_of(number)) {
      all.emplace_back(value.local().snapshot(), value.spec());
    }
    return all;
  }

  void compare_errors(const Json& event, const PlayedEvent& played) {
    // With shapes alone a number that is read from a tensor is not known; the file has its shape.
    if (recording_.shapes_only && played.error && played.error->kind() == ErrorKind::kUnsupported) {
      ++replay_.skipped;
      return player_.suppose(event);
    }
    if (!event.contains("error")) {
      add_difference(event, "error", "a result", played.error->text());
    } else if (!played.error && event.at("k") == "op") {
      ++replay_.better;
    } else if (!played.error) {
      add_difference(event, "error", event.at("error").dump(), "a result");
    }
  }

  // The moves of operands and their collectives are a rule of a release and no value.
  void compare_rule(const Json& event, const PlayedEvent& played) {
    const bool plain = event.at("k") != "op" && !is_move(event);
    if (plain || of_loss_parallel(event)) return;
    const bool composite = is_call(event) && recorded_row(event)->parts() != nullptr;
    const Json moves = recorded_moves(event);
    if (is_call(event) && !composite && moves != played.moves) {
      return add_rule(event, "moves", moves.dump(), played.moves.dump());
    }
    const Json collectives = recorded_collectives(event, player_.one_rank_recorded());
    if (collectives != played.collectives) {
      return add_rule(event, "collectives", collectives.dump(), played.collectives.dump());
    }
    for (const Given& one : given_by(event)) {
      if (one.written || !is_whole(*one.value) || one.index >= played.results[0].size()) continue;
      const Argument& ours = played.results[0][one.index];
      if (!ours.is_tensor() || !ours.tensor().defined() || !ours.tensor().distributed()) continue;
      const Json placements = texts_of(ours.tensor().spec()->placements());
      if (placements == one.value->at("placements")) continue;
      add_rule(event, one.field, one.value->at("placements").dump(), placements.dump());
    }
  }

  // Memory of its own is laid out as it was recorded.
  void settle(const Json& event, const Json& value, std::size_t rank, Argument& result) {
    if (!result.is_tensor() || !result.tensor().defined()) return;
    const Tensor& ours = result.tensor().local();
    TensorMeta meta = recorded_meta(value, rank);
    if (ours.shape().size() != meta.shape.size()) return;
    if (is_whole(value)) meta = {ours.shape(), strides_like(ours.shape(), meta), ours.dtype()};
    if (ours.shape() != meta.shape || ours.dtype() != meta.dtype || ours.stride() == meta.stride) {
      return;
    }
    bool shared = false;
    for_each_operand(event, [&](std::size_t number) {
      shared = shared || tensor_of(number, rank).storage() == ours.storage();
    });
    if (shared) return;
    Tensor laid = empty(player_.device(), meta);
    if (!recording_.shapes_only) player_.device().copy(laid, ours);
    result = DTensor(laid, result.tensor().spec());
  }

  // The recorded random numbers, in place of those drawn here.
  void take_drawn(const Json& value) {
    if (recording_.shapes_only) return;
    for (std::size_t rank = first_; rank < end_; ++rank) {
      const Tensor& ours = tensor_of(number_in(value), rank);
      const TensorMeta meta = contiguous_meta(ours.shape(), ours.dtype());
      player_.device().copy(ours, recorded_tensor(player_.device(), recording_, value, rank, meta));
    }
  }

  // Facts about the operands of one result: of lists with one operand for each result, its own.
  Known known_of(const Json& event, const Given& one, std::size_t results) const {
    Known result;
    StepOrigin& origin = result.origin;
    origin.coarsest = dtype_of(one.value->at("dtype"));
    origin.exact = is_integral(origin.coarsest);
    bool any = false;
    result.of_vague = true;
    const auto visit = [&](std::size_t number) {
      const Known& known = known_.at(number);
      origin.coarsest = coarser(origin.coarsest, known.origin.coarsest);
      origin.drift = std::max(origin.drift, known.origin.drift);
      result.noise = std::max(result.noise, known.noise);
      result.parted = result.parted || known.parted;
      const bool floating = unit_roundoff(tensor_of(number).dtype()) > 0;
      origin.exact = origin.exact && known.origin.exact && !floating;
      const double size = known.size < 0 ? size_of(number) : known.size;
      if (!floating || size == 0) return;
      result.of_vague = result.of_vague && known.vague;
      origin.terms = any ? std::min(origin.terms, size) : size;
      any = true;
    };
    const auto visit_argument = [&](const Json& argument) {
      const bool list = argument.is_array() && argument.size() > 1 && argument.at(0).is_object();
      if (list && results % argument.size() == 0) {
        return for_each_number(argument.at(one.index % argument.size()), visit);
      }
      for_each_number(argument, visit);
    };
    if (!event.contains("args")) visit(integer_of<std::size_t>(event.at("in")));
    for (const Json& argument : list_at(event, "args")) visit_argument(argument);
    if (event.contains("kwargs")) {
      for (const Json& argument : event.at("kwargs")) visit_argument(argument);
    }
    result.of_vague = result.of_vague && any;
    return result;
  }

  void compare(const Json& event, const Given& one, std::size_t results) {
    const std::size_t number = number_in(*one.value);
    for (std::size_t rank = first_; rank < end_; ++rank) {
      const DTensor& ours = player_.value(number, rank);
      const TensorMeta meta = recorded_meta(*one.value, rank);
      if (ours.shape() == meta.shape && ours.dtype() == meta.dtype) continue;
      return add_difference(event, one.field, one.value->dump(),
                            fmt::format("{}[{}] on rank {}", to_string(ours.dtype()),
                                        text_of_list(ours.shape(), ", "), rank));
    }
    Known known;
    if (!recording_.shapes_only) known = known_of(event, one, results);
    judge(event, one.field, *one.value, known);
    known_.at(number) = known;
  }

  void judge(const Json& event, const std::string& field, const Json& value, Known& known) {
    const std::size_t number = number_in(value);
    if (recording_.shapes_only || !value.contains("fp")) {
      ++replay_.unknown;
      if (!recording_.shapes_only) known.size = size_of(number);
      return;
    }
    std::vector<AssemblyFault> faults;
    const std::vector<StepPrint> prints = prints_of(number, faults);
    known.size = size_of(number, prints);
    PrintComparison found = compare_all(value.at("fp"), prints, known.origin);
    known.origin.drift = found.drift;
    known.noise = std::max(known.noise, noise_of(known));
    known.vague = known.of_vague || found.vague;
    if (found.verdict == PrintVerdict::kDiffers && !known.origin.exact &&
        (known.of_vague || is_rounding(event, value, prints))) {
      found.verdict = PrintVerdict::kUndecided;
    }
    if (found.verdict == PrintVerdict::kAgrees) ++replay_.agree;
    if (found.verdict == PrintVerdict::kUndecided) ++replay_.undecided;
    if (found.verdict == PrintVerdict::kDiffers &&
        !blame_reference(event, field, value, prints, found.drift)) {
      add_difference(event, field, value.at("fp").dump(), json_of(prints).dump());
    }
    // Labels that a program puts on pieces may be wrong; results computed from right ones are not.
    if (!faults.empty() && !known.parted && makes_pieces(event)) {
      add_difference(event, field, "the same on ranks that hold one piece", faults.at(0).what);
    }
    known.parted = known.parted || !faults.empty();
  }

  // Whether PyTorch computes the op wrongly in this form, and our result is the op's on whole
  // operands in f64. Values that are computed from it are off by as much.
  bool blame_reference(const Json& event, const std::string& field, const Json& value,
                       const std::vector<StepPrint>& prints, double off) {
    if (!is_call(event) || before_.empty() || prints.size() != 1) return false;
    std::vector<DTensor> operands;
    for (const auto& [number, values] : before_) operands.push_back(values.at(0));
    const ReferenceError* known = reference_error(event, operands);
    if (known == nullptr || off > known->most) return false;
    const auto apart = print_apart(event, value);
    const StepOrigin origin{.coarsest = dtype_of(value.at("dtype")), .exact = false};
    const bool right =
        apart && compare_prints(apart->json(), prints[0], origin).verdict == PrintVerdict::kAgrees;
    if (!right) return false;
    // The wrong form is one that our rule does not take.
    std::erase_if(replay_.rules, [&](const StepDifference& one) { return one.event == at_ + 1; });
    replay_.reference.push_back(
        difference(event, field, value.at("fp").dump(), json_of(prints).dump()));
    replay_.reference.back().known = fmt::format("{}: {}", known->id, known->what);
    return true;
  }

  // The result of an op on whole operands, in f64, on one device; none where it fails.
  std::optional<StepPrint> print_apart(const Json& event, const Json& value) {
    Json program = recording_.mesh;
    program["mesh"] = {1};
    program["mesh_dim_names"] = {"all"};
    program["meshes"] = program["groups"] = Json::array();
    ProgramPlayer apart(program, machine_bytes());
    for (const auto& [number, values] : before_) {
      std::vector<AssemblyFault> faults;
      const GlobalValue whole = whole_of(values, faults);
      const bool integral = whole.is_integral();
      const Tensor tensor = empty(apart.device(), whole.meta.shape,
                                  is_floating(whole.meta.dtype) ? DType::kF64 : whole.meta.dtype);
      integral ? write_integers(tensor, whole.integers) : write_doubles(tensor, whole.reals);
      apart.put(number, 0, DTensor(tensor));
    }
    Json local = event;
    local["k"] = "local_op";
    local.erase("at");
    const PlayedEvent played = apart.play(local);
    if (played.error) return std::nullopt;
    std::size_t index = 0;
    for (const Json& out : list_at(event, "out")) {
      const bool same = out.is_object() && out.contains("v") && out.at("v") == value.at("v");
      if (same) return StepPrint(played.results[0].at(index).tensor().local());
      ++index;
    }
    return StepPrint(apart.value(number_in(value), 0).local());
  }

  static GlobalValue whole_of(const std::vector<DTensor>& values,
                              std::vector<AssemblyFault>& faults) {
    if (!values.at(0).distributed()) return whole_value(values.at(0).local());
    return assemble(*values.at(0).spec(), pieces_of(values), faults);
  }

  // By index in the layout. For a value on a part of the mesh, the part that holds rank 0.
  static std::vector<DTensor> pieces_of(const std::vector<DTensor>& values) {
    const DTensorSpec& spec = *values.at(0).spec();
    std::vector<DTensor> pieces;
    for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
      pieces.push_back(values.at(static_cast<std::size_t>(spec.layout()->rank_at_index(i))));
    }
    return pieces;
  }

  static bool makes_pieces(const Json& event) {
    return event.at("k") == "op" || event.at("k").get<std::string>().starts_with("redistribute");
  }

  static Json json_of(const std::vector<StepPrint>& prints) {
    if (prints.size() == 1) return prints[0].json();
    Json ranks = Json::array();
    for (const StepPrint& print : prints) ranks.push_back(print.json());
    return {{"ranks", std::move(ranks)}};
  }

  // The worst of all ranks.
  static PrintComparison compare_all(const Json& recorded, const std::vector<StepPrint>& prints,
                                     const StepOrigin& origin) {
    PrintComparison worst;
    for (std::size_t rank = 0; rank < prints.size(); ++rank) {
      const PrintComparison one = compare_prints(print_on(recorded, rank), prints[rank], origin);
      worst.verdict = std::max(worst.verdict, one.verdict);
      worst.drift = std::max(worst.drift, one.drift);
      worst.vague = worst.vague || one.vague;
    }
    return worst;
  }

  // A sum that cancels keeps the rounding of its terms.
  static double noise_of(const Known& known) {
    if (known.origin.exact || known.size == 0) return 0;
    const double own = 8 * unit_roundoff(known.origin.coarsest);
    return std::min(1.0, own * std::max(1.0, known.origin.terms / known.size));
  }

  // True when the op, on operands changed by their rounding, gives results that differ as much: for
  // a quotient of cancelling terms, as in optimizers, that is much.
  bool is_rounding(const Json& event, const Json& value, const std::vector<StepPrint>& prints) {
    // Steps of optimizers write what they take; other results are compared as they are.
    const bool writes = std::ranges::find(before_, number_in(value),
                                          &Snapshots::value_type::first) != before_.end();
    if (!writes || !(is_call(event) || is_move(event))) return false;
    constexpr int kSamples = 4;
    constexpr double kFactor = 8;
    std::vector<double> moved(prints.size()), off(prints.size());
    for (int sample = 0; sample < kSamples; ++sample) {
      const auto again = prints_of_perturbed(event, value, sample);
      if (again.size() != prints.size()) return false;
      for (std::size_t rank = 0; rank < prints.size(); ++rank) {
        const Json& expected = print_on(value.at("fp"), rank);
        for (const std::size_t i : {0, 1}) {
          const auto weight = static_cast<double>(i * 3 + 1);
          const double ours = prints[rank].sums[i];
          moved[rank] = std::max(moved[rank], std::fabs(again[rank].sums[i] - ours) / weight);
          off[rank] = std::max(off[rank], std::fabs(number_of(expected.at(i)) - ours) / weight);
        }
      }
    }
    for (std::size_t rank = 0; rank < prints.size(); ++rank) {
      if (off[rank] > kFactor * moved[rank]) return false;
    }
    return true;
  }

  // Of a value that the op writes; empty if the op fails.
  std::vector<StepPrint> prints_of_perturbed(const Json& event, const Json& value, int sample) {
    Snapshots now;
    for (const auto& [number, values] : before_) {
      now.emplace_back(number, values_of(number));
      for (std::size_t i = 0; i < values.size(); ++i) {
        Tensor moved = perturbed(values[i].local(), known_.at(number).noise, sample);
        player_.put(number, first_ + i, DTensor(std::move(moved), values[i].spec()));
      }
    }
    const PlayedEvent played = played_by(event);
    std::vector<StepPrint> prints;
    std::vector<AssemblyFault> faults;
    if (!played.error) prints = prints_of(number_in(value), faults);
    for (const auto& [own, values] : now) {
      for (std::size_t i = 0; i < values.size(); ++i) player_.put(own, first_ + i, values[i]);
    }
    return prints;
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
    const auto name = event.value("name", "arrived");
    const std::size_t count = ranks_with(number);
    if (count == 0) return;
    if (count < end_ - first_) {
      return add_difference(event, name, fmt::format("a value on {} ranks", end_ - first_),
                            fmt::format("on {}", count));
    }
    Known known = known_.at(number);
    judge(event, name, event, known);
  }

  void add_difference(const Json& event, const std::string& field, std::string expected,
                      std::string got) {
    replay_.differences.push_back(difference(event, field, std::move(expected), std::move(got)));
  }

  void add_rule(const Json& event, const std::string& field, std::string expected,
                std::string got) {
    replay_.rules.push_back(difference(event, field, std::move(expected), std::move(got)));
  }

  StepDifference difference(const Json& event, const std::string& field, std::string expected,
                            std::string got) const {
    const auto kind = event.at("k").get<std::string>();
    return {at_ + 1, place_of(recording_, event), event.value("op", kind),
            field,   std::move(expected),         std::move(got)};
  }

  const StepRecording& recording_;
  ProgramPlayer player_;
  std::vector<Known> known_;
  std::vector<std::size_t> last_use_;  // by number: index of an event
  Snapshots before_;                   // operands of the op that is being judged
  StepReplay replay_;
  std::size_t at_ = 0;
  std::size_t first_ = 0, end_ = 1;  // the ranks of the event
  std::unordered_map<const Storage*, std::vector<std::size_t>> by_memory_;  // numbers of values
  std::map<Route, std::deque<Message>> sent_, awaited_;
};

}  // namespace

StepReplay replay_step(const StepRecording& recording, const AfterEvent& after,
                       std::int64_t most_bytes) {
  return StepPlayer(recording, most_bytes).play(after);
}

std::string text(const StepDifference& difference, std::string_view verdict) {
  std::string shown = fmt::format("{} event {}  {}  {}  {}\n  expected {}\n  got      {}\n",
                                  verdict, difference.event, difference.place, difference.op,
                                  difference.field, difference.expected, difference.got);
  if (!difference.known.empty()) shown += fmt::format("  known    {}\n", difference.known);
  return shown;
}

namespace {

std::string first_of(const std::vector<StepDifference>& differences, std::string_view verdict) {
  constexpr std::size_t kMostShown = 20;
  std::string shown;
  for (std::size_t i = 0; i < std::min(kMostShown, differences.size()); ++i) {
    shown += text(differences[i], verdict);
  }
  if (differences.size() > kMostShown) {
    shown += fmt::format("... and {} more\n", differences.size() - kMostShown);
  }
  return shown;
}

Json list_of(const std::vector<StepDifference>& differences) {
  Json list = Json::array();
  for (const StepDifference& one : differences) {
    list.push_back({{"event", one.event},
                    {"place", one.place},
                    {"op", one.op},
                    {"field", one.field},
                    {"expected", one.expected},
                    {"got", one.got}});
    if (!one.known.empty()) list.back()["known"] = one.known;
  }
  return list;
}

}  // namespace

std::string replay_text(const StepRecording& recording, const StepReplay& replay) {
  std::string shown = first_of(replay.differences, "FAIL") + first_of(replay.rules, "RULE") +
                      first_of(replay.reference, "REFERENCE");
  for (const std::string& op : replay.missing) {
    shown += fmt::format("{} does not exist here: {}\n", op, without_op(op));
  }
  if (!recording.program_error.empty()) {
    shown += fmt::format("the program failed when it was recorded: {}\n", recording.program_error);
  }
  std::string rest;
  if (replay.undecided > 0) rest += fmt::format(", {} rounding alone", replay.undecided);
  if (replay.unknown > 0) {
    rest += fmt::format(", {} without a recorded value", replay.unknown);
    if (recording.exported) rest += " have PyTorch's shape and dtype";
  }
  if (replay.skipped > 0) rest += fmt::format(", {} ops skipped", replay.skipped);
  if (!replay.rules.empty()) {
    rest += fmt::format(", {} by a rule that is not ours", replay.rules.size());
  }
  if (!replay.reference.empty()) {
    rest += fmt::format(", {} in which PyTorch is wrong", replay.reference.size());
  }
  if (replay.better > 0) rest += fmt::format(", {} that PyTorch refuses run here", replay.better);
  const std::string ranks = recording.ranks == 1 ? "" : fmt::format("{} ranks, ", recording.ranks);
  return shown + fmt::format("{:6} {}  PyTorch {}, {}{} ops: {} results agree, {} differ{}\n",
                             replay.ok() ? "ok" : "FAILED", recording.path, recording.torch, ranks,
                             replay.ops, replay.agree, replay.differences.size(), rest);
}

Json replay_json(const StepRecording& recording, const StepReplay& replay) {
  return {{"file", recording.path},
          {"torch", recording.torch},
          {"ranks", recording.ranks},
          {"ok", replay.ok()},
          {"ops", replay.ops},
          {"agree", replay.agree},
          {"differ", replay.differences.size()},
          {"undecided", replay.undecided},
          {"unknown", replay.unknown},
          {"skipped", replay.skipped},
          {"better", replay.better},
          {"missing", replay.missing},
          {"rules", list_of(replay.rules)},
          {"reference", list_of(replay.reference)},
          {"differences", list_of(replay.differences)}};
}

}  // namespace shardlab
