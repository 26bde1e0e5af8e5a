// Records of one rank as bytes and back. Only data that other processes cannot know is sent: specs
// as their parts, because they are interned per process, and mask tables by their shapes, because
// their ids are.
#include "sim/run/process_records.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <new>
#include <utility>

#include "backends/process/wire.h"
#include "redistribute/redistribute.h"

namespace shardlab {

namespace {

using process::Reader;
using process::Writer;

Dims dims_of(const std::vector<std::int64_t>& sizes) { return Dims(sizes.begin(), sizes.end()); }

void put_meta(Writer& writer, const TensorMeta& meta) {
  writer.put(meta.dtype);
  writer.put_list<std::int64_t>(meta.shape);
  writer.put_list<std::int64_t>(meta.stride);
}

TensorMeta get_meta(Reader& reader) {
  TensorMeta meta;
  meta.dtype = reader.get<DType>();
  meta.shape = dims_of(reader.list<std::int64_t>());
  meta.stride = dims_of(reader.list<std::int64_t>());
  return meta;
}

// Row-major, for all strides.
void put_tensor(Writer& writer, const Tensor& tensor) {
  writer.put(tensor.defined());
  if (!tensor.defined()) return;
  put_meta(writer, tensor.meta());
  std::string bytes(static_cast<std::size_t>(tensor.size_bytes()), '\0');
  tensor.device()->read(tensor, bytes.data());
  writer.put_text(bytes);
}

Tensor get_tensor(Reader& reader, Device& device) {
  if (!reader.get<bool>()) return {};
  const TensorMeta meta = get_meta(reader);
  const std::string bytes = reader.text();
  Tensor tensor = empty(device, meta.shape, meta.dtype);
  device.write(tensor, bytes.data());
  return tensor;
}

void put_layout(Writer& writer, const MeshLayout& layout) {
  writer.put_list<std::int64_t>(layout.shape());
  writer.put(layout.named());
  for (const std::string& name : layout.names()) writer.put_text(name);
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < layout.size() && !layout.is_iota(); ++i) {
    ranks.push_back(layout.rank_at_index(i));
  }
  writer.put_list<std::int64_t>(ranks);
  writer.put(layout.is_cut());
  if (!layout.is_cut()) return;
  put_layout(writer, *layout.root());
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    writer.put_list<MeshStep>(layout.steps(dim));
  }
}

const MeshLayout* get_layout(Reader& reader) {
  MeshLayout::Init init;
  init.shape = dims_of(reader.list<std::int64_t>());
  const bool named = reader.get<bool>();
  for (std::size_t i = 0; i < init.shape.size(); ++i) {
    std::string name = reader.text();
    if (named) init.names.push_back(std::move(name));
  }
  init.ranks = reader.list<std::int64_t>();
  if (reader.get<bool>()) {
    init.root = get_layout(reader);
    for (std::size_t i = 0; i < init.shape.size(); ++i) {
      const std::vector<MeshStep> steps = reader.list<MeshStep>();
      init.steps.emplace_back(steps.begin(), steps.end());
    }
  }
  return process_arena().layout(std::move(init));
}

void put_spec(Writer& writer, const DTensorSpec& spec) {
  put_layout(writer, *spec.layout());
  for (const Placement& placement : spec.placements()) {
    writer.put(placement);
    // Ids of masks are a process's own.
    if (placement.mask >= 0) writer.put_list<std::int64_t>(mask_shape(placement.mask));
  }
  for (const std::int32_t place : spec.order()) writer.put(place);
  writer.put(spec.strided());
  put_meta(writer, spec.meta());
}

const DTensorSpec* get_spec(Reader& reader) {
  const MeshLayout* layout = get_layout(reader);
  Placements placements;
  for (std::size_t i = 0; i < layout->ndim(); ++i) {
    auto placement = reader.get<Placement>();
    if (placement.mask >= 0) placement.mask = intern_mask_shape(reader.list<std::int64_t>());
    placements.push_back(placement);
  }
  ShardOrder order;
  for (std::size_t i = 0; i < layout->ndim(); ++i) order.push_back(reader.get<std::int32_t>());
  const auto strided = reader.get<StridedShards>();
  const TensorMeta meta = get_meta(reader);
  return process_arena().spec(layout, placements, order, meta, strided);
}

void put_value(Writer& writer, const DTensor& value) {
  writer.put(value.distributed());
  if (value.distributed()) put_spec(writer, *value.spec());
  put_tensor(writer, value.local());
  const bool masked = value.impl()->extras != nullptr && value.impl()->extras->mask.defined();
  put_tensor(writer, masked ? value.impl()->extras->mask : Tensor());
  writer.put(value.impl()->note);
}

