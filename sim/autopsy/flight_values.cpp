// Entries are recognised by their keys when a dict is closed, whichever form the file has. Words
// are found by a digest of the values that make them, so that only new ones become text.
#include "sim/autopsy/flight_values.h"

#include <charconv>

namespace shardlab {

using Kind = FlightValue::Kind;
using enum FlightField;

namespace {

// In the order of Field.
constexpr std::string_view kKeys[] = {"record_id",
                                      "process_group",
                                      "collective_seq_id",
                                      "p2p_seq_id",
                                      "profiling_name",
                                      "time_created_ns",
                                      "time_discovered_started_ns",
                                      "input_sizes",
                                      "input_dtypes",
                                      "output_sizes",
                                      "state",
                                      "retired",
                                      "is_p2p",
                                      "thread_id",
                                      "frames",
                                      "name",
                                      "filename",
                                      "line"};

constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ULL;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = (a ^ b) * kPrime;
  return sum ^ (sum >> 29);
}

// Digests the place of a text, which equal ones have in common.
std::uint64_t digest_of(std::string_view text) {
  return mixed(reinterpret_cast<std::uintptr_t>(text.data()), text.size());
}

}  // namespace

bool FlightValues::push_text(std::string_view text) {
  const auto [known, fresh] = texts_.try_emplace(text, FlightField::kOther);
  if (fresh) {
    const bool of_torch =
        text.starts_with("torch/") || text.find("/torch/") < text.size() || text.starts_with("<");
    known->second = static_cast<FlightField>(std::ranges::find(kKeys, text) - std::begin(kKeys));
    if (of_torch) known->second = FlightField::kTorch;
  }
  FlightValue value{.kind = Kind::kText,
                    .field = known->second,
                    .count = static_cast<std::uint32_t>(text.size())};
  value.text = known->first.data();
  push(value);
  return true;
}

void FlightValues::push_own(const std::string& text) {
  const bool known = texts_.contains(text);
  push_text(known ? std::string_view(text) : own_texts_.emplace_back(text));
}

void FlightValues::begin(FlightDump& dump) {
  dump_ = &dump;
  size_ = memo_size_ = 0;
  pool_.clear();
  marks_.clear();
  boxes_.clear();
  frames_.clear();
  numbers_.clear();
  groups_.clear();
  texts_.clear();
  own_texts_.clear();
}

bool FlightValues::close(Kind) {
  if (marks_.empty()) return false;
  const std::size_t from = marks_.back();
  marks_.pop_back();
  return from <= size_ && extend(from, size_ - from);
}

bool FlightValues::extend(std::size_t from, std::size_t count) {
  const std::size_t lowest = marks_.empty() ? 0 : marks_.back();
  if (from > size_ || from <= lowest) return false;
  FlightValue& target = stack_[from - 1];
  if (target.kind != Kind::kList && target.kind != Kind::kDict) return false;
  if (target.kind == Kind::kDict) {
    if (count % 2 != 0) return false;
    if (take_frame(from, count)) return true;
    Fields fields{};
    std::uint32_t found = 0;
    for (std::size_t i = from; i < size_; i += 2) {
      const auto field = static_cast<std::size_t>(stack_[i].field);
      if (field >= fields.size()) continue;
      fields[field] = stack_[i + 1];
      found |= 1u << field;
    }
    const auto has = [found](FlightField field) {
      return (found >> static_cast<unsigned>(field) & 1) != 0;
    };
    if (has(kRecord) && has(kOp)) {
      size_ = from;
      stack_[size_ - 1] = {};
      take_entry(fields);
      return true;
    }
  }
  move_into(boxes_[static_cast<std::size_t>(target.integer)], from);
  return true;
}

// Most dicts are frames.
bool FlightValues::take_frame(std::size_t from, std::size_t count) {
  constexpr std::size_t kMostItems = 6;
  if (count > kMostItems) return false;
  Frame frame;
  for (std::size_t i = from; i < size_; i += 2) {
    const FlightValue& value = stack_[i + 1];
    if (stack_[i].field == kName) frame.function = value.view();
    if (stack_[i].field == kFile) {
      frame.file = value.view();
      frame.of_torch = value.field == kTorch;
    }
    if (stack_[i].field == kLine) frame.line = value.integer;
  }
  if (frame.file.data() == nullptr) return false;
  size_ = from;
  stack_[size_ - 1] = {.kind = Kind::kRecord, .integer = static_cast<std::int64_t>(frames_.size())};
  frames_.push_back(frame);
  return true;
}

