// Collectives that fill existing tensors. Pieces are rows where the shapes allow it, so that the
// collective is the one that the functions of collectives.h run, and else elements in row-major
// order. Ops without a tape put sent data together before, and deal out received data after it:
// observers see the origin of each value.
#include <algorithm>
#include <numeric>

#include "api/collectives.h"
#include "api/into_tensors.h"
#include "api/tensor_ops.h"
#include "autograd/at_place.h"
#include "autograd/on_tape.h"
#include "autograd/view.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "base/value_scope.h"
#include "comm/device_mesh.h"
#include "comm/filling.h"
#include "comm/observer.h"
#include "dispatch/local_call.h"
#include "dispatch/plain_calls.h"
#include "schema/op_row.h"
#include "tensor/pending_storage.h"

namespace shardlab {

namespace {

using Kind = CollectiveKind;
using Tensors = std::vector<DTensor>;
using PieceLengths = std::vector<std::int64_t>;

DTensor made(std::string_view op, const Arguments& args) { return plain_calls().one(op, args); }
DTensor flat(const DTensor& x) { return made("aten::reshape", {x, Dims{-1}}); }

// One tensor on both sides.
bool keeps_shape(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kBroadcast;
}

std::string types_text(const Tensors& tensors) {
  std::vector<std::string> texts;
  for (const DTensor& x : tensors) texts.push_back(type_string(x));
  return tensors.size() == 1 ? texts[0] : fmt::format("[{}]", text_of_list(texts, ", "));
}

template <typename... Args>
[[noreturn]] void refuse(const CollectInto& what, const ProcessGroup& group, Fix fix,
                         fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kValue, std::move(fix), "{} on group {} of {} ranks: {}", to_string(what.kind),
       group.name(), group.size(), fmt::format(format, std::forward<Args>(args)...));
}

// Number of places from the first element to one behind the last.
std::int64_t places(const TensorMeta& meta) {
  std::int64_t count = 1;
  for (std::size_t dim = 0; dim < meta.shape.size(); ++dim) {
    if (meta.shape[dim] == 0) return 0;
    count += (meta.shape[dim] - 1) * meta.stride[dim];
  }
  return count;
}

// The collective writes to another block of memory.
void check_written(const CollectInto& what, const ProcessGroup& group) {
  const bool listed =
      what.kind == Kind::kAllGather || what.kind == Kind::kGather || what.kind == Kind::kAllToAll;
  for (const DTensor& x : what.outputs) {
    const std::int64_t count = places(x.local().meta());
    // Elements that share a place get equal values only where each receives its own element.
    if (count < x.numel() && !keeps_shape(what.kind)) {
      refuse(what, group, Fix{"clone() it first"}, "elements of {} share memory", type_string(x));
    }
    if (count <= x.numel() || listed) continue;
    refuse(what, group, Fix{"fill a tensor of its own and copy it: x.copy_(y)"},
           "{} has gaps between its elements, and a collective fills a block of memory",
           type_string(x));
  }
}

// torch has the same condition.
void check_contiguous(const CollectInto& what, const ProcessGroup& group) {
  for (const Tensors* side : {&what.inputs, &what.outputs}) {
    for (const DTensor& x : *side) {
      if (x.local().contiguous()) continue;
      refuse(what, group,
             Fix{what.outputs.empty() ? "send x.contiguous()"
                                      : "receive into a tensor of its own and copy it: x.copy_(y)"},
             "{} is not contiguous", type_string(x));
    }
  }
}

void check_tensors(const CollectInto& what, const ProcessGroup& group) {
  const DTensor* first = nullptr;
  for (const Tensors* side : {&what.inputs, &what.outputs}) {
    for (const DTensor& x : *side) {
      if (x.distributed()) {
        refuse(what, group, Fix{"collectives take local tensors: x.to_local()"},
               "{} is distributed", type_string(x));
      }
      check_own(to_string(what.kind), x);
      if (first == nullptr) first = &x;
      if (x.dtype() == first->dtype()) continue;
      refuse(what, group,
             Fix{fmt::format("make it {}: x.to({})", to_string(first->dtype()),
                             to_string(first->dtype()))},
             "{} next to {}, of another dtype", type_string(x), type_string(*first));
    }
  }
  if (is_message(what.kind)) return check_contiguous(what, group);
  check_written(what, group);
}

// The sizes of what one rank sends or receives, against all of it on the other side.
void check_sizes(const CollectInto& what, const ProcessGroup& group) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank());
  const bool gathers = what.kind == Kind::kAllGather || what.kind == Kind::kGather;
  const bool deals = what.kind == Kind::kReduceScatter || what.kind == Kind::kScatter;
  const Tensors& many = gathers ? what.outputs : what.inputs;
  const Tensors& one = gathers ? what.inputs : what.outputs;
  const auto say = [&](std::string_view wanted) {
    refuse(what, group, Fix{std::string(wanted)}, "{} are to fill {}", types_text(what.inputs),
           types_text(what.outputs));
  };
  if (gathers || deals) {
    if (many.empty()) return;  // this rank is not the one that has them
    const std::int64_t piece = one.at(0).numel();
    const bool listed = many.size() > 1 || ranks == 1;
    if (listed && many.size() != ranks) say("give a list with one tensor for each rank");
    if (listed ? many[own].shape() != one[0].shape() : many[0].numel() != group.size() * piece) {
      say(gathers ? "give room for what this rank brings, and for each other rank's"
                  : "bring for each rank as much as it has room for");
    }
  }
  if (what.kind == Kind::kAllToAll && what.inputs.size() == 1 && ranks > 1) {
    const DTensor &in = what.inputs[0], &out = what.outputs.at(0);
    const bool even = in.ndim() > 0 && in.shape()[0] % group.size() == 0;
    if (!even || in.numel() != out.numel()) {
      say("dim 0 must be a multiple of the number of ranks, and both as large");
    }
  }
}

