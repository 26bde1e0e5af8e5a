// Values agree in many ways and are wrong in few: the former are counted, the latter listed.
#include "sim/report/verdict_text.h"

#include <map>

#include "base/text.h"
#include "sim/report/outcome_text.h"
#include "sim/report/run_listing.h"

namespace shardlab {

namespace {

class VerdictText : ReportLines {
 public:
  using ReportLines::ReportLines;

  std::string build() {
    steps();
    values();
    expectations();
    return std::move(out_);
  }

 private:
  void values() {
    if (run_.error) return;
    if (run_.shapes_only()) {
      return line("\n{}", ink(fmt::format("{}; {} values not computed", judgement_.not_verified,
                                          judgement_.values.size()),
                              Ink::kTitle));
    }
    line("{}{}", ends_on_title_ ? "" : "\n",
         ink("values against the single-device run", Ink::kTitle));
    const std::size_t begun = out_.size();
    if (!judgement_.not_verified.empty()) line("  not verified: {}", judgement_.not_verified);
    if (!judgement_.not_verified_fix.empty()) line("  fix: {}", judgement_.not_verified_fix);
    first_wrong();
    for (const Outcome outcome : {Outcome::kWrong, Outcome::kDiffers}) told(outcome);
    std::map<std::string, int> agreed_by;
    std::map<std::pair<Outcome, std::string>, int> others;
    double worst = 0;
    const ValueReport* worst_value = nullptr;
    for (const ValueReport& value : judgement_.values) {
      const bool silent =
          value.outcome() == Outcome::kOnTheWay || value.outcome() == Outcome::kPartOfCause;
      if (!is_verified(value)) {
        if (!is_off(value) && (whole() || !silent)) ++others[{value.outcome(), value.reason}];
        continue;
      }
      ++agreed_by[how_text(value)];
      const Comparison& comparison = value.comparison;
      const double share = comparison.allowed > 0 ? comparison.error / comparison.allowed : 0;
      if (comparison.agreement == Agreement::kEnvelope && share >= worst) {
        worst = share;
        worst_value = &value;
      }
    }
    std::vector<std::string> agreed;
    for (const auto& [how, count] : agreed_by) agreed.push_back(fmt::format("{} {}", count, how));
    if (!agreed.empty()) agreed.front() = "verified: " + agreed.front();
    listed(agreed, begun);
    amplified();
    accumulated();
    if (worst_value != nullptr && worst > 0) {
      line("       closest to its bound: {} uses {:.0f} % of what rounding allows",
           worst_value->name, 100 * worst);
    }
    for (const auto& [other, count] : others) {
      line("  {:>4} {}: {}", count, word_of(other.first), other.second);
    }
  }

  // Values that somebody has to look at, each with what is known of it.
  void told(Outcome outcome) {
    constexpr int kMost = 8;
    int count = 0;
    for (const ValueReport& value : judgement_.values) {
      if (value.outcome() != outcome) continue;
      if (++count > kMost && !whole()) continue;
      const bool wrong = outcome == Outcome::kWrong;
      line("  {} {} {} ({})", ink(std::string(word_of(outcome)), wrong ? Ink::kBad : Ink::kWarn),
           shown_name(value), value.type, value.where.at());
      const std::string& how = wrong ? value.comparison.what : value.reason;
      if (!how.empty()) line("        {}", how);
      if (!value.holders.empty()) line("        held by {}", value.holders);
      if (!value.cause.empty()) line("        {}", cause_text(value.cause));
    }
    if (count > kMost && !whole()) {
      line("  and {} more: --full", count - kMost);
    }
  }

  // Below each other in the full report. On two screens on one row, and on the row of the title if
  // nothing is between: `begun` is the place where the text below it begins.
  void listed(const std::vector<std::string>& texts, std::size_t begun) {
    if (texts.empty()) return;
    if (whole()) {
      for (const std::string& text : texts) {
        const std::size_t digits = text.find(' ');
        line("  {:>{}}{}", "", 4 - std::min<std::size_t>(4, digits), text);
      }
    } else if (out_.size() != begun) {
      line("  {}", text_of_list(texts, ", "));
    } else {
      out_.pop_back();
      line(": {}", text_of_list(texts, ", "));
      ends_on_title_ = true;
    }
  }

