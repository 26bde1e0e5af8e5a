// The page is data and a script that draws it. The holdings of a rank are sent as the pieces that
// mesh dims cut each tensor dim into: their number is that of the cuts, not that of the ranks, so
// that a million ranks fit into a page.
#include "sim/report/html_report.h"

#include <map>
#include <nlohmann/json.hpp>

#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "sim/record/json.h"
#include "sim/report/memory_curve.h"
#include "sim/report/run_json.h"
#include "sim/report/run_text.h"

namespace shardlab {

namespace {

constexpr const char kPage[] =
#include "sim/report/run_page.inc"
    ;

// Beyond this number, a page draws no pieces and does not list ranks.
constexpr std::int64_t kMostPieces = 4096;
// The page shows the first ones of each kind.
constexpr std::size_t kMostListed = 2000;
// Columns of the curve of memory.
constexpr std::size_t kMostColumns = 360;

using Specs = std::map<std::string, const DTensorSpec*>;

void add(Specs& specs, const DTensorSpec* spec) {
  if (spec != nullptr) specs.emplace(type_string(*spec), spec);
}

Specs specs_of(const Run& run) {
  Specs specs;
  for (const TraceEvent& event : run.events) {
    if (event.kind == TraceEvent::Kind::kOp) {
      for (const DTensorSpec* spec : event.schema.tensor_specs()) add(specs, spec);
      for (const DTensorSpec* spec : event.decision->inputs) add(specs, spec);
      for (const DTensorSpec* spec : event.decision->outputs) add(specs, spec);
    } else if (event.kind == TraceEvent::Kind::kRedistribution) {
      add(specs, event.redistribution.source);
      add(specs, event.redistribution.target);
    }
  }
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

// One entry for each place along the mesh dims that cut, row-major: its runs [offset, size].
Json pieces_json(const DTensorSpec& spec, std::size_t tensor_dim,
                 const std::vector<std::size_t>& mesh_dims) {
  const MeshLayout& layout = *spec.layout();
  std::int64_t count = 1;
  for (const std::size_t mesh_dim : mesh_dims) count *= layout.size(mesh_dim);
  if (count > kMostPieces) return nullptr;
  Json pieces = Json::array();
  for (std::int64_t place = 0; place < count; ++place) {
    Coordinate coordinate = layout.coordinate_at_index(0);
    std::int64_t rest = place;
    for (auto mesh_dim = mesh_dims.rbegin(); mesh_dim != mesh_dims.rend(); ++mesh_dim) {
      coordinate[*mesh_dim] = rest % layout.size(*mesh_dim);
      rest /= layout.size(*mesh_dim);
    }
    Json runs = Json::array();
    const LocalView view = local_view(spec, coordinate);
    for (const IndexRun& run : view.dims[tensor_dim].runs) {
      runs.push_back({run.offset, run.size});
    }
    pieces.push_back(std::move(runs));
  }
  return pieces;
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
    json["cuts"].push_back({{"tensor_dim", dim},
                            {"mesh_dims", mesh_dims},
                            {"pieces", pieces_json(spec, dim, mesh_dims)}});
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
void shorten(Json& json, const char* key) {
  if (!json.contains(key) || !json[key].is_array() || json[key].size() <= kMostListed) return;
  Json& list = json[key];
  json["left_out"][key] = list.size() - kMostListed;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(kMostListed), list.end());
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
  for (const char* key : {"lines", "order", "printed", "values"}) shorten(json, key);
  json["memory"].erase("timeline");
  json["curve"] = timeline_json(fullest(result.run.memory_timeline, kMostColumns));
  json["types"] = Json::object();
  for (const auto& [type, spec] : specs_of(result.run)) json["types"][type] = holdings_json(*spec);
  json["source"] = result.run.scenario.program->source->text();
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
