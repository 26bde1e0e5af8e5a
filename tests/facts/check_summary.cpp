// The result of a check in words and as JSON; reasons for skipping are a fixed list.
#include <fmt/format.h>

#include "sim/files/json_value.h"
#include "tests/facts/check.h"

namespace shardlab {

std::string_view to_string(SkipReason reason) {
  switch (reason) {
    case SkipReason::kNoChecker:
      return "no checker for this kind of file";
    case SkipReason::kNotRegistered:
      return "op not registered";
    case SkipReason::kNoRule:
      return "a handler decides";
    case SkipReason::kDecomposition:
      return "decomposition";
    case SkipReason::kPlanner:
      return "planner or costs of a later release";
    case SkipReason::kExecution:
      return "values of a later release";
    case SkipReason::kNoInput:
      return "the line does not record its input";
    case SkipReason::kNotExpressible:
      return "the input cannot be written here";
    case SkipReason::kReferenceText:
      return "the reference's own text of an object";
    case SkipReason::kLaterField:
      return "subject of a later release";
    case SkipReason::kReferenceHangs:
      return "the reference hangs";
    case SkipReason::kStream:
      return "stream not promised";
    case SkipReason::kNotSupported:
      return "not supported yet";
    case SkipReason::kNoValue:
      return "takes what a skipped call gives";
    case SkipReason::kNoField:
      return "the program of the case does not ask for it";
    case SkipReason::kHalfComplex:
      return "complex numbers of half precision";
    case SkipReason::kWrongRecord:
      return "the recorded value is wrong";
    case SkipReason::kNoGradientIn:
      return "no gradient flows in";
    case SkipReason::kOtherChoice:
      return "the gradient is that of another right result";
    case SkipReason::kNoGradient:
      return "no gradient for this op";
  }
  return "?";
}

std::string CheckSummary::text() const {
  std::string text;
  for (const CheckFailure& failure : failures) {
    text += fmt::format("FAIL {}{}{}\n  expected {}\n  got      {}\n", failure.id,
                        failure.field.empty() ? "" : "  ", failure.field, failure.expected,
                        failure.got);
  }
  for (const SkippedLine& line : skipped_lines) {
    text += fmt::format("skipped {}: {}{}{}\n", line.id, to_string(line.reason),
                        line.why.empty() ? "" : ": ", line.why);
  }
  for (const auto& [reason, count] : skips) {
    text += fmt::format("skipped {} lines: {}\n", count, to_string(reason));
  }
  for (const auto& [reason, count] : field_skips) {
    text += fmt::format("skipped {} fields: {}\n", count, to_string(reason));
  }
  for (const auto& [cause, count] : known_by_cause) {
    text += fmt::format("known difference in {} lines: {}\n", count, cause);
  }
  if (chains) text += chains->text();
  for (const std::string& note : notes) text += note + "\n";
  if (still_wrong > 0) text += fmt::format("known to be wrong still: {} lines\n", still_wrong);
  return text + fmt::format("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
}

Json CheckSummary::json() const {
  Json result = {{"passed", passed},
                 {"failed", failed},
                 {"skipped", skipped},
                 {"known_differences", known},
                 {"known_by_cause", known_by_cause}};
  if (chains) result["chains"] = chains->json();
  if (!notes.empty()) result["notes"] = notes;
  if (still_wrong > 0) result["still_wrong"] = still_wrong;
  result["skips"] = Json::object();
  for (const auto& [reason, count] : skips) result["skips"][std::string(to_string(reason))] = count;
  result["field_skips"] = Json::object();
  for (const auto& [reason, count] : field_skips) {
    result["field_skips"][std::string(to_string(reason))] = count;
  }
  for (const SkippedLine& line : skipped_lines) {
    result["skipped_lines"].push_back(
        {{"id", line.id}, {"reason", to_string(line.reason)}, {"why", line.why}});
  }
  result["failures"] = Json::array();
  for (const CheckFailure& failure : failures) {
    result["failures"].push_back({{"id", failure.id},
                                  {"field", failure.field},
                                  {"expected", failure.expected},
                                  {"got", failure.got}});
    if (!failure.scenario.empty()) result["failures"].back()["scenario"] = failure.scenario;
  }
  return result;
}

}  // namespace shardlab
