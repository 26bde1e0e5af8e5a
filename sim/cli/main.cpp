// Argument parsing only; the commands are in their own files.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/nearest.h"
#include "base/text_of_list.h"
#include "base/version.h"
#include "sim/cli/commands.h"
#include "sim/cli/completion.h"
#include "sim/cli/interrupts.h"
#include "sim/cli/kept_memory.h"
#include "sim/cli/options.h"
#include "sim/verify/kept_value.h"

namespace {

using namespace shardlab;

CLI::Validator size_in_bytes() {
  const auto read = [](std::string& text) -> std::string {
    const std::string given = text;
    try {
      if (CLI::AsSizeValue(false)(text).empty()) return "";
    } catch (const CLI::ValidationError&) {
    }
    return fmt::format("'{}' is no size, such as 4GiB, 512MiB or a number of bytes", given);
  };
  return {read, "b, kib, mib, gib"};
}

void add_strict(CLI::App* command, RunArguments& arguments) {
  command->add_flag("--strict", arguments.strict,
                    "a value that is not verified fails the run: green then means proven");
}

void add_sends(CLI::App* command, RunArguments& arguments) {
  command
      ->add_option_function<std::string>(
          "--sends",
          [&arguments](const std::string& name) {
            arguments.sends = name == "buffered" ? SendMode::kBuffered : SendMode::kRendezvous;
          },
          "when a rank that sends a message continues: rendezvous, when it is received (default), "
          "or "
          "buffered, at once; then what needs buffers is reported")
      ->check(CLI::IsMember({"rendezvous", "buffered"}));
}

void add_run_options(CLI::App* command, RunArguments& arguments) {
  command->add_option("--set", arguments.settings, "override a value: params.hidden=64, mesh.tp=4")
      ->type_name("KEY=VALUE");
  command
      ->add_option("--link", arguments.links,
                   "a mesh dim's link, for predicted times and plans: GB/s (2^30 bytes) and "
                   "microseconds a hop; as --set topology.DIM.gbps=400 --set topology.DIM.us=1.5")
      ->type_name("DIM=GBPS,US");
  command->add_option(
      "--backend", arguments.backend,
      "who moves the bytes, instead of the scenario's choice: threads; fake (shapes only, up to "
      "a million ranks); mpi under mpirun; nccl under torchrun");
  command->add_flag_callback(
      "--check-collectives", [&arguments] { arguments.checks = CollectiveChecks::kOn; },
      "processes compare each collective before data moves, as threads always does: the default");
  command->add_flag_callback(
      "--no-check-collectives", [&arguments] { arguments.checks = CollectiveChecks::kOff; },
      "they do not: a collective takes some 50 us less, what does not fit shows later");
  command->add_option("--device", arguments.device.name, "who computes: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_flag_callback(
      "--allow-host-fallback",
      [&arguments] { arguments.device.without_kernel = OpsWithoutKernel::kOnHost; },
      "run ops that the device has no kernel for on the host, and list them");
  command
      ->add_option_function<std::string>(
          "--scheduler",
          [&arguments](const std::string& name) { arguments.scheduler = *parse_scheduler(name); },
          "how ranks share the processor: pool (fibers), threads, or seeded (fibers, the next rank "
          "drawn from --seed)")
      ->check(CLI::IsMember({"pool", "threads", "seeded"}));
  command
      ->add_option("--planner", arguments.planner,
                   "who plans redistributions, instead of the scenario's: greedy, graph or bytes")
      ->check(CLI::IsMember({"greedy", "graph", "bytes"}));
  command
      ->add_option_function<std::uint64_t>(
          "--seed", [&arguments](std::uint64_t seed) { arguments.seed = seed; },
          "seed of inputs and random ops, 0 or more; with --scheduler seeded that of the order of "
          "ranks (then --set seed=N is the inputs')")
      ->check(CLI::Validator(
          [](std::string& text) {
            return text.starts_with('-') ? fmt::format("{} is below 0", text) : std::string();
          },
          ""));
  command
      ->add_option("--workers", arguments.workers,
                   "OS threads of the scheduler pool (default: as many as pay)")
      ->check(CLI::Range(1, 1024));
  add_sends(command, arguments);
  command->add_flag_callback(
      "--no-share", [&arguments] { arguments.sharing = KernelSharing::kOff; },
      "run every rank's kernels, those of replicas too");
  command
      ->add_option("--memory", arguments.memory_bytes,
                   "refuse scenarios that would take more, and stop those that do, e.g. 4GiB "
                   "(default: this machine's)")
      ->transform(size_in_bytes())
      ->type_name("SIZE");
}

struct Parsed {
  RunArguments run, test;
  TraceArguments trace, replay;
  ShrinkArguments shrink;
  AdviseArguments advise;
  BlameArguments blame;
  NewArguments fresh;
  RecordArguments record;
  MergeArguments merge;
  SpecArguments show, explain;
  PlanArguments plan;
  OpsArguments ops;
  VerifyOpsArguments verify_ops;
  DiffArguments diff;
  DoctorArguments doctor;
  std::string shell;
  CommonArguments completion;
  std::function<int()> chosen;
};

// Options for the length of a report, and for repeated runs.
void add_lengths(CLI::App* run, RunArguments& arguments) {
  auto* full = run->add_flag_callback(
      "--full", [&arguments] { arguments.length = ReportLength::kFull; },
      "every op, move, collective and value, nothing folded; with --log that of every rank");
  run->add_flag_callback(
         "--summary", [&arguments] { arguments.length = ReportLength::kSummary; },
         "a few lines: what was sent and held, what is wrong")
      ->excludes(full);
  run->add_flag("--watch", arguments.watch,
                "run again whenever a file next to the scenario changes");
  run->add_option("--rank", arguments.rank,
                  "show what this rank prints, and no other; with --log or --json what it did")
      ->check(whole_number_from(0));
  run->add_option("--line", arguments.line, "everything that this line of the file did, alone")
      ->check(whole_number_from(1));
}

// Options for a training step that was recorded in PyTorch.
void add_step_options(CLI::App* run, RunArguments& arguments) {
  run->add_option("--mesh", arguments.mesh,
                  "of a recorded step: the mesh it runs on, dims in order (default: one rank)")
      ->type_name("DIM=SIZE,...");
  run->add_option(
         "--plan", arguments.plan,
         "of a recorded step: placements of parameters and batches; megatron, sequence, fsdp, "
         "hsdp, fsdp+tp or replicate")
      ->type_name("PLAN");
  run->add_option("--place", arguments.placings,
                  "of a recorded step: a tensor by name, 'layers.*.wq.weight=[_@tp, _]', or what a "
                  "module takes or gives, 'layers.*.wo:out=[_, _, _]'")
      ->type_name("NAME=[...]");
  run->add_option("--place-file", arguments.place_file,
                  "of a recorded step: a TOML file of layouts, modules in the words of "
                  "parallelize_module, weights by name")
      ->type_name("FILE");
  run->add_option("--dtype", arguments.dtype,
                  "of a recorded step: run all that is floating in this dtype, as f64")
      ->type_name("DTYPE");
  run->add_option(
         "--backward", arguments.backward,
         "of an exported program (.pt2): the output whose gradients are taken; its elements "
         "are summed")
      ->type_name("OUTPUT");
  run->add_flag("--no-optimizer", arguments.without_optimizer,
                "of a recorded step: end it with its gradients");
}

void add_pictures(CLI::App* run, RunArguments& arguments) {
  run->add_option("--html", arguments.html, "write the run as one page for a browser, too")
      ->type_name("FILE");
  run->add_option("--perfetto", arguments.perfetto,
                  "write a time line of all ranks, by predicted times, for ui.perfetto.dev, too")
      ->type_name("FILE");
}

void add_run(CLI::App& app, Parsed& parsed) {
  auto* run = app.add_subcommand("run", "run a scenario on simulated ranks and check every value");
  run->add_option(
         "FILE", parsed.run.files,
         "scenario files (.toml), names of those that are shipped (models/megatron_mlp), or "
         "- for standard input")
      ->required();
  run->add_option("--why", parsed.run.why,
                  "explain decisions of an op, a source line, a value's statement, or all; what no "
                  "run has a name for is refused")
      ->type_name("NAME|LINE|all");
  add_lengths(run, parsed.run);
  add_pictures(run, parsed.run);
  run->add_flag("--log", parsed.run.log,
                "an indented log of ops, redistributions and collectives on one rank instead");
  run->add_flag("--memory-timeline", parsed.run.memory_timeline,
                "what one rank held in the course of the program, and what for: a picture, with "
                "--json a list");
  run->add_option_function<std::string>(
         "--values",
         [&parsed](const std::string& text) {
           parsed.run.keep_elements = text == "all" ? kKeepAll : std::stoll(text);
         },
         "with --json: this many elements of every value, by global index, for `shardlab diff`")
      ->check([](const std::string& text) {
        const bool number = !text.empty() && text.size() < 18 && text != "0" &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        return number || text == "all" ? std::string() : "'" + text + "' is not a count, nor 'all'";
      })
      ->type_name("COUNT|all");
  add_strict(run, parsed.run);
  add_run_options(run, parsed.run);
  add_common(run, parsed.run.common);
  run->footer(
      "Examples:\n"
      "  shardlab run models/megatron_mlp\n"
      "  shardlab run step.json.gz --mesh dp=2,tp=4 --plan megatron\n"
      "  shardlab run --why mm --set mesh.tp=2 scenarios/models/megatron_mlp.toml\n"
      "In order of execution, '18, 20 all_reduce tp 64 B' is line 18, then line 20, which enters "
      "an\n"
      "all_reduce over tp. '(18, 20) x 2' ran twice, each time with the same ops, types and "
      "bytes.\n"
      "Figures: 'sent' is what a ring would send: all_reduce 2(n-1)/n of the tensor, all_gather "
      "and\n"
      "reduce_scatter (n-1)/n of the whole, all_to_all (n-1)/n of the local piece. 'predicted' is "
      "the\n"
      "faster of a ring and a tree, as NCCL chooses, over the links that stand below; one after "
      "the\n"
      "other, no overlap. FLOP: multiplications and additions of products, convolutions and "
      "attention\n"
      "on the rank's own pieces. Memory counts every buffer that a rank's device allocated.");
  run->callback([&parsed] {
    parsed.chosen = [&parsed] {
      parsed.run.replay = Replay::kWhereItAdds;
      return in_job(parsed.run, [&parsed] { return run_command(parsed.run); });
    };
  });
}

// Of commands that run a scenario many times.
void add_budget(CLI::App* command, double& budget) {
  command
      ->add_option("--budget", budget,
                   "time to take, in runs of the scenario (default 10; at least 5 s)")
      ->check(CLI::PositiveNumber);
}

void add_shrink(CLI::App& app, Parsed& parsed) {
  ShrinkArguments& arguments = parsed.shrink;
  auto* shrink = app.add_subcommand("shrink", "the smallest scenario that fails in the same way");
  shrink
      ->add_option("FILE", arguments.file,
                   "a scenario that fails, its graph (NAME.graph), or a recorded step")
      ->required();
  shrink->add_option("-o,--out", arguments.out, "write it to this file instead of stdout")
      ->type_name("FILE");
  add_budget(shrink, arguments.budget);
  add_run_options(shrink, arguments.run);
  add_common(shrink, arguments.run.common);
  shrink->footer(
      "Examples:\n"
      "  shardlab shrink zoo/bias_before_the_sum\n"
      "  shardlab shrink zoo/update_over_the_wrong_group -o small.toml\n"
      "Statements, parts of expressions, inputs, sizes and mesh dims go as long as the failure\n"
      "stays: the same cause, error or verdict at the same statement. The scenario that is left\n"
      "expects this failure.\n"
      "Exit codes: 0 it is smaller, 2 nothing fails.");
  shrink->callback(
      [&parsed] { parsed.chosen = [&parsed] { return shrink_command(parsed.shrink); }; });
}

void add_blame(CLI::App& app, Parsed& parsed) {
  BlameArguments& arguments = parsed.blame;
  auto* blame = app.add_subcommand("blame", "the first wrong line, and the edit that mends it");
  blame
      ->add_option("FILE", arguments.file,
                   "a scenario that fails, a recorded step, or a run of two that should agree")
      ->required();
  blame->add_option("OTHER", arguments.other,
                    "a run that should agree with FILE: output of run --json --values all, a "
                    "scenario, or, with a recorded step, one on other ranks or the values of a "
                    "job (shardlab_record.dump_values)");
  add_run_options(blame, arguments.run);
  add_common(blame, arguments.run.common);
  blame->footer(
      "Examples:\n"
      "  shardlab blame zoo/bias_before_the_sum\n"
      "  shardlab blame --json zoo/divided_by_all_ranks\n"
      "  shardlab blame tp2.json tp4.json\n"
      "  shardlab blame one.json.gz tp2.json.gz\n"
      "  shardlab blame one.json.gz values.json.gz\n"
      "An edit is printed after a run with it, in which no value differs from one device and one\n"
      "device computes what it did before.\n"
      "Exit codes: 0 nothing is wrong, 1 something is.");
  blame->callback([&parsed] { parsed.chosen = [&parsed] { return blame_command(parsed.blame); }; });
}

void add_advise(CLI::App& app, Parsed& parsed) {
  AdviseArguments& arguments = parsed.advise;
  auto* advise = app.add_subcommand("advise", "cheaper programs with the same values");
  advise->add_option("FILE", arguments.file, "a scenario that runs as expected")->required();
  add_budget(advise, arguments.budget);
  add_run_options(advise, arguments.run);
  add_common(advise, arguments.run.common);
  advise->footer(
      "Examples:\n"
      "  shardlab advise models/fsdp_linear\n"
      "  shardlab advise --json --set mesh.tp=2 models/megatron_mlp\n"
      "One redistribution in place of several, none in place of one that is undone, another\n"
      "placement of an input, a reduce_scatter in place of an all_reduce and a slice. An edit is\n"
      "printed after a run with it in which every value is right, and which sends less and has\n"
      "less predicted time. Expected counts of collectives, bytes and memory may then change.\n"
      "Exit codes: 0 the program was tried, 1 it is not as expected.");
  advise->callback(
      [&parsed] { parsed.chosen = [&parsed] { return advise_command(parsed.advise); }; });
}

void add_new(CLI::App& app, Parsed& parsed) {
  auto* fresh = app.add_subcommand("new", "write a commented program to begin with");
  fresh->add_option("FILE", parsed.fresh.file,
                    "what to write: mlp.toml, tp.toml, fsdp.toml, pipeline.toml, moe.toml or "
                    "local.toml; without one the kinds are listed");
  fresh->add_option("--kind", parsed.fresh.kind, "where the file has another name: mlp, tp, ...");
  fresh->footer(
      "Examples:\n"
      "  shardlab new tp.toml\n"
      "  shardlab new --kind moe experts.toml");
  fresh->callback([&parsed] { parsed.chosen = [&parsed] { return new_command(parsed.fresh); }; });
}

void add_test(CLI::App& app, Parsed& parsed) {
  auto* test = app.add_subcommand("test", "run scenarios and print one line each");
  test->add_option("PATH", parsed.test.files,
                   "scenario files or folders; without one, all that are shipped");
  test->add_option("--filter", parsed.test.filter, "only those with this in path, title or point");
  test->add_flag("--verbose,-v", parsed.test.verbose, "the whole report of what fails, too");
  test->add_flag("--list", parsed.test.list, "print titles and what each is about, run nothing");
  test->add_option(
          "--schedules", parsed.test.schedules,
          "run each under this many orders of ranks (seeds from --seed on), until one fails")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}))
      ->type_name("COUNT");
  test->add_option("--jobs,-j", parsed.test.jobs, "scenarios at once (default: one per core)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}))
      ->type_name("COUNT");
  test->add_option("--junit", parsed.test.junit, "write the results as JUnit XML, too")
      ->type_name("FILE");
  test->add_flag("--github", parsed.test.github,
                 "print what GitHub's actions show at the line of the file, too");
  add_strict(test, parsed.test);
  add_run_options(test, parsed.test);
  add_common(test, parsed.test.common);
  test->footer(
      "Examples:\n"
      "  shardlab test scenarios\n"
      "  shardlab test --schedules 200 --junit results.xml models/megatron_mlp\n"
      "The output does not depend on --jobs.");
  test->callback([&parsed] {
    parsed.chosen = [&parsed] {
      return in_job(parsed.test, [&parsed] { return test_command(parsed.test); });
    };
  });
}

