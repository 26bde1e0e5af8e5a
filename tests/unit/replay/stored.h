// stored.h - the recordings that are stored in tests/golden/recordings.
#pragma once

#include <filesystem>
#include <string>

#include "base/program_path.h"
#include "sim/recording/recording.h"

namespace shardlab::test {

// Above the program, which is built inside of the repository.
inline std::string path_of(const std::string& name) {
  namespace fs = std::filesystem;
  const std::string file = "tests/golden/recordings/" + name + ".json.gz";
  fs::path folder = program_path().parent_path();
  while (!fs::exists(folder / file) && folder != folder.root_path()) folder = folder.parent_path();
  return (folder / file).string();
}

inline RecordedProgram stored(const std::string& name) { return read_recording(path_of(name)); }
inline RecordedProgram recorded(const std::string& name) { return stored(name + "__2.15.0"); }

}  // namespace shardlab::test
