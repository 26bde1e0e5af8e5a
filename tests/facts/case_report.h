// case_report.h - the parts of a CaseReport that need the whole JSON library.
#pragma once

#include <string>

#include "sim/files/json_value.h"
#include "tests/facts/check.h"

namespace shardlab {

/// One field that differs, with both answers.
struct CaseReport::Difference {
  std::string field;
  Json expected;
  Json got;
  std::string scenario = {};
};

}  // namespace shardlab
