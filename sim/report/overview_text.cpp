// The order is laid out as flowing text: a line of the program is a cell, and a repeated body that
// fits on a line is one, too. Bodies that do not fit, and changes of pass, begin a new line.
#include "sim/report/overview_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "base/text.h"
#include "sim/language/syntax/characters.h"
#include "sim/report/collective_sums.h"
#include "sim/report/outcome_text.h"
#include "sim/report/repeats.h"

namespace shardlab {

namespace {

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, starts_character));
}

struct OrderText {
  std::string build() {
    std::vector<int> kinds;
    for (const LineVisit& visit : visits_) kinds.push_back(visit.kind);
    show(folded(kinds), 2);
    end_line();
    return std::move(out_);
  }

  // "all_reduce tp 64 B", "all_gather dp 8 B implicit".
  std::string move_text(std::size_t event) const {
    const CollectiveRecord& record = run_.events[event].collective;
    const bool implicit = origins_[event].origin == Origin::kImplicit;
    return fmt::format("{} {} {}{}{}", to_string(record.kind), record.group.name,
                       bytes_text(record.sent_bytes), implicit ? " implicit" : "",
                       run_.events[event].completed ? "" : kNeverCompleted);
  }

  // "64", "80 all_reduce tp 64 B x 3 + all_reduce dp 4 B".
  std::string cell(const LineVisit& visit) const {
    std::vector<std::string> moves;
    std::vector<int> kinds;
    for (std::size_t i = visit.begin; i < visit.end; ++i) {
      if (run_.events[i].kind != TraceEvent::Kind::kCollective) continue;
      moves.push_back(move_text(i));
      kinds.push_back(static_cast<int>(std::ranges::find(moves, moves.back()) - moves.begin()));
    }
    const std::string number = visit.line > 0 ? std::to_string(visit.line) : "-";
    return moves.empty() ? number : number + " " + moves_text(moves, folded(kinds));
  }

  static std::string moves_text(const std::vector<std::string>& moves,
                                const std::vector<Repeat>& repeats) {
    std::string text;
    for (const Repeat& repeat : repeats) {
      text += text.empty() ? "" : " + ";
      if (repeat.parts.empty()) {
        text += moves[repeat.first];
        continue;
      }
      const std::string inner = moves_text(moves, repeat.parts);
      text += fmt::format("{} x {}", repeat.parts.size() == 1 ? inner : "(" + inner + ")",
                          repeat.times);
    }
    return text;
  }

  // The text if it fits on one line; empty: it does not, or it has both passes.
  std::string inline_text(const Repeat& repeat) const {
    if (repeat.parts.empty()) return cell(visits_[repeat.first]);
    std::string text;
    for (const Repeat& part : repeat.parts) {
      const std::string one = inline_text(part);
      if (one.empty() || passes_differ(repeat)) return "";
      text += (text.empty() ? "" : ", ") + one;
      if (text.size() > kLongestCell) return "";
    }
    const bool alone = repeat.parts.size() == 1 && text.find(' ') == std::string::npos;
    return fmt::format("{} x {}", alone ? text : "(" + text + ")", repeat.times);
  }

  bool passes_differ(const Repeat& repeat) const {
    return std::ranges::any_of(repeat.parts, [&](const Repeat& part) {
      return visits_[part.first].pass != visits_[repeat.first].pass || passes_differ(part);
    });
  }

  // Behind the lines from here on that are one below the other, in this order or the other one, and
  // send nothing.
  std::size_t end_of_row(const std::vector<Repeat>& parts, std::size_t from) const {
    const LineVisit& first = visits_[parts[from].first];
    const auto sends = [&](const LineVisit& visit) {
      return std::any_of(
          run_.events.begin() + static_cast<std::ptrdiff_t>(visit.begin),
          run_.events.begin() + static_cast<std::ptrdiff_t>(visit.end),
          [](const TraceEvent& event) { return event.kind == TraceEvent::Kind::kCollective; });
    };
    const int step = first.pass == Pass::kForward ? 1 : -1;
    std::size_t end = from;
    for (int line = first.line; end < parts.size(); ++end, line += step) {
      const LineVisit& visit = visits_[parts[end].first];
      const bool next = parts[end].parts.empty() && visit.pass == first.pass && visit.line == line;
      if (!next || sends(visit)) break;
    }
    return end;
  }

