// The times in the files that torchrun reads: the root cause has the earliest, also beside a rank
// that torchrun ends in the same second, which writes none.
#include "backends/process/places.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.h"

using namespace shardlab;

namespace {

constexpr const char* kErrorFile = "TORCHELASTIC_ERROR_FILE";

// Four ranks of one host, with a file each. Becomes any of them.
class OneHost {
 public:
  OneHost() {
    std::vector<std::string> all;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      become(rank);
      all.push_back(process::Places::mine());
    }
    places_ = process::Places(all);
  }
  ~OneHost() { unsetenv(kErrorFile); }

  const process::Places& become(std::int64_t rank) {
    setenv(kErrorFile, path(rank).c_str(), 1);
    return places_;
  }
  bool wrote(std::int64_t rank) const { return std::filesystem::exists(path(rank)); }
  std::int64_t time(std::int64_t rank) const {
    std::ifstream file(path(rank));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string key = R"("timestamp": ")";
    return std::stoll(text.substr(text.find(key) + key.size()));
  }

  // Now, as the file system has it.
  std::int64_t now() const {
    struct stat state = {};
    stat(folder_.write("now", "").c_str(), &state);
    return state.st_mtime;
  }

 private:
  std::string path(std::int64_t rank) const { return folder_.path() + "/" + std::to_string(rank); }
  TemporaryFolder folder_;
  process::Places places_;
};

}  // namespace

TEST_CASE("B-7 the culprit's time is before that of a rank which torchrun ends because of it") {
  OneHost host;
  const std::int64_t before = host.now();
  host.become(1).write_errors(1, "rank 3 cannot go on", std::vector<std::int64_t>{3});
  CHECK_FALSE(host.wrote(0));
  CHECK_FALSE(host.wrote(2));
  CHECK(host.time(3) < host.now());
  CHECK(host.time(1) > before);

  host.become(3).write_errors(3, "rank 3 cannot go on", std::vector<std::int64_t>{3});
  CHECK(host.time(3) < host.now());
  CHECK(host.time(3) < host.time(1));
}

TEST_CASE("B-7 a process that has met nobody is its own culprit") {
  OneHost host;
  host.become(2);
  process::write_own_error("no such mesh");
  CHECK(host.time(2) < host.now());
}
