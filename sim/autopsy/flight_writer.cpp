// Entries in the words of torch's process groups; a call that is not over is `started`.
#include "sim/autopsy/flight_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

// Torch has other names for these.
constexpr std::pair<CollectiveKind, std::string_view> kTorchNames[] = {
    {CollectiveKind::kReduceScatter, "_reduce_scatter_base"},
    {CollectiveKind::kAllGather, "_all_gather_base"},
    {CollectiveKind::kAllGatherBytes, "all_gather"},
    {CollectiveKind::kPermute, "all_to_all"},
    {CollectiveKind::kBatch, "all_to_all"}};
constexpr std::pair<DType, std::string_view> kDTypes[] = {{DType::kF32, "Float"},
                                                          {DType::kF64, "Double"},
                                                          {DType::kF16, "Half"},
                                                          {DType::kBF16, "BFloat16"},
                                                          {DType::kI64, "Long"}};
std::string torch_name(auto name, const auto& table) {
  for (const auto& [ours, theirs] : table) {
    if (ours == name) return std::string(theirs);
  }
  return std::string(to_string(name));
}

void put(std::string& out, char opcode, auto number) {
  out += opcode;
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// A pickle of protocol 2, but for its first bytes and its last.
void put(std::string& out, const Json& value) {
  if (value.is_boolean()) {
    out += value == true ? '\x88' : '\x89';
  } else if (value.is_number()) {
    put(out, '\x8a', std::uint8_t{8});
    const auto number = integer_of<std::int64_t>(value);
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    put(out, 'X', static_cast<std::uint32_t>(text.size()));
    out += text;
  } else {
    out += value.is_object() ? "}(" : "](";
    for (const auto& [key, one] : value.items()) {
      if (value.is_object()) put(out, Json(key));
      put(out, one);
    }
    out += value.is_object() ? 'u' : 'e';
  }
}

Json sizes_of(const std::vector<TensorMeta>& tensors) {
  Json sizes = Json::array();
  for (const TensorMeta& meta : tensors) {
    sizes.push_back(std::vector<std::int64_t>(meta.shape.begin(), meta.shape.end()));
  }
  return sizes;
}

Json dtypes_of(const std::vector<TensorMeta>& tensors) {
  Json dtypes = Json::array();
  for (const TensorMeta& meta : tensors) dtypes.push_back(torch_name(meta.dtype, kDTypes));
  return dtypes;
}

class DumpWriter {
 public:
  DumpWriter(const FabricLog& log, std::int64_t rank) : log_(log), rank_(rank) {}

  std::string write() {
    Json groups = Json::object(), entries = Json::array();
    for (std::size_t i = 0; i < log_.groups.size(); ++i) {
      const auto& [name, ranks] = log_.groups[i];
      if (std::ranges::find(ranks, rank_) == ranks.end()) continue;
      const std::string number = std::to_string(i);
      groups[number] = {
          {"name", number}, {"desc", name}, {"ranks", "[" + text_of_list(ranks, ", ") + "]"}};
    }
    for (std::size_t i = 0; i < log_.calls.size(); ++i) {
      const FabricLog::Call& call = log_.calls[i];
      if (call.rank != rank_) continue;
      entries.push_back(entry_of(call, 1000 * (static_cast<std::int64_t>(i) + 1)));
      entries.back()["record_id"] = entries.size() - 1;
    }
    std::string out = "\x80\x02";
    put(out, Json{{"version", "2.10"},
                  {"pg_config", groups},
                  {"pg_status", Json::object()},
                  {"entries", entries}});
    return out + ".";
  }

 private:
  Json entry_of(const FabricLog::Call& call, std::int64_t time) {
    const auto number = static_cast<std::size_t>(call.what.group);
    const FabricLog::Group& group = log_.groups[number];
    const auto place_of = [&](std::int64_t rank) {
      return std::ranges::find(group.ranks, rank) - group.ranks.begin();
    };
    const bool message = is_message(call.kind);
    auto& [collectives, messages] = counts_[number];
    message ? ++messages : ++collectives;
    std::string name = "nccl:" + torch_name(call.kind, kTorchNames);
    if (message) {
      name += fmt::format(" {}{}{}", place_of(rank_),
                          call.what.kind == Operation::Kind::kSend ? "->" : "<-",
                          place_of(call.what.peer));
    }
    Json frames = Json::array();
    if (call.position.file != nullptr) {
      frames.push_back(
          {{"name", "<module>"}, {"filename", call.position.file}, {"line", call.position.line}});
    }
    return {{"pg_id", number},
            {"process_group", Json::array({std::to_string(number), group.name})},
            {"collective_seq_id", collectives},
            {"p2p_seq_id", messages},
            {"op_id", collectives + messages},
            {"profiling_name", name},
            {"time_created_ns", time},
            {"time_discovered_started_ns", time + 1},
            {"time_discovered_completed_ns", call.complete ? time + 2 : 0},
            {"input_sizes", sizes_of(call.input)},
            {"input_dtypes", dtypes_of(call.input)},
            {"output_sizes", sizes_of(call.output)},
            {"output_dtypes", dtypes_of(call.output)},
            {"state", call.complete ? "completed" : "started"},
            {"retired", call.complete},
            {"is_p2p", message},
            {"timeout_ms", 600'000},
            {"frames", frames}};
  }

  const FabricLog& log_;
  const std::int64_t rank_;
  std::map<std::size_t, std::pair<std::int64_t, std::int64_t>> counts_;  // by group
};

}  // namespace

void write_flight_dumps(const std::string& folder, const FabricLog& log, std::int64_t ranks) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  const auto path_of = [&](std::int64_t rank) {
    return fmt::format("{}/shardlab_rank_{}", folder, rank);
  };
  // An earlier run may have had more ranks.
  for (std::int64_t rank = ranks; std::filesystem::remove(path_of(rank), problem);) ++rank;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::ofstream file(path_of(rank), std::ios::binary);
    file << DumpWriter(log, rank).write();
    file.close();
    if (file) continue;
    fail(ErrorKind::kValue, Fix{"give a folder that may be written to"}, "{} cannot be written",
         path_of(rank));
  }
}

}  // namespace shardlab
