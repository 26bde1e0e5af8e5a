// why_names.h - what `--why NAME` names in a run: an op, a source line, a value, or everything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/judge/scenario_run.h"

namespace shardlab {

/// By event of the run, whether its decision is asked about. An op is named as "mm", "add.Tensor"
/// or "aten::mm"; a value stands for the ops of its statement or, where these are inside of a def,
/// for those since the value named before it.
std::vector<bool> asked_about(const ScenarioResult& result, const std::string& why);

/// What to say when nothing of the run is called `why`, or when no op belongs to it: the nearest
/// names, or which ones to use instead. Nothing where some decision is explained.
std::optional<Error> nothing_asked(const ScenarioResult& result, const std::string& why);

/// What to say when the run did nothing on this line of the source and no value got its name there:
/// where it did. Nothing where it did something; nothing for line 0.
std::optional<Error> nothing_on_line(const ScenarioResult& result, int line);

}  // namespace shardlab
