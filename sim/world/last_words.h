// last_words.h - the end of a process that fails: somebody says why, whatever
// happened, and a launcher hears which rank is the cause. For programs and for the command line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/process/last_resort.h"
#include "comm/verdict.h"

namespace shardlab {

namespace process {
class ControlChannel;
}

/// Whether the rank of this process ends only because of others. `channel`: null if ranks share a
/// process, or if the job has not been joined.
bool only_by_others(const process::ControlChannel* channel, const std::optional<Verdict>& verdict);
/// Prints `text` to stderr if no process of this host has spoken. At the very end: who was to speak
/// may be lost.
void see_that_somebody_spoke(const std::string& text);
/// Prints `text` to stderr, if this process is the first that is left of its host, or nobody else
/// does, and writes it for the launcher. Returns when
/// others have done so, too: a launcher ends them once this process has failed. `reason`: as of
/// ControlChannel::leave.
void say_last_words(process::ControlChannel* channel, const std::string& text,
                    const std::optional<Verdict>& verdict, std::string_view reason);

}  // namespace shardlab