void add_trace(CLI::App& app, Parsed& parsed) {
  TraceArguments& arguments = parsed.trace;
  auto* trace = app.add_subcommand("trace", "a program as a graph, with what it rests on");
  trace
      ->add_option(
          "FILE", arguments.file,
          "a scenario, the name of one that is shipped, a recorded step, or an exported program")
      ->required();
  trace->add_option("--out", arguments.out, "write the graph, for `shardlab replay` and --check")
      ->type_name("GRAPH");
  auto* check = trace->add_option("--check", arguments.check,
                                  "run nothing: do this graph's guards hold for the scenario?");
  check->type_name("GRAPH");
  trace
      ->add_option("--rank", arguments.rank,
                   "the graph of this rank: groups with their ranks, lengths of its pieces")
      ->check(whole_number_from(0));
  trace->add_option("--ranks", arguments.ranks, "the same of several: all, or 0,3")
      ->type_name("RANKS")
      ->excludes("--rank");
  trace
      ->add_option("--level", arguments.level,
                   "what ranks have in common (program), or the graph of each (rank)")
      ->check(CLI::IsMember({"program", "rank"}));
  auto* dot = trace->add_flag("--dot", arguments.dot, "nodes and edges for Graphviz, instead");
  auto* toml = trace->add_flag("--toml", arguments.toml, "a scenario that does the same, instead");
  auto* cpp =
      trace->add_flag("--cpp", arguments.cpp, "a program in C++ that does the same, instead");
  trace
      ->add_flag("--text", arguments.text,
                 "one line a node, for people to read and compare: what --out writes instead of "
                 "JSON, or what is printed")
      ->excludes(dot)
      ->excludes(toml)
      ->excludes(cpp);
  toml->excludes(dot)->excludes(cpp);
  cpp->excludes(dot);
  add_run_options(trace, arguments.run);
  add_common(trace, arguments.run.common);
  trace->footer(
      "Examples:\n"
      "  shardlab trace models/megatron_mlp\n"
      "  shardlab trace models/megatron_mlp --out mlp.graph\n"
      "  shardlab trace models/megatron_mlp --text --out mlp.txt\n"
      "  shardlab trace --check mlp.graph models/megatron_mlp\n"
      "  shardlab trace models/megatron_mlp --cpp > program.cpp\n"
      "The graph is run again at once: its bits must be the program's, on every rank.\n"
      "Exit codes: 0 fine, 1 the replay differs, the program fails, or a guard is broken.");
  trace->callback([&parsed] {
    parsed.chosen = [&parsed] { return guarded([&] { return trace_command(parsed.trace); }); };
  });
}

