// The log is a list in the order of the program; a reader walks along it and stops for good when
// the two runs take different paths, because later answers may have another meaning.
#include "sim/language/values/answers.h"

#include <algorithm>

namespace shardlab {

namespace {
constexpr std::size_t kMostAnswers = 100'000;
}  // namespace

void AnswerLog::keep(SourceSpan place, Value answer) {
  if (answers_.size() < kMostAnswers) answers_.push_back({place.begin, std::move(answer)});
}

bool same_branches(const AnswerLog& a, const AnswerLog& b) {
  const auto same = [](const AnswerLog::Answer& x, const AnswerLog::Answer& y) {
    const bool* taken = x.value.get<bool>();
    const bool* other = y.value.get<bool>();
    return x.place == y.place && (taken == nullptr || other == nullptr || *taken == *other);
  };
  return std::ranges::equal(a.answers(), b.answers(), same);
}

std::optional<Value> AnswerReader::next(SourceSpan place) {
  if (lost_) return std::nullopt;
  const auto& answers = log_->answers();
  if (at_ == answers.size() || answers[at_].place != place.begin) {
    lost_ = true;
    return std::nullopt;
  }
  return answers[at_++].value;
}

bool AnswerReader::branch(SourceSpan place, bool own) {
  const std::optional<Value> reported = next(place);
  const bool* followed = reported ? reported->get<bool>() : nullptr;
  if (followed == nullptr || *followed == own || branches_ == Branches::kOwn) return own;
  return *followed;
}

}  // namespace shardlab