DTensor get_value(Reader& reader, Device& device) {
  const DTensorSpec* spec = reader.get<bool>() ? get_spec(reader) : nullptr;
  DTensor value(get_tensor(reader, device), spec);
  const Tensor mask = get_tensor(reader, device);
  if (mask.defined()) {
    value.impl()->extras = std::make_shared<const TensorExtras>(TensorExtras{mask});
  }
  value.impl()->note = reader.get<std::uint32_t>();
  return value;
}

// The file is the same for all processes, so that a span gives the place.
void put_where(Writer& writer, const Where& where, const Scenario& scenario) {
  writer.put(where.source == scenario.program->source);
  writer.put(where.span);
}

Where get_where(Reader& reader, const Scenario& scenario) {
  const bool in_program = reader.get<bool>();
  return {in_program ? scenario.program->source : scenario.file, reader.get<SourceSpan>()};
}

template <typename Number>
void put_numbers(Writer& writer, const std::map<std::string, Number>& numbers) {
  writer.put(static_cast<std::uint64_t>(numbers.size()));
  for (const auto& [name, number] : numbers) {
    writer.put_text(name);
    writer.put(number);
  }
}

template <typename Number>
void get_numbers(Reader& reader, std::map<std::string, Number>& numbers) {
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    const std::string name = reader.text();
    numbers[name] = reader.get<Number>();
  }
}

void put_notes(Writer& writer, const RankNotes& notes, const Scenario& scenario) {
  writer.put_list<std::uint32_t>(notes.statements);
  put_numbers(writer, notes.numbers);
  put_numbers(writer, notes.reads);
  put_numbers(writer, notes.last_numbers);
  put_numbers(writer, notes.passes);
  writer.put(static_cast<std::uint64_t>(notes.shown.size()));
  for (const RecordedNumber& number : notes.shown) {
    writer.put_text(number.name);
    writer.put(number.occurrence);
    writer.put(number.number);
    writer.put(number.dtype);
    put_where(writer, number.where, scenario);
    writer.put(number.at_end);
  }
}

RankNotes get_notes(Reader& reader, const Scenario& scenario) {
  RankNotes notes;
  notes.statements = reader.list<std::uint32_t>();
  get_numbers(reader, notes.numbers);
  get_numbers(reader, notes.reads);
  get_numbers(reader, notes.last_numbers);
  get_numbers(reader, notes.passes);
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    RecordedNumber& number = notes.shown.emplace_back();
    number.name = reader.text();
    number.occurrence = reader.get<std::int64_t>();
    number.number = reader.get<double>();
    number.dtype = reader.get<DType>();
    number.where = get_where(reader, scenario);
    number.at_end = reader.get<bool>();
  }
  return notes;
}

void put_recorded(Writer& writer, const RecordedValue& recorded, const Scenario& scenario) {
  writer.put_text(recorded.name);
  writer.put(recorded.occurrence);
  writer.put(static_cast<std::uint64_t>(recorded.event));
  writer.put(recorded.at_end);
  writer.put(recorded.changed);
  writer.put(recorded.read);
  put_where(writer, recorded.where, scenario);
  put_value(writer, recorded.value);
}

RecordedValue get_recorded(Reader& reader, const Scenario& scenario, Device& device) {
  RecordedValue recorded;
  recorded.name = reader.text();
  recorded.occurrence = reader.get<std::int64_t>();
  recorded.event = reader.get<std::uint64_t>();
  recorded.at_end = reader.get<bool>();
  recorded.changed = reader.get<bool>();
  recorded.read = reader.get<bool>();
  recorded.where = get_where(reader, scenario);
  recorded.value = get_value(reader, device);
  return recorded;
}

std::string bytes_of(const RankRecords& records, std::size_t rank, ValuesToo values_too) {
  const Recording& recording = (*records.recordings)[rank];
  const Trace& trace = (*records.traces)[rank];
  const Scenario& scenario = *records.scenario;
  Writer writer;
  writer.put((*records.peaks)[rank]);
  writer.put(records.physical_bytes);
  CollectiveCounts counts = trace.counts();
  counts.calls = 0;  // of this process's rows
  writer.put(counts);
  writer.put(trace.implicit_count());
  put_notes(writer, recording.notes(), scenario);
  writer.put(static_cast<std::uint64_t>(recording.lines().size()));
  for (const PrintedLine& line : recording.lines()) {
    writer.put(line.line);
    writer.put(line.column);
    writer.put_text(line.text);
  }
  if (values_too == ValuesToo::kNo) return writer.take();
  for (const RecordedValue& value : recording.values()) put_recorded(writer, value, scenario);
  return writer.take();
}

void adopt(RankRecords& records, std::size_t rank, std::string_view bytes, ValuesToo values_too) {
  Reader reader(bytes);
  const Scenario& scenario = *records.scenario;
  (*records.peaks)[rank] = reader.get<PeakReport>();
  records.physical_bytes += reader.get<std::int64_t>();
  const auto counts = reader.get<CollectiveCounts>();
  (*records.traces)[rank].adopt(counts, reader.get<std::int64_t>());
  Recording& recording = (*records.recordings)[rank];
  recording.adopt(get_notes(reader, scenario));
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    const int line = reader.get<int>(), column = reader.get<int>();
    recording.adopt(PrintedLine{line, column, reader.text()});
  }
  if (values_too == ValuesToo::kNo) return;
  while (!reader.at_end()) recording.adopt(get_recorded(reader, scenario, *records.device));
}

}  // namespace