void add_replay(CLI::App& app, Parsed& parsed) {
  TraceArguments& arguments = parsed.replay;
  auto* replay = app.add_subcommand("replay", "run a graph in place of its program");
  replay
      ->add_option(
          "FILE", arguments.run.files,
          "what `shardlab trace --out` has written, or a program that was recorded elsewhere")
      ->required();
  replay->add_option("--until", arguments.until, "the last node that runs")
      ->check(whole_number_from(0))
      ->type_name("NODE");
  replay->add_option("--rank", arguments.rank, "tell this rank's values before and after each node")
      ->check(whole_number_from(0));
  replay->add_flag("--pinned", arguments.pinned,
                   "stop where today's rules decide otherwise than when it was captured");
  add_run_options(replay, arguments.run);
  add_common(replay, arguments.run.common);
  replay->footer(
      "Examples:\n"
      "  shardlab replay mlp.graph\n"
      "  shardlab replay --until 8 --rank 3 mlp.graph\n"
      "  shardlab replay mlp.graph --backend fake\n"
      "Inputs are drawn as the program's were. Every call of a recording is compared. Exit codes: "
      "0 the same bits, 1 not, 2 no graph.");
  replay->callback([&parsed] {
    parsed.chosen = [&parsed] {
      return in_job(parsed.replay.run, [&parsed] { return replay_command(parsed.replay); });
    };
  });
}

