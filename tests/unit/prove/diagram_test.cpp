// The picture of who waits for whom, against closed formulas and programs drawn by hand.
#include "sim/prove/diagram.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "sim/prove/pipeline_schedule.h"

namespace shardlab {
namespace {

using Kind = Operation::Kind;

RankStep send(std::int32_t to) { return {.posts = {{.kind = Kind::kSend, .peer = to}}}; }
RankStep receive(std::int32_t from) { return {.posts = {{.kind = Kind::kReceive, .peer = from}}}; }
RankStep wait(std::int32_t step) { return {.needs = {step}}; }

std::string text_of(const std::vector<StepDiagram::Span>& spans) {
  std::string text;
  for (const StepDiagram::Span& span : spans) text += fmt::format("[{},{}) ", span.from, span.to);
  return text;
}

// All forwards, then all backwards: p stages and m microbatches need 2 (m + p - 1) columns.
TEST_CASE("B-64 GPipe of p stages has the bubble of its formula") {
  for (const int stages : {1, 2, 3, 5}) {
    for (const int microbatches : {1, 2, 4, 7}) {
      std::string csv;
      for (int stage = 0; stage < stages; ++stage) {
        for (const char kind : {'F', 'B'}) {
          for (int i = 0; i < microbatches; ++i) {
            csv += fmt::format("{}{}{}{}", kind == 'B' || i > 0 ? "," : "", stage, kind, i);
          }
        }
        csv += '\n';
      }
      const CheckedSchedule checked = check_schedule(read_pipeline_schedule(csv, Receives::kEarly));
      REQUIRE(checked.refused.empty());
      const StepDiagram diagram =
          diagram_of(checked.steps, 0, [&](std::int32_t rank, std::int32_t step) {
            const std::string& text = checked.steps.at(rank, step).text;
            const bool message = text.find("SEND") != text.npos || text.find("RECV") != text.npos;
            return message ? 0 : 1;
          });
      std::int32_t columns = 0;
      for (const auto& spans : diagram.spans) {
        for (const StepDiagram::Span& span : spans) columns = std::max(columns, span.to);
      }
      CHECK_MESSAGE(columns == 2 * (microbatches + stages - 1), stages, " x ", microbatches);
    }
  }
}

TEST_CASE("B-64 a receive ends behind its send, and what waits for it begins there") {
  RankSteps program;
  program.groups = {{0, 1}};
  program.ranks = {{send(1), send(1), {.posts = {{}}}},
                   {receive(0), wait(0), receive(0), {.posts = {{}}}}};
  const StepDiagram diagram = diagram_of(program, 1, nullptr);
  CHECK(text_of(diagram.spans[0]) == "[0,1) [1,2) [2,3) ");
  CHECK(text_of(diagram.spans[1]) == "[0,1) [1,1) [1,2) [2,3) ");
  REQUIRE(diagram.messages.size() == 2);
  CHECK(diagram.messages[1].from_step == 1);
  CHECK(diagram.messages[1].to_step == 2);
}

TEST_CASE(
    "B-64 a receive whose message never comes has no end, and nothing behind it a beginning") {
  RankSteps program;
  program.groups = {{0, 1}};
  program.ranks = {{receive(1), wait(0), send(1)}, {receive(0), wait(0), send(0)}};
  const StepDiagram diagram = diagram_of(program, 1, nullptr);
  for (const auto& spans : diagram.spans) CHECK(text_of(spans) == "[0,-1) [-1,-1) [-1,-1) ");
  CHECK(diagram.messages.empty());
}

}  // namespace
}  // namespace shardlab