// The arrangement of pieces in the whole: rows of a tensor whose other dims are those of all
// pieces, or elements.
bool in_rows(const Tensors& pieces) {
  return std::ranges::all_of(pieces, [&](const DTensor& x) {
    return x.ndim() > 0 && x.ndim() == pieces[0].ndim() &&
           std::equal(x.shape().begin() + 1, x.shape().end(), pieces[0].shape().begin() + 1);
  });
}

PieceLengths lengths_of(const Tensors& pieces, bool rows) {
  PieceLengths lengths;
  for (const DTensor& x : pieces) lengths.push_back(rows ? x.shape()[0] : x.numel());
  return lengths;
}

DTensor joined(const Tensors& pieces, bool rows) {
  if (pieces.size() == 1 && rows) return pieces[0];
  ArgumentList list;
  for (const DTensor& x : pieces) list.emplace_back(rows ? x : flat(x));
  return pieces.size() == 1 ? list[0].tensor()
                            : made("aten::cat", {std::move(list), std::int64_t{0}});
}

PieceLengths equal_lengths(const ProcessGroup& group, std::int64_t length) {
  return PieceLengths(static_cast<std::size_t>(group.size()), length);
}

// Runs it; undefined where this rank receives nothing.
class Filler {
 public:
  Filler(const CollectInto& what, ProcessGroup& group, Issue issue)
      : what_(what), group_(group), issue_(issue) {}
  /// The sender of a message from any rank.
  std::int64_t came_from() const { return came_from_; }

  DTensor run() {
    switch (what_.kind) {
      case Kind::kAllGather:
      case Kind::kGather:
        return gather();
      case Kind::kReduceScatter:
        return reduce_scatter();
      case Kind::kScatter:
        return scatter();
      case Kind::kAllToAll:
        return all_to_all();
      case Kind::kSend:
        return given(group_.send(what_.inputs.at(0).local(), what_.root, what_.tag, issue_));
      case Kind::kRecv:
        return receive(what_.outputs.at(0).local().meta());
      default:
        return keep_shape();
    }
  }

