#include "tests/fuzz/targets.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "dispatch/all_ops.h"
#include "mesh/type_string.h"
#include "sim/autopsy/autopsy.h"
#include "sim/autopsy/flight_values.h"
#include "sim/checkpoint/checkpoint.h"
#include "sim/checkpoint/pickle.h"
#include "sim/checkpoint/zip_archive.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"
#include "sim/graph/capture.h"
#include "sim/graph/trace_report.h"
#include "sim/judge/scenario_run.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/parser.h"
#include "sim/prove/promise.h"
#include "sim/recording/exported_program.h"
#include "sim/recording/recording.h"
#include "sim/recording/recording_file.h"
#include "sim/remesh/mesh_graph.h"
#include "sim/remesh/plan.h"
#include "sim/remesh/program.h"
#include "sim/remesh/writes.h"
#include "sim/replay/replay.h"
#include "sim/report/run_diff.h"
#include "sim/report/run_json.h"
#include "sim/scenario/scenario_file.h"
#include "tests/facts/case_report.h"
#include "tests/facts/check.h"
#include "tests/facts/check_families.h"
#include "tests/facts/check_programs.h"
#include "tests/fuzz/op_calls.h"
#include "tests/support/read_expression.h"
#include "trace/graph_json.h"

namespace shardlab::fuzz {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_below(const std::string& folder, std::string_view extension) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().string().ends_with(extension)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> scenario_texts(const std::string& root) {
  std::vector<std::string> texts;
  for (const char* folder : {"/scenarios", "/tests/errors/cases"}) {
    for (const std::string& path : files_below(root + folder, ".toml")) {
      texts.push_back(read(path));
    }
  }
  return texts;
}

std::vector<std::string> programs_of(const std::vector<std::string>& scenarios) {
  std::vector<std::string> programs;
  for (const std::string& text : scenarios) {
    const std::size_t begin = text.find("code = \"\"\"\n");
    if (begin == std::string::npos) continue;
    const std::size_t end = text.find("\"\"\"", begin + 11);
    programs.push_back(text.substr(begin + 11, end - begin - 11));
  }
  return programs;
}

[[noreturn]] void broken(const std::string& text) { throw std::logic_error(text); }

// Printing a spec and reading it again gives the same.
Answer feed_type(const std::string& text) {
  Arena arena;
  const MeshLayout* mesh = arena.layout({{2, 3, 2}, {"dp", "tp", "pp"}, {}});
  const ParsedType type = parse_type(text, *mesh);
  const TensorMeta meta = contiguous_meta(type.shape, type.dtype.value_or(DType::kF32));
  const DTensorSpec* spec = arena.spec(mesh, type.placements, type.order, meta);
  const std::string printed = type_string(*spec);
  const ParsedType again = parse_type(printed, *mesh);
  const DTensorSpec* second = arena.spec(mesh, again.placements, again.order, meta);
  if (second != spec || again.shape != type.shape) broken("reads back as another type: " + printed);
  return Answer::kAccepted;
}

// A printed tree reads back as itself.
Answer feed_program(const std::string& text) {
  const auto parse = [](std::string program) {
    return parse_program(std::make_shared<const SourceText>("fuzz.toml", std::move(program)));
  };
  const std::string printed = print(parse(text).body);
  std::string again;
  try {
    again = print(parse(printed).body);
  } catch (const ScenarioError& error) {
    broken("what it prints is refused: " + error.report());
  }
  if (again != printed) broken("reads back as another program:\n" + printed);
  return Answer::kAccepted;
}

Scenario first_point(const std::string& text) {
  const ScenarioFile file =
      ScenarioFile::read(std::make_shared<const SourceText>("fuzz.toml", text), {});
  return file.at(file.points().at(0));
}

Answer feed_scenario(const std::string& text) {
  const Scenario scenario = first_point(text);
  if (scenario.program) check_names(scenario, all_ops());
  return Answer::kAccepted;
}

// Runs it when it is small: 16 ranks, 64 MiB, short loops.
Answer feed_run(const std::string& text) {
  const Scenario scenario = first_point(text);
  ScenarioOptions options;
  options.memory = MemoryLimits{.bytes_per_rank = 4 << 20, .available_bytes = 64 << 20};
  options.step_limit = 2000;
  try {
    const ScenarioResult result = run_scenario(scenario, all_ops(), options);
    if (result.run.error && result.run.error->kind() == ErrorKind::kInternal)
      broken(result.run.error->text());
    return Answer::kAccepted;
  } catch (const std::bad_alloc&) {
    return Answer::kRefused;  // it may ask for more than a child has; the command line reports it
  }
}

// Texts of objects that graphs depend on.
std::vector<std::string> expression_texts() {
  return {"Shard(0)",
          "Partial(\"max\")",
          "StridedShard(1, 4)",
          "Replicate()",
          "group.WORLD",
          "DeviceMesh(\"cpu\", [[0, 1], [2, 3]], [\"dp\", \"tp\"]).get_group(\"tp\")",
          "[\"dp\", [1, -2], None, True, 0.5]"};
}

// Objects that need no rank are made, too.
Answer feed_expression(const std::string& text) {
  TextEmitter printed;
  read_expression(text, printed);
  const std::string first = printed.take();
  read_expression(first, printed);
  if (printed.take() != first) broken("reads back as another expression");
  Arena arena;
  FactoryEmitter factory(arena);
  read_expression(text, factory);
  const auto make = factory.take();
  const bool on_rank =
      first.find("DeviceMesh") != std::string::npos || first.find("group") != std::string::npos;
  if (!on_rank) make();
  return Answer::kAccepted;
}

std::string texts_of_graphs(const std::vector<ProgramGraph>& graphs) {
  std::string text;
  for (const ProgramGraph& graph : graphs) text += graph_json(graph);
  return text;
}

// The graphs of small scenarios, as their files.
std::vector<std::string> graph_texts(const std::string& root) {
  std::vector<std::string> texts;
  for (const char* name : {"/scenarios/smoke/add.toml", "/scenarios/models/megatron_mlp.toml",
                           "/scenarios/redistribute/uneven_rows.toml"}) {
    const Captured captured = capture_scenario(first_point(read(root + name)), all_ops(), {});
    texts.push_back(texts_of_graphs(captured.graphs));
  }
  return texts;
}

// A graph that is read is printed and read again, and runs or is refused, when it is small.
Answer feed_graph(const std::string& text) {
  const std::vector<ProgramGraph> graphs = read_graphs(text);
  const std::string printed = texts_of_graphs(graphs);
  if (texts_of_graphs(read_graphs(printed)) != printed) broken("reads back as another graph");
  ScenarioOptions options;
  options.memory = MemoryLimits{.bytes_per_rank = 4 << 20, .available_bytes = 64 << 20};
  try {
    const ReplayRun replayed = replay_on_ranks(graphs, all_ops(), options);
    const auto& error = replayed.run.error;
    if (error && error->kind() == ErrorKind::kInternal) broken(error->text());
  } catch (const std::bad_alloc&) {
    return Answer::kRefused;
  }
  return Answer::kAccepted;
}

// Small programs of facts.
std::vector<std::string> program_texts(const std::string& root) {
  std::vector<std::string> texts;
  for (const char* name :
       {"views2__4_S0", "fsdp_mlp__4_uneven", "mlp_tp_module__2", "chain__2x2"}) {
    texts.push_back(
        read_text(fmt::format("{}/tests/golden/facts/programs/{}.jsonl.gz", root, name)));
  }
  return texts;
}

// A recorded program of facts is played line by line, and compared: it agrees or not.
Answer feed_played(const std::string& text) {
  std::istringstream stream(text);
  FactChecker* checker = nullptr;
  std::unique_ptr<FactChecker> made;
  for (std::string line; std::getline(stream, line);) {
    const Json event = read_json(line);
    if (made == nullptr && takes_program("", event)) made = make_program_checker("");
    checker = made.get();
    if (checker == nullptr || event.is_discarded()) continue;
    CaseReport report;
    try {
      checker->check(event, report);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) broken(error.text());
    }
    for (const auto& difference : report.differences()) json_line(difference.got);
  }
  return checker == nullptr ? Answer::kRefused : Answer::kAccepted;
}

