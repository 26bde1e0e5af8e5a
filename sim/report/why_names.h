// why_names.h - the events that `--why NAME` names in a run: of an op, a source line, a value, or
// all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/judge/scenario_run.h"

namespace shardlab {

/// One flag for each event: whether its decision is asked about. An op is named as "mm",
/// "add.Tensor" or "aten::mm", a line by its number or, in a recording, as "train.py:24"; a value
/// means the ops of its statement or, if these are inside of a def, those since the value named
/// before it.
std::vector<bool> asked_about(const ScenarioResult& result, const std::string& why);

/// The error when nothing of the run is called `why`, or when no op belongs to it: the nearest
/// names, or the ones to use instead. Nothing if some decision is explained.
std::optional<Error> nothing_asked(const ScenarioResult& result, const std::string& why);

/// The error when no event of the run is on this line of the source and no value got its name
/// there: the lines with events. Nothing if the line has events; nothing for line 0.
std::optional<Error> nothing_on_line(const ScenarioResult& result, int line);

}  // namespace shardlab