// A box that is full moves to the end, where it has room to grow.
void FlightValues::move_into(Box& box, std::size_t from) {
  const std::size_t count = box.count + size_ - from, begin = pool_.size();
  if (box.count == 0) {
    pool_.insert(pool_.end(), stack_.data() + from, stack_.data() + size_);
    box = {begin, count, count};
    size_ = from;
    return;
  }
  if (count > box.room) {
    pool_.resize(begin + 2 * count);
    std::copy_n(pool_.data() + box.begin, box.count, pool_.data() + begin);
    box = {begin, box.count, pool_.size() - begin};
  }
  std::copy_n(stack_.data() + from, size_ - from, pool_.data() + box.begin + box.count);
  box.count = count;
  size_ = from;
}

bool FlightValues::close_tuple() {
  if (marks_.empty() || marks_.back() > size_) return false;
  const std::size_t count = size_ - marks_.back();
  marks_.pop_back();
  return make_tuple(count);
}

bool FlightValues::make_tuple(std::size_t count) {
  if (count > size_ - (marks_.empty() ? 0 : marks_.back())) return false;
  boxes_.push_back({});
  move_into(boxes_.back(), size_ - count);
  push(Kind::kList, static_cast<std::int64_t>(boxes_.size()) - 1);
  return true;
}

const FlightValue* FlightValues::items(const FlightValue& container, std::size_t& count) const {
  count = 0;
  if (container.kind != Kind::kList && container.kind != Kind::kDict) return nullptr;
  const Box& box = boxes_[static_cast<std::size_t>(container.integer)];
  count = box.count;
  return pool_.data() + box.begin;
}

std::uint64_t FlightValues::digest(const FlightValue& value) const {
  if (value.kind == Kind::kText) return digest_of(value.view());
  if (value.kind == Kind::kInteger) return static_cast<std::uint64_t>(value.integer);
  std::size_t count = 0;
  const FlightValue* all = items(value, count);
  std::uint64_t result = count;
  // Lists of lists of sizes: deeper ones are no part of a word.
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t inner = 0;
    const FlightValue* sizes = items(all[i], inner);
    std::uint64_t one = all[i].kind == Kind::kText ? digest_of(all[i].view()) : inner;
    for (std::size_t j = 0; j < inner; ++j) {
      one = mixed(one, static_cast<std::uint64_t>(sizes[j].integer));
    }
    result = mixed(result, one);
  }
  return result;
}

// "[8192]", "[2, 3], [4]", "Float".
std::string FlightValues::text_of(const FlightValue& value) const {
  if (value.kind == Kind::kText) return std::string(value.view());
  if (value.kind == Kind::kInteger) return std::to_string(value.integer);
  std::size_t count = 0;
  const FlightValue* all = items(value, count);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const bool list = all[i].kind == Kind::kList;
    if (i > 0) text += ", ";
    std::size_t inner = 0;
    const FlightValue* sizes = list ? items(all[i], inner) : nullptr;
    if (!list) text += std::string(all[i].view());
    if (list) text += '[';
    for (std::size_t j = 0; j < inner; ++j) {
      text += (j > 0 ? ", " : "") + std::to_string(sizes[j].integer);
    }
    if (list) text += ']';
  }
  return text;
}

const FlightValues::Frame* FlightValues::user_frame(const FlightValue& frames) const {
  std::size_t count = 0;
  const FlightValue* all = items(frames, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (all[i].kind != Kind::kRecord) continue;
    const Frame& frame = frames_[static_cast<std::size_t>(all[i].integer)];
    if (!frame.of_torch) return &frame;
  }
  return nullptr;
}