void add_merge(CLI::App& app, Parsed& parsed) {
  auto* merge = app.add_subcommand("merge", "make one recording of those of all ranks");
  merge->add_option("FILE", parsed.merge.files, "of each rank: step.r0.json.gz, step.r1.json.gz")
      ->required();
  merge->add_option("--out", parsed.merge.out, "the file (default: step.json.gz)")
      ->type_name("FILE");
  merge->footer(
      "Processes write one file each: `torchrun --nproc-per-node 2 train.py` with\n"
      "shardlab_record.record(\"step.json.gz\", model) in it, or `shardlab record --ranks 2\n"
      "--processes train.py`, which merges them itself.\n"
      "Example:\n"
      "  shardlab merge step.r0.json.gz step.r1.json.gz --out step.json.gz\n"
      "Exit codes: 0; 2: not the files of all ranks, or ranks that do different things.");
  merge->callback([&parsed] {
    parsed.chosen = [&parsed] { return guarded([&] { return merge_command(parsed.merge); }); };
  });
}

// --python among the recorder's own options. These have a value each, but for one, and the first
// word after them is the script.
void take_python(RecordArguments& record) {
  constexpr std::string_view kOption = "--python";
  std::vector<std::string>& words = record.words;
  for (std::size_t i = 0; i < words.size() && words[i].starts_with("-");) {
    const bool joined = words[i].find('=') != std::string::npos;
    const std::size_t taken = joined || words[i] == "--processes" ? 1 : 2;
    if (words[i].substr(0, words[i].find('=')) != kOption || i + taken > words.size()) {
      i += taken;
      continue;
    }
    record.python = joined ? words[i].substr(kOption.size() + 1) : words[i + 1];
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i + taken));
  }
}

