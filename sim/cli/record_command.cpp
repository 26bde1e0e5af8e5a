// `shardlab record`: the user's own Python runs the recorder that is installed with the program.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/fix.h"
#include "base/program_path.h"
#include "sim/cli/commands.h"
#include "sim/cli/run_arguments.h"
#include "sim/record/step_merge.h"

namespace shardlab {

namespace {

namespace fs = std::filesystem;

// The installed file, or the one of the repository that the program was built from.
fs::path recorder_path() {
  const fs::path program = program_path().parent_path();
  const fs::path places[] = {
      program.parent_path() / "share/shardlab/record_torch/shardlab_record.py",
      program.parent_path() / "sim/record_torch/shardlab_record.py"};
  for (const fs::path& path : places) {
    if (fs::exists(path)) return path;
  }
  fail(ErrorKind::kRuntime, Fix{"install shardlab again: meson install -C build"},
       "the recorder, {}, is not there", places[0].string());
}

}  // namespace

int record_command(const RecordArguments& arguments) {
  const std::string recorder = recorder_path().string();
  if (arguments.print_path) {
    print({.out = recorder + "\n"});
    return kFine;
  }
  if (arguments.words.empty()) {
    fail(ErrorKind::kValue, Fix{"shardlab record train.py"}, "there is no script to record");
  }
  std::vector<const char*> words = {arguments.python.c_str(), recorder.c_str()};
  for (const std::string& word : arguments.words) words.push_back(word.c_str());
  words.push_back(nullptr);
  // With which it makes the files of several processes one.
  setenv("SHARDLAB_PROGRAM", program_path().c_str(), 1);
  execvp(words[0], const_cast<char* const*>(words.data()));  // it does not write to them
  fail(ErrorKind::kValue, Fix{"name one that has PyTorch: shardlab record --python P train.py"},
       "{} cannot be started: {}", arguments.python, std::strerror(errno));
}

int merge_command(const MergeArguments& arguments) {
  const MergedSteps merged = merge_steps(arguments.files, arguments.out);
  print({.out = fmt::format("{}: {} events of {} ranks, {} bytes\n", arguments.out, merged.events,
                            merged.ranks, merged.bytes)});
  return kFine;
}

}  // namespace shardlab