// Small recordings of PyTorch: their lines, then the elements.
std::vector<std::string> recording_texts(const std::string& root) {
  constexpr std::size_t kLongest = 65536;
  std::vector<std::string> texts;
  for (const std::string& path : files_below(root + "/tests/golden/recordings", ".json.gz")) {
    const RecordingFile file = read_recording_file(path);
    std::string text;
    for (const std::string& line : file.lines) text += line + "\n";
    text += file.raw;
    if (text.size() <= kLongest) texts.push_back(std::move(text));
  }
  return texts;
}

// The lines up to the one with "end", whatever its numbers are.
RecordingFile file_of(const std::string& text) {
  RecordingFile file{.path = "fuzz.json", .lines = {}, .raw = {}};
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    file.lines.push_back(text.substr(start, end - start));
    start = end + 1;
    if (file.lines.back().starts_with("{\"k\":\"end\"") && start <= text.size()) {
      file.raw = text.substr(start);
      break;
    }
  }
  return file;
}

// Inputs that take long to fill are no hang.
bool holds_much(const RecordedProgram& recording) {
  constexpr std::int64_t kMostElements = 1 << 20;
  return std::ranges::any_of(recording.events, [](const RecordedEvent& event) {
    return event.kind == RecordedKind::kInput && product(event.out[0].type.shape) > kMostElements;
  });
}

