// The page is data and a script that draws it. The holdings of a rank are sent as the pieces that
// mesh dims cut each tensor dim into: their number is that of the cuts, not that of the ranks, so
// that a million ranks fit into a page. Equal pieces at equal distances are sent as two numbers,
// lists of like objects as columns.
#include "sim/report/html_report.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "comm/verdict.h"
#include "mesh/local_shape.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"
#include "sim/judge/posted_steps.h"
#include "sim/prove/diagram.h"
#include "sim/report/memory_text.h"
#include "sim/report/run_json.h"
#include "sim/report/run_specs.h"
#include "sim/report/run_text.h"
#include "sim/run/mesh_names.h"

namespace shardlab {

namespace {

constexpr const char kPage[] =
#include "sim/report/run_page.inc"
    ;

// Beyond this number, a page draws no pieces and does not list ranks.
constexpr std::int64_t kMostPieces = 4096;
// The page has the first ones of each kind.
constexpr std::size_t kMostListed = 2000, kMostValues = 10'000, kMostCalls = 1000;
// Columns of the curve of memory.
constexpr std::size_t kMostColumns = 360;

using Specs = std::map<std::string, const DTensorSpec*>;

Specs specs_of(const ScenarioResult& result) {
  Specs specs;
  visit_specs(result,
              [&](const DTensorSpec& spec) { specs.emplace(shown_type(result.run, spec), &spec); });
  return specs;
}

std::vector<std::size_t> cutting(const DTensorSpec& spec, std::size_t tensor_dim) {
  std::vector<std::size_t> mesh_dims;
  for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
    const Placement& placement = spec.placement(mesh_dim);
    if (placement.is_shard() && placement.dim == static_cast<std::int64_t>(tensor_dim)) {
      mesh_dims.push_back(mesh_dim);
    }
  }
  return mesh_dims;
}

using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;  // [offset, size]

// For each place along the mesh dims that cut, row-major; empty if there are too many to list.
std::vector<Runs> pieces_of(const DTensorSpec& spec, std::size_t tensor_dim,
                            const std::vector<std::size_t>& mesh_dims) {
  const MeshLayout& layout = *spec.layout();
  std::int64_t count = 1;
  for (const std::size_t mesh_dim : mesh_dims) count *= layout.size(mesh_dim);
  std::vector<Runs> pieces;
  for (std::int64_t place = 0; place < count && count <= kMostPieces; ++place) {
    Coordinate coordinate = layout.coordinate_at_index(0);
    std::int64_t rest = place;
    for (auto mesh_dim = mesh_dims.rbegin(); mesh_dim != mesh_dims.rend(); ++mesh_dim) {
      coordinate[*mesh_dim] = rest % layout.size(*mesh_dim);
      rest /= layout.size(*mesh_dim);
    }
    pieces.emplace_back();
    const LocalView view = local_view(spec, coordinate);
    for (const IndexRun& run : view.dims[tensor_dim].runs) {
      pieces.back().emplace_back(run.offset, run.size);
    }
  }
  return pieces;
}

// The distance between the pieces of neighbours along each mesh dim, where these distances and the
// size of the first piece give all pieces: what is beyond the tensor dim's end belongs to none.
std::optional<std::vector<std::int64_t>> distances(const std::vector<Runs>& pieces,
                                                   const std::vector<std::int64_t>& counts,
                                                   std::int64_t size) {
  if (pieces.empty() || pieces.front().size() != 1 || pieces.front()[0].first != 0) return {};
  std::vector<std::int64_t> result(counts.size());
  std::size_t step = 1;
  for (std::size_t i = counts.size(); i-- > 0; step *= static_cast<std::size_t>(counts[i])) {
    if (step >= pieces.size()) continue;  // no neighbour
    result[i] = pieces[step].empty() ? size : pieces[step][0].first;
  }
  for (std::size_t place = 0; place < pieces.size(); ++place) {
    std::int64_t offset = 0;
    auto rest = static_cast<std::int64_t>(place);
    for (std::size_t i = counts.size(); i-- > 0; rest /= counts[i]) {
      offset += rest % counts[i] * result[i];
    }
    Runs expected;
    if (offset < size) expected = {{offset, std::min(pieces[0][0].second, size - offset)}};
    if (pieces[place] != expected) return {};
  }
  return result;
}

Json cut_json(const DTensorSpec& spec, std::size_t tensor_dim,
              const std::vector<std::size_t>& mesh_dims) {
  Json json = {{"tensor_dim", tensor_dim}, {"mesh_dims", mesh_dims}};
  const std::vector<Runs> pieces = pieces_of(spec, tensor_dim, mesh_dims);
  std::vector<std::int64_t> counts;
  for (const std::size_t mesh_dim : mesh_dims) counts.push_back(spec.layout()->size(mesh_dim));
  if (const auto apart = distances(pieces, counts, spec.shape()[tensor_dim])) {
    json["each"] = pieces[0][0].second;
    json["apart"] = *apart;
  } else {
    json["pieces"] = pieces.empty() ? Json(nullptr) : Json(pieces);
  }
  return json;
}

Json holdings_json(const DTensorSpec& spec) {
  const MeshLayout& layout = *spec.layout();
  Json json = {{"shape", std::vector<std::int64_t>(spec.shape().begin(), spec.shape().end())},
               {"item_bytes", item_bytes(spec.dtype())},
               {"mesh", json_of_dims(layout)},
               {"cuts", Json::array()},
               {"partial", Json::array()}};
  for (std::size_t dim = 0; dim < spec.ndim(); ++dim) {
    const std::vector<std::size_t> mesh_dims = cutting(spec, dim);
    if (mesh_dims.empty()) continue;
    json["cuts"].push_back(cut_json(spec, dim, mesh_dims));
  }
  for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
    const Placement& placement = spec.placement(mesh_dim);
    if (!placement.is_partial()) continue;
    json["partial"].push_back({{"mesh_dim", mesh_dim}, {"placement", to_string(placement)}});
  }
  if (!layout.is_iota() && layout.size() <= kMostPieces) {
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      json["ranks"].push_back(layout.rank_at_index(i));
    }
  }
  return json;
}