void add_record(CLI::App& app, Parsed& parsed) {
  auto* record = app.add_subcommand("record", "record a training step of a PyTorch script");
  record->add_flag("--print-path", parsed.record.print_path,
                   "say where the recorder is, for PYTHONPATH or a copy, and run nothing");
  record
      ->add_option("--python", parsed.record.python,
                   "the Python that has PyTorch (default: python3)")
      ->type_name("PYTHON");
  record->prefix_command();
  record->footer(
      "`shardlab record [--out FILE] [--skip N] [--steps N] [--values none] [--level op|pieces] "
      "[--ranks N [--processes]] SCRIPT [ARGUMENT...]`\n"
      "records the script from its first forward or message to the end of its optimizer's first "
      "step, into step.json.gz.\n"
      "--ranks N: all ranks in one process; with --processes, for FSDP2, DDP and messages, a "
      "process "
      "each on gloo.\n"
      "In a script: `with shardlab_record.record(\"step.json.gz\", model): train_step()`.\n"
      "Examples:\n"
      "  shardlab record --print-path\n"
      "  shardlab record --help\n"
      "Exit codes: those of the script; 2: no PyTorch, no such Python.");
  record->callback([record, &parsed] {
    parsed.record.words = record->remaining();
    take_python(parsed.record);
    parsed.chosen = [&parsed] { return guarded([&] { return record_command(parsed.record); }); };
  });
}