  void show(const std::vector<Repeat>& parts, std::size_t indent) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Repeat& part = parts[i];
      if (const std::size_t end = end_of_row(parts, i); end >= i + kLeastRow) {
        enter(visits_[part.first].pass, indent);
        add(fmt::format("{} to {}", visits_[part.first].line, visits_[parts[end - 1].first].line),
            indent);
        i = end - 1;
        continue;
      }
      if (const std::string text = inline_text(part); !text.empty()) {
        enter(visits_[part.first].pass, indent);
        add(text, indent);
        continue;
      }
      end_line();
      const bool both = passes_differ(part);
      if (!both) enter(visits_[part.first].pass, indent);
      out_ += fmt::format("{:{}}{} times:\n", "", both ? indent : indent + 2, part.times);
      if (both) pass_ = kNeither;
      show(part.parts, indent + 2);
      end_line();
      if (both) pass_ = kNeither;
    }
  }

  void enter(Pass pass, std::size_t indent) {
    if (pass_ == static_cast<int>(pass)) return;
    end_line();
    pass_ = static_cast<int>(pass);
    out_ += fmt::format("{:{}}{}\n", "", indent, pass == Pass::kForward ? "forward" : "backward");
  }

  void add(const std::string& text, std::size_t indent) {
    const bool fits = !line_.empty() && line_.size() + text.size() + 3 <= width_;
    if (fits) {
      line_ += ", " + text;
      return;
    }
    if (!line_.empty()) {
      line_ += ",";
      end_line();
    }
    line_ = std::string(indent + 2, ' ') + text;
    // A line of the program that sends much: its next collectives are on a line of their own.
    while (line_.size() >= width_) {
      const std::size_t plus = line_.rfind(" + ", width_ - 3);
      if (plus == std::string::npos || plus < indent + 4) return;
      out_ += line_.substr(0, plus + 2) + "\n";
      line_ = std::string(indent + 6, ' ') + line_.substr(plus + 3);
    }
  }

  void end_line() {
    if (!line_.empty()) out_ += line_ + "\n";
    line_.clear();
  }

  static constexpr std::size_t kLongestCell = 60;
  static constexpr std::size_t kLeastRow = 12;  // of lines that are one cell
  static constexpr int kNeither = -1;

  const Run& run_;
  const std::vector<LineVisit>& visits_;
  const std::size_t width_;
  const std::vector<CollectiveOrigin> origins_ = collective_origins(run_.events);
  int pass_ = kNeither;  // named by the last title
  std::string line_, out_;
};

constexpr std::size_t kNumberWidth = 7;    // of the number of a line, with the space after it
constexpr std::size_t kVerdictWidth = 14;  // with the space before it
constexpr std::size_t kLeastSource = 22;   // of a source line with its types on the same row
constexpr std::size_t kLeastTight = 12;    // the same in a tight table

std::string joined_types(const std::vector<std::string>& types) {
  constexpr std::size_t kMost = 3;
  if (types.size() <= kMost) return text_of_list(types, ", ");
  return fmt::format("{}, and {} more types", text_of_list(std::span(types).first(kMost - 1), ", "),
                     types.size() - kMost + 1);
}

// "f32[16@tp, 16], f32[4@dp, 8, 16] -> f32[4@dp, 8, 16@tp]".
std::string types_text(const LineReport& report) {
  const std::string inputs = joined_types(report.inputs), outputs = joined_types(report.outputs);
  std::string text = inputs.empty() ? outputs : inputs + " -> " + outputs;
  if (report.kinds > 1) text += fmt::format("  ({} ways)", report.kinds);
  return text;
}

constexpr std::string_view kLocal = "local ";

bool all_local(const LineReport& report) {
  const auto local = [](const std::string& op) { return op.starts_with(kLocal); };
  return !report.ops.empty() && std::ranges::all_of(report.ops, local);
}

// "t, mm"; "local t, mm" if all ops are on plain tensors.
std::string ops_text(const LineReport& report) {
  if (!all_local(report)) return text_of_list(report.ops, ", ");
  std::string text;
  for (const std::string& op : report.ops) {
    text += (text.empty() ? std::string(kLocal) : ", ") + op.substr(kLocal.size());
  }
  return text;
}

