#include <doctest/doctest.h>

#include <cstdlib>

#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

// A command line, which options_from() shortens.
struct Line {
  std::vector<std::string> words;
  std::vector<char*> pointers;
  int count;

  explicit Line(std::vector<std::string> given) : words(std::move(given)) {
    words.insert(words.begin(), "train");
    for (std::string& word : words) pointers.push_back(word.data());
    count = static_cast<int>(pointers.size());
    pointers.push_back(nullptr);
  }
  WorldOptions read(WorldOptions defaults = {}) {
    return options_from(count, pointers.data(), std::move(defaults));
  }
  std::vector<std::string> left() const { return {pointers.begin() + 1, pointers.begin() + count}; }
};

struct Variable {
  const char* name;
  Variable(const char* of, const char* value) : name(of) { setenv(of, value, 1); }
  ~Variable() { unsetenv(name); }
};

}  // namespace

TEST_CASE("options_from reads what it knows and leaves the rest") {
  Line line({"--ranks", "6", "--epochs", "3", "--backend=threads", "data.bin", "--scheduler",
             "seeded", "--workers=2", "--seed", "17", "--check-collectives", "--device", "cuda"});
  const WorldOptions options = line.read();
  CHECK(options.ranks == 6);
  CHECK(options.backend == "threads");
  CHECK(options.schedule.kind == SchedulerKind::kSeeded);
  CHECK(options.schedule.workers == 2);
  CHECK(options.schedule.seed == 17);
  CHECK(options.seed == 0);
  CHECK(options.checks == CollectiveChecks::kOn);
  CHECK(options.device_type == "cuda");
  CHECK(line.left() == std::vector<std::string>{"--epochs", "3", "data.bin"});
  CHECK(line.pointers[static_cast<std::size_t>(line.count)] == nullptr);
}

TEST_CASE("options_from: the last word on checks counts") {
  CHECK(Line({"--check-collectives", "--no-check-collectives"}).read().checks ==
        CollectiveChecks::kOff);
  CHECK(Line({"--no-check-collectives", "--check-collectives"}).read().checks ==
        CollectiveChecks::kOn);
}

TEST_CASE("options_from: the command line comes before the environment, that before defaults") {
  WorldOptions defaults;
  defaults.ranks = 8;
  CHECK(Line({}).read(defaults).ranks == 8);
  const Variable ranks("SHARDLAB_RANKS", "4"), seed("SHARDLAB_SEED", "3");
  CHECK(Line({}).read(defaults).ranks == 4);
  CHECK(Line({}).read(defaults).seed == 3);
  CHECK(Line({"--ranks=2"}).read(defaults).ranks == 2);
}

TEST_CASE("options_from says which option is wrong") {
  const auto refused = [](std::vector<std::string> words, const char* what) {
    CHECK_THROWS_WITH_AS(Line(std::move(words)).read(), doctest::Contains(what), Error);
  };
  refused({"--ranks", "0"}, "--ranks: '0' is not a whole number from 1 on");
  refused({"--workers", "two"}, "--workers: 'two' is not a whole number from 1 on");
  refused({"--seed", "-1"}, "--seed: '-1' is not a whole number from 0 on");
  refused({"--scheduler", "fifo"}, "no scheduler named fifo");
  refused({"--backend", "gloo"}, "no backend named gloo");
  refused({"--ranks"}, "--ranks: the value is missing");
  const Variable workers("SHARDLAB_WORKERS", "many");
  refused({}, "SHARDLAB_WORKERS: 'many' is not a whole number from 1 on");
}

TEST_CASE("a device is found by its name") {
  WorldOptions options;
  options.device_type = "abacus";
  CHECK_THROWS_WITH_AS(spmd(options, [](RankContext&) {}), doctest::Contains("abacus"), Error);
}