// A recording that was read is replayed, and is a program on a mesh where it has one rank.
Answer feed_recording(const std::function<RecordedProgram()>& read) {
  try {
    const RecordedProgram recording = read();
    if (recording.ranks > 16 || holds_much(recording)) return Answer::kRefused;
    replay_text(recording, replay_recording(recording));
    if (recording.ranks == 1) {
      CallProgram program = program_of(recording);
      renew_written(program);
      const PlanMesh mesh = {{"tp", 2}};
      return feed_run(mesh_scenario(program, mesh, plan_of(program, mesh, "megatron", {})));
    }
  } catch (const std::bad_alloc&) {
    return Answer::kRefused;
  }
  return Answer::kAccepted;
}

Answer feed_recorded(const std::string& text) {
  if (text.empty()) return Answer::kRefused;
  return feed_recording([&] { return read_recording(file_of(text)); });
}

// Exported programs as archives, and what is in them without their elements.
std::vector<std::string> exported_texts(const std::string& root) {
  std::vector<std::string> texts;
  for (const std::string& path : files_below(root + "/tests/golden/exported", ".pt2")) {
    texts.push_back(read(path));
    texts.push_back(open_exported(FileBytes(path, texts.back())).program);
  }
  return texts;
}

// The weights of all of them.
ExportedFiles exported_weights(const std::string& root) {
  ExportedFiles all;
  all.path = "fuzz.pt2";
  for (const std::string& path : files_below(root + "/tests/golden/exported", ".pt2")) {
    const ExportedFiles files = open_exported(FileBytes::open(path));
    all.configs.insert(files.configs.begin(), files.configs.end());
    all.elements.insert(files.elements.begin(), files.elements.end());
  }
  return all;
}

// A text that begins as an archive does is one; others are the program in it.
Answer feed_exported(const ExportedFiles& weights, const std::string& text) {
  return feed_recording([&] {
    ExportOptions options;
    if (ZipArchive::begins(text)) {
      return exported_program(open_exported(FileBytes("fuzz.pt2", text)), options);
    }
    ExportedFiles files = weights;
    files.program = text;
    constexpr std::string_view kLoss = "cross_entropy_loss";
    if (text.find(kLoss) != std::string::npos) options.backward = kLoss;
    return exported_program(std::move(files), options);
  });
}

// Small files of checkpoints: of these names, or of these endings.
std::vector<std::string> checkpoint_texts(const std::string& root, std::string_view ending) {
  constexpr std::size_t kLongest = 16384;
  std::vector<std::string> texts;
  for (const std::string& path : files_below(root + "/tests/golden/checkpoints", ending)) {
    std::string text = read(path);
    if (text.size() <= kLongest) texts.push_back(std::move(text));
  }
  return texts;
}

