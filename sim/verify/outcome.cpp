// The order of rows is a part of the table: a row may rely on the rows above it not to hold.
#include "sim/verify/outcome.h"

#include <algorithm>

namespace shardlab {

namespace {

using Facts = ValueFacts;
using Fits = Facts::Fits;
using Role = Facts::Role;

constexpr std::string_view kWords[kOutcomes] = {"verified",          "left as terms",  "on the way",
                                                "part of the cause", "no counterpart", "differs",
                                                "not compared",      "wrong"};
constexpr std::string_view kIds[kOutcomes] = {"outcome.verified",       "outcome.left-as-terms",
                                              "outcome.on-the-way",     "outcome.part-of-cause",
                                              "outcome.no-counterpart", "outcome.differs",
                                              "outcome.not-compared",   "outcome.wrong"};

bool is_kept(const Facts& f) { return f.role != Role::kOnTheWay; }

}  // namespace

// letter, outcome, exit 1, exit 1 under --strict, when
const std::array<OutcomeRow, 14> kOutcomeTable = {{
    {'N', Outcome::kNotCompared, false, true, [](const Facts& f) { return !f.comparable; }},
    {'L', Outcome::kDiffers, false, true, [](const Facts& f) { return f.literal && !f.given; }},
    {'A', Outcome::kVerified, false, false,
     [](const Facts& f) { return f.fits == Fits::kReplicas && f.by_order; }},
    {'V', Outcome::kVerified, false, false, [](const Facts& f) { return f.whole_or_pieces(); }},
    {'T', Outcome::kVerified, false, false,
     [](const Facts& f) {
       return f.agrees() && (!is_kept(f) || f.starts_backward || f.claims_terms);
     }},
    {'U', Outcome::kWrong, true, true,
     [](const Facts& f) {
       return f.parameter && is_kept(f) && !f.by_rank && !f.given && (f.agrees() || !f.alike);
     }},
    {'P', Outcome::kLeftAsTerms, false, false,
     [](const Facts& f) { return f.agrees() && f.averages; }},
    {'P', Outcome::kLeftAsTerms, false, true, [](const Facts& f) { return f.agrees(); }},
    {'W', Outcome::kOnTheWay, false, false,
     [](const Facts& f) { return !is_kept(f) && f.leads_right; }},
    {'C', Outcome::kPartOfCause, false, false, [](const Facts& f) { return !is_kept(f); }},
    {'X', Outcome::kNoCounterpart, false, true,
     [](const Facts& f) { return f.other_program && !f.given; }},
    {'D', Outcome::kDiffers, false, true, [](const Facts& f) { return f.by_rank && !f.given; }},
    {'O', Outcome::kDiffers, false, true,
     [](const Facts& f) { return f.role == Role::kSink && !f.alike && !f.given; }},
    {'F', Outcome::kWrong, true, true, [](const Facts&) { return true; }},
}};

const OutcomeRow& outcome_of(const ValueFacts& facts) {
  return *std::ranges::find_if(kOutcomeTable,
                               [&](const OutcomeRow& row) { return row.holds(facts); });
}

std::string_view id_of(Outcome outcome) { return kIds[static_cast<std::size_t>(outcome)]; }
std::string_view word_of(Outcome outcome) { return kWords[static_cast<std::size_t>(outcome)]; }

std::string key_of(Outcome outcome) {
  std::string key(word_of(outcome));
  std::ranges::replace(key, ' ', '_');
  return key;
}

}  // namespace shardlab
