// messages.h - failures as bytes.
#pragma once

#include "backends/process/wire.h"
#include "comm/verdict.h"

namespace shardlab::process {

/// Kind, summary, parts and causes.
void put(Writer& writer, const Error& error);
Error get_error(Reader& reader);

/// Kind, culprits, cause, and the reports of all ranks.
void put(Writer& writer, const Verdict& verdict);
Verdict get_verdict(Reader& reader);

}  // namespace shardlab::process
