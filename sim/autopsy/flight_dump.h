// flight_dump.h - dumps of PyTorch's flight recorder: the last collectives and messages of a rank,
// as pickles (read by a machine for the opcodes of plain values, which executes nothing) or JSON.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardlab {

/// The contents of a call: two that are equal can meet.
struct FlightWord {
  std::string group;  ///< its description
  std::string op;     ///< "all_reduce", "send 0->1"
  std::string sizes, output_sizes, dtypes;
  std::string function, file;  ///< of the innermost frame that is not torch's; empty: no frames
  std::int64_t line = 0;
  auto operator<=>(const FlightWord&) const = default;

  /// "send", "all_reduce".
  std::string_view kind() const { return std::string_view(op).substr(0, op.find(' ')); }
  /// Places in the group of the rank and its peer: 0 and 1 of "send 0->1"; empty for others.
  std::optional<std::pair<std::size_t, std::size_t>> places() const {
    const std::size_t space = op.find(' '), arrow = op.find_first_of("-<", space);
    if (arrow >= op.size()) return std::nullopt;
    std::size_t own = 0, peer = std::string::npos;
    std::from_chars(op.data() + space + 1, op.data() + arrow, own);
    std::from_chars(op.data() + std::min(arrow + 2, op.size()), op.data() + op.size(), peer);
    return std::pair(own, peer);
  }
};

/// Words of all dumps, each once. Thread-safe until all dumps are read.
class FlightWords {
 public:
  std::int32_t number_of(const FlightWord& word) {
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] =
        numbers_.try_emplace(word, static_cast<std::int32_t>(words_.size()));
    if (fresh) words_.push_back(&known->first);
    return known->second;
  }
  const FlightWord& operator[](std::int32_t number) const {
    return *words_[static_cast<std::size_t>(number)];
  }
  std::size_t size() const { return words_.size(); }

 private:
  std::mutex mutex_;
  std::map<FlightWord, std::int32_t> numbers_;
  std::vector<const FlightWord*> words_;
};

struct FlightEntry {
  std::int64_t record = 0;                      ///< place in what the rank has recorded
  std::int64_t sequence = 0;                    ///< of its group's collectives, or messages
  std::int64_t created_ns = 0, started_ns = 0;  ///< 0: not known
  std::int32_t word = 0;
  std::int32_t group = 0;   ///< in FlightDump::names
  std::int64_t batch = -1;  ///< the record that ends its batch; -1: it is alone
  std::size_t thread = 0;   ///< digest of its name; alike where files name none
  bool message = false;
  bool completed = false;
  bool pending = true;  ///< neither completed nor given up
};

struct FlightGroup {
  std::string name, description;
  std::vector<std::int64_t> ranks;
};

/// One rank's file.
struct FlightDump {
  std::string path;
  std::int64_t rank = -1;
  std::vector<FlightGroup> groups;  ///< as configured
  std::vector<std::string> names;   ///< of groups that entries have
  std::vector<FlightEntry> entries;
  bool cut = false;  ///< the file ends early; entries before are here
};

}  // namespace shardlab