std::int64_t reporter_of(process::ControlChannel& channel, std::int64_t rank) {
  const std::vector<std::int64_t> gone = channel.gone();
  const auto is_gone = [&](std::int64_t r) { return std::ranges::binary_search(gone, r); };
  if (!is_gone(rank)) return rank;
  for (std::int64_t first = 0; first < channel.size(); ++first) {
    if (!is_gone(first)) return first;
  }
  return channel.rank() == 0 ? channel.size() - 1 : 0;  // not this one, whom the others have lost
}

std::vector<std::int64_t> lost_ranks(const process::ControlChannel& channel,
                                     const Verdict& verdict) {
  if (verdict.kind == VerdictKind::kTimeout) return verdict.culprits;
  if (verdict.kind != VerdictKind::kRankFailed) return {};
  std::vector<std::int64_t> lost;
  std::ranges::set_intersection(verdict.culprits, channel.gone(), std::back_inserter(lost));
  return lost;
}

namespace {

constexpr const char* kSeeThatRank = "see what that rank wrote before; then start the job again";
// Before the records of a rank, or before the reason why it has none.
constexpr char kHere = '+', kNotHere = '-';
constexpr std::string_view kComplete = "complete";

// Gives what the reporter says, on all ranks. `usual`: where it cannot come, or empty.
std::string said_by(process::ControlChannel& channel, std::int64_t reporter, std::string_view mine,
                    std::string_view usual) {
  const std::vector<std::string> all = channel.exchange(mine);
  // A reporter that has spoken may be gone by now: it has ended.
  const std::string& said = all[static_cast<std::size_t>(reporter)];
  if (!said.empty()) return said;
  if (!usual.empty()) return std::string(usual);
  // It may be there, and rank 0 gone, through which all goes.
  const bool is_gone = !channel.why_gone(reporter).empty();
  const std::int64_t lost = is_gone ? reporter : 0;
  fail(ErrorKind::kRuntime, Fix{kSeeThatRank}, "rank {}{}: {}", lost,
       is_gone ? ", which judges, was lost before its judgement arrived"
               : " was lost before its values arrived",
       channel.why_gone(lost));
}

// Gives the parts of all ranks on the reporter. A rank that has no memory for its records says so.
std::vector<std::string> gathered(process::ControlChannel& channel, std::int64_t reporter,
                                  ValuesToo values, const RankRecords& records) {
  const auto me = static_cast<std::size_t>(channel.rank());
  try {
    const bool sends = channel.rank() != reporter;
    const std::string mine = sends ? kHere + bytes_of(records, me, values) : std::string();
    return channel.gather(mine, reporter);
  } catch (const std::bad_alloc&) {
    return channel.gather(fmt::format("{}there is no memory left for them", kNotHere), reporter);
  }
}

}  // namespace

void gather_records(process::ControlChannel& channel, std::int64_t reporter, ValuesToo values,
                    RankRecords& records) {
  const std::vector<std::string> all = gathered(channel, reporter, values, records);
  std::string lost;
  for (std::int64_t rank = 0; rank < static_cast<std::int64_t>(all.size()); ++rank) {
    const std::string& part = all[static_cast<std::size_t>(rank)];
    if (rank == reporter) continue;
    try {
      if (part.starts_with(kHere)) {
        adopt(records, static_cast<std::size_t>(rank), std::string_view(part).substr(1), values);
        continue;
      }
    } catch (const std::bad_alloc&) {
      lost = fmt::format("rank {} has no memory for the values of rank {}", reporter, rank);
      break;
    }
    const std::string why = part.empty() ? channel.why_gone(rank) : part.substr(1);
    if (why.empty()) continue;  // rank 0 is gone, which should have passed the values on
    if (!lost.empty()) lost += "; ";
    lost += fmt::format("rank {} was lost before its values arrived: {}", rank, why);
  }
  // A run that has failed has no values to judge.
  if (values == ValuesToo::kNo) return;
  lost = said_by(channel, reporter, lost.empty() ? kComplete : lost, "");
  if (lost != kComplete) fail(ErrorKind::kRuntime, Fix{kSeeThatRank}, "{}", lost);
}

bool share_finding(process::ControlChannel& channel, std::int64_t reporter, RunFinding mine) {
  const bool failed = mine == RunFinding::kRunFailed;
  const char* word = mine == RunFinding::kMet ? "met" : "not met";
  return said_by(channel, reporter, word, failed ? word : "") == "met";
}

}  // namespace shardlab
