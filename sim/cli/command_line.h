// command_line.h - the commands with their options, as the command line has them.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "sim/cli/commands.h"
#include "sim/cli/reshard_command.h"

namespace shardlab {

/// The arguments of every command, and the command that is asked for.
struct Parsed {
  RunArguments run, test;
  TraceArguments trace, replay;
  ShrinkArguments shrink;
  AdviseArguments advise;
  TypesArguments types;
  BlameArguments blame;
  ProveArguments prove;
  AutopsyArguments autopsy;
  NewArguments fresh;
  RecordArguments record;
  MergeArguments merge;
  SpecArguments show, explain;
  ReshardArguments reshard;
  PlanArguments plan;
  OpsArguments ops;
  VerifyOpsArguments verify_ops;
  DiffArguments diff;
  CommonArguments doctor;
  std::string shell;
  CommonArguments completion;
  std::function<int()> chosen;
};

/// Adds all commands (commands.txt). Parsing fills `parsed` and sets `chosen`; both arguments live
/// until it has run.
void add_commands(CLI::App& app, Parsed& parsed);

}  // namespace shardlab