// All of its values are printed; other classes are records.
Answer feed_pickle(const std::string& text) {
  const auto known = [](std::string_view type) { return type.starts_with("torch"); };
  const Pickle pickle =
      Pickle::read("fuzz.pkl", text, {.knows = known, .others = PickleRules::Others::kInert});
  if (pickle.root().print(4096).size() > 16384) broken("prints more than it is asked for");
  return Answer::kAccepted;
}

// At most 12 lines, of characters that a terminal only shows.
void check_report(const std::string& text) {
  if (std::ranges::count(text, '\n') > 12) broken("more than 12 lines: " + text);
  std::string lines = text;
  std::erase(lines, '\n');
  if (printed_text(lines) != lines) broken("bytes of the file, raw: " + text);
}

// Beside the dump of another rank, which is as it was.
Answer feed_dump(const std::string& other, const std::string& text) {
  FlightWords words;
  FlightValues values(words);
  std::vector<FlightDump> dumps;
  dumps.push_back(flight_dump_of("rank_0", text, values));
  dumps.push_back(flight_dump_of("rank_1", other, values));
  check_report(autopsy_of(std::move(dumps), words).text(words));
  return Answer::kAccepted;
}

// A schedule, with both ways to place receives.
Answer feed_schedule(const std::string& text) {
  Answer answer = Answer::kRefused;
  for (const Receives receives : {Receives::kEarly, Receives::kDeferred}) {
    Promise promise = promise_of(text, receives, false);
    promise.asked = kUsualTransports;
    check_report(promise.text());
    if (promise.refused.empty()) answer = Answer::kAccepted;
  }
  return answer;
}

// Dumps of a rank in both forms; pickles are those of gloo, parts of a tar file.
std::vector<std::string> dump_texts(const std::string& root) {
  constexpr std::size_t kBlock = 512, kSizeAt = 124, kMost = 4096;
  std::vector<std::string> texts;
  const std::string folder = root + "/tests/golden/facts/autopsy";
  const std::string tar = read_text(folder + "/real_gloo.tar.gz");
  for (std::size_t at = 0; at + kBlock <= tar.size() && tar[at] != 0;) {
    const std::size_t size = std::stoul(tar.substr(at + kSizeAt, 11), nullptr, 8);
    if (tar.substr(at, 100).find("rank_") != std::string::npos) {
      texts.push_back(tar.substr(at + kBlock, size));
    }
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  std::istringstream lines(read_text(folder + "/dumps.jsonl.gz"));
  for (std::string line; std::getline(lines, line);) {
    const Json job = Json::parse(line);
    for (const Json& dump : job.at("dumps")) {
      std::string one = dump.dump();
      if (one.size() < kMost) texts.push_back(std::move(one));
    }
  }
  return texts;
}

// A file by itself, or the list of a folder that has no others: all that it says is read.
Answer feed_checkpoint(const std::string& name, const std::string& text) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("shardlab_fuzz_{}", getpid());
  fs::create_directories(folder);
  const std::string path = folder / name;
  std::ofstream(path, std::ios::binary) << text;
  constexpr std::int64_t kMostBytes = 1 << 20;
  const Checkpoint checkpoint = Checkpoint::open(path);
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    faults_of(tensor);
    if (tensor.type == nullptr || tensor.bytes() > kMostBytes) continue;
    std::string bytes(static_cast<std::size_t>(tensor.bytes()), '\0');
    checkpoint.read(tensor, {Dims(tensor.shape.size()), tensor.shape}, bytes.data());
  }
  for (const StoredObject& object : checkpoint.objects()) checkpoint.print(object);
  return Answer::kAccepted;
}

// The output of `run --json` of small scenarios.
std::vector<std::string> run_texts(const std::string& root) {
  ScenarioOptions options;
  options.keep_elements = 1000;
  std::vector<std::string> texts;
  for (const char* name : {"/scenarios/smoke/add.toml", "/scenarios/models/megatron_mlp.toml",
                           "/scenarios/faults/deadlock.toml"}) {
    texts.push_back(run_json(run_scenario(first_point(read(root + name)), all_ops(), options)));
  }
  return texts;
}

// A run is compared with those that are whole.
Answer feed_diff(const std::vector<Json>& whole, const std::string& text) {
  const Json run = read_json(text);
  if (run.is_discarded()) return Answer::kRefused;
  try {
    for (const Json& other : whole) {
      diff_text({diff_run(run, other)}, "a", "b", Color::kOff);
      diff_json({diff_run(other, run)});
    }
  } catch (const Json::exception&) {
    return Answer::kRefused;
  }
  return Answer::kAccepted;
}

