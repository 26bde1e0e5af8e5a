// `shardlab record`: the user's own Python runs the recorder that is installed with the program.
#include <unistd.h>
#include <cstring>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/program_path.h"
#include "base/text.h"
#include "sim/cli/run_arguments.h"
#include "sim/recording/merge.h"

namespace shardlab {

int record_command(const RecordArguments& arguments) {
  const std::string recorder =
      shipped_file("record_torch/shardlab_record.py", "sim/record_torch/shardlab_record.py")
          .string();
  if (arguments.print_path) {
    print({.out = recorder + "\n"});
    return kFine;
  }
  if (arguments.words.empty()) {
    fail(Fix{"shardlab record train.py"}, "there is no script to record");
  }
  std::vector<const char*> words = {arguments.python.c_str(), recorder.c_str()};
  for (const std::string& word : arguments.words) words.push_back(word.c_str());
  words.push_back(nullptr);
  // With which it makes the files of several processes one.
  setenv("SHARDLAB_PROGRAM", program_path().c_str(), 1);
  execvp(words[0], const_cast<char* const*>(words.data()));  // it does not write to them
  fail(Fix{"name one that has PyTorch: shardlab record --python P train.py"},
       "{} cannot be started: {}", arguments.python, std::strerror(errno));
}

int merge_command(const MergeArguments& arguments) {
  const MergedRecordings merged = merge_recordings(arguments.files, arguments.out);
  const char* const without = merged.missing.empty() ? "" : ", nothing of rank ";
  print({.out =
             fmt::format("{}: {} events of {} ranks, {} bytes{}{}\n", arguments.out, merged.events,
                         merged.ranks, merged.bytes, without, text_of_list(merged.missing, ", "))});
  return kFine;
}

}  // namespace shardlab