std::int32_t FlightValues::word_of(const Fields& fields) {
  std::size_t count = 0;
  const FlightValue* group = items(at(fields, kGroup), count);
  const FlightValue description = count > 1 ? group[1] : FlightValue{};
  const Frame* frame = user_frame(at(fields, kFrames));
  std::uint64_t key = digest(description);
  for (const FlightField field : {kOp, kSizes, kOutputSizes, kDtypes}) {
    key = mixed(key, digest(at(fields, field)));
  }
  if (frame != nullptr) {
    key = mixed(mixed(key, digest_of(frame->function)), static_cast<std::uint64_t>(frame->line));
    key = mixed(key, digest_of(frame->file));
  }
  const auto [known, fresh] = numbers_.try_emplace(key, 0);
  if (!fresh) return known->second;
  std::string_view op = at(fields, kOp).view();
  op.remove_prefix(std::min(op.size(), op.find(':') + 1));
  FlightWord word{.group = std::string(description.view()),
                  .op = std::string(op),
                  .sizes = text_of(at(fields, kSizes)),
                  .output_sizes = text_of(at(fields, kOutputSizes)),
                  .dtypes = text_of(at(fields, kDtypes)),
                  .function = {},
                  .file = {}};
  if (frame != nullptr) {
    word.function = frame->function;
    word.file = frame->file;
    word.line = frame->line;
  }
  return known->second = words_.number_of(word);
}

void FlightValues::take_entry(const Fields& fields) {
  std::size_t count = 0;
  const FlightValue* group = items(at(fields, kGroup), count);
  const std::string_view name = count > 0 ? group[0].view() : std::string_view();
  const auto [known, fresh] =
      groups_.try_emplace(name, static_cast<std::int32_t>(dump_->names.size()));
  if (fresh) dump_->names.emplace_back(name);
  const bool message = at(fields, kIsMessage).integer != 0;
  const bool completed = at(fields, kState).view() == "completed";
  dump_->entries.push_back(
      {.record = at(fields, kRecord).integer,
       .sequence = at(fields, message ? kMessageSequence : kSequence).integer,
       .created_ns = at(fields, kCreated).integer,
       .started_ns = at(fields, kStarted).kind == Kind::kInteger ? at(fields, kStarted).integer : 0,
       .word = word_of(fields),
       .group = known->second,
       .thread = std::hash<std::string_view>()(at(fields, kThread).view()),
       .message = message,
       .completed = completed,
       .pending = !completed && at(fields, kRetired).integer == 0});
}

namespace {

// "[0, 1]".
std::vector<std::int64_t> ranks_in(std::string_view text) {
  std::vector<std::int64_t> ranks;
  for (std::size_t i = 0; i < text.size();) {
    std::int64_t rank = 0;
    const auto [end, problem] = std::from_chars(text.data() + i, text.data() + text.size(), rank);
    if (problem == std::errc()) ranks.push_back(rank);
    i = std::max(i + 1, static_cast<std::size_t>(end - text.data()));
  }
  return ranks;
}

}  // namespace

void FlightValues::take_groups(const FlightValue& config) {
  std::size_t count = 0;
  const FlightValue* all = items(config, count);
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    FlightGroup& group = dump_->groups.emplace_back();
    group.name = all[i].view();
    std::size_t parts = 0;
    const FlightValue* part = items(all[i + 1], parts);
    for (std::size_t j = 0; j + 1 < parts; j += 2) {
      if (part[j].view() == "desc") group.description = part[j + 1].view();
      if (part[j].view() == "ranks") group.ranks = ranks_in(text_of(part[j + 1]));
    }
  }
}

// An entry that is not complete is none.
bool FlightValues::finish() {
  const std::size_t entries = dump_->entries.size();
  while (!marks_.empty()) {
    const std::size_t from = marks_.back();
    const bool dict = from > 0 && from <= size_ && stack_[from - 1].kind == Kind::kDict;
    if (dict && (size_ - from) % 2 != 0) --size_;
    const std::size_t before = std::min(from, size_);
    if (!close()) size_ = before;
  }
  dump_->entries.resize(entries);
  bool found = false;
  std::size_t count = 0;
  const FlightValue* root = size_ == 0 ? nullptr : items(stack_.front(), count);
  for (std::size_t i = 0; i + 1 < count; i += 2) {
    found = found || root[i].view() == "entries";
    if (root[i].view() == "pg_config") take_groups(root[i + 1]);
  }
  return found || !dump_->groups.empty();
}

}  // namespace shardlab