 private:
  bool listed(const Tensors& side) const { return side.size() > 1 || group_.size() == 1; }

  DTensor given(const Tensor& result) const {
    return result.defined() ? DTensor(result) : DTensor();
  }

  DTensor receive(const TensorMeta& meta) {
    if (what_.root == kAnyRank) return given(group_.recv_from_any(meta, what_.tag, came_from_));
    return given(group_.recv(meta, what_.root, what_.tag, issue_));
  }

  DTensor keep_shape() {
    const Tensor& x = what_.inputs.at(0).local();
    if (what_.kind == Kind::kAllReduce) return given(group_.all_reduce(x, what_.op, issue_));
    if (what_.kind == Kind::kReduce) return given(group_.reduce(x, what_.root, what_.op, issue_));
    const TensorMeta meta = contiguous_meta(x.shape(), x.dtype());
    return given(group_.broadcast(x, what_.root, meta, issue_));
  }

  // The small side in the shape of the large one: [k, ...] of [n k, ...], or a row of [n, k, ...].
  DTensor as_piece(const DTensor& piece, const DTensor& whole) const {
    if (in_rows({piece, whole})) return piece;
    const bool stacked =
        whole.ndim() == piece.ndim() + 1 && whole.shape()[0] == group_.size() &&
        std::equal(piece.shape().begin(), piece.shape().end(), whole.shape().begin() + 1);
    return stacked ? made("aten::unsqueeze", {piece, std::int64_t{0}}) : flat(piece);
  }

  DTensor gather() {
    const Tensors& outs = what_.outputs;
    DTensor x = what_.inputs.at(0);
    PieceLengths lengths;
    if (outs.size() > 1) {
      Tensors all = outs;
      all.push_back(x);
      const bool rows = in_rows(all);
      lengths = lengths_of(outs, rows);
      if (!rows) x = flat(x);
    } else {
      x = outs.empty() || listed(outs) ? (x.ndim() > 0 ? x : flat(x)) : as_piece(x, outs[0]);
      lengths = equal_lengths(group_, x.shape()[0]);
    }
    if (what_.kind == Kind::kAllGather) {
      return given(group_.all_gather(x.local(), 0, lengths, issue_));
    }
    return given(group_.gather(x.local(), what_.root, 0, lengths, issue_));
  }

  DTensor reduce_scatter() {
    const DTensor& out = what_.outputs.at(0);
    const Tensors& in = what_.inputs;
    DTensor x;
    PieceLengths lengths;
    if (listed(in)) {
      const bool rows = in_rows(in);
      x = joined(in, rows);
      lengths = lengths_of(in, rows);
    } else {
      const DTensor piece = as_piece(out, in[0]);
      x = in_rows({piece, in[0]}) ? in[0] : flat(in[0]);
      lengths = equal_lengths(group_, piece.shape()[0]);
    }
    return given(group_.reduce_scatter(x.local(), 0, lengths, what_.op, issue_));
  }

  DTensor scatter() {
    const DTensor& out = what_.outputs.at(0);
    const bool rows = out.ndim() > 0;
    const PieceLengths lengths = equal_lengths(group_, rows ? out.shape()[0] : 1);
    Dims whole = rows ? out.shape() : Dims{1};
    whole[0] *= group_.size();
    const Tensor x = what_.inputs.empty() ? Tensor() : joined(what_.inputs, rows).local();
    return given(
        group_.scatter(x, what_.root, 0, lengths, contiguous_meta(whole, out.dtype()), issue_));
  }