void add_plan(CLI::App& app, Parsed& parsed) {
  PlanArguments& arguments = parsed.plan;
  auto* plan = app.add_subcommand("plan", "every planner's steps from one type to another");
  auto* texts = plan->add_option("TYPE", arguments.texts, "source and target")->expected(2);
  auto* mesh = plan->add_option("--mesh", arguments.mesh, "mesh dims in order: x=2,y=3");
  plan->add_option("--planner", arguments.planner, "only this one: greedy, graph or bytes")
      ->check(CLI::IsMember({"greedy", "graph", "bytes"}));
  plan->add_option(
          "--rules", arguments.rules,
          "release whose plans greedy and graph make: 2.15 (default), or seed, an older one")
      ->check(CLI::IsMember({"2.15", "seed"}));
  plan->add_flag("--draw", arguments.draw, "who holds what before and after each step");
  plan->add_option("--link", arguments.links,
                   "a mesh dim's link: GB/s (2^30 bytes) and microseconds a hop")
      ->type_name("DIM=GBPS,US");
  plan->add_option("--devices-per-host", arguments.devices_per_host,
                   "dims within a host are fast: 87.7 GB/s, 0.6 us; others 19.3 GB/s, 2.7 us")
      ->check(whole_number_from(1));
  plan->add_option("--flatten", arguments.flatten, "dims over which steps may be merged: x,y")
      ->type_name("DIM,DIM")
      ->delimiter(';');
  plan->add_option("--budget", arguments.budget, "states that planner bytes may expand")
      ->check(whole_number_from(0));
  auto* batch = plan->add_option("--batch", arguments.batch,
                                 "answer every line of a file (-: stdin) of JSON objects with "
                                 "source, target, mesh and perhaps planner, rules, "
                                 "budget");
  batch->excludes(texts)->excludes(mesh);
  add_common(plan, arguments.common);
  plan->footer(
      "Examples:\n"
      "  shardlab plan \"f32[7@x, 6]\" \"f32[7, 6@y]\" --mesh x=2,y=3 --draw\n"
      "  shardlab plan \"f32[8]{sum:x}\" \"f32[8@x]\" --mesh x=4 --link x=400,1.5\n"
      "  echo '{\"source\": \"f32[8@x]\", \"target\": \"f32[8]\", \"mesh\": \"x=4\"}' | "
      "shardlab plan --batch -\n"
      "received: what the rank that receives most receives, step by step, over the slowest links.\n"
      "predicted: by rings or trees, as run prints it; greedy and graph choose by the reference's\n"
      "price, rings alone. peak: a rank's piece before and after a step.");
  plan->callback([&parsed] { parsed.chosen = [&parsed] { return plan_command(parsed.plan); }; });
}

void add_spec_commands(CLI::App& app, Parsed& parsed) {
  const auto add = [&app](const char* name, const char* about, SpecArguments& arguments,
                          const char* text_help, int count) {
    auto* command = app.add_subcommand(name, about);
    auto* texts = command->add_option("TYPE", arguments.texts, text_help)->required();
    if (count > 0) texts->expected(count);
    command->add_option("--mesh", arguments.mesh, "mesh dims in order: x=2,y=3")->required();
    add_common(command, arguments.common);
    return command;
  };
  auto* show = add("show", "draw who holds what", parsed.show, "a type string", 1);
  show->footer(
      "Examples:\n"
      "  shardlab show \"f32[10@x, 6@y]\" --mesh x=2,y=3\n"
      "  shardlab show \"f32[7@(y,x)]{sum:z}\" --mesh x=2,y=2,z=2");
  show->callback([&parsed] { parsed.chosen = [&parsed] { return show_command(parsed.show); }; });

  add_plan(app, parsed);

  auto* explain = add("explain", "why an op call is placed as it is", parsed.explain,
                      "op, as ATen or torch calls it (mm, add.Tensor, F.linear), then per argument "
                      "a type, a list of types, a number, true, false or none; NAME=VALUE in torch "
                      "calls",
                      -1);
  explain->footer(
      "Examples:\n"
      "  shardlab explain mm \"f32[8@x, 16]\" \"f32[16, 4@x]\" --mesh x=4\n"
      "  shardlab explain add.Tensor \"f32[8]{sum:x}\" \"f32[8]\" --mesh x=2\n"
      "  shardlab explain F.linear \"f32[8@x, 16]\" \"f32[4, 16]\" --mesh x=2\n"
      "  shardlab explain cat \"[f32[4@x, 6], f32[2, 6]]\" --mesh x=2\n"
      "An op that others make up is explained call by call.");
  explain->callback(
      [&parsed] { parsed.chosen = [&parsed] { return explain_command(parsed.explain); }; });
}

void add_table_commands(CLI::App& app, Parsed& parsed) {
  auto* ops = app.add_subcommand("ops", "the ops and their sharding rules");
  ops->add_option("NAME", parsed.ops.name,
                  "one op, all overloads of a base name, a part of names (*norm*), or torch's "
                  "name: F.linear");
  ops->add_flag("--families", parsed.ops.families,
                "how many overloads each family has, and how their rules are known");
  ops->add_option("--unrecorded", parsed.ops.unrecorded,
                  "folder of propagation facts: the overloads in its ops.json that have no case, "
                  "each with how its rule is known and what verify-ops tries it on")
      ->type_name("FOLDER");
  add_common(ops, parsed.ops.common);
  ops->footer(
      "Examples:\n"
      "  shardlab ops mm\n"
      "  shardlab ops add\n"
      "  shardlab ops --families\n"
      "  shardlab ops --unrecorded tests/golden/facts/propagate\n"
      "Without NAME, all of them.");
  ops->callback([&parsed] { parsed.chosen = [&parsed] { return ops_command(parsed.ops); }; });
}

