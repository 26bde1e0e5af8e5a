// Lines are matched by their text, since their numbers move when a program is edited.
#include "sim/report/run_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "sim/files/json_value.h"
#include "sim/report/overview_text.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostGrown = 5;

double bytes_of_run(const Json& run) { return number_of(run.at("collectives").at("sent_bytes")); }
double peak_of_run(const Json& run) { return number_of(run.at("memory").at("logical_rank_bytes")); }
double count_of_run(const Json& run) {
  double count = 0;
  for (const auto& [kind, passes] : run.at("collectives").at("largest_rank").items()) {
    for (const auto& [pass, number] : passes.items()) count += number_of(number);
  }
  return count;
}
double time_of_run(const Json& run) {
  double time = 0;
  for (const Json& group : run.at("collectives").at("by_group")) {
    time += number_of(group.at("predicted_us"));
  }
  return time;
}

std::string plain_text(double number) { return fmt::format("{:.6g}", number); }

struct FigureKind {
  std::string_view name;
  double (*of_run)(const Json&);
  const char* of_line;  // the key of a line's collectives that adds up to it
  std::string (*text)(double);
};

constexpr FigureKind kKinds[] = {
    {"bytes", bytes_of_run, "sent_bytes", bytes_text},
    {"peak", peak_of_run, nullptr, bytes_text},
    {"collectives", count_of_run, "times", plain_text},
    {"time", time_of_run, "predicted_us", time_text},
};

const FigureKind& kind_of(const std::string& figure) {
  const auto found = std::ranges::find(kKinds, figure, &FigureKind::name);
  if (found == std::end(kKinds)) {
    fail(Fix{"--gate bytes=+5%,peak=+5%; there are collectives and time, too"},
         "--gate: no figure is called '{}'", figure);
  }
  return *found;
}

