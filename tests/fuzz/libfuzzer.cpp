// The same targets under libFuzzer, which follows coverage: one executable a target, that of
// SHARDLAB_FUZZ_TARGET, with the repository's texts (SHARDLAB_FUZZ_ROOT) as seeds. An empty folder
// as first argument is filled with them. tests/fuzz/run builds and starts it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/error.h"
#include "sim/language/syntax/source.h"
#include "tests/fuzz/targets.h"

namespace {

using namespace shardlab;
using fuzz::Target;

const Target& target() {
  static const std::unique_ptr<const Target> chosen = [] {
    for (const Target& candidate : fuzz::make_targets(SHARDLAB_FUZZ_ROOT)) {
      if (candidate.name == SHARDLAB_FUZZ_TARGET) return std::make_unique<const Target>(candidate);
    }
    std::fputs("no target " SHARDLAB_FUZZ_TARGET "\n", stderr);
    std::exit(2);
  }();
  return *chosen;
}

void write_seeds(const std::filesystem::path& folder) {
  int number = 0;
  for (const std::string& text : target().material.corpus) {
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary) << text;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc < 2) return 0;
  const std::filesystem::path folder = (*argv)[1];
  if (std::filesystem::is_directory(folder) && std::filesystem::is_empty(folder)) {
    write_seeds(folder);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    target().feed(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const ScenarioError&) {
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInternal) return 0;
    std::fputs(error.what(), stderr);
    std::abort();
  }
  return 0;  // any other exception ends the process: a finding
}