  DTensor all_to_all() {
    const Tensors &in = what_.inputs, &outs = what_.outputs;
    if (!listed(in)) {
      const PieceLengths lengths = equal_lengths(group_, in.at(0).shape()[0] / group_.size());
      return given(group_.all_to_all(in[0].local(), 0, lengths, 0, lengths, issue_));
    }
    Tensors all = in;
    all.insert(all.end(), outs.begin(), outs.end());
    const bool rows = in_rows(all);
    return given(group_.all_to_all(joined(in, rows).local(), 0, lengths_of(in, rows), 0,
                                   lengths_of(outs, rows), issue_));
  }

  const CollectInto& what_;
  ProcessGroup& group_;
  const Issue issue_;
  std::int64_t came_from_ = kAnyRank;
};

DTensor shaped_as(const DTensor& piece, const DTensor& out) {
  return piece.shape() == out.shape() ? piece : made("aten::view", {piece, out.shape()});
}

void write(const DTensor& out, const DTensor& value) {
  made("aten::copy_", {out, value});
  if (out.impl()->grad_node) write_back(out);
}

// `result` in the form that Filler gave it.
void deal_out(const DTensor& result, const Tensors& outs) {
  if (outs.size() == 1) return write(outs[0], shaped_as(result, outs[0]));
  const bool rows = result.ndim() == outs[0].ndim() && in_rows(outs);
  std::int64_t first = 0;
  for (const DTensor& out : outs) {
    const std::int64_t end = first + (rows ? out.shape()[0] : out.numel());
    const DTensor piece =
        made("aten::slice.Tensor", {result, std::int64_t{0}, first, end, std::int64_t{1}});
    write(out, shaped_as(piece, out));
    first = end;
  }
}

// A leaf is written as an optimizer writes it; for another value backward ignores the write.
void warn_in_backward(const CollectInto& what, const DTensor& out) {
  if ((current_rank().mode & kModeAutograd) == 0 || !out.requires_grad() || is_leaf(out)) return;
  const std::string text = fmt::format(
      "{} of {} wrote {}, which records gradients: backward passes it as if nothing had been "
      "written; redistribute() carries gradients",
      to_string(what.kind), place_text(current_rank().position), type_string(out));
  on_tape::register_hook(out, [text](const DTensor&) {
    if (Observer* const observer = observer_to_tell()) observer->warning(text);
    return DTensor();
  });
}

// The source of a broadcast already has its value; of a reduce only the destination receives one.
bool is_written(const CollectInto& what, const ProcessGroup& group) {
  if (what.kind == Kind::kBroadcast) return group.rank() != what.root;
  return what.kind != Kind::kReduce || group.rank() == what.root;
}

void finish(const CollectInto& what, const DTensor& result) {
  if (!result.defined() || what.outputs.empty()) return;
  const DTensor& from = what.inputs.empty() ? what.outputs[0] : what.inputs[0];
  report_placed(PlacedRecord::Kind::kCollected, from, result);
  deal_out(result, what.outputs);
  for (const DTensor& out : what.outputs) warn_in_backward(what, out);
}

}  // namespace

class CollectiveWork {
 public:
  CollectiveWork(CollectInto what, const ProcessGroup& group, DTensor result)
      : what_(std::move(what)), result_(std::move(result)) {
    using Use = InFlight::Use;
    if (!is_written(what_, group)) what_.outputs.clear();
    for (const DTensor& x : what_.outputs) add(group, x, Use::kFilled);
    for (const DTensor& x : what_.inputs) add(group, x, Use::kSent);
  }

  bool done() const {
    return finished_ || !result_.defined() || PendingStorage::done(*result_.local().storage());
  }
  void finish() {
    if (std::exchange(finished_, true)) return;
    for (const auto& place : in_flight_) current_rank().meshes->in_flight().remove(place);
    if (result_.defined()) result_.local().wait();
    shardlab::finish(what_, result_);
    what_ = {};
    result_ = {};
  }