void add_verify_ops(CLI::App& app, Parsed& parsed) {
  VerifyOpsArguments& arguments = parsed.verify_ops;
  auto* verify = app.add_subcommand(
      "verify-ops", "prove that ops, sharded in every way, give the values of one device");
  verify->add_option("PATTERN", arguments.pattern,
                     "an op, all overloads of a base name, or a part of names: *norm*");
  verify->add_option("--mesh", arguments.mesh, "only this one, by its sizes: 4 or 2,3")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  verify->add_option("--placements", arguments.placements,
                     "only the call with these placements on --mesh: \"S(0) R, R R\"");
  verify
      ->add_option("--rules", arguments.rules,
                   "the rules of this scenario, [[rule]]; without PATTERN the ops that it names")
      ->type_name("FILE");
  verify->add_flag("--forward", arguments.forward, "without gradients");
  verify->add_flag("--details", arguments.details,
                   "why calls are refused, and which rows a rule could offer besides");
  verify->add_option("--seed", arguments.seed, "of the inputs' elements");
  verify
      ->add_option("--placings", arguments.placings,
                   "ways to place the inputs of a call on a mesh, at most")
      ->check(CLI::Range(1, 4096));
  verify
      ->add_option("--forms", arguments.forms,
                   "other forms of the calls of an op, at most (default 12): lists of one number, "
                   "what may be left out, operands of other ranks; 0: none")
      ->check(CLI::Range(0, 1000));
  verify->add_option("--workers", arguments.workers, "ops at once (default: a processor each)")
      ->check(CLI::Range(1, 1024));
  add_common(verify, arguments.common);
  verify->footer(
      "Examples:\n"
      "  shardlab verify-ops mm\n"
      "  shardlab verify-ops \"*softmax*\" --details\n"
      "  shardlab verify-ops aten::mm --mesh 3 --placements \"S(1), S(0)\"\n"
      "  shardlab verify-ops --rules scenarios/ops/own_rule.toml\n"
      "silent: right, and nothing was sent. missing: rows that would need no communication.\n"
      "Exit codes: 0 nothing is wrong, 1 something is.");
  verify->callback(
      [&parsed] { parsed.chosen = [&parsed] { return verify_ops_command(parsed.verify_ops); }; });
}

void add_diff(CLI::App& app, Parsed& parsed) {
  auto* diff = app.add_subcommand("diff", "compare two runs and explain the first difference");
  diff->add_option("A", parsed.diff.a, "output of shardlab run --json")->required();
  diff->add_option("B", parsed.diff.b, "the same, of another backend, scheduler, seed or mesh")
      ->required();
  diff->add_option("--gate", parsed.diff.gate,
                   "only these figures of B, which may grow by so much: bytes, peak, collectives, "
                   "time (predicted); growth in %, or in the figure's unit, 0 if left out")
      ->type_name("FIGURE=+GROWTH,...");
  add_common(diff, parsed.diff.common);
  diff->footer(
      "Examples:\n"
      "  shardlab diff threads.json mpi.json\n"
      "  shardlab diff --json tp2.json tp4.json\n"
      "  shardlab diff --gate bytes=+5%,peak=+64KiB stored.json new.json\n"
      "Make the files with `shardlab run --json --values all FILE > threads.json`. Values are\n"
      "compared by global index; they agree within the envelopes of both runs.\n"
      "Exit codes: 0 equal, 1 different or over a gate, 2 unreadable.");
  diff->callback([&parsed] { parsed.chosen = [&parsed] { return diff_command(parsed.diff); }; });
}

void add_doctor(CLI::App& app, Parsed& parsed) {
  auto* doctor = app.add_subcommand("doctor", "what this machine has and what can run on it");
  add_common(doctor, parsed.doctor.common);
  doctor->footer(
      "Examples:\n  shardlab doctor --color never\n  shardlab doctor --json\n"
      "Processor, memory, limits, links, MPI, CUDA and NCCL, with versions; what runs, and what "
      "to\n"
      "type for what is missing. Absence is not a failure: the exit code is 0.");
  doctor->callback(
      [&parsed] { parsed.chosen = [&parsed] { return doctor_command(parsed.doctor); }; });
}

// Commands and options as they are when this is called.
std::vector<CompletedCommand> completed(const CLI::App& app) {
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  std::vector<CompletedCommand> commands;
  for (const CLI::App* command : app.get_subcommands({})) {
    CompletedCommand one{{command->get_name(), first_line(command->get_description())}, {}};
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        one.options.push_back({"--" + name, first_line(option->get_description())});
      }
    }
    commands.push_back(std::move(one));
  }
  return commands;
}