// Lines of every family, each after the name of its file: "layout/shard_orders {...}".
std::vector<std::string> fact_lines(const std::string& root) {
  constexpr std::size_t kLines = 40, kLongest = 2000;
  std::vector<std::string> texts;
  for (const char* folder : {"layout", "redistribute", "propagate"}) {
    for (const std::string& path :
         files_below(root + "/tests/golden/facts/" + folder, ".jsonl.gz")) {
      const std::vector<std::string> lines = read_lines(path);
      const std::size_t step = std::max<std::size_t>(1, lines.size() / kLines);
      for (std::size_t i = 0; i < lines.size(); i += step) {
        if (lines[i].size() > kLongest) continue;
        texts.push_back(fmt::format("{} {}", fact_stem(path), lines[i]));
      }
    }
  }
  return texts;
}

Answer feed_fact(const std::string& text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) return Answer::kRefused;
  const std::string stem = text.substr(0, blank);
  const Json fact = Json::parse(text.substr(blank + 1), nullptr, false);
  if (fact.is_discarded()) return Answer::kRefused;
  try {
    for (const CheckFamily& family : check_families()) {
      if (!family.takes(stem, fact)) continue;
      CaseReport report;
      family.make(stem)->check(fact, report);
      return Answer::kAccepted;
    }
  } catch (const Json::exception&) {
    return Answer::kRefused;
  } catch (const Error&) {  // also Internal: a fact may contradict itself, which fails its line
    return Answer::kRefused;
  }
  return Answer::kRefused;
}

std::vector<std::string> type_texts(const std::vector<std::string>& scenarios) {
  std::vector<std::string> texts = {
      "f32[8@dp, 64@(dp,tp), 16]{sum:pp}",
      "f32[8@dp~2, 3@tp]{norm(2):pp}",
      "i64[]{max:(dp,tp)}",
      "bool[0@dp, 1, 5@(tp,pp,dp)]",
      "f32[7@tp]{mask(sum,16x8,0):dp}",
      "[8@dp, 16]{avg:tp,min:pp}",
  };
  for (const std::string& text : scenarios) {
    std::size_t at = 0;
    while ((at = text.find('"', at)) != std::string::npos) {
      const std::size_t end = text.find_first_of("\"\n", at + 1);
      if (end == std::string::npos) break;
      const std::string inner = text.substr(at + 1, end - at - 1);
      if (inner.find('[') != std::string::npos && inner.find('@') != std::string::npos) {
        texts.push_back(inner);
      }
      at = end + 1;
    }
  }
  return texts;
}

const std::vector<std::string_view> kTypeTokens = {"f32",
                                                   "i64",
                                                   "bool",
                                                   "c64",
                                                   "f8e4m3fn",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   "(",
                                                   ")",
                                                   "@",
                                                   "~",
                                                   ",",
                                                   ":",
                                                   "@dp",
                                                   "@tp",
                                                   "@pp",
                                                   "sum:",
                                                   "avg:",
                                                   "max:dp",
                                                   "norm(2)",
                                                   "mask(sum,16x8,0)",
                                                   "0",
                                                   "-1",
                                                   "~2",
                                                   "product:",
                                                   "band:",
                                                   "\xff",
                                                   "norm(inf):tp"};

const std::vector<std::string_view> kProgramTokens = {"if ",
                                                      "else:",
                                                      "elif x:",
                                                      "for i in range(3):",
                                                      "while ",
                                                      "def f(a, b=1):",
                                                      "return ",
                                                      "assert ",
                                                      "pass",
                                                      "break",
                                                      "continue",
                                                      "\n",
                                                      "    ",
                                                      "(",
                                                      ")",
                                                      "[",
                                                      "]",
                                                      "{",
                                                      "}",
                                                      ",",
                                                      ":",
                                                      ".",
                                                      "=",
                                                      "==",
                                                      "+=",
                                                      "**",
                                                      "//",
                                                      "@",
                                                      "-",
                                                      "not ",
                                                      " in ",
                                                      " is ",
                                                      " and ",
                                                      "lambda ",
                                                      "None",
                                                      "True",
                                                      "...",
                                                      "f'{x}'",
                                                      "'",
                                                      "\"\"\"",
                                                      "\\",
                                                      "#",
                                                      "rank",
                                                      "mesh",
                                                      "range(",
                                                      "redistribute(tp=R)",
                                                      "S(0)",
                                                      "P(sum)",
                                                      "x.t()",
                                                      "backward(",
                                                      "randn([3, 4], ",
                                                      "all_reduce(",
                                                      ".grad",
                                                      "for k, v in ",
                                                      "1_0",
                                                      "0x"};

