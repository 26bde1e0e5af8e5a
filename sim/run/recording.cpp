// Values are kept as copy-on-write snapshots, so that keeping them costs memory only if the program
// writes later. At the end each name is recorded once more, marked as changed if its bytes are no
// longer those of its last assignment: writes through views and in-place ops show there.
#include "sim/run/recording.h"

#include <fmt/format.h>

#include "autograd/grad_node.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "sim/language/values/dict_entries.h"
#include "sim/language/values/size_value.h"
#include "sim/language/values/tensor_data.h"
#include "sim/log/marks.h"
#include "tensor/device.h"

namespace shardlab {

void Recording::count(std::int64_t bytes) {
  bytes_ += bytes;
  if (bytes_ <= most_bytes_) return;
  fail(ErrorKind::kUnsupported,
       Fix{"print less, give names to fewer values in loops, or allow more: --memory 64GiB"},
       "a rank would keep more than {} of printed text and of values that are compared",
       bytes_text(static_cast<double>(most_bytes_)));
}

void Recording::keep(RecordedValue value) {
  constexpr std::int64_t kBytesOfOne = 3500;  // measured, with the events of the call that made it
  count(kBytesOfOne);
  value.event = trace_->events().size();
  kept_.insert(value.value.local().storage()->buffer().get());
  made_bytes_ += value.value.local().size_bytes();
  adopt(std::move(value));
  if (drain_ != nullptr && !values_.back().at_end) drain_->kept(rank_, values_.back());
}

void Recording::begins(SourceSpan statement) {
  if (notes_.statements.size() < kMostStatements) notes_.statements.push_back(statement.begin);
  if (drain_ == nullptr) return;
  const auto& unused = drain_->unused().from;
  if (const auto names = unused.find(statement.begin); names != unused.end()) {
    for (const std::string& name : names->second) unused_.is_unused(name);
  }
  // It takes less time than the statements do, or frees more than they made.
  constexpr std::size_t kLooksAStatement = 16;
  constexpr std::int64_t kBytesBetween = 4 << 20;
  if (++begun_ * kLooksAStatement < unused_.size() && made_bytes_ < kBytesBetween) return;
  begun_ = 0;
  made_bytes_ = 0;
  unused_.let_go([this](const DTensor& value) { return drain_->is_spent(rank_, value); },
                 [this](const HeldValue& value) {
                   RecordedValue end = ended(value.name, value.own, last_.at(value.name));
                   drain_->kept(rank_, end);
                   return ended_.insert_or_assign(value.name, std::move(end)).first->second.value;
                 });
}

void Recording::adopt(RecordedValue value) {
  by_key_.emplace(value.key(), values_.size());
  values_.push_back(std::move(value));
}

void Recording::assigned(const std::string& name, std::int64_t occurrence, const Value& value,
                         const Where& where) {
  if (value.is_number()) {
    notes_.numbers[name] = to_double(number_of(value));
    numbered_[name] = where;
  }
  if (const SizeObject* size = size_of(value))
    notes_.numbers[name] = static_cast<double>(size->now());
  named_.insert(name);
  if (const auto* mesh = value.get<MeshValue>()) {
    const std::string own = name.substr(name.rfind('.') + 1);
    const auto known =
        std::ranges::find(mesh_names, mesh->reported, [](const auto& one) { return one.first; });
    if (known == mesh_names.end()) mesh_names.emplace_back(mesh->reported, own);
  }
  std::int64_t visited = 0;
  const auto record = [&](const std::string& full, const DTensor& tensor) {
    const DTensor kept = detached(tensor);
    last_[full] = {kept, where};
    if (drain_ != nullptr && drain_->unused().all.contains(full)) unused_.add({full, tensor, kept});
    notes_.last_numbers[full] = occurrence;
    keep({full, occurrence, kept, where});
  };
  visit(name, value, record, visited);
}

std::string name_of_read(const std::string& name, SourceSpan place) {
  return fmt::format("{}@{}", name, place.begin);
}

namespace {

RecordedNumber recorded_number(const std::string& name, std::int64_t occurrence, const Value& value,
                               const Where& where) {
  const DType dtype = value.is<bool>()     ? DType::kBool
                      : value.is_integer() ? DType::kI64
                                           : DType::kF64;
  return {name, occurrence, to_double(number_of(value)), dtype, where, false};
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.meta() == b.meta();
}

}  // namespace

void Recording::number_shown(const std::string& name, std::int64_t occurrence, const Value& number,
                             const Where& where) {
  notes_.shown.push_back(recorded_number(name, occurrence, number, where));
}

void Recording::replaced(const std::string& name, const Value& before, const Value& now) {
  if (!named_.contains(name)) return;
  std::int64_t visited = 0;
  const auto* next = now.get<DTensor>();
  visit(
      name, before,
      [&](const std::string& full, const DTensor& tensor) {
        const auto found = last_.find(full);
        if (found == last_.end() || tensor.distributed()) return;
        const Last& last = found->second;
        const std::int64_t number = last_number(full);
        if (number < 0 || last.value.distributed()) return;
        if (next != nullptr && !next->distributed() && same_memory(tensor.local(), next->local())) {
          const auto kept = by_key_.find(fmt::format("{}#{}", full, number));
          if (kept != by_key_.end()) values_[kept->second].changed = true;
        } else if (!same_elements(last.value.local(), tensor.local())) {
          RecordedValue end{full, -1 - number, detached(tensor), last.where};
          note_change(end.value);
          keep(std::move(end));
        }
      },
      visited);
}

// Snapshots keep their memory, so that one address is never two values.
void Recording::read(const std::string& name, std::int64_t occurrence, const DTensor& tensor,
                     const Where& where, bool shown) {
  if (tensor.numel() == 1 && !tensor.local().device()->shape_only()) {
    notes_.reads[name_of_read(name, where.span)] = to_double(read_numbers(tensor.local())[0]);
  }
  if (!shown) return;
  RecordedValue value{name, occurrence, detached(tensor), where};
  value.read = true;
  const void* const bytes = value.value.local().storage()->buffer().get();
  value.changed = !kept_.contains(bytes);
  keep(std::move(value));
}

void Recording::claimed(const std::string& name, std::int64_t occurrence, const DTensor& tensor,
                        const SpmdClaim& claim, const Where& where) {
  RecordedValue value{name, occurrence, detached(tensor), where};
  value.claim = std::make_shared<const SpmdClaim>(claim);
  keep(std::move(value));
}

void Recording::printed(const std::string& line) {
  constexpr std::int64_t kCopies = 5;  // as measured: in records, in the report and on its way out
  count(kCopies * std::ssize(line));
  const RankContext* context = current_rank_or_null();
  const SourcePosition place = context != nullptr ? context->position : SourcePosition{};
  adopt(PrintedLine{place.line, place.column, line});
}

void Recording::asserted_close(const Value& a, const Value& b, const Where& where) {
  const auto kept = [](const Value& value) {
    return value.is_tensor() ? Value(detached(value.as<DTensor>())) : value;
  };
  pairs_.push_back({kept(a), kept(b), where});
}

void Recording::gradient_kept(const std::string& name, const DTensor& grad) {
  Accumulated& known = gradients_[name];
  const Storage* storage = grad.defined() ? grad.local().storage().get() : nullptr;
  const bool untouched = storage != nullptr && known.storage == storage;
  if (untouched && known.version == storage->version()) return;
  known = {};
  notes_.passes.erase(name);
}

void Recording::gradient_came(const std::string& name, const DTensor& grad) {
  if (!grad.defined()) return;
  Accumulated& known = gradients_[name];
  const Storage* storage = grad.local().storage().get();
  const bool added = known.storage != storage || known.version != storage->version();
  if (!added) return;
  known = {storage, storage->version()};
  ++notes_.passes[name];
}

void Recording::begins_with(const std::string& name, const DTensor& value, const Where& where) {
  last_[name] = {detached(value), where};
}

void Recording::ends(const std::string& name, const Value& value) {
  unused_ = {};  // the program is over: records alone hold its values
  std::int64_t visited = 0;
  if (const auto numbered = numbered_.find(name);
      value.is_number() && numbered != numbered_.end()) {
    notes_.shown.push_back(recorded_number(name, 0, value, numbered->second));
    notes_.shown.back().at_end = true;
  }
  visit(
      name, value, [this](const std::string& full, const DTensor& tensor) { end_of(full, tensor); },
      visited);
}

RecordedValue Recording::ended(const std::string& name, const DTensor& value,
                               const Last& last) const {
  RecordedValue end{name, last_number(name) + 1, detached(value), last.where};
  end.at_end = true;
  end.changed =
      last.value.spec() != value.spec() || !same_elements(last.value.local(), value.local());
  if (end.changed) note_change(end.value);
  return end;
}

// A name that no statement assigned is that of a loop, which is not recorded.
void Recording::end_of(const std::string& name, const DTensor& value) {
  const auto found = last_.find(name);
  if (found == last_.end()) return;
  const auto early = ended_.find(name);
  keep(early == ended_.end() ? ended(name, value, found->second) : std::move(early->second));
}

// Parts that a list holds twice are visited twice.
void Recording::visit(const std::string& name, const Value& value, const Visitor& visitor,
                      std::int64_t& visited) {
  constexpr std::int64_t kMost = 1'000'000;
  if (++visited > kMost)
    fail(ErrorKind::kValue,
         Fix{"keep fewer values in it, or many numbers in a tensor: torch.full([n], x)"},
         "'{}' holds more than {} values", name, kMost);
  if (value.is_tensor()) {
    visitor(name, value.as<DTensor>());
  } else if (value.is_sequence()) {
    const Values& items = items_of(value);
    for (std::size_t i = 0; i < items.size(); ++i) {
      // Other items have no parts, and need no name.
      const bool named = items[i].is_tensor() || items[i].is_sequence() || items[i].is<DictValue>();
      visit(named ? fmt::format("{}[{}]", name, i) : name, items[i], visitor, visited);
    }
  } else if (const auto* dict = value.get<DictValue>()) {
    for (const auto& [key, item] : *dict->entries) {
      visit(fmt::format("{}[{}]", name, repr(key)), item, visitor, visited);
    }
  }
}

const Where* Recording::where(const std::string& name) const {
  const auto found = last_.find(name);
  return found == last_.end() ? nullptr : &found->second.where;
}

const RecordedValue* Recording::at_last_write(const std::string& name,
                                              std::int64_t occurrence) const {
  if (const RecordedValue* written = find(fmt::format("{}#{}", name, -1 - occurrence))) {
    return written;
  }
  const RecordedValue* end = find(name + "#end");
  const bool last = end != nullptr && end->occurrence == occurrence + 1;
  return last && end->changed ? end : find(fmt::format("{}#{}", name, occurrence));
}

std::int64_t Recording::last_number(const std::string& name) const {
  const auto found = notes_.last_numbers.find(name);
  return found == notes_.last_numbers.end() ? -1 : found->second;
}

const RecordedValue* Recording::find(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &values_[found->second];
}

}  // namespace shardlab
