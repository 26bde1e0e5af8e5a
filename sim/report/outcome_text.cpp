// Words for the ways in which numbers agree are those of people, not of the comparison.
#include "sim/report/outcome_text.h"

namespace shardlab {

std::string how_text(const ValueReport& value) {
  switch (value.comparison.agreement) {
    case Agreement::kBitwise:
      return std::string(kEqual);
    case Agreement::kEnvelope:
    case Agreement::kRounding:
      return std::string(kRounding);
    default:
      return std::string(to_string(value.comparison.agreement));
  }
}

std::string outcome_text(const ValueReport& value) {
  std::string text(word_of(value.outcome()));
  if (!is_verified(value)) return text;
  if (value.facts.by_order) return text + ", replicas differ by the order of additions";
  if (value.spec == nullptr && value.facts.fits == ValueFacts::Fits::kPieces) text += " as pieces";
  if (value.spec == nullptr && value.facts.fits == ValueFacts::Fits::kTerms) text += " as terms";
  return text + ", " + how_text(value);
}

std::string cause_text(const Cause& cause) {
  if (cause.id == causes::kNone) return cause.text;
  return fmt::format("{} [{}]", cause.text, cause.id);
}

}  // namespace shardlab
