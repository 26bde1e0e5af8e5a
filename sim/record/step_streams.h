// step_streams.h - recordings of ranks that make different calls or exchange messages: the events
// of all ranks in one order in which they can be played.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/record/json_value.h"

namespace shardlab {

/// The recording of one rank.
struct RankFile {
  std::string path;
  std::vector<Json> events;
  std::string raw;
};

/// Whether the event is a message from one rank to another.
bool is_recorded_message(const Json& event);
/// Whether that message is sent here, and not received.
bool is_recorded_send(const Json& event);
/// " at train.py:22", as far as the event has it.
std::string recorded_place(const RankFile& file, const Json& event);

/// The events of all ranks: each has its rank ("at"), collectives are one event of the ranks that
/// take part ("each"). A received value is checked after its message was sent. Values are numbered
/// anew, since ranks number their own. `raw` gets the elements of all.
///   fails  Unsupported: values of DTensors. Value: ranks that wait for each other at the end
std::vector<Json> interleaved(const std::vector<RankFile>& ranks, std::string& raw);

}  // namespace shardlab
