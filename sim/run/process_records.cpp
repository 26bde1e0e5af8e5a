// Records of one rank as bytes and back. Only data that other processes cannot know is sent: specs
// as their parts, because they are interned per process, and mask tables by their shapes, because
// their ids are.
#include "sim/run/process_records.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "backends/process/wire.h"
#include "base/fix.h"
#include "redistribute/redistribute.h"
#include "sim/world/backends.h"

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

void put_spec(Writer& writer, const DTensorSpec& spec) {
  const MeshLayout& layout = *spec.layout();
  writer.put_list<std::int64_t>(layout.shape());
  writer.put(layout.named());
  for (const std::string& name : layout.names()) writer.put_text(name);
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < layout.size() && !layout.is_iota(); ++i) {
    ranks.push_back(layout.rank_at_index(i));
  }
  writer.put_list<std::int64_t>(ranks);
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
  MeshLayout::Init init;
  init.shape = dims_of(reader.list<std::int64_t>());
  const bool named = reader.get<bool>();
  for (std::size_t i = 0; i < init.shape.size(); ++i) {
    std::string name = reader.text();
    if (named) init.names.push_back(std::move(name));
  }
  init.ranks = reader.list<std::int64_t>();
  Placements placements;
  for (std::size_t i = 0; i < init.shape.size(); ++i) {
    auto placement = reader.get<Placement>();
    if (placement.mask >= 0) placement.mask = intern_mask_shape(reader.list<std::int64_t>());
    placements.push_back(placement);
  }
  ShardOrder order;
  for (std::size_t i = 0; i < init.shape.size(); ++i) order.push_back(reader.get<std::int32_t>());
  const auto strided = reader.get<StridedShards>();
  const TensorMeta meta = get_meta(reader);
  Arena& arena = process_arena();
  return arena.spec(arena.layout(std::move(init)), placements, order, meta, strided);
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

std::string bytes_of(const RankRecords& records, std::size_t rank, ValuesToo values_too) {
  const Recording& recording = (*records.recordings)[rank];
  const Trace& trace = (*records.traces)[rank];
  Writer writer;
  writer.put((*records.peaks)[rank]);
  writer.put(records.physical_bytes);
  CollectiveCounts counts = trace.counts();
  counts.calls = 0;  // of this process's rows
  writer.put(counts);
  writer.put(trace.implicit_count());
  writer.put(static_cast<std::uint64_t>(recording.lines().size()));
  for (const PrintedLine& line : recording.lines()) {
    writer.put(line.line);
    writer.put(line.column);
    writer.put_text(line.text);
  }
  const bool none = values_too == ValuesToo::kNo;
  writer.put(static_cast<std::uint64_t>(none ? 0 : recording.values().size()));
  for (const RecordedValue& recorded : recording.values()) {
    if (none) break;
    writer.put_text(recorded.name);
    writer.put(recorded.occurrence);
    writer.put(static_cast<std::uint64_t>(recorded.event));
    writer.put(recorded.at_end);
    writer.put(recorded.changed);
    writer.put(recorded.read);
    writer.put(recorded.where.source == records.scenario->program->source);
    writer.put(recorded.where.span);
    put_value(writer, recorded.value);
  }
  return writer.take();
}

void adopt(RankRecords& records, std::size_t rank, std::string_view bytes) {
  Reader reader(bytes);
  (*records.peaks)[rank] = reader.get<PeakReport>();
  records.physical_bytes += reader.get<std::int64_t>();
  const auto counts = reader.get<CollectiveCounts>();
  (*records.traces)[rank].adopt(counts, reader.get<std::int64_t>());
  Recording& recording = (*records.recordings)[rank];
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    const int line = reader.get<int>(), column = reader.get<int>();
    recording.adopt(PrintedLine{line, column, reader.text()});
  }
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    RecordedValue recorded;
    recorded.name = reader.text();
    recorded.occurrence = reader.get<std::int64_t>();
    recorded.event = reader.get<std::uint64_t>();
    recorded.at_end = reader.get<bool>();
    recorded.changed = reader.get<bool>();
    recorded.read = reader.get<bool>();
    // The file is the same for all processes, so that a span gives the place.
    const bool in_program = reader.get<bool>();
    recorded.where.source = in_program ? records.scenario->program->source : records.scenario->file;
    recorded.where.span = reader.get<SourceSpan>();
    recorded.value = get_value(reader, *records.device);
    recording.adopt(std::move(recorded));
  }
}

}  // namespace

process::ControlChannel* channel_of(std::string_view backend) {
  const ProcessBackend* processes = find_backend(backend).processes;
  return processes == nullptr ? nullptr : &processes->join();
}

std::int64_t reporter_of(process::ControlChannel& channel, std::int64_t rank) {
  const std::vector<std::int64_t> gone = channel.gone();
  const auto is_gone = [&](std::int64_t r) { return std::ranges::find(gone, r) != gone.end(); };
  if (!is_gone(rank)) return rank;
  std::int64_t first = 0;
  while (is_gone(first)) ++first;
  return first;
}

void gather_records(process::ControlChannel& channel, std::int64_t reporter, ValuesToo values,
                    RankRecords& records) {
  const auto me = static_cast<std::size_t>(channel.rank());
  const std::string mine =
      channel.rank() == reporter ? std::string() : bytes_of(records, me, values);
  const std::vector<std::string> all = channel.gather(mine, reporter);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank != me && !all[rank].empty()) adopt(records, rank, all[rank]);
  }
}

bool share_finding(process::ControlChannel& channel, std::int64_t reporter, bool met,
                   const std::optional<Error>& own) {
  const std::vector<std::string> all = channel.exchange(met ? "met" : "not met");
  // A reporter that has sent its finding may be gone by now: it has ended.
  const std::string& found = all[static_cast<std::size_t>(reporter)];
  if (found.empty() && own) throw *own;
  if (found.empty()) {
    fail(ErrorKind::kRuntime, Fix{"see what that rank wrote before; then start the job again"},
         "rank {}, which reports, is gone: {}", reporter, channel.why_gone(reporter));
  }
  return found == "met";
}

}  // namespace shardlab
