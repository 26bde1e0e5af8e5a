// All parts of a call that its checks read, without its data: metadata, lengths, partners and
// place.
#include "backends/process/entered_call.h"

#include <algorithm>

#include "base/error.h"

namespace shardlab::process {

namespace {

void put_meta(Writer& writer, const TensorMeta* meta) {
  writer.put(meta != nullptr);
  if (meta != nullptr) writer.all(meta->dtype, meta->shape);
}

bool get_meta(Reader& reader, TensorMeta& meta) {
  if (!reader.get<bool>()) return false;
  const auto dtype = reader.get<DType>();
  meta = contiguous_meta(reader.list<std::int64_t>(), dtype);
  return true;
}

const TensorMeta* meta_of(const Tensor& x) { return x.defined() ? &x.meta() : nullptr; }

// A tensor without data.
bool get_tensor(Reader& reader, Tensor& x) {
  TensorMeta meta;
  if (!get_meta(reader, meta)) return false;
  x = Tensor(make_ref<Storage>(BufferRef{}), std::move(meta));
  return true;
}

constexpr std::int64_t kGroups = 1 << 15, kRanks = 1 << 16, kTags = 1 << 15;
// In place of the sender.
constexpr std::int64_t kAnySender = kRanks - 1;

struct Way {
  std::int64_t group, from, to, tag;
};

// Below 0, and unique for the way.
std::int64_t number_of(const Way& way) {
  const bool fits = way.group < kGroups && std::max(way.from, way.to) < kRanks && way.tag < kTags;
  if (!fits) {
    fail(ErrorKind::kUnsupported, Fix{fmt::format("give tags below {}", kTags)},
         "a message with tag {} from rank {} to rank {} of the {}th group", way.tag, way.from,
         way.to, way.group);
  }
  return -1 - (((way.group * kRanks + way.from) * kRanks + way.to) * kTags + way.tag);
}

Way way_of(CallPlace place) {
  const std::int64_t number = -1 - place.group, to = number / kTags, from = to / kRanks;
  return {from / kRanks, from % kRanks, to % kRanks, number % kTags};
}

}  // namespace

bool is_any(CallPlace place) { return place.group < 0 && way_of(place).from == kAnySender; }

std::optional<std::int64_t> sender_for(CallPlace any, CallPlace way) {
  if (way.group >= 0) return std::nullopt;
  const Way wanted = way_of(any), got = way_of(way);
  const bool fits = got.group == wanted.group && got.to == wanted.to && got.tag == wanted.tag;
  if (!fits || got.from == kAnySender) return std::nullopt;
  return got.from;
}

void Ways::check(const backends::Call& call) const {
  if (std::max(call.to, call.from) != rank_) return;
  fail(ErrorKind::kUnsupported, Fix{"copy the tensor"},
       "{}: no message of a rank to itself where ranks are processes", to_string(call.kind));
}

CallPlace Ways::next(const backends::Call& call) {
  const bool sends = call.kind == CollectiveKind::kSend;
  if (!sends && call.from < 0) return {number_of({group_, kAnySender, rank_, call.tag}), 0};
  const std::int64_t way =
      number_of({group_, sends ? rank_ : call.from, sends ? call.to : rank_, call.tag});
  return {way, entered_[way]++};
}

std::vector<std::int64_t> Ways::ends(const backends::Call& call) const {
  const std::int64_t peer = std::max(call.to, call.from);
  if (peer < 0) return {ranks_.begin(), ranks_.end()};
  const std::int64_t me = ranks_[static_cast<std::size_t>(rank_)];
  const std::int64_t other = ranks_[static_cast<std::size_t>(peer)];
  if (call.kind == CollectiveKind::kSend) return {me, other};
  return {other, me};
}

void EnteredCall::put(Writer& writer, const backends::Call& call) {
  writer.all(call.kind, call.op, call.dim, call.concat_dim, call.root, call.to, call.from,
             call.tag);
  put_meta(writer, call.x == nullptr ? nullptr : meta_of(*call.x));
  writer.all(call.lengths, call.concat_lengths());
  put_meta(writer, call.expected);
  const auto* batch = std::get_if<backends::BatchPart*>(&call.part);
  writer.put(static_cast<std::uint64_t>(batch == nullptr ? 0 : (*batch)->exchange.size()));
  for (std::size_t i = 0; batch != nullptr && i < (*batch)->exchange.size(); ++i) {
    const SendRecv& item = (*batch)->exchange[i];
    writer.put(item.peer);
    put_meta(writer, meta_of(item.send));
    put_meta(writer, item.receives ? &item.receive : nullptr);
  }
  const auto text = [](const char* given) { return given == nullptr ? "" : given; };
  writer.all(text(call.position.file), call.position.line, call.position.column,
             text(call.op_name));
}

EnteredCall::EnteredCall(Reader& reader) : call_(reader.get<CollectiveKind>()) {
  reader.all(call_.op, call_.dim, call_.concat_dim, call_.root, call_.to, call_.from, call_.tag);
  if (get_tensor(reader, x_)) call_.x = &x_;
  reader.all(lengths_, concat_values_);
  concat_lengths_ = concat_values_;
  call_.lengths = lengths_;
  if (call_.kind == CollectiveKind::kAllToAll) call_.part = &concat_lengths_;
  if (get_meta(reader, expected_)) call_.expected = &expected_;
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    SendRecv& item = exchange_.emplace_back();
    item.peer = reader.get<std::int64_t>();
    get_tensor(reader, item.send);
    item.receives = get_meta(reader, item.receive);
  }
  batch_.exchange = exchange_;
  if (call_.kind == CollectiveKind::kBatch) call_.part = &batch_;
  reader.all(file_, call_.position.line, call_.position.column, op_name_);
  if (!file_.empty()) call_.position.file = file_.c_str();
  if (!op_name_.empty()) call_.op_name = op_name_.c_str();
}

}  // namespace shardlab::process