const std::vector<std::string_view> kScenarioTokens = {"[mesh]\n",
                                                       "[inputs]\n",
                                                       "[params]\n",
                                                       "[program]\n",
                                                       "[expect]\n",
                                                       "[matrix]\n",
                                                       "[topology]\n",
                                                       "ranks = ",
                                                       "world = ",
                                                       "seed = ",
                                                       "code = \"\"\"\n",
                                                       "\"\"\"\n",
                                                       "type = ",
                                                       "init = ",
                                                       "values = ",
                                                       "scale = ",
                                                       "file=\"x.npy\"",
                                                       "verify = \"none\"\n",
                                                       "collectives = { all_reduce = 1 }\n",
                                                       "implicit = \"forbid\"\n",
                                                       "tolerance = ",
                                                       "@",
                                                       "[",
                                                       "]",
                                                       "{",
                                                       "}",
                                                       "=",
                                                       "\n",
                                                       "\"",
                                                       "'",
                                                       ",",
                                                       "x = 1000000000\n",
                                                       "f32[8@x]",
                                                       "hidden",
                                                       "1000000000",
                                                       "[[0, 1]]",
                                                       "true",
                                                       "\xf0\x9f\x8c\x8d",
                                                       "while True:\n    pass\n",
                                                       "x = x @ x\n",
                                                       "print(",
                                                       "range(10 ** 12)",
                                                       "* 10 ** 6"};

const std::vector<std::string_view> kCallTokens = {
    "@x",      "f32[",    "i64[",        "bool[",         "c64[",     "f64[",    "bf16[",
    "{sum:x}", "{max:x}", "0, ",         "1, ",           "-1",       "None",    "True",
    "[]",      "[0]",     "[1, 1]",      "0.5",           "1e300",    "2 ** 62", "-2 ** 63",
    "a0",      "a1",      "torch.int64", "torch.float32", "\"mean\"", ", "};

const std::vector<std::string_view> kFactTokens = {"null",
                                                   "true",
                                                   "[]",
                                                   "{}",
                                                   "\"\"",
                                                   "[[]]",
                                                   "-1",
                                                   "0",
                                                   "1e9",
                                                   ",",
                                                   ":",
                                                   "\"",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   "R",
                                                   "S(0)",
                                                   "S(7)",
                                                   "P(sum)",
                                                   "_S(0, 2)",
                                                   "S(-1)",
                                                   "shape",
                                                   "mesh",
                                                   "[1000000000]",
                                                   "[0]",
                                                   "1000000000000"};

}  // namespace

// Programs that send messages.
std::vector<std::string> with_messages(const std::vector<std::string>& scenarios) {
  std::vector<std::string> texts;
  for (const std::string& text : scenarios) {
    if (text.find("send(") != std::string::npos || text.find("isend") != std::string::npos) {
      texts.push_back(text);
    }
  }
  return texts;
}

// So many messages are long work, and no hang.
Answer feed_messages(const std::string& text) {
  constexpr std::size_t kDigits = 5;
  std::size_t digits = 0;
  for (const char letter : text) {
    digits = letter >= '0' && letter <= '9' ? digits + 1 : 0;
    if (digits == kDigits) return Answer::kRefused;
  }
  return feed_run(text);
}