Gate parse_gate(const std::string& text) {
  const std::size_t sign = text.find('=');
  Gate gate{.figure = text.substr(0, sign)};
  kind_of(gate.figure);
  if (sign == std::string::npos) return gate;
  const std::size_t from = text.find_first_not_of('+', sign + 1);
  const char* end = text.data() + text.size();
  double number = -1;
  const auto read = from == std::string::npos
                        ? std::from_chars_result{end, std::errc::invalid_argument}
                        : std::from_chars(text.data() + from, end, number);
  const std::string unit(read.ptr, end);
  static const std::map<std::string, double> kUnits = {
      {"%", 0.01}, {"", 1}, {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
  const auto scale = kUnits.find(unit);
  if (read.ec != std::errc() || !(number >= 0) || scale == kUnits.end()) {
    fail(Fix{"a share or a number: --gate " + gate.figure + "=+5%"},
         "--gate: '{}' has no allowed growth", text);
  }
  (unit == "%" ? gate.share : gate.absolute) = number * scale->second;
  return gate;
}

std::string named_by(const Json& run, const char* key) {
  const std::string point = run.at("point").get<std::string>();
  return run.at(key).get<std::string>() + (point.empty() ? "" : " [" + point + "]");
}

std::string title_of(const Json& run) {
  return named_by(run, run.at("title").get<std::string>().empty() ? "file" : "title");
}

// Finds the run with this name. Null if there is none.
const Json* find_run(const std::vector<Json>& runs, const char* key, const std::string& name) {
  const Json* found = nullptr;
  for (const Json& run : runs) {
    if (named_by(run, key) != name) continue;
    if (found != nullptr && std::string_view(key) == "file") {
      fail(Fix{"keep one: which of them is meant cannot be said"}, "--gate: two runs are of {}",
           name);
    }
    if (found != nullptr) return nullptr;
    found = &run;
  }
  return found;
}

// The run of the same file and point; a file that was moved is known by its title, if only one run
// of each list has it.
const Json* counterpart(const Json& run, const std::vector<Json>& own,
                        const std::vector<Json>& others) {
  if (const Json* same = find_run(others, "file", named_by(run, "file"))) return same;
  const std::string title = named_by(run, "title");
  if (run.at("title").get<std::string>().empty() || find_run(own, "title", title) == nullptr) {
    return nullptr;
  }
  const Json* moved = find_run(others, "title", title);
  if (moved == nullptr || find_run(own, "file", named_by(*moved, "file"))) return nullptr;
  return moved;
}

struct LineFigure {
  std::int64_t line = 0;
  double figure = 0;
};

// Adds up figures by the text of the line.
std::map<std::string, LineFigure> figures_by_line(const Json& run, const char* key) {
  std::map<std::string, LineFigure> lines;
  for (const Json& line : run.at("lines")) {
    LineFigure& own = lines[line.at("source").get<std::string>()];
    own.line = integer_of<std::int64_t>(line.at("line"));
    for (const Json& one : line.at("collectives")) own.figure += number_of(one.at(key));
  }
  return lines;
}

std::vector<std::string> grown_lines(const FigureKind& kind, const Json& stored,
                                     const Json& found) {
  const auto before = figures_by_line(stored, kind.of_line);
  std::vector<std::pair<double, std::string>> grown;
  for (const auto& [source, now] : figures_by_line(found, kind.of_line)) {
    const auto known = before.find(source);
    const double was = known == before.end() ? 0 : known->second.figure;
    if (now.figure <= was) continue;
    grown.emplace_back(was - now.figure, fmt::format("line {}  {}  {} -> {}", now.line, source,
                                                     kind.text(was), kind.text(now.figure)));
  }
  std::ranges::sort(grown);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(grown.size(), kMostGrown); ++i) {
    texts.push_back(std::move(grown[i].second));
  }
  return texts;
}

// The line of the peak, and the purposes that hold more there.
std::vector<std::string> grown_peak(const Json& stored, const Json& found) {
  const Json none = Json::object();
  const Json& was = stored.at("memory").contains("peak") ? stored["memory"]["peak"] : none;
  const Json& now = found.at("memory").contains("peak") ? found["memory"]["peak"] : none;
  std::string at;
  for (const Json& line : found.at("lines")) {
    if (line.at("line") != now.value("line", Json())) continue;
    at = fmt::format("line {}  {}  ", line["line"].dump(), line.at("source").get<std::string>());
  }
  std::string purposes;
  for (const auto& [purpose, bytes] : now.items()) {
    if (purpose == "bytes" || purpose == "line" || purpose == "pass") continue;
    const double before = number_of(was.value(purpose, Json(0)));
    if (number_of(bytes) <= before) continue;
    purposes += fmt::format("{}{} {} -> {}", purposes.empty() ? "" : ", ", purpose,
                            bytes_text(before), bytes_text(number_of(bytes)));
  }
  return {at + purposes};
}

GatedFigure gated(const Gate& gate, const Json& stored, const Json& found) {
  const FigureKind& kind = kind_of(gate.figure);
  GatedFigure figure{.gate = gate, .stored = kind.of_run(stored), .found = kind.of_run(found)};
  if (figure.met()) return figure;
  figure.grown =
      kind.of_line == nullptr ? grown_peak(stored, found) : grown_lines(kind, stored, found);
  return figure;
}

std::string allowed_text(const Gate& gate) {
  if (gate.share > 0) return fmt::format("+{:.4g} %", 100 * gate.share);
  return "+" + kind_of(gate.figure).text(gate.absolute);
}

std::string figure_text(const GatedFigure& figure) {
  const FigureKind& kind = kind_of(figure.gate.figure);
  std::string change;
  if (figure.stored > 0 && figure.found != figure.stored) {
    change = fmt::format(", {:+.3g} %", 100 * (figure.found / figure.stored - 1));
  }
  std::string text = fmt::format(
      "  {:4}  {:11}  {} -> {}{}; allowed {}\n", figure.met() ? "met" : "OVER", figure.gate.figure,
      kind.text(figure.stored), kind.text(figure.found), change, allowed_text(figure.gate));
  for (const std::string& line : figure.grown) text += "        " + line + "\n";
  return text;
}

}  // namespace

