// case_report.h - the parts of a CaseReport that need the whole JSON library.
#pragma once

#include <string>

#include "sim/record/json_value.h"
#include "sim/recorded/check.h"

namespace shardlab {

/// One field that differs, with both answers.
struct CaseReport::Difference {
  std::string field;
  Json expected;
  Json got;
  std::string scenario = {};
};

}  // namespace shardlab
