// One value is shown, the first that is wrong; the others by name.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "sim/files/json_value.h"
#include "sim/replay/blame_recordings.h"

namespace shardlab {

namespace {

std::string named(const ComparedPoint& point) {
  if (point.place.empty()) return point.name.empty() ? "the model" : point.name;
  const bool has_name = point.place.find(point.name) != std::string::npos;
  return has_name ? point.place : point.name + "  " + point.place;
}

std::string later_of(const RecordingBlame& blame, bool follows) {
  constexpr std::size_t kMostNames = 6;
  std::vector<std::string> names;
  std::size_t more = 0;
  for (std::size_t i = 0; i < blame.wrong.size(); ++i) {
    const BlamedValue& one = blame.wrong[i];
    const bool first = &one == &blame.wrong[0];
    if (first || one.follows != follows) continue;
    const std::string name = one.point.name.empty() ? named(one.point) : one.point.name;
    if (std::ranges::find(names, name) != names.end()) continue;
    names.size() < kMostNames ? names.push_back(name) : void(++more);
  }
  std::string text = text_of_list(names, ", ");
  if (more > 0) text += fmt::format(" and {} more", more);
  return text;
}

}  // namespace

std::string recording_blame_text(const RecordingBlame& blame, const std::string& a,
                                 const std::string& b) {
  std::string text = fmt::format("A: {}, B: {}\n", a, b);
  if (!blame.found()) {
    text += fmt::format("ok: {} values of B are A's, up to rounding\n",
                        blame.compared - blame.on_the_way);
    if (blame.on_the_way == 0) return text;
    const bool one = blame.on_the_way == 1;
    return text + fmt::format(
                      "{} value{} on the way {} computed in another way: loss, gradients "
                      "and parameters after the step are A's\n",
                      blame.on_the_way, one ? "" : "s", one ? "is" : "are");
  }
  for (const ReplayDifference& one : blame.types) {
    text += fmt::format("{}: {} claims {}, and {}\n", one.place, one.op, one.expected, one.got);
  }
  if (blame.wrong.empty()) return text;
  const BlamedValue& first = blame.wrong.front();
  const ComparedPoint& point = first.point;
  text += fmt::format("{}: the first of {} values that are not A's, of {}\n", named(point),
                      blame.wrong.size(), blame.compared);
  const auto row = [&](const char* name, const std::string& what) {
    if (!what.empty()) text += fmt::format("  {:<9}{}\n", name, what);
  };
  row("value", point.kind == PointKind::kFlow     ? "a gradient on its way back"
               : point.kind == PointKind::kResult ? ""
                                                  : point.name);
  row("call", point.op);
  row("placed", point.held_as);
  row("wrong", first.what);
  row("ranks", ranks_text(point.ranks));
  row("through", text_of_list(first.through, ", "));
  row("follows", later_of(blame, true));
  row("apart", later_of(blame, false));
  for (const RecordingEdit& edit : blame.edits) {
    const bool leaves_out = edit.text.starts_with("without ");
    text += fmt::format("\nwith this edit nothing differs:\n  {}{}\n", leaves_out ? "" : "+ ",
                        edit.text);
  }
  if (blame.edits.empty() && blame.tried > 0) {
    text += fmt::format("\nnone of {} edits that were tried undoes it\n", blame.tried);
  }
  return text;
}

Json recording_blame_json(const RecordingBlame& blame) {
  Json out = {{"ok", !blame.found()},           {"compared", blame.compared},
              {"on_the_way", blame.on_the_way}, {"tried", blame.tried},
              {"wrong", Json::array()},         {"edits", Json::array()}};
  for (const BlamedValue& one : blame.wrong) {
    out["wrong"].push_back({{"name", one.point.name},
                            {"place", one.point.place},
                            {"op", one.point.op},
                            {"event", one.point.line},
                            {"ranks", one.point.ranks},
                            {"what", one.what},
                            {"through", one.through},
                            {"follows", one.follows}});
  }
  for (const RecordingEdit& edit : blame.edits) out["edits"].push_back(edit.text);
  for (const ReplayDifference& one : blame.types) {
    out["types"].push_back({{"place", one.place},
                            {"op", one.op},
                            {"event", one.line},
                            {"expected", one.expected},
                            {"got", one.got}});
  }
  return out;
}

}  // namespace shardlab
