// Two runs are compared theme by theme. Lists of events are compared up to the first difference
// only: after it the two are out of step, and further differences would have no meaning. On meshes
// of different sizes, facts that depend on sizes are left out.
#include "sim/report/run_diff.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"

namespace shardlab {

namespace {

std::string text_of(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

std::vector<std::string> mesh_dims(const Json& run) {
  std::vector<std::string> names;
  for (const Json& dim : run.at("mesh_dims")) names.push_back(dim.at("name").get<std::string>());
  return names;
}

bool same_meshes(const Json& a, const Json& b) { return a.at("mesh") == b.at("mesh"); }

std::vector<std::string> differing_setup(const Json& a, const Json& b) {
  std::vector<std::string> texts;
  for (const char* key : {"title", "point", "mesh", "ranks", "backend", "scheduler", "seed"}) {
    if (a.at(key) == b.at(key)) continue;
    texts.push_back(fmt::format("{}: {} and {}", key, text_of(a[key]), text_of(b[key])));
  }
  if (other_products(a, b)) {
    texts.push_back(
        fmt::format("products: {} and {}", text_of(a.at("products")), text_of(b.at("products"))));
  }
  return texts;
}

// "ok", or the error, in one line.
std::string outcome_of(const Json& run) {
  if (run.contains("error")) {
    const auto text = run.at("error").at("text").get<std::string>();
    return fmt::format("{} error: {}", text_of(run.at("error").at("kind")),
                       text.substr(0, text.find('\n')));
  }
  if (run.contains("verdict")) return "verdict " + text_of(run.at("verdict"));
  return run.at("ok").get<bool>() ? "ok" : "an expectation or a value that fails";
}

// "rank 3: 0.5", or the text that all ranks print.
std::string printed_text(const Json& printed) {
  const std::string by = text_of(printed.at("by"));
  return (by == "all" ? "" : by + ": ") + text_of(printed.at("text"));
}

DiffSection diff_outcome(const Json& a, const Json& b) {
  DiffSection section{"outcome", outcome_of(a), {}};
  const std::size_t last = std::max(a.at("events").size(), b.at("events").size());
  if (outcome_of(a) != outcome_of(b)) {
    section.text = "not the same";
    section.differences.push_back(
        {"outcome", fmt::format("A ends with {}\nB ends with {}", outcome_of(a), outcome_of(b)),
         last});
  }
  if (other_products(a, b)) return section;
  const Json &lines_a = a.at("printed"), &lines_b = b.at("printed");
  for (std::size_t i = 0; i < std::max(lines_a.size(), lines_b.size()); ++i) {
    const std::string line_a = i < lines_a.size() ? printed_text(lines_a[i]) : "nothing";
    const std::string line_b = i < lines_b.size() ? printed_text(lines_b[i]) : "nothing";
    if (line_a == line_b) continue;
    section.text = "not the same";
    section.differences.push_back({fmt::format("printed line {}", i + 1),
                                   fmt::format("A prints  {}\nB prints  {}", line_a, line_b),
                                   last});
    break;
  }
  return section;
}

// The events of one kind, each with its place among all. Ops on plain tensors are no decisions.
std::vector<std::pair<std::size_t, const Json*>> events_of(const Json& run, bool collectives) {
  std::vector<std::pair<std::size_t, const Json*>> events;
  for (std::size_t i = 0; i < run.at("events").size(); ++i) {
    const Json& event = run.at("events")[i];
    if (event.contains("local_op")) continue;
    if (event.contains("collective") == collectives) events.emplace_back(i, &event);
  }
  return events;
}

std::string place(const Json& event) {
  return fmt::format("line {}, {}", integer_or<std::int64_t>(event, "line", 0),
                     event.value("pass", ""));
}

std::string joined(const Json& texts) {
  std::string out;
  for (const Json& text : texts) out += (out.empty() ? "" : ", ") + text_of(text);
  return out;
}

std::string event_text(const Json& event) {
  if (event.contains("op")) {
    return fmt::format("{}  {}  of {}", text_of(event.at("op")), text_of(event.at("row")),
                       joined(event.at("given")));
  }
  const Json& move = event.at("redistribute");
  return fmt::format("redistribute {} to {} by {}", text_of(move.at("source")),
                     text_of(move.at("target")), text_of(move.value("plan", Json("no plan"))));
}

// The reason why two decisions at one place may differ, in words.
std::string reason(const Json& a, const Json& b, bool meshes_equal) {
  if (a.contains("op") != b.contains("op") || a.value("op", "") != b.value("op", "")) {
    return "from here on the runs do not do the same";
  }
  if (!a.contains("op")) {
    const bool same = a.at("redistribute").at("source") == b.at("redistribute").at("source") &&
                      a.at("redistribute").at("target") == b.at("redistribute").at("target");
    return same ? "the same move is planned by other steps" : "what moves is not the same";
  }
  if (a.at("given") != b.at("given")) return "its tensors had other types or placements already";
  return meshes_equal
             ? "the same call on the same mesh: the rules or prices of the two builds differ"
             : "the same call: on meshes of other sizes, moving its inputs has other prices";
}

DiffSection diff_decisions(const Json& a, const Json& b) {
  DiffSection section{"decisions", {}, {}};
  if (mesh_dims(a) != mesh_dims(b)) {
    section.compared = false;
    section.text = fmt::format("not compared: the mesh dims have other names, {} and {}",
                               text_of(a.at("mesh")), text_of(b.at("mesh")));
    return section;
  }
  const auto ours = events_of(a, false), theirs = events_of(b, false);
  const std::size_t common = std::min(ours.size(), theirs.size());
  std::size_t i = 0;
  // After the first difference the lists are out of step, so it is the only one reported.
  while (i < common && *ours[i].second == *theirs[i].second) ++i;
  section.text = fmt::format("{} compared, all equal", i);
  if (i == ours.size() && i == theirs.size()) return section;
  section.text = fmt::format("{}, of {} in A and {} in B",
                             i == 0 ? "none is equal" : fmt::format("the first {} are equal", i),
                             ours.size(), theirs.size());
  if (i == common) {
    const bool more = ours.size() > theirs.size();
    const auto& [event, next] = more ? ours[i] : theirs[i];
    section.differences.push_back(
        {fmt::format("decision {}", i + 1),
         fmt::format("{} continues where {} has ended, at {}\n{}", more ? "A" : "B",
                     more ? "B" : "A", place(*next), event_text(*next)),
         event});
    return section;
  }
  const Json &in_a = *ours[i].second, &in_b = *theirs[i].second;
  section.differences.push_back(
      {fmt::format("decision {}", i + 1),
       fmt::format("A, {}: {}\nB, {}: {}\n{}", place(in_a), event_text(in_a), place(in_b),
                   event_text(in_b), reason(in_a, in_b, same_meshes(a, b))),
       std::min(ours[i].first, theirs[i].first)});
  return section;
}

// The parts of a collective that must agree on these meshes.
Json comparable(const Json& event, bool meshes_equal) {
  Json kept = event;
  if (!meshes_equal) {
    for (const char* key : {"ranks", "input_shape", "sent_bytes"}) kept["collective"].erase(key);
  }
  return kept;
}

std::string collective_text(const Json& event) {
  const Json& c = event.at("collective");
  return fmt::format("{}: {} over {}, {} ranks, {} of shape {}", place(event),
                     text_of(c.at("kind")), text_of(c.at("group")), text_of(c.at("ranks")),
                     text_of(c.at("dtype")), c.at("input_shape").dump());
}

DiffSection diff_collectives(const Json& a, const Json& b) {
  DiffSection section{"collectives", {}, {}};
  if (mesh_dims(a) != mesh_dims(b)) {
    section.compared = false;
    section.text = "not compared: the mesh dims have other names";
    return section;
  }
  const bool equal_meshes = same_meshes(a, b);
  const auto ours = events_of(a, true), theirs = events_of(b, true);
  const std::size_t most = std::max(ours.size(), theirs.size());
  std::size_t i = 0;
  while (i < std::min(ours.size(), theirs.size()) &&
         comparable(*ours[i].second, equal_meshes) == comparable(*theirs[i].second, equal_meshes))
    ++i;
  section.text = fmt::format("{} compared, all equal{}", i,
                             equal_meshes ? "" : " but for sizes, which the meshes set");
  if (i == most) return section;
  section.text = fmt::format("{}, of {} in A and {} in B",
                             i == 0 ? "none is equal" : fmt::format("the first {} are equal", i),
                             ours.size(), theirs.size());
  const auto text_of_last = [&](const auto& events) {
    return i < events.size() ? collective_text(*events[i].second) : std::string("none");
  };
  section.differences.push_back(
      {fmt::format("collective {}", i + 1),
       fmt::format("A, {}\nB, {}", text_of_last(ours), text_of_last(theirs)),
       std::min(i < ours.size() ? ours[i].first : a.at("events").size(),
                i < theirs.size() ? theirs[i].first : b.at("events").size())});
  return section;
}

double predicted_us(const Json& run) {
  double sum = 0;
  for (const Json& group : run.at("collectives").at("by_group")) {
    const Json& us = group.at("predicted_us");
    if (us.is_number()) sum += us.get<double>();
  }
  return sum;
}

DiffSection diff_times(const Json& a, const Json& b) {
  const double us_a = predicted_us(a), us_b = predicted_us(b);
  const double bytes_a = a.at("collectives").at("sent_bytes"),
               bytes_b = b.at("collectives").at("sent_bytes");
  DiffSection section{"times", {}, {}};
  section.text =
      us_a == us_b && bytes_a == bytes_b
          ? fmt::format("{:.4g} us predicted, {:.0f} bytes sent per rank in both", us_a, bytes_a)
          : fmt::format("{:.4g} and {:.4g} us predicted, {:.0f} and {:.0f} bytes sent per rank",
                        us_a, us_b, bytes_a, bytes_b);
  if (same_meshes(a, b) && (us_a != us_b || bytes_a != bytes_b)) {
    section.differences.push_back({"times", section.text, a.at("events").size()});
  }
  return section;
}

const char* const kMakeRuns = "make it with shardlab run --json --values all SCENARIO.toml";

}  // namespace

std::vector<Json> read_runs(const std::string& path) {
  std::vector<Json> runs;
  std::size_t number = 0;
  for (const std::string& text : read_lines(path)) {
    ++number;
    if (text.empty()) continue;
    Json run = read_json(text);
    const bool output = run.is_object() && run.contains("events") && run.contains("values");
    if (!output) {
      fail(Fix{kMakeRuns}, "{}:{}: this is not output of shardlab run --json", path, number);
    }
    if (run.contains("lost")) {
      fail(Fix{"start that job again"},
           "{}:{}: ranks were lost in this run, which says nothing about its program: {}", path,
           number, run.at("lost").dump());
    }
    runs.push_back(std::move(run));
  }
  if (runs.empty()) {
    fail(Fix{kMakeRuns}, "{}: the file has no runs", path);
  }
  return runs;
}

RunDiff diff_run(const Json& a, const Json& b) {
  RunDiff diff;
  diff.title = a.at("title").get<std::string>();
  if (const auto point = a.at("point").get<std::string>(); !point.empty()) {
    diff.title += " [" + point + "]";
  }
  diff.setup = differing_setup(a, b);
  diff.sections = {diff_outcome(a, b), diff_decisions(a, b), diff_collectives(a, b),
                   diff_values(a, b), diff_times(a, b)};
  return diff;
}

std::vector<RunDiff> diff_runs(const std::string& a, const std::string& b) {
  const std::vector<Json> ours = read_runs(a), theirs = read_runs(b);
  std::vector<RunDiff> diffs;
  for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    try {
      diffs.push_back(diff_run(ours[i], theirs[i]));
    } catch (const Json::exception& error) {
      fail(Fix{kMakeRuns}, "{0}:{2} and {1}:{2}: one is not output of shardlab run --json: {3}", a,
           b, i + 1, error.what());
    }
  }
  if (ours.size() != theirs.size()) {
    const std::string text = fmt::format("A has {} runs, B has {}", ours.size(), theirs.size());
    diffs.push_back({"all runs", {}, {{"outcome", "not the same", {{"runs", text, 0}}}}});
  }
  return diffs;
}

}  // namespace shardlab