// A table of more than a screen is tight: a row for each line and each of its collectives, and one
// row for consecutive lines that send nothing, multiply nothing and are verified.
class LineTable {
 public:
  LineTable(const Run& run, const std::vector<LineReport>& lines, bool tight, Color color,
            std::size_t width)
      : run_(run), tight_(tight), color_(color), width_(width) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::size_t quiet = i;
      while (tight && quiet < lines.size() && is_quiet(lines[quiet])) ++quiet;
      if (quiet - i >= kLeastFolded) {
        show_quiet(std::span(lines).subspan(i, quiet - i));
        i = quiet - 1;
      } else if (!begins_backward(lines[i])) {
        show(lines[i]);
      }
    }
  }
  std::string text() && { return std::move(out_); }

 private:
  // Backward begins with a tensor of ones on the line that asks for it.
  static bool begins_backward(const LineReport& report) {
    return report.forward == 0 && report.moves.empty() && report.values.empty();
  }

  bool is_quiet(const LineReport& report) const {
    if (!report.moves.empty() || report.forward_flops > 0) return false;
    const std::string verdict = worst_verdict(run_, report.values);
    return verdict.empty() || verdict == kEqual || verdict == kRounding;
  }

  void show_quiet(std::span<const LineReport> lines) {
    std::vector<std::string> types;
    std::vector<const ValueReport*> values;
    for (const LineReport& report : lines) {
      values.insert(values.end(), report.values.begin(), report.values.end());
      for (const std::string& type : report.outputs) {
        if (std::ranges::find(types, type) == types.end()) types.push_back(type);
      }
    }
    const std::string number = fmt::format("{} to {}", lines.front().line, lines.back().line);
    const std::string what = fmt::format("{}, no collective: {}",
                                         counted(std::ssize(lines), "line"), joined_types(types));
    const std::size_t room = width_ - number.size() - 4 - kVerdictWidth;
    const std::string row = fmt::format("  {}  {}", number, shortened(what, room));
    out_ += row + at_right(worst_verdict(run_, values), characters(row)) + "\n";
  }

  void show(const LineReport& report) {
    const std::string bare = types_text(report), verdict = worst_verdict(run_, report.values);
    std::string types = all_local(report) ? std::string(kLocal) + bare : bare;
    const std::string source = source_line(run_, report.line);
    const std::size_t room = width_ - kNumberWidth - (verdict.empty() ? 0 : kVerdictWidth);
    const std::size_t least = std::min(tight_ ? kLeastTight : kLeastSource, characters(source));
    if (tight_) types = shortened(types, room - std::min(room, least + 2));
    const std::size_t beside = room - std::min(room, characters(types) + 2);
    const bool one_row = tight_ || (report.moves.empty() && beside >= least);
    const std::string number = report.line > 0 ? std::to_string(report.line) : "-";
    const std::string shown = shortened(source, one_row ? beside : room);
    std::string row = fmt::format("{:>5}  {}", number, paint(shown, Ink::kTitle, color_));
    std::size_t used = kNumberWidth + characters(shown);
    if (one_row) {
      const std::size_t column = std::min(width_ * 38 / 100, beside);  // types are aligned
      const std::size_t gap = 2 + column - std::min(column, characters(shown));
      row += std::string(gap, ' ') + types;
      used += gap + characters(types);
    }
    out_ += row + at_right(verdict, used) + "\n";
    if (!one_row) below(report, bare);
    show(report.moves);
  }

  std::string at_right(const std::string& verdict, std::size_t used) const {
    if (verdict.empty()) return "";
    const Ink ink = verdict == "wrong"          ? Ink::kBad
                    : verdict == "not verified" ? Ink::kDim
                                                : Ink::kGood;
    const std::size_t width = used + verdict.size();
    return std::string(width_ - std::min(width_ - 1, width), ' ') + paint(verdict, ink, color_);
  }

  // Ops, then types, on one row if both fit, else below each other.
  void below(const LineReport& report, const std::string& types) {
    const std::size_t room = width_ - kIndent;
    const std::string ops = ops_text(report);
    const std::size_t left = room - std::min(room, characters(types) + 2);
    if (ops.empty() || left >= std::min(kLeastOps, characters(ops))) {
      const std::string shown = shortened(ops, left);
      return row_below(types.empty() || ops.empty() ? shown + types : shown + "  " + types);
    }
    row_below(shortened(ops, room));
    const std::size_t arrow = types.find(" -> ");
    if (characters(types) <= room || arrow == std::string::npos) {
      return row_below(shortened(types, room));
    }
    row_below(shortened(types.substr(0, arrow), room));
    row_below(shortened(types.substr(arrow + 1), room));
  }

  void row_below(const std::string& text) {
    if (!text.empty()) out_ += fmt::format("{:{}}{}\n", "", kIndent, text);
  }

  // A move forward and its gradient's move back share a row.
  void show(const std::vector<LineMove>& moves) {
    std::vector<const LineMove*> shared;
    for (const LineMove& move : moves) {
      if (std::ranges::find(shared, &move) != shared.end()) continue;
      const auto other = std::ranges::find_if(moves, [&](const LineMove& back) {
        return move.pass == Pass::kForward && back.pass == Pass::kBackward &&
               back.group == move.group && back.count == move.count && back.origin == move.origin;
      });
      const LineMove* const back = other == moves.end() ? nullptr : &*other;
      if (back != nullptr) shared.push_back(back);
      show(move, back);
    }
  }

  // `back` may be null.
  void show(const LineMove& move, const LineMove* back) {
    const std::string_view pass = move.pass == Pass::kForward ? "" : "backward ";
    std::string what = fmt::format("{}{} over {}", pass, to_string(move.kind), move.group);
    std::string times = std::to_string(move.count);
    if (back != nullptr) {
      what += fmt::format(", backward {}", to_string(back->kind));
      times += "+" + times;
    }
    what += ", " + to_string(move.origin) + (move.completed ? "" : kNeverCompleted);
    const bool implicit = move.origin.origin == Origin::kImplicit;
    const std::size_t width = width_ - kIndent - 28;
    const std::string padded = fmt::format("{:<{}}", shortened(what, width), width);
    out_ += fmt::format("{:{}}{} {:>7} {:>9} {:>9}\n", "", kIndent,
                        paint(padded, implicit ? Ink::kWarn : Ink::kMove, color_), times,
                        bytes_text(move.sent_bytes + (back != nullptr ? back->sent_bytes : 0)),
                        time_text(move.predicted_us + (back != nullptr ? back->predicted_us : 0)));
  }

  static constexpr std::size_t kIndent = kNumberWidth + 1;
  static constexpr std::size_t kLeastOps = 18;
  static constexpr std::size_t kLeastFolded = 3;

  const Run& run_;
  const bool tight_;
  const Color color_;
  const std::size_t width_;
  std::string out_;
};

}  // namespace

