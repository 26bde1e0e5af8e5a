// `shardlab blame`: what is said of the first thing that is wrong.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "sim/checkpoint/file_bytes.h"
#include "sim/cli/open_recording.h"
#include "sim/cli/run_arguments.h"
#include "sim/edit/blame.h"
#include "sim/files/json_value.h"
#include "sim/recording/recording.h"
#include "sim/replay/blame_recordings.h"
#include "sim/replay/replay.h"
#include "sim/replay/value_dump.h"
#include "sim/report/paint.h"
#include "sim/report/run_diff.h"
#include "sim/report/run_json.h"
#include "sim/verify/kept_value.h"

namespace shardlab {

namespace {

Json run_of(const std::string& file, const RunArguments& arguments) {
  if (!file.ends_with(".toml") && file.ends_with(".json")) {
    std::vector<Json> runs = read_runs(file);
    if (runs.size() == 1) return std::move(runs.front());
    fail(Fix{"give a file with one of them"}, "{}: {} runs, of which one is meant", file,
         runs.size());
  }
  const Scenario scenario = failing_point(scenario_files({file}).front(), arguments);
  ScenarioOptions options = options_of(arguments, scenario);
  options.keep_elements = kKeepAll;
  return parsed_json(run_json(run_scenario(scenario, all_ops(), options)));
}

std::string cause_text(const Json& value) {
  return fmt::format("{} [{}], line {}", value.at("cause").get<std::string>(),
                     value.at("cause_id").get<std::string>(), value.at("cause_line").dump());
}

// A value that has no outcome of its own: the cause of a later one that is made in its line.
std::string part_of_cause(const Json& run, const Json& value) {
  const std::string at = value.value("at", "");
  const std::string line = at.substr(0, at.rfind(':'));
  for (const Json& other : run.at("values")) {
    if (!other.contains("cause") || !line.ends_with(":" + other.at("cause_line").dump())) continue;
    return fmt::format("is part of the cause of {}: {}", other.at("name").get<std::string>(),
                       cause_text(other));
  }
  return "is part of the cause: " + value.value("reason", "");
}

// The word of one device on it.
std::string verdict_text(const Json& run, const Json& value) {
  const Json* own = same_value(run, value);
  if (own == nullptr) return "has none";
  if (own->value("row", "") == "C") return part_of_cause(run, *own);
  if (!own->contains("verdict")) return "is not verified";
  if (own->at("verdict") != "wrong") return "agrees with one device";
  return "is wrong: " + (own->contains("cause") ? cause_text(*own) : own->value("what", ""));
}

// The value of A, or of B, that a difference is about, in the order of the run.
struct DifferentValue {
  const Json* value = nullptr;
  std::string text;
};

std::vector<DifferentValue> different_values(const Json& a, const Json& b) {
  std::vector<DifferentValue> all;
  for (const Difference& one : diff_values(a, b).differences) {
    for (const Json* run : {&a, &b}) {
      const auto found = std::ranges::find(run->at("values"), one.about, about_value);
      if (found == run->at("values").end()) continue;
      all.push_back({&*found, one.text.substr(one.text.rfind('\n') + 1)});
      break;
    }
  }
  std::ranges::stable_sort(all, {}, [](const DifferentValue& one) {
    return integer_or<std::size_t>(*one.value, "event", 0);
  });
  return all;
}

std::string named(const Json& value) {
  const std::string name = value.at("name").get<std::string>();
  return value.contains("at") ? fmt::format("{} ({})", name, value["at"].get<std::string>()) : name;
}

// Each of `arguments.file` and `arguments.other` is the output of `run --json --values all`, or a
// scenario, which is run. Returns the exit code.
//   fails  Value: a file of several runs, or one that neither wrote
int blame_runs(const BlameArguments& arguments) {
  const Json a = run_of(arguments.file, arguments.run), b = run_of(arguments.other, arguments.run);
  const std::vector<DifferentValue> all = different_values(a, b);
  Json out = {{"ok", all.empty()}, {"differ", Json::array()}};
  for (const DifferentValue& one : all) {
    out["differ"].push_back({{"name", one.value->at("name")},
                             {"at", one.value->value("at", "")},
                             {"text", one.text},
                             {"a", verdict_text(a, *one.value)},
                             {"b", verdict_text(b, *one.value)}});
  }
  std::string text = fmt::format("A: {}, B: {}\n", arguments.file, arguments.other);
  if (all.empty()) {
    text += diff_values(a, b).text + ": no value differs\n";
  } else {
    const DifferentValue& first = all.front();
    text += fmt::format("{} is the first of {} values that differ\n  {}\n  A {}\n  B {}\n",
                        named(*first.value), all.size(), first.text, verdict_text(a, *first.value),
                        verdict_text(b, *first.value));
    for (std::size_t i = 1; i < all.size(); ++i) {
      text += fmt::format("  {} {}\n", i == 1 ? "then" : "    ", named(*all[i].value));
    }
  }
  print_text(arguments.run.common.json ? json_line(out) + "\n" : text);
  return all.empty() ? kFine : kFailed;
}

std::string later_text(const Blame& blame, bool follows) {
  std::string text;
  for (const LaterValue& value : blame.later) {
    if (value.follows != follows) continue;
    text += fmt::format("{}{} (line {})", text.empty() ? "" : ", ", value.name, value.line);
  }
  return text;
}

std::string trimmed_line(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return std::string(begin == std::string_view::npos ? "" : line.substr(begin));
}

std::string blame_text(const Blame& blame, Color color) {
  if (blame.failure.kind == Symptom::Kind::kNone) return blame.file + ": nothing is wrong\n";
  std::string out =
      fmt::format("{}: {}\n", paint(blame.file, Ink::kTitle, color), to_string(blame.failure));
  const auto row = [&](const char* name, const std::string& text) {
    if (!text.empty()) out += fmt::format("  {:<9}{}\n", name, text);
  };
  if (blame.line() > 0)
    row("line", fmt::format("{}: {}", blame.line(), trimmed_line(blame.line_text)));
  row("call", blame.producer);
  row("wrong", blame.what);
  row("held by", blame.held_by);
  row("cause", blame.failure.text);
  row("follows", later_text(blame, true));
  row("apart", later_text(blame, false));
  if (!blame.edits.empty()) {
    const ProvenEdit& edit = blame.edits.front();
    out += fmt::format("\n{}, line {}: with this edit {}\n", edit.what, edit.changes.front().line,
                       blame.next.empty() ? "nothing differs" : "another mistake remains");
    out += changes_text(edit.changes, color);
  }
  if (blame.edits.empty()) {
    out += fmt::format("\nnone of {} edits that were tried undoes it\n", blame.tried);
  }
  for (const Blame& next : blame.next) out += "\n" + blame_text(next, color);
  return out;
}

nlohmann::json json_of(const Blame& blame) {
  nlohmann::json out = {{"file", blame.file},
                        {"ok", blame.failure.kind == Symptom::Kind::kNone},
                        {"failure", to_string(blame.failure)},
                        {"tried", blame.tried},
                        {"edits", nlohmann::json::array()},
                        {"later", nlohmann::json::array()}};
  const auto put = [&](const char* key, const std::string& text) {
    if (!text.empty()) out[key] = text;
  };
  if (blame.line() > 0) out["line"] = blame.line();
  put("text", trimmed_line(blame.line_text));
  put("call", blame.producer);
  put("wrong", blame.what);
  put("held_by", blame.held_by);
  put("cause", blame.failure.text);
  put("cause_id", blame.failure.cause);
  for (const LaterValue& value : blame.later) {
    out["later"].push_back(
        {{"name", value.name}, {"line", value.line}, {"follows", value.follows}});
  }
  for (const ProvenEdit& edit : blame.edits) {
    nlohmann::json changes = nlohmann::json::array();
    for (const auto& [line, before, after] : edit.changes) {
      changes.push_back({{"line", line}, {"before", before}, {"after", after}});
    }
    out["edits"].push_back({{"what", edit.what}, {"changes", changes}});
  }
  for (const Blame& next : blame.next) out["next"] = json_of(next);
  return out;
}

// The first result of a recording that is not PyTorch's.
int blame_replay(const BlameArguments& arguments, const RecordedProgram& recording) {
  const ReplayReport replay = replay_recording(recording, replay_settings_of(arguments.run));
  if (arguments.run.common.json) {
    print_text(json_line(replay_json(recording, replay)) + "\n");
    return replay.ok() ? kFine : kFailed;
  }
  std::string out;
  if (!replay.differences.empty()) {
    out = text(replay.differences.front(), "the first that differs:");
    if (replay.differences.size() > 1) {
      out +=
          fmt::format("  then     {} more, of which each is more than the error of its operands\n",
                      replay.differences.size() - 1);
    }
  }
  for (const ReplayDifference& one : replay.reference) out += text(one, "PyTorch is wrong:");
  if (replay.failed) {
    out += fmt::format("the program failed when it was recorded: {}\n", recording.error);
  }
  if (out.empty()) {
    const bool values = !recording.shapes_only && !recording.exported;
    out = fmt::format("{}: nothing is wrong: {} results {}\n", recording.path,
                      values ? replay.agree : replay.unknown,
                      values ? "are PyTorch's" : "have PyTorch's shape and dtype");
  }
  print_text(out);
  return replay.ok() ? kFine : kFailed;
}

void check_values(const RecordedProgram& recording) {
  if (!recording.error.empty()) {
    fail(Fix{"mend the program and record it again"},
         "{}: the program failed when it was recorded: {}", recording.path, recording.error);
  }
  if (!recording.shapes_only && !recording.exported) return;
  fail(Fix{"record a step with its values: shardlab record train.py"},
       "{}: the file has no values to compare with", recording.path);
}

int compare_recordings(const BlameArguments& arguments) {
  const RecordedProgram a = read_recording(arguments.file, export_options(arguments.run));
  if (arguments.other.empty()) return blame_replay(arguments, a);
  check_values(a);
  RecordingBlame found;
  if (is_value_dump(arguments.other)) {
    found = blame_values(a, read_value_dump(arguments.other));
  } else if (is_recording_file(arguments.other)) {
    const RecordedProgram b = read_recording(arguments.other);
    check_values(b);
    found = blame_recordings(a, b);
  } else {
    FileBytes::open(arguments.other);  // one that cannot be read is told as such
    fail(Fix{"give a recording, or what shardlab_record.dump_values has written"},
         "{}: nothing that a recording is compared with", arguments.other);
  }
  if (!found.same_names) {
    fail(Fix{"record the same model, under the same names of modules"},
         "{} and {} have no value of the same name", arguments.file, arguments.other);
  }
  print_text(arguments.run.common.json
                 ? json_line(recording_blame_json(found)) + "\n"
                 : recording_blame_text(found, arguments.file, arguments.other));
  return found.found() ? kFailed : kFine;
}

}  // namespace

int blame_command(const BlameArguments& arguments) {
  const bool meshed = !arguments.run.mesh.empty() || !arguments.run.backward.empty();
  if (is_recording_file(arguments.file) && (!arguments.other.empty() || !meshed)) {
    return compare_recordings(arguments);
  }
  if (!arguments.other.empty()) return blame_runs(arguments);
  const std::string path = scenario_files({arguments.file}).front();
  if (!is_recording_file(path)) refuse_recording_options(path, arguments.run);
  const Scenario scenario = failing_point(path, arguments.run);
  const Blame found = blame(scenario, {.run = options_of(arguments.run, scenario)});
  print_text(arguments.run.common.json ? json_line(json_of(found)) + "\n"
                                       : blame_text(found, arguments.run.common.stdout_color()));
  return found.failure.kind == Symptom::Kind::kNone ? kFine : kFailed;
}

}  // namespace shardlab
