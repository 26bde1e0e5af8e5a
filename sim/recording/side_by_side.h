// side_by_side.h - the recordings of ranks that do not make the same calls, as in a pipeline, as
// one: each event with its rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/files/json_value.h"

namespace shardlab {

/// The recording of one process.
struct RankFile {
  std::string path;
  std::vector<Json> events;
  std::string raw;
};

/// "c10d.send.default" or "c10d.recv_.default".
bool is_message_line(const Json& event);
/// " at stage.py:12", as far as the file has the place; else empty.
std::string recorded_place(const RankFile& file, const Json& event);

/// The elements of event `event`, from 0, at [begin, size].
///   fails  Value: a range outside of the file
std::string_view raw_part(const RankFile& file, std::size_t event, const Json& range);

/// All events; equal elements are stored once, in `raw`. A replay runs all ranks at the same time,
/// so that any order would do; in this one causes come first: a message is sent before it arrives.
/// Functions and what the program
/// reads are left out, which only a re-mesh needs: that takes a recording of one rank.
///   fails  Unsupported: a DTensor, whose calls all ranks make together; ranks that enter different
///          collectives. Value: damaged; in a program that did not fail a rank does not come to a
///          collective, or no rank has sent a message, with its place
std::vector<Json> side_by_side(const std::vector<RankFile>& ranks, std::string& raw);

}  // namespace shardlab