std::string order_text(const Run& run, const std::vector<LineVisit>& visits, std::size_t width) {
  return OrderText{run, visits, width}.build();
}

std::string line_table_text(const Run& run, const std::vector<LineReport>& lines, Color color,
                            std::size_t width) {
  constexpr std::ptrdiff_t kScreen = 45;
  std::string text = LineTable(run, lines, false, color, width).text();
  if (std::ranges::count(text, '\n') <= kScreen) return text;
  return LineTable(run, lines, true, color, width).text();
}

std::string worst_verdict(const Run& run, const std::vector<const ValueReport*>& values) {
  if (values.empty() || run.shapes_only()) return "";
  const ValueReport* worst = nullptr;
  for (const ValueReport* value : values) {
    const auto badness = [](const ValueReport& one) {
      return std::tuple(one.row->fails, one.row->fails_strictly, one.outcome(),
                        one.comparison.agreement);
    };
    if (worst == nullptr || badness(*value) > badness(*worst)) worst = value;
  }
  return worst->outcome() == Outcome::kVerified ? how_text(*worst)
                                                : std::string(word_of(worst->outcome()));
}

std::string flowed(const std::vector<std::string>& cells, std::size_t indent, std::size_t width) {
  std::string text, row;
  for (const std::string& cell : cells) {
    if (!row.empty() && row.size() + cell.size() + 3 > width) {
      text += row + ",\n";
      row.clear();
    }
    row += (row.empty() ? std::string(indent, ' ') : ", ") + cell;
  }
  return text + row + "\n";
}

std::string time_text(double us) {
  if (us < 999.95) return fmt::format("{:.1f} us", us);
  return us < 999'500 ? fmt::format("{:.3g} ms", us / 1e3) : fmt::format("{:.1f} s", us / 1e6);
}

std::string shortened(std::string_view text, std::size_t width) {
  const std::vector<std::string_view> all = characters_of(text);
  if (all.size() <= width) return std::string(text);
  return std::string(text.data(), all[width - std::min<std::size_t>(width, 3)].data()) + "...";
}

}  // namespace shardlab
