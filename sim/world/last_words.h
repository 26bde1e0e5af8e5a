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

/// Whether this process is to say why to people: alone, or the first that is left of its host.
/// `channel`: null if ranks share a process, or if the job has not been joined.
bool speaks_for_host(const process::ControlChannel* channel);
/// Whether the rank of this process ends only because of others.
bool only_by_others(const process::ControlChannel* channel, const std::optional<Verdict>& verdict);
/// Prints `text` to stderr, if this process speaks, and writes it for the launcher. Returns when
/// others have done so, too: a launcher ends them once this process has failed. `reason`: as of
/// ControlChannel::leave.
void say_last_words(process::ControlChannel* channel, const std::string& text,
                    const std::optional<Verdict>& verdict, std::string_view reason);

}  // namespace shardlab
