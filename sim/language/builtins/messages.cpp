// Messages between two ranks. The single-device run, which is one rank, sends to no rank, and its
// receive buffers stay as they are: another rank's message is not known.
#include <mutex>
#include <set>

#include "base/rank_context.h"
#include "base/value_scope.h"
#include "comm/filling.h"
#include "comm/observer.h"
#include "sim/language/run/dist_calls.h"
#include "sim/language/values/object.h"
#include "sim/language/values/rank_value.h"

namespace shardlab {

namespace {

// One function, and the names of its arguments for the other rank.
struct MessageNames {
  std::string_view signature, peer, place;
  bool sends;
  bool takes_any = false;  ///< both may be left out
};

constexpr MessageNames kSend = {"dist.send(tensor, dst=, group=, tag=, group_dst=, label=)", "dst",
                                "group_dst", true};
constexpr MessageNames kIsend = {"dist.isend(tensor, dst=, group=, tag=, group_dst=, label=)",
                                 "dst", "group_dst", true};
constexpr MessageNames kRecv = {"dist.recv(tensor, src=, group=, tag=, group_src=, label=)", "src",
                                "group_src", false, true};
constexpr MessageNames kIrecv = {"dist.irecv(tensor, src=, group=, tag=, group_src=, label=)",
                                 "src", "group_src", false};

CollectInto message_of(const DistCall& call, const MessageNames& names) {
  const DTensor x = call.tensor("tensor");
  const std::int64_t tag = call.given().integer_or("tag", 0);
  if (tag < 0) call.refuse("give 0 or more", "tag is {}", tag);
  const bool any =
      names.takes_any && !call.given().has(names.peer) && !call.given().has(names.place);
  CollectInto what{.kind = names.sends ? CollectiveKind::kSend : CollectiveKind::kRecv,
                   .root = any ? kAnyRank : call.root(names.peer, names.place, false),
                   .tag = tag};
  (names.sends ? what.inputs : what.outputs).push_back(x);
  return what;
}

void warn_of_order() {
  Observer* const observer = observer_to_tell();
  if (observer == nullptr) return;
  observer->warning(fmt::format(
      "{}: dist.recv without src takes what comes first, so that values depend on the order of "
      "ranks: shardlab test --schedules 20 draws orders",
      place_text(current_rank().position)));
}

// Labels live as long as the process: reports name them after a rank has ended.
const char* kept_label(const std::string& label) {
  static std::mutex mutex;
  static std::set<std::string> labels;
  const std::lock_guard lock(mutex);
  return labels.insert(label).first->c_str();
}

// While it lives, calls of the rank carry a label, in place of the op that communicates.
ValueScope<const char*> labelled(const char* label) {
  const char*& op = current_rank().op;
  return {op, label != nullptr ? label : op};
}

const char* label_of(const DistCall& call) {
  const bool given = call.given().has("label");
  return given ? kept_label(call.given()["label"].as<std::string>()) : nullptr;
}

CollectiveWorkRef posted(Interpreter& in, const CollectInto& what, ProcessGroup& group,
                         const char* label) {
  in.note_effect("an asynchronous message");
  const auto scope = labelled(label);
  return kept_work(in, start_collect_into(what, group));
}

Value run_posted(Interpreter& in, const MessageNames& names, CallValues values) {
  const DistCall call(in, names.signature, std::move(values));
  if (!call.takes_part()) return call.nothing();
  const CollectInto what = message_of(call, names);
  return work_value(in.plain() ? nullptr : posted(in, what, call.group(), label_of(call)));
}

// An operand of batch_isend_irecv.
class MessageObject final : public Object {
 public:
  /// Null if it is made in the single-device run, or outside of the group.
  MessageObject(CollectInto what, ProcessGroup* group, const char* label)
      : what_(std::move(what)), group_(group), label_(label) {}
  std::string_view kind() const override { return "P2POp"; }
  Value post(Interpreter& in) const {
    return work_value(group_ == nullptr ? nullptr : posted(in, what_, *group_, label_));
  }

 private:
  CollectInto what_;
  ProcessGroup* group_;
  const char* label_;
};

}  // namespace

Value run_send(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, kSend.signature, std::move(values));
  if (!call.takes_part()) return call.nothing();
  const CollectInto what = message_of(call, kSend);
  if (in.plain()) return call.nothing();
  if (call.is(what.root)) {
    call.refuse("name another rank; isend and irecv may name the own one",
                "the destination is rank {} itself", in.setup().rank);
  }
  const auto scope = labelled(label_of(call));
  collect_into(what, call.group());
  return call.nothing();
}

// Returns the rank of the sender, as torch does.
Value run_recv(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, kRecv.signature, std::move(values));
  if (!call.takes_part()) return std::int64_t{-1};
  const CollectInto what = message_of(call, kRecv);
  const bool named = call.given().has("src");
  if (in.plain())
    return named ? here(call.given()["src"]) : Value(std::max<std::int64_t>(what.root, 0));
  const auto scope = labelled(label_of(call));
  std::int64_t from = what.root;
  if (from == kAnyRank) {
    in.note_effect("a message from any rank");
    from = receive_from_any(what, call.group());
    warn_of_order();
  } else {
    collect_into(what, call.group());
  }
  return call.group().ranks()[static_cast<std::size_t>(from)];
}

Value run_isend(Interpreter& in, const Value*, CallValues values) {
  return run_posted(in, kIsend, std::move(values));
}

Value run_irecv(Interpreter& in, const Value*, CallValues values) {
  return run_posted(in, kIrecv, std::move(values));
}

Value run_p2p_op(Interpreter& in, const Value*, CallValues values) {
  const DistCall call(in, "dist.P2POp(op, tensor, peer=, group=, tag=, group_peer=, label=)",
                      std::move(values));
  const auto* op = call.given()["op"].get<BuiltinValue>();
  const bool sends = op != nullptr && op->builtin->runs(run_isend);
  if (!sends && (op == nullptr || !op->builtin->runs(run_irecv))) {
    call.refuse("give dist.isend or dist.irecv, without calling it", "op is {}",
                repr(call.given()["op"]));
  }
  if (!call.takes_part()) {
    return ObjectValue{std::make_shared<MessageObject>(CollectInto(), nullptr, nullptr)};
  }
  CollectInto what = message_of(call, {"dist.P2POp()", "peer", "group_peer", sends});
  return ObjectValue{std::make_shared<MessageObject>(
      std::move(what), in.plain() ? nullptr : &call.group(), label_of(call))};
}

// All are posted before the first wait, so that their order does not matter.
Value run_batch_isend_irecv(Interpreter& in, const Value*, CallValues values) {
  const Parameters given("dist.batch_isend_irecv(p2p_op_list)", std::move(values));
  constexpr std::string_view kList = "p2p_op_list";
  constexpr std::string_view kWanted = "a list of dist.P2POp";
  constexpr std::string_view kExample = "[dist.P2POp(dist.isend, x, 1)]";
  if (!given[kList].is<ListValue>() || items_of(given[kList]).empty()) {
    given.refuse(kList, kWanted, kExample);
  }
  std::vector<std::shared_ptr<MessageObject>> messages;
  for (const Value& item : items_of(given[kList])) {
    const auto* object = item.get<ObjectValue>();
    auto message =
        object == nullptr ? nullptr : std::dynamic_pointer_cast<MessageObject>(object->object);
    if (message == nullptr) given.refuse(kList, kWanted, kExample);
    messages.push_back(std::move(message));
  }
  Values works;
  const BatchScope scope;
  for (const auto& message : messages) works.push_back(message->post(in));
  return make_list(std::move(works));
}

}  // namespace shardlab