const std::vector<std::string_view> kMessageTokens = {
    "dist.send(x, 1)\n",
    "dist.recv(x, 0)\n",
    "dist.recv(x)\n",
    "w = dist.isend(x, (rank + 1) % 4)\n",
    "w = dist.irecv(x, (rank - 1) % 4)\n",
    "dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, x, 0)])\n",
    "w.wait()\n",
    "if rank == 0:\n    ",
    "if rank % 2 == 1:\n    ",
    ", tag=7",
    ", group=mesh.get_group(\"tp\")",
    "for i in range(3):\n    ",
    "rank",
    "stage",
    "None",
    "dist.barrier()\n",
    "dist.all_reduce(x)\n",
    "x = torch.zeros([4])\n",
    "0",
    "-1",
    "99"};

const std::vector<std::string_view> kActionTokens = {
    "F0",      "B1",           "I2",          "W0",
    "SEND_F1", "SEND_B0",      "RECV_F1",     "RECV_B0",
    ",",       "\n",           "0",           "1",
    "2",       "WAIT_SEND_F0", "OVERLAP_F_B", "(0F1;1B0)OVERLAP_F_B",
    ";",       "UNSHARD",      "RESHARD",     "99",
    "999999",  "REDUCE_GRAD",  "(",           ")"};

std::vector<Target> make_targets(const std::string& root) {
  const std::vector<std::string> scenarios = scenario_texts(root);
  const std::vector<std::string> cases =
      files_below(root + "/tests/golden/facts/kernels", ".jsonl.gz");
  const std::vector<std::string> runs = run_texts(root);
  std::vector<Json> whole;
  for (const std::string& run : runs) whole.push_back(Json::parse(run));
  const auto feed_one_export = [weights = exported_weights(root)](const std::string& text) {
    return feed_exported(weights, text);
  };
  std::vector<std::string> archives = checkpoint_texts(root, ".distcp");
  for (std::string& text : checkpoint_texts(root, ".pt")) archives.push_back(std::move(text));
  std::vector<std::string> tables = checkpoint_texts(root, ".safetensors");
  for (std::string& text : checkpoint_texts(root, ".npy")) tables.push_back(std::move(text));
  const auto feed_file = [](const std::string& text) { return feed_checkpoint("fuzz.pt", text); };
  const auto feed_one_run = [whole](const std::string& text) { return feed_diff(whole, text); };
  const std::vector<std::string> dumps = dump_texts(root);
  const auto feed_one_dump = [other = dumps.back()](const std::string& text) {
    return feed_dump(other, text);
  };
  std::vector<std::string> schedules;
  for (const std::string& path : files_below(root + "/scenarios/pipelines", ".csv")) {
    schedules.push_back(read(path));
  }
  return {
      {"dump", 2, {dumps, kFactTokens, 16384}, feed_one_dump},
      {"schedule", 2, {schedules, kActionTokens, 16384}, feed_schedule},
      {"graph", 6, {graph_texts(root), kFactTokens, 65536}, feed_graph},
      {"expression", 2, {expression_texts(), kTypeTokens, 256}, feed_expression},
      {"programs", 2, {program_texts(root), kFactTokens, 65536}, feed_played},
      {"recording", 1, {recording_texts(root), kFactTokens, 65536}, feed_recorded},
      {"exported", 1, {exported_texts(root), kFactTokens, 65536}, feed_one_export},
      {"pickle", 4, {checkpoint_texts(root, ".metadata"), kFactTokens, 16384}, feed_pickle},
      {"archive", 2, {archives, kFactTokens, 16384}, feed_file},
      {"safetensors", 2, {tables, kFactTokens, 16384}, feed_file},
      {"diff", 1, {runs, kFactTokens, 65536}, feed_one_run},
      {"type", 34, {type_texts(scenarios), kTypeTokens, 256}, feed_type},
      {"program", 30, {programs_of(scenarios), kProgramTokens, 65536}, feed_program},
      {"scenario", 9, {scenarios, kScenarioTokens, 65536}, feed_scenario},
      {"fact", 5, {fact_lines(root), kFactTokens, 4096}, feed_fact},
      {"run", 1, {scenarios, kScenarioTokens, 65536}, feed_run},
      {"messages", 1, {with_messages(scenarios), kMessageTokens, 65536}, feed_messages},
      {"call", 10, {op_call_scenarios(cases), kCallTokens, 4096, 20}, feed_run},
  };
}

}  // namespace shardlab::fuzz
