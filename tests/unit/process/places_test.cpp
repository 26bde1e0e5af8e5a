// The times in the files that torchrun reads: the root cause has the earliest, also beside a rank
// that torchrun ends in the same second, which writes none.
#include "backends/process/places.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.h"

using namespace shardlab;
using namespace shardlab::process;

namespace {

constexpr const char* kFile = "TORCHELASTIC_ERROR_FILE";

// Four ranks of one host, with a file each. Becomes any of them.
class Host {
 public:
  Host() {
    std::vector<std::string> all;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      become(rank);
      all.push_back(Places::mine());
    }
    places_ = Places(all);
  }
  ~Host() { unsetenv(kFile); }

  const Places& become(std::int64_t rank) {
    setenv(kFile, path(rank).c_str(), 1);
    return places_;
  }
  bool wrote(std::int64_t rank) const { return std::filesystem::exists(path(rank)); }
  std::int64_t time(std::int64_t rank) const {
    std::ifstream file(path(rank));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string key = R"("timestamp": ")";
    return std::stoll(text.substr(text.find(key) + key.size()));
  }

 private:
  std::string path(std::int64_t rank) const { return folder_.path() + "/" + std::to_string(rank); }
  TemporaryFolder folder_;
  Places places_;
};

std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

TEST_CASE("K-50 the culprit's time is before that of a rank which torchrun ends because of it") {
  Host host;
  const std::int64_t before = seconds_now();
  host.become(1).write_errors(1, "rank 3 cannot go on", std::vector<std::int64_t>{3});
  CHECK_FALSE(host.wrote(0));
  CHECK_FALSE(host.wrote(2));
  CHECK(host.time(3) < seconds_now());
  CHECK(host.time(1) > before);

  host.become(3).write_errors(3, "rank 3 cannot go on", std::vector<std::int64_t>{3});
  CHECK(host.time(3) < seconds_now());
  CHECK(host.time(3) < host.time(1));
}

TEST_CASE("K-50 a process that has met nobody is its own culprit") {
  Host host;
  host.become(2);
  write_own_error("no such mesh");
  CHECK(host.time(2) < seconds_now());
}