// A list that is too long for a page is cut, with the number of entries left out.
void shorten(Json& json, const char* key, std::size_t most) {
  Json& list = json[key];
  if (list.size() <= most) return;
  json["left_out"][key] = list.size() - most;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
}

// A list of objects as columns, missing entries null; texts that recur as numbers of words.
Json columns(const Json& list) {
  std::set<std::string> keys;
  for (const Json& object : list) {
    for (const auto& [key, value] : object.items()) keys.insert(key);
  }
  Json packed = {{"count", list.size()}, {"columns", Json::object()}};
  for (const std::string& key : keys) {
    Json column = Json::array(), of = Json::array(), words = Json::array();
    std::map<std::string, std::size_t> known;
    bool texts = true;
    for (const Json& object : list) {
      column.push_back(object.value(key, Json()));
      const Json& value = column.back();
      texts = texts && (value.is_null() || value.is_string());
      if (!texts) continue;
      if (value.is_null()) {
        of.push_back(nullptr);
        continue;
      }
      const auto [at, added] = known.emplace(value.get<std::string>(), words.size());
      if (added) words.push_back(at->first);
      of.push_back(at->second);
    }
    const bool recur = texts && 2 * words.size() < list.size();
    packed["columns"][key] = recur ? Json{{"words", words}, {"of", of}} : column;
  }
  return packed;
}

// Elements that are wrong, of the values that have some, by number of the value.
Json wrong_json(const std::vector<ValueReport>& values) {
  Json json = Json::object();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Comparison& judged = values[i].comparison;
    if (!is_wrong(values[i]) || judged.worst_index < 0) continue;
    json[std::to_string(i)] = {{"worst", judged.worst_index},
                               {"count", judged.differing},
                               {"elements", judged.differing_at}};
  }
  return json;
}

// The last event of each rank of a run that stopped.
Json ranks_json(const Verdict& verdict) {
  constexpr std::array kStates = {"runs", "waits", "ended", "failed", "does not answer"};
  return json_list(verdict.ranks, [&](const RankReport& rank) -> Json {
    return {{"rank", rank.rank},
            {"alike", rank.alike},
            {"state", kStates.at(static_cast<std::size_t>(rank.state))},
            {"what", rank.what},
            {"op", rank.op},
            {"group", rank.group},
            {"call", rank.call},
            {"where", rank.where},
            {"does", rank.does},
            {"waits_for", rank.missing.empty() ? "" : fold_ranks(rank.missing)}};
  });
}

// The user's lines that the comments of a generated program name, as "train.py:12": text; of files
// that are there.
Json user_lines(const std::string& program) {
  Json json = Json::object();
  std::map<std::string, std::vector<std::string>> files;
  for (const std::string_view text : parts_of_text(program, "\n")) {
    const std::string line(text);
    const std::size_t comment = line.rfind("    # "), colon = line.rfind(':');
    if (comment == line.npos || colon == line.npos || colon < comment) continue;
    const std::string place = line.substr(line.rfind(' ') + 1);
    const std::string path = place.substr(0, place.rfind(':'));
    const std::size_t number = std::strtoul(line.c_str() + colon + 1, nullptr, 10);
    const auto [file, added] = files.try_emplace(path);
    if (added && std::filesystem::is_regular_file(path)) file->second = read_lines(path);
    if (number >= 1 && number <= file->second.size()) json[place] = file->second[number - 1];
  }
  return json;
}

