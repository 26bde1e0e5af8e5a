// Recordings of processes and of one process exchange pieces in different ways; the move is
// compared.
#include "tests/facts/recorded_moves.h"

#include <string>

#include "sim/files/json_value.h"
#include "tests/facts/fact_json.h"

namespace shardlab {

namespace {

// Along this mesh dim one tensor dim was cut, and then another one.
bool is_exchange(const Json& event, const Json& collective) {
  if (!event.contains("from") || !event.contains("out")) return false;
  const auto dim = integer_of<std::size_t>(collective.at("dim"));
  const std::string from = event.at("from").at(dim).get<std::string>();
  const std::string to = event.at("out").at(0).at("placements").at(dim).get<std::string>();
  return from != to && from.starts_with("S(") && to.starts_with("S(");
}

}  // namespace

Json recorded_moves(const Json& event) {
  Json moves = Json::array();
  for (const Json& move : list_at(event, "redist")) {
    const bool masks = move.at("to").dump().find("MP(") != std::string::npos;
    if (!masks) moves.push_back(move);
  }
  return moves;
}

Json recorded_collectives(const Json& event, bool exchanges) {
  Json collectives = Json::array();
  for (const Json& recorded : list_at(event, "comm")) {
    const bool exchange = recorded.at("c") == "all_gather_into_tensor" && exchanges &&
                          recorded.contains("dim") && is_exchange(event, recorded);
    Json one = {{"c", exchange ? Json("shard_dim_alltoall") : recorded.at("c")}};
    for (const char* key : {"dim", "reduce"}) {
      if (recorded.contains(key)) one[key] = recorded.at(key);
    }
    collectives.push_back(std::move(one));
  }
  return collectives;
}

bool has_in_order(const Json& expected, const Json& got) {
  std::size_t next = 0;
  for (const Json& one : got) {
    if (next < expected.size() && one == expected.at(next)) ++next;
  }
  return next == expected.size();
}

}  // namespace shardlab
