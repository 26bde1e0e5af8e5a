// commands.h - the commands of the program, after their arguments are parsed. Every function
// returns the exit code (sim/contract.md) and writes results to stdout, errors to stderr.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/process/checks.h"
#include "sim/report/run_text.h"
#include "sim/report/show.h"
#include "sim/schedule/schedulers.h"
#include "sim/world/devices.h"
#include "sim/world/sharing_device.h"
#include "sim/world/world.h"

namespace shardlab {

struct Promise;
struct RecordedProgram;

/// Exit codes for scripts: all as expected; an expectation, a value or a fact that fails; wrong use
/// or a file that cannot run; a defect of shardlab; kOnlyByOthers (sim/world/last_words.h);
/// interrupted.
enum ExitCode : int { kFine = 0, kFailed = 1, kCannotRun = 2, kOurDefect = 3, kInterrupted = 130 };

inline void print_text(const std::string& text) { std::fputs(text.c_str(), stdout); }

/// Options that every command has.
struct CommonArguments {
  std::string color = "auto";
  bool json = false;  ///< else text
  /// Colour for stdout: asked for, or a terminal without NO_COLOR.
  Color stdout_color() const;
};

/// `run` and `test`.
struct RunArguments {
  CommonArguments common;
  std::vector<std::string> files;                   ///< `test`: files and folders
  std::vector<std::string> settings;                ///< "key=value"
  std::vector<std::string> links;                   ///< "tp=400,1.5": GB/s and microseconds
  std::string backend;                              ///< empty: the scenario's
  CollectiveChecks checks = CollectiveChecks::kOn;  ///< used if ranks are processes
  DeviceChoice device;
  std::optional<SchedulerKind> scheduler;  ///< none: pool
  /// Seed of the inputs and random ops; under the scheduler `seeded`, of the order of ranks
  /// instead.
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> workers;  ///< none: as many as make it faster
  std::optional<Transport> transport;   ///< none: as WorldOptions has it
  bool lazy_groups = false;
  KernelSharing sharing = KernelSharing::kOn;
  std::optional<std::int64_t> memory_bytes;  ///< none: the machine's
  std::string types;                         ///< strict or local: checked; empty or off: not
  std::string planner;                       ///< of redistributions; empty: the scenario's
  ReportLength length = ReportLength::kOverview;
  int line = 0;  ///< of the source, alone and in full; 0: all
  Replay replay = Replay::kShown;
  bool memory_timeline = false;      ///< the memory of a rank in the course of the program
  bool log = false;                  ///< as an indented log of the dispatcher's decisions
  std::string why;                   ///< op, source line, value name or "all"
  std::optional<std::int64_t> rank;  ///< its prints are shown; none: those of all ranks
  std::string html;                  ///< `run`: page to write; empty: none
  std::string perfetto;              ///< `run`: time line to write; empty: none
  std::string rates;                 ///< of its calls: "100,2,1"; empty: those
  std::string flight_recorder;       ///< `run`: folder for a dump of each rank; empty: none
  std::string save;                  ///< `run`: folder for the values as a checkpoint; empty: none
  // Options of `run` for a recorded training step:
  std::string mesh;                   ///< "dp=2,tp=4"; empty: one rank
  std::string plan;                   ///< "megatron"; empty: everything is whole; `run`: "all"
  std::vector<std::string> placings;  ///< "layers.*.wq.weight=[_@tp, _]"
  std::string place_file;             ///< layouts, in the words of parallelize_module
  std::string dtype;                  ///< of all floating tensors; empty: as recorded
  std::string backward;               ///< of an exported program: the output that is differentiated
  std::string weights;                ///< a checkpoint with the parameters; empty: the file's
  std::vector<std::string> renames;   ///< of its tensors: "old.{i} -> new.{i}"
  bool without_optimizer = false;
  bool self_test_is_known = false;  ///< it is not printed again
  bool toml = false;                ///< print the scenario, run nothing
  bool watch = false;               ///< `run`: again whenever a file changes
  std::string filter;               ///< `test`: part of a path, title or matrix point
  bool list = false;
  bool strict = false;             ///< values that are not verified fail
  bool verbose = false;            ///< `test`: reports of failures, too
  std::int64_t keep_elements = 0;  ///< `run --json`: of each value; 0: none
  std::int64_t schedules = 0;      ///< `test`: seeds to try per scenario; 0: one run, as asked for
  std::int64_t jobs = 0;           ///< `test`: scenarios at once; 0: one per core
  std::string junit;               ///< `test`: file to write; empty: none
  bool github = false;             ///< `test`: lines by which GitHub shows failures in the file
};
/// Runs each file at each point of its matrix and prints the reports.
int run_command(const RunArguments& arguments);
/// Runs many files, prints a line for each, and writes JUnit XML if asked.
int test_command(const RunArguments& arguments);

/// The words of `shrink` and `advise` where their time was over.
inline constexpr std::string_view kMoreBudget = "--budget N, more than 10, gives it time";

/// `shrink`.
struct ShrinkArguments {
  RunArguments run;    ///< how to run
  std::string file;    ///< a scenario
  std::string out;     ///< the file of the smaller one; empty: stdout
  double budget = 10;  ///< time, in runs of the scenario
};
/// The smallest scenario that fails in the same way.
int shrink_command(const ShrinkArguments& arguments);

/// `advise`.
struct AdviseArguments {
  RunArguments run;    ///< how to run
  std::string file;    ///< a scenario
  double budget = 10;  ///< time, in runs of the scenario
};
/// Cheaper programs with the same values.
int advise_command(const AdviseArguments& arguments);

/// `types`.
struct TypesArguments {
  RunArguments run;       ///< how to run
  std::string file;       ///< a scenario, or a recording of ranks
  std::string one;        ///< of a recording: the same script on one process
  bool annotate = false;  ///< print the program with the types that it has
  std::string out;        ///< the file for that; empty: stdout
};
/// Prints the types that ranks hold of each named value.
int types_command(const TypesArguments& arguments);

/// `blame`.
struct BlameArguments {
  RunArguments run;  ///< how to run
  std::string file;
  std::string other;  ///< a run that should agree with it; empty: one device should
};
/// The first thing that is wrong, and edits that undo it.
int blame_command(const BlameArguments& arguments);

/// `prove`.
struct ProveArguments {
  RunArguments run;  ///< how to run a scenario
  std::string file;
  std::vector<std::string> transports;  ///< fabrics without a hang; empty: [expect], else the usual
  bool deferred = false;                ///< of a compute-only schedule: as defer_pp_recv
  std::int64_t runs = 200;              ///< where a condition fails, on each transport
};
/// Whether the program can hang, on each transport, in any order of ranks.
int prove_command(const ProveArguments& arguments);

/// `autopsy`.
struct AutopsyArguments {
  RunArguments run;                ///< how to run the recording
  std::vector<std::string> paths;  ///< dumps, and folders of them
  std::string recording;           ///< of the job's program; empty: none
};
/// The rank that parted first, from the dumps of PyTorch's flight recorder.
int autopsy_command(const AutopsyArguments& arguments);

/// `new`.
struct NewArguments {
  std::string file;  ///< to write; empty: the kinds are listed
  std::string kind;  ///< "tp"; empty: taken from the name of the file
};
/// Writes a commented program that runs.
///   fails  Value: no such kind; the file exists
int new_command(const NewArguments& arguments);

/// `record`.
struct RecordArguments {
  bool print_path = false;         ///< of the recorder, instead of running it
  std::string python = "python3";  ///< one with PyTorch
  std::vector<std::string> words;  ///< for the recorder: its options, the script, the script's own
};
/// Becomes the recorder's process; returns if only the path was asked for.
///   fails  Value: no script, no such Python. Runtime: the recorder is not installed
int record_command(const RecordArguments& arguments);

/// `merge`.
struct MergeArguments {
  std::vector<std::string> files;  ///< of all ranks
  std::string out = "step.json.gz";
};
/// Makes the recordings of the ranks of one program one file.
///   fails  as merge_steps
int merge_command(const MergeArguments& arguments);

/// `trace` and `replay`.
struct TraceArguments {
  RunArguments run;   ///< options of the runs
  std::string file;   ///< `trace`: a scenario; graphs of `replay` are among run.files
  std::string out;    ///< file for the graph; empty: none
  std::string check;  ///< graph whose guards are checked, instead of a run; empty: none
  bool dot = false;   ///< for Graphviz, instead of the report
  bool toml = false;  ///< the graph as a scenario, instead of the report
  /// `trace`: "program" or "rank", the owner of the graphs shown; empty: "rank" if ranks are given.
  std::string level;
  std::string ranks;  ///< `trace`: "all", "0,3": ranks whose own graphs are shown; empty: none
  /// `trace`: the same of one rank; `replay`: the rank whose values are shown. None: all.
  std::optional<std::int64_t> rank;
  bool pinned = false;  ///< `replay`: decisions are compared with those of the capture
  std::optional<std::int64_t> until;  ///< `replay`: the last node; none: all
};
/// The program of a scenario as a graph, with the facts it depends on.
int trace_command(const TraceArguments& arguments);
/// Runs graphs in place of the programs that they were captured from.
int replay_command(const TraceArguments& arguments);
/// Prints every op of a recorded program, compared with its recorded results, and the promise.
int compare_recording(const RecordedProgram& recording, const RunArguments& arguments,
                      const Promise* promise = nullptr);

/// `show` and `explain`.
struct SpecArguments {
  CommonArguments common;
  std::vector<std::string> texts;  ///< type strings, or an op call
  std::string mesh;                ///< "x=2,y=3"; empty: the text is a checkpoint
  std::string tensor;              ///< of a checkpoint; empty: all
  bool full = false;               ///< nothing is folded
};
/// The pieces that ranks hold of a tensor of this type; the contents of a checkpoint.
int show_command(const SpecArguments& arguments);
/// The decision on one call, and its reasons.
int explain_command(const SpecArguments& arguments);

/// `plan`.
struct PlanArguments {
  CommonArguments common;
  std::vector<std::string> texts;    ///< source and target; none with `batch`
  std::string mesh;                  ///< "x=2,y=3"
  std::string from_mesh;             ///< that of the source, with `to_mesh`
  std::string to_mesh;               ///< that of the target; empty: one mesh
  std::string planner;               ///< greedy, graph or bytes; empty: all
  std::string rules = "2.15";        ///< of greedy and graph: 2.15 or seed
  std::vector<std::string> links;    ///< "x=400,1.5": GB/s and microseconds
  std::vector<std::string> flatten;  ///< "x,y": dims over which steps may merge
  std::int64_t devices_per_host = 1;
  std::int64_t budget = 20000;
  bool draw = false;
  std::string batch;  ///< file of JSON lines, "-": stdin
};
/// The plans of all planners from one type to another, with the bytes moved.
int plan_command(const PlanArguments& arguments);

/// `ops`.
struct OpsArguments {
  CommonArguments common;
  std::string name;  ///< empty: all
};
/// The ops and their rules.
int ops_command(const OpsArguments& arguments);

/// `verify-ops`.
struct VerifyOpsArguments {
  CommonArguments common;
  std::string pattern;             ///< of names; empty: all
  std::vector<std::int64_t> mesh;  ///< the only one; empty: several
  std::string placements;          ///< of the inputs of the only call; empty: all
  std::string rules;               ///< a scenario with rules of its own; empty: the library's
  std::string samples;             ///< a table of further calls; empty: none
  bool forward = false;            ///< without backward
  bool details = false;            ///< reasons of refusals, and rows that are missing
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> placings;  ///< of a sample on a mesh, at most
  std::size_t forms = 12;                 ///< other forms of calls, at most, for each op
  std::optional<std::size_t> workers;
};
/// Compares ops, sharded in every way, with the values of one device.
int verify_ops_command(const VerifyOpsArguments& arguments);

/// `diff`.
struct DiffArguments {
  CommonArguments common;
  std::string a, b;  ///< outputs of run --json
  std::string gate;  ///< figures of B that may not grow; then nothing else is compared
};
/// Compares two runs that were written with run --json.
int diff_command(const DiffArguments& arguments);

/// `doctor`: facts about this machine, and fixes for what is absent.
int doctor_command(const CommonArguments& arguments);

/// True in the one process that reports for all when each rank has a process of its own: rank 0's,
/// or the first that is left.
bool speaks(const RunArguments& arguments);
/// guarded(), but only the first process of each host that is left speaks.
int in_job(const RunArguments& arguments, const std::function<int()>& command);
/// The exit code for one run. If ranks are processes and it failed, say_elsewhere().
int code_of(const ScenarioResult& result, const RunArguments& arguments);
/// The same of a run that failed, once it has been reported.
int code_of_failure(const Run& run, const RunArguments& arguments);
/// in_job(), of a command that refuses backends whose ranks are processes; without a name it does
/// so itself.
int in_one_process(const RunArguments& arguments, std::string_view name,
                   const std::function<int()>& command);
/// If ranks are processes: writes a failure for launchers, and says it on hosts other than that of
/// the process that speaks().
void say_elsewhere(const std::string& text, const std::optional<Verdict>& verdict,
                   const RunArguments& arguments);

/// Runs a command; maps an exception to a message on stderr and an exit code.
int guarded(const std::function<int()>& command);

/// The reason why a command can't run: its message on stderr, and the exit code.
struct Refusal {
  std::string text;
  int code = kCannotRun;
};
/// The refusal that `attempt` throws, if it does.
std::optional<Refusal> refusal_of(const std::function<void()>& attempt);

}  // namespace shardlab