const char* kind_of(const Operation& operation) {
  return operation.kind == Operation::Kind::kCollective ? "collective"
         : operation.kind == Operation::Kind::kSend     ? "send"
                                                        : "receive";
}

// The calls of all ranks, each with its first column and the one behind its last (null: it never
// completed), and the messages as pairs of rank and number of the call. Columns are those of a
// fabric that takes one step for each call: the order that the program asks for, not measured time.
Json calls_json(const FabricLog& log, std::int64_t world) {
  const RankSteps steps = promise_of(log, world).steps;
  const StepDiagram diagram = diagram_of(steps, 1, nullptr);
  std::vector<std::vector<const FabricLog::Call*>> posted(steps.ranks.size());
  for (const FabricLog::Event& event : log.events) {
    if (event.kind != FabricLog::Event::Kind::kPost) continue;
    posted[static_cast<std::size_t>(event.rank)].push_back(
        &log.calls[static_cast<std::size_t>(event.call)]);
  }
  Json json = {{"calls", Json::array()}, {"messages", Json::array()}};
  std::vector<std::vector<std::size_t>> drawn(steps.ranks.size());  // number of the call of a step
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < steps.ranks.size(); ++rank) {
    Json row = Json::array();
    std::size_t taken = 0;
    for (std::size_t step = 0; step < steps.ranks[rank].size(); ++step) {
      const RankStep& one = steps.ranks[rank][step];
      drawn[rank].push_back(row.size());
      if (one.posts.empty() || row.size() == kMostCalls) continue;
      bool complete = true;
      const std::int64_t line = posted[rank][taken]->position.line;
      for (std::size_t i = 0; i < one.posts.size(); ++i) {
        complete &= posted[rank][taken++]->complete;
      }
      const StepDiagram::Span& span = diagram.spans[rank][step];
      row.push_back({{"from", span.from},
                     {"to", complete && span.to >= 0 ? Json(span.to) : Json()},
                     {"text", one.text},
                     {"line", line},
                     {"kind", kind_of(one.posts[0])}});
    }
    most = std::max(most, posted[rank].size() - taken);
    json["calls"].push_back(std::move(row));
  }
  for (const StepDiagram::Message& one : diagram.messages) {
    const std::size_t from =
        drawn[static_cast<std::size_t>(one.from_rank)][static_cast<std::size_t>(one.from_step)];
    const std::size_t to =
        drawn[static_cast<std::size_t>(one.to_rank)][static_cast<std::size_t>(one.to_step)];
    if (from == kMostCalls || to == kMostCalls) continue;
    json["messages"].push_back({one.from_rank, from, one.to_rank, to});
  }
  if (most > 0) json["left_out"] = most;
  return json;
}

Json rank_diagram(const ScenarioResult& result) {
  Json json;
  if (result.judgement.calls != nullptr && !result.judgement.calls->calls.empty()) {
    json = calls_json(*result.judgement.calls, result.run.scenario.world);
  }
  for (const std::vector<ScheduledAction>& rank : result.run.schedule) {
    Json row = Json::array();
    for (const ScheduledAction& action : rank) row.push_back({action.text, action.column});
    json["schedule"].push_back(std::move(row));
  }
  return json;
}

// Inside of a script element no text may look like its end.
std::string embedded(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

}  // namespace

std::string html_run(const ScenarioResult& result) {
  Json json = facts_of_run(result);
  for (const char* key : {"lines", "order", "printed"}) shorten(json, key, kMostListed);
  shorten(json, "values", kMostValues);
  json["wrong"] = wrong_json(result.judgement.values);
  if (result.run.verdict) json["ranks_at_end"] = ranks_json(*result.run.verdict);
  json["failure"] = failure_text(result);
  json["diagram"] = rank_diagram(result);
  json["memory"].erase("timeline");
  json["curve"] = timeline_json(fullest(result.run.memory_timeline, kMostColumns));
  json["types"] = Json::object();
  for (const auto& [type, spec] : specs_of(result)) json["types"][type] = holdings_json(*spec);
  for (const char* key : {"lines", "values", "curve"}) json[key] = columns(json[key]);
  json["source"] = result.run.scenario.program->source->text();
  json["user_lines"] = user_lines(json["source"]);
  json["text"] = run_text(result, {});
  return json.dump();
}

std::string html_page(const std::vector<std::string>& runs) {
  std::string data = "[";
  for (const std::string& run : runs) data += (data.size() > 1 ? "," : "") + embedded(run);
  data += "]";
  std::string page = kPage;
  const std::string_view place = "/*RUNS*/";
  page.replace(page.find(place), place.size(), data);
  return page;
}

}  // namespace shardlab
