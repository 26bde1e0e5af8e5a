// A sentence for each row of the table that has no sentence yet.
#include "sim/verify/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "sim/log/marks.h"
#include "sim/verify/roles.h"

namespace shardlab {

namespace {

using Kind = DefUse::Kind;

std::string number_text(const GlobalValue& value, std::size_t at) {
  if (value.is_integral()) return fmt::format("{}", value.integers[at]);
  return fmt::format("{:.6g}", value.reals[at]);
}

// "ranks 0 and 1 hold 11 and 13 at [0]"; empty if they hold the same.
std::string apart_text(const MeshLayout& mesh, const std::vector<GlobalValue>& held) {
  for (std::size_t i = 1; i < held.size(); ++i) {
    const GlobalValue &a = held[0], &b = held[i];
    const auto first = mesh.rank_at_index(0),
               other = mesh.rank_at_index(static_cast<std::int64_t>(i));
    if (a.meta.shape != b.meta.shape) {
      return fmt::format("ranks {} and {} hold [{}] and [{}]", first, other,
                         text_of_list(a.meta.shape, ", "), text_of_list(b.meta.shape, ", "));
    }
    const std::size_t count = a.is_integral() ? a.integers.size() : a.reals.size();
    for (std::size_t at = 0; at < count; ++at) {
      const std::string here = number_text(a, at), there = number_text(b, at);
      if (here == there) continue;
      const std::string place = a.meta.shape.empty() ? "" : fmt::format(" at element {}", at);
      return fmt::format("ranks {} and {} hold {} and {}{}", first, other, here, there, place);
    }
  }
  return {};
}

class Reasons {
 public:
  Reasons(const VerifyInputs& inputs, std::vector<ValueReport>& reports)
      : inputs_(inputs), flow_(*inputs.flow), reports_(reports) {}

  void tell() {
    for (ValueReport& report : reports_) {
      std::string text = of(report);
      if (!text.empty()) report.reason = std::move(text);
    }
  }

 private:
  std::string of(const ValueReport& report) const {
    const char letter = report.row->letter;
    if (letter == 'P') return left_as_terms(report);
    if (letter == 'W') {
      return fmt::format("computed in another way; right in {}", right_in(report));
    }
    if (letter == 'X' && report.reason.empty()) return other_program(report);
    if (letter == 'D') return by_rank(report);
    if (letter == 'O') return own(report);
    const bool told = std::string_view("XVTNL").find(letter) != std::string_view::npos;
    return told ? report.reason : report.comparison.what;
  }

  std::string left_as_terms(const ValueReport& report) const {
    if (report.facts.averages) return fmt::format("each rank has its own {}", report.name);
    const std::string each = "each rank holds ";
    const std::string held =
        report.reason.starts_with(each) ? report.reason.substr(each.size()) : "";
    return fmt::format("of {} each rank holds {}, and nothing adds them", report.name, held);
  }

  // "out, line 9": the first claim or sink that is made of it.
  std::string right_in(const ValueReport& report) const {
    const auto made = flow_.makes(nodes_of(flow_, report));
    for (const ValueReport& other : reports_) {
      if (other.facts.role == ValueFacts::Role::kOnTheWay || &other == &report) continue;
      if (!meet(nodes_of(flow_, other), made)) continue;
      return fmt::format("{}, line {}", other.name, other.line);
    }
    return "all that is asserted of it";
  }

  int line_of(const ValueReport& report, Kind kind) const {
    int line = 0;
    for (const DefUse::Id id : flow_.made_of(nodes_of(flow_, report))) {
      if (flow_.nodes()[id].kind != kind) continue;
      line = line == 0 ? flow_.line_of(id) : std::min(line, flow_.line_of(id));
    }
    return line;
  }

  std::string other_program(const ValueReport& report) const {
    const int message = line_of(report, Kind::kReceived), entry = line_of(report, Kind::kFromOne);
    const std::string why =
        message > 0           ? fmt::format("receives no message (line {})", message)
        : entry > 0           ? fmt::format("has one entry in place of all ranks' (line {})", entry)
        : report.row_per_rank ? "has one row in place of all ranks'"
                              : "has no piece of its own";
    return fmt::format("one device runs another program: it {}; [reference] can say what is meant",
                       why);
  }

  std::string held(const ValueReport& report) const {
    const auto held = held_by_ranks(inputs_, report);
    const MeshLayout* mesh = report.spec != nullptr ? report.spec->layout() : inputs_.mesh;
    if (held) return apart_text(*mesh, *held);
    return report.comparison.what.empty() ? "not all ranks have it" : report.comparison.what;
  }

  std::string by_rank(const ValueReport& report) const {
    const std::string apart = report.spec == nullptr ? held(report) : "";
    const int line = line_of(report, Kind::kRank);
    return fmt::format("{}{}, line {} reads the rank{}{}", apart,
                       apart.empty() ? "it follows from the rank" : "", line,
                       report.comparison.what.empty() ? "" : "; ", report.comparison.what);
  }

  std::string own(const ValueReport& report) const {
    std::string made;
    for (const DefUse::Id id : nodes_of(flow_, report)) {
      const FlowNode& node = flow_.nodes()[id];
      if (!node.op.empty() && std::isalpha(node.op[0]) != 0)
        made = fmt::format("{} in line {}", node.op, flow_.line_of(id));
    }
    const RecordedValue* value = value_of(*inputs_.ranks.front(), report);
    std::vector<std::string> dims;
    for (std::size_t dim = 0; value != nullptr && dim < inputs_.mesh->ndim(); ++dim) {
      const bool varies = (varies_along(value->value) >> dim & 1) != 0;
      if (varies) dims.push_back(inputs_.mesh->names()[dim]);
    }
    const std::string along = dims.empty() ? "" : " of pieces along " + text_of_list(dims, " and ");
    const std::string apart = held(report);
    return fmt::format("each rank's own{}{}: {}", made.empty() ? "" : ", " + made, along,
                       apart.empty() ? "equal on all by chance" : apart);
  }

  const VerifyInputs& inputs_;
  const DefUse& flow_;
  std::vector<ValueReport>& reports_;
};

}  // namespace

void add_reasons(const VerifyInputs& inputs, std::vector<ValueReport>& reports) {
  Reasons(inputs, reports).tell();
}

}  // namespace shardlab