bool GatedFigure::met() const {
  // Products of decimal shares are off in the last digits.
  return found <= stored + std::max(gate.share * stored, gate.absolute) + 1e-9 * std::fabs(stored);
}

bool GatedRun::met() const {
  return what.empty() && std::ranges::all_of(figures, &GatedFigure::met);
}

std::vector<Gate> parse_gates(const std::string& text) {
  std::vector<Gate> gates;
  for (const std::string_view gate : parts_of_text(text, ",")) {
    gates.push_back(parse_gate(std::string(gate)));
  }
  return gates;
}

namespace {

// ": error: ...", of one line.
std::string reason_of(const Json& run) {
  if (run.contains("error")) {
    const std::string text = run.at("error").at("text").get<std::string>();
    return ": " + text.substr(0, text.find('\n'));
  }
  for (const Json& one : run.at("expectations")) {
    if (one.at("met").get<bool>()) continue;
    return fmt::format(": expected {} {}", one.at("what").get<std::string>(),
                       one.at("text").get<std::string>());
  }
  const auto wrong = [](const Json& value) {
    return value.contains("outcome") && value.at("outcome") == "outcome.wrong";
  };
  const Json& values = run.at("values");
  const auto first = std::ranges::find_if(values, wrong);
  return first == values.end() ? "" : ": " + first->at("name").get<std::string>() + " is wrong";
}

}  // namespace

std::vector<GatedRun> gate_runs(const std::vector<Json>& stored, const std::vector<Json>& found,
                                const std::vector<Gate>& gates) {
  for (const auto* runs : {&stored, &found}) {
    for (const Json& run : *runs) find_run(*runs, "file", named_by(run, "file"));
  }
  std::vector<GatedRun> result;
  for (const Json& was : stored) {
    GatedRun& run = result.emplace_back(GatedRun{.title = title_of(was)});
    const Json* now = counterpart(was, stored, found);
    if (now == nullptr) {
      run.what = "is gone";
    } else if (!now->at("ok").get<bool>()) {
      run.what = "failed" + reason_of(*now);
    } else if (!was.at("ok").get<bool>()) {
      run.what = "failed in the stored file" + reason_of(was);
    } else {
      for (const Gate& gate : gates) run.figures.push_back(gated(gate, was, *now));
    }
  }
  for (const Json& now : found) {
    if (counterpart(now, found, stored) == nullptr) result.push_back({.title = title_of(now)});
  }
  return result;
}

std::string gate_text(const std::vector<GatedRun>& runs) {
  std::string text;
  std::size_t over = 0, without_figures = 0;
  for (const GatedRun& run : runs) {
    const bool is_new = run.what.empty() && run.figures.empty();
    text += run.title + (is_new ? ": new, not held to anything" : "") +
            (run.what.empty() ? "" : ": " + run.what) + "\n";
    for (const GatedFigure& figure : run.figures) text += figure_text(figure);
    (run.what.empty() ? over : without_figures) += run.met() ? 0 : 1;
  }
  text += fmt::format("{}, {} over", counted(std::ssize(runs), "run"), over);
  return text +
         (without_figures == 0 ? "\n" : fmt::format(", {} failed or gone\n", without_figures));
}

std::string gate_json(const std::vector<GatedRun>& runs) {
  Json out = {{"ok", std::ranges::all_of(runs, &GatedRun::met)}, {"runs", Json::array()}};
  for (const GatedRun& run : runs) {
    Json one = {{"title", run.title}, {"ok", run.met()}, {"figures", Json::array()}};
    if (!run.what.empty()) one["what"] = run.what;
    for (const GatedFigure& figure : run.figures) {
      one["figures"].push_back({{"name", figure.gate.figure},
                                {"stored", json_number(figure.stored)},
                                {"found", json_number(figure.found)},
                                {"ok", figure.met()},
                                {"grown", figure.grown}});
    }
    out["runs"].push_back(std::move(one));
  }
  return json_line(out);
}

}  // namespace shardlab