 private:
  void add(const ProcessGroup& group, const DTensor& x, InFlight::Use use) {
    in_flight_.push_back(
        current_rank().meshes->in_flight().add({.memory = x.local(),
                                                .use = use,
                                                .kind = what_.kind,
                                                .group = group.name(),
                                                .position = current_rank().position}));
  }

  CollectInto what_;
  DTensor result_;
  std::vector<InFlight::Entries::iterator> in_flight_;
  bool finished_ = false;
};

void run_collect_into(const CollectIntoEvent& event) {
  std::uint32_t& mode = current_rank().mode;
  const ValueScope filling(mode, mode | kModeFilling);
  const CollectInto what{event.kind, *event.inputs, *event.outputs,
                         event.op,   event.root,    event.tag};
  check_tensors(what, *event.group);
  check_sizes(what, *event.group);
  for (const DTensor& x : what.inputs) bring_up_to_date(x);
  const bool buffered = what.kind == Kind::kSend && (mode & kModeBufferedSends) != 0;
  const Issue issue = event.work != nullptr || buffered ? Issue::kAsync : Issue::kWait;
  Filler filler(what, *event.group, issue);
  const DTensor result = filler.run();
  if (event.came_from != nullptr) *event.came_from = filler.came_from();
  if (event.work == nullptr) {
    if (is_written(what, *event.group)) finish(what, result);
    return;
  }
  *event.work = std::make_shared<CollectiveWork>(what, *event.group, result);
}

bool is_done(const CollectiveWork& work) { return work.done(); }

void run_wait(CollectiveWork& work) {
  std::uint32_t& mode = current_rank().mode;
  const ValueScope filling(mode, mode | kModeFilling);
  work.finish();
}

namespace {

// The tensors that an event reads and writes; events that only label, or make views, do neither.
struct Touched {
  const InFlight& in_flight;

  void read(const DTensor& x) const {
    if (x.defined() && x.local().defined()) in_flight.check(x.local(), InFlight::Access::kRead);
  }
  void write(const DTensor& x) const {
    if (x.defined() && x.local().defined()) in_flight.check(x.local(), InFlight::Access::kWrite);
  }

  void operator()(const OpEvent& event) const {
    if (makes_views(*event.row)) return;
    for_each_tensor_slot(event.row->op, *event.args, [&](std::size_t i, const Argument& argument) {
      if (!argument.is_tensor()) return;
      event.row->op.arguments[i].alias.write ? write(argument.tensor()) : read(argument.tensor());
    });
  }
  void operator()(const DistributeEvent& event) const { read(event.value); }
  void operator()(const RedistributeEvent& event) const { read(event.x); }
  void operator()(const CollectiveEvent& event) const { read(event.x); }
  void operator()(const CollectIntoEvent& event) const {
    for (const DTensor& x : *event.inputs) read(x);
    for (const DTensor& x : *event.outputs) write(x);
  }
  void operator()(const DealEvent& event) const { read(event.pieces); }
  void operator()(const CheckPieceEvent& event) const { read(event.local); }
  void operator()(const ReadEvent& event) const { read(event.x); }
  void operator()(const BackwardEvent& event) const {
    read(event.loss);
    read(event.seed);
  }
  template <typename Other>
  void operator()(const Other&) const {}
};

}  // namespace

void check_in_flight(const ProgramEvent& event) {
  std::visit(Touched{current_rank().meshes->in_flight()}, event);
}

