// blamed.h - short programs, and the words of blame for them. For tests of blame.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/edit/blame.h"
#include "tests/unit/scenario/scenario_text.h"

namespace shardlab::test {

// The first line of `code` is line 7 where mesh and inputs have a line each.
inline Blame blamed(const std::string& mesh, const std::string& inputs, const std::string& code,
                    const std::string& more = "") {
  return blame(scenario_of(fmt::format("[mesh]\n{}\n[inputs]\n{}\n[program]\ncode = '''\n{}'''\n{}",
                                       mesh, inputs, code, more)),
               {.run = {}, .least_seconds = 600});
}

// "cause.factor 9, cause.missing-sum 7": all that is named, and whether the last one has an edit.
inline std::string told(const Blame& blame) {
  if (blame.failure.kind == Symptom::Kind::kNone) return "right";
  std::string text = fmt::format("{} {}", blame.failure.cause, blame.line());
  if (!blame.next.empty()) return text + ", " + told(blame.next.front());
  return text + (blame.edits.empty() ? ", no edit" : "");
}

}  // namespace shardlab::test