  // Every call on its own operands.
  void steps() {
    const StepVerdict& steps = judgement_.steps;
    if (run_.error && !steps.wrong) return;
    if (!steps.not_judged.empty()) line("\n{}", ink(steps.not_judged, Ink::kTitle));
    if (!steps.judged || run_.shapes_only()) return;
    const std::size_t before = out_.size();
    line("\n{}", ink("single calls", Ink::kTitle));
    const std::size_t begun = out_.size();
    if (steps.wrong) {
      line("  {} {}", ink("wrong", Ink::kBad), to_string(steps.wrong->place));
      line("        {}", steps.wrong->text());
      if (steps.wrong_calls > 1) line("        the first of {} wrong calls", steps.wrong_calls);
    }
    std::vector<std::string> right;
    if (steps.bitwise > 0) right.push_back(fmt::format("{} exact", steps.bitwise));
    if (steps.bounded > 0) {
      right.push_back(fmt::format("{} within rounding", steps.bounded));
    }
    listed(right, begun);
    if (steps.undecided_calls > 0) {
      line("  {:>4} undecided, {} elements: rounding decides", steps.undecided_calls,
           steps.undecided_elements);
    }
    for (const auto& [reason, count] : steps.skipped) line("  {:>4} not judged: {}", count, reason);
    if (steps.non_finite) {
      line("       the first NaN or infinity: {}", to_string(*steps.non_finite));
    }
    if (out_.size() == begun) out_.resize(before);  // a run that failed before its first call
  }

  // Values that are right in f64 and far from the single-device run in their own dtype.
  void amplified() {
    const ValueReport* worst = nullptr;
    for (const ValueReport& value : judgement_.values) {
      if (!is_verified(value) || value.comparison.agreement != Agreement::kRounding) continue;
      if (worst == nullptr || value.comparison.roundings > worst->comparison.roundings) {
        worst = &value;
      }
    }
    if (worst == nullptr) return;
    // For a value that is not compared by its size, the number of roundings has no meaning.
    const double times = worst->comparison.roundings;
    const std::string how = times < 1 ? "" : fmt::format(", amplified {:.0f} times", times);
    line("       rounding{}: {} ({})", how, shown_name(*worst), worst->where.at());
  }

  void accumulated() {
    for (const ValueReport& value : judgement_.values) {
      if (value.passes < 2) continue;
      line("       {} adds up {} backward passes: nothing cleared it between them", value.name,
           value.passes);
    }
  }

  // The first place to look at: values that follow from a wrong one are wrong, too.
  void first_wrong() {
    const auto& values = judgement_.values;
    if (std::ranges::count_if(values, is_wrong) < 2) return;
    const auto first = std::ranges::find_if(values, is_wrong);
    line("  the first wrong one is {} ({})", shown_name(*first), first->where.at());
  }

  void expectations() {
    if (judgement_.expectations.empty()) return;
    line("\n{}", ink("expected", Ink::kTitle));
    const std::size_t width = column_width(judgement_.expectations, &ExpectationReport::what, 24);
    for (const ExpectationReport& expectation : judgement_.expectations) {
      const std::string mark =
          expectation.met ? ink("met ", Ink::kGood) : ink("not met", Ink::kBad);
      line("  {} {:<{}} {}", mark, expectation.what, width, expectation.text);
      if (!expectation.met && expectation.where.source)
        line("          {}", expectation.where.at());
    }
  }

  bool ends_on_title_ = false;  ///< of a section that is its title
};

}  // namespace

std::string verdict_text(const ScenarioResult& result, const RunTextOptions& options) {
  return VerdictText(result, options).build();
}

}  // namespace shardlab