namespace {

// Cuts x into one view for each rank, of `rows` rows; errors have torch's words.
Tensors cut(const CollectInto& what, const ProcessGroup& group, const DTensor& x, const Dims& rows,
            std::string_view verb) {
  const std::int64_t sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const bool negative = std::ranges::any_of(rows, [](std::int64_t count) { return count < 0; });
  if (static_cast<std::int64_t>(rows.size()) != group.size()) {
    refuse(what, group, Fix{"give one number of rows for each rank of the group"},
           "it {} [{}]: {} numbers of rows", verb, text_of_list(rows, ", "), rows.size());
  }
  if (negative || x.ndim() == 0 || x.shape()[0] != sum) {
    refuse(what, group, Fix{"give numbers of rows that add up to those of the tensor"},
           "it {} [{}] rows, {} in all, and the tensor is {}", verb, text_of_list(rows, ", "), sum,
           type_string(x));
  }
  return split_with_sizes(x, rows, 0);
}

Dims equal_rows(const DTensor& x, const ProcessGroup& group) {
  return Dims(static_cast<std::size_t>(group.size()),
              x.ndim() > 0 ? x.shape()[0] / group.size() : 0);
}

// Lists of views in place of tensors with numbers of rows.
CollectInto in_lists(const CollectInto& what, const ProcessGroup& group) {
  CollectInto listed = what;
  if (what.send_rows.empty() && what.receive_rows.empty()) return listed;
  const DTensor &in = what.inputs.at(0), &out = what.outputs.at(0);
  const Dims send = what.send_rows.empty() ? equal_rows(in, group) : what.send_rows;
  const Dims receive = what.receive_rows.empty() ? equal_rows(out, group) : what.receive_rows;
  listed.inputs = cut(what, group, in, send, "sends");
  listed.outputs = cut(what, group, out, receive, "receives");
  return listed;
}

CollectiveWorkRef performed(const CollectInto& given, ProcessGroup& group, const SourceLine& place,
                            bool waits, std::int64_t* came_from = nullptr) {
  return at_place(place, [&] {
    const CollectInto what = in_lists(given, group);
    CollectiveWorkRef work;
    program_calls().perform(CollectIntoEvent{what.kind, &group, &what.inputs, &what.outputs,
                                             what.op, what.root, what.tag, came_from,
                                             waits ? nullptr : &work});
    return work;
  });
}

}  // namespace

void collect_into(const CollectInto& what, ProcessGroup& group, SourceLine place) {
  performed(what, group, place, true);
}

std::int64_t receive_from_any(const CollectInto& what, ProcessGroup& group, SourceLine place) {
  std::int64_t from = kAnyRank;
  performed(what, group, place, true, &from);
  return from;
}

CollectiveWorkRef start_collect_into(const CollectInto& what, ProcessGroup& group,
                                     SourceLine place) {
  return performed(what, group, place, false);
}

void wait(const CollectiveWorkRef& work, SourceLine place) {
  at_place(place, [&] {
    if (work == nullptr) {
      fail(Fix{"wait for what start_collect_into(), isend() or irecv() gave"},
           "wait: there is no collective to wait for");
    }
    program_calls().perform(WaitEvent{work.get()});
  });
}

namespace {

CollectInto message(Kind kind, const DTensor& x, std::int64_t peer, std::int64_t tag) {
  CollectInto what{.kind = kind, .root = peer, .tag = tag};
  (kind == Kind::kSend ? what.inputs : what.outputs) = {x};
  return what;
}

}  // namespace

void send(Operand x, std::int64_t to, ProcessGroup& group, std::int64_t tag) {
  collect_into(message(Kind::kSend, x, to, tag), group, x.place);
}

std::int64_t recv(Operand into, std::int64_t from, ProcessGroup& group, std::int64_t tag) {
  const CollectInto what = message(Kind::kRecv, into, from, tag);
  if (from == kAnyRank) return receive_from_any(what, group, into.place);
  collect_into(what, group, into.place);
  return from;
}

CollectiveWorkRef isend(Operand x, std::int64_t to, ProcessGroup& group, std::int64_t tag) {
  return start_collect_into(message(Kind::kSend, x, to, tag), group, x.place);
}

CollectiveWorkRef irecv(Operand into, std::int64_t from, ProcessGroup& group, std::int64_t tag) {
  return start_collect_into(message(Kind::kRecv, into, from, tag), group, into.place);
}

}  // namespace shardlab
