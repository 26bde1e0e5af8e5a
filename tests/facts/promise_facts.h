// promise_facts.h - facts about hangs: pipeline schedules with the verdict of each transport, small
// programs whose every interleaving was enumerated, dumps of jobs with a known culprit.
#pragma once

#include "tests/facts/check.h"

namespace shardlab {

std::unique_ptr<FactChecker> make_schedule_checker(std::string_view stem);
std::unique_ptr<FactChecker> make_step_program_checker(std::string_view stem);
std::unique_ptr<FactChecker> make_autopsy_checker(std::string_view stem);

}  // namespace shardlab