void add_completion(CLI::App& app, Parsed& parsed) {
  auto* completion =
      app.add_subcommand("completion", "a script that completes commands in a shell");
  completion->add_option("SHELL", parsed.shell, "bash, zsh or fish")->required();
  add_common(completion, parsed.completion);
  completion->footer(
      "Examples:\n"
      "  shardlab completion bash > shardlab.bash\n"
      "  shardlab completion zsh > _shardlab\n"
      "  shardlab completion fish > shardlab.fish\n"
      "bash: source the file, or put it into ~/.local/share/bash-completion/completions as "
      "shardlab;\n"
      "zsh: put it into a folder of fpath; fish: into ~/.config/fish/completions.");
  completion->callback([&app, &parsed] {
    parsed.chosen = [&app, &parsed] {
      const std::string script = completion_script(parsed.shell, completed(app));
      const bool json = parsed.completion.output == Output::kJson;
      std::fputs(json ? completion_json(parsed.shell, script).c_str() : script.c_str(), stdout);
      return static_cast<int>(kFine);
    };
  });
}

// An option that the command does not have, and the nearest that it has; empty: it has all.
std::pair<std::string, std::string> unknown_option(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& word : command.remaining()) {
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && name != "--") return {name, suggest(name, names)};
  }
  return {};
}

// `first`: the word in place of a command.
void refuse_arguments(const CLI::App& app, const CLI::ParseError& error, const std::string& first) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  const bool known = std::find(commands.begin(), commands.end(), first) != commands.end();
  std::string text, fix;
  if (known) {
    text = fmt::format("shardlab {}: {}", first, error.what());
    fix = fmt::format("shardlab {} --help", first);
    const auto [option, suggestion] = unknown_option(*app.get_subcommand(first));
    if (!option.empty()) {
      text = fmt::format("shardlab {}: unknown option '{}'", first, option);
      fix = fmt::format("{} shardlab {} --help lists all", suggestion, first);
    }
  } else if (first.empty() || first.starts_with('-')) {
    text = "the first argument names a command";
    fix = "one of: " + text_of_list(commands, ", ");
  } else {
    text = fmt::format("unknown command '{}'", first);
    fix = suggest(first, commands);
  }
  std::fputs(fmt::format("error: {}\n  fix         {}\n", text, fix).c_str(), stderr);
}

// A full disk is reported when the buffered output is written.
int with_output(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs(fmt::format("error: what was printed could not be written: {}\n"
                         "  fix         make room there, or send it elsewhere\n",
                         std::strerror(errno))
                 .c_str(),
             stderr);
  return kCannotRun;
}

void begin() {
  keep_freed_memory();
  tell_on_interrupt();
  std::signal(SIGPIPE, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  begin();
  if (argc > 1 && std::string_view(argv[1]) == "check") {
    std::fputs(
        "error: `shardlab check` is a program of its own, which tests/run builds: "
        "build/tests/facts/check FILE...\n",
        stderr);
    return kCannotRun;
  }
  CLI::App app(
      "shardlab - distributed tensors on simulated ranks: placements, collectives, numbers");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of all commands");
  app.set_version_flag("--version", fmt::format("shardlab {}", version()), "print the version");
  app.footer(
      "Examples:\n  shardlab run scenarios/models/megatron_mlp.toml\n"
      "  shardlab show \"f32[10@x, 6@y]\" --mesh x=2,y=3\n"
      "Exit codes: 0 fine, 1 the program ran and something failed, 2 it can't run as written,\n"
      "3 a defect of shardlab, 130 interrupted.");
  Parsed parsed;
  add_run(app, parsed);
  add_step_options(app.get_subcommand("run"), parsed.run);
  app.get_subcommand("run")->add_flag("--toml", parsed.run.toml,
                                      "of a recorded step: print it as a scenario, run nothing");
  add_shrink(app, parsed);
  add_step_options(app.get_subcommand("shrink"), parsed.shrink.run);
  add_blame(app, parsed);
  add_step_options(app.get_subcommand("blame"), parsed.blame.run);
  add_advise(app, parsed);
  add_step_options(app.get_subcommand("advise"), parsed.advise.run);
  add_new(app, parsed);
  add_test(app, parsed);
  add_trace(app, parsed);
  add_step_options(app.get_subcommand("trace"), parsed.trace.run);
  add_replay(app, parsed);
  add_record(app, parsed);
  add_merge(app, parsed);
  add_spec_commands(app, parsed);
  add_table_commands(app, parsed);
  add_verify_ops(app, parsed);
  add_diff(app, parsed);
  add_doctor(app, parsed);
  add_completion(app, parsed);
  // The parser would take a list in brackets apart, so that it must not begin with one.
  std::vector<std::string> words(argv, argv + argc);
  std::vector<const char*> pointers;
  for (std::string& word : words) {
    if (word.starts_with('[')) word = fmt::format(" {}", word);
    pointers.push_back(word.c_str());
  }
  try {
    app.parse(argc, pointers.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return with_output(app.exit(error));
    refuse_arguments(app, error, argc > 1 ? argv[1] : "");
    return kCannotRun;
  }
  return with_output(guarded(parsed.chosen));
}
