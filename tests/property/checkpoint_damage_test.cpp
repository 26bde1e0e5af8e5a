// Each mutation is read as a checkpoint in a process of its own batch: opening it, reading all its
// tensors and printing its objects end in values or in one error, and never in a crash, a hang or
// more memory than the files explain.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/checkpoint/checkpoint.h"

using namespace shardlab;

namespace {

namespace fs = std::filesystem;

constexpr int kBatch = 500;
constexpr unsigned kSeconds = 20;

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// One to four changes: bits, numbers that are too large, parts that are gone, twice, or elsewhere.
std::string mutated(std::string text, std::mt19937_64& random) {
  const auto below = [&](std::size_t end) {
    return end == 0 ? 0 : static_cast<std::size_t>(random() % end);
  };
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(text.size()),
                      size = std::min(1 + below(1 << below(8)), text.size() - at);
    switch (below(7)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 2: {
        const std::uint64_t large[] = {1ull << 63, ~0ull, 1ull << 31, 0xFFFFFFFF, 1ull << 62, 0};
        const std::uint64_t value = large[below(6)];
        for (std::size_t i = 0; i < 8 && at + i < text.size(); ++i)
          text[at + i] = static_cast<char>(value >> 8 * i);
        break;
      }
      case 3:
        text.erase(at, size);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size()), size));
        break;
      case 5:
        text.resize(at);
        break;
      default:
        text.insert(at, std::string(size, static_cast<char>(random())));
    }
  }
  return text;
}

// Whether all of it was read.
bool feed(const std::string& path) {
  try {
    const Checkpoint checkpoint = Checkpoint::open(path);
    for (const StoredTensor& tensor : checkpoint.tensors()) {
      faults_of(tensor);
      // Rows one by one: a shape may say more than the file has.
      if (tensor.type == nullptr || tensor.bytes() > 1 << 20) continue;
      std::string bytes(static_cast<std::size_t>(tensor.bytes()), '\0');
      checkpoint.read(tensor, {Dims(tensor.shape.size()), tensor.shape}, bytes.data());
    }
    for (const StoredObject& object : checkpoint.objects()) checkpoint.print(object);
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal || error.find("fix") == nullptr) _exit(3);
    return false;
  }
}

/// A kind of file: a folder with other files, and one that is mutated.
struct Kind {
  const char *name, *folder, *file, *opened;
};
constexpr Kind kKinds[] = {
    {"metadata", "optimizer_fsdp_4", ".metadata", ""},
    {"metadata with objects", "nested_objects", ".metadata", ""},
    {"archives of pieces", "transposed_2", "__0_0.distcp", ""},
    {"archives of objects", "nested_objects", "__0_0.distcp", ""},
    {"safetensors", "hf_2_consolidated", "model-00001-of-00001.safetensors",
     "model-00001-of-00001.safetensors"},
    {"safetensors of ranks", "hf_2_consolidated_integers",
     "shard-00001-model-00001-of-00001.safetensors", ""},
    {"an index", "hf_2_consolidated", "model.safetensors.index.json", ""},
    {"npy", "npy", "x.npy", ""},
    {"torch.save", "saved", "x.pt", ""},
};

void damage(const Kind& kind, const std::string& folder, int mutations) {
  const std::string file = folder + "/" + kind.file, whole = read(file);
  REQUIRE(feed(folder + "/" + kind.opened));
  rlim_t largest = 0;
  int accepted = 0;
  for (int first = 0; first < mutations; first += kBatch) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      rusage before{}, after{};
      getrusage(RUSAGE_SELF, &before);
      long told[2] = {0, 0};
      for (int i = first; i < first + kBatch; ++i) {
        std::mt19937_64 random(static_cast<std::uint64_t>(i) * 7919 + 1);
        std::ofstream(file, std::ios::binary) << mutated(whole, random);
        alarm(kSeconds);
        told[0] += feed(folder + "/" + kind.opened);
      }
      getrusage(RUSAGE_SELF, &after);
      told[1] = after.ru_maxrss - before.ru_maxrss;  // KiB
      _exit(write(ends[1], told, sizeof told) == sizeof told ? 0 : 1);
    }
    close(ends[1]);
    long told[2] = {0, 0};
    const bool heard = ::read(ends[0], told, sizeof told) == sizeof told;
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    CAPTURE(first);
    CHECK(status == 0);
    CHECK(heard);
    accepted += static_cast<int>(told[0]);
    largest = std::max(largest, static_cast<rlim_t>(told[1]));
  }
  MESSAGE(std::string(kind.name) << ": " << accepted << " of " << mutations << " read, " << largest
                                 << " KiB more memory at most");
  CHECK(largest < 64 * 1024 + 4 * whole.size() / 1024);
}

void damage_all(int mutations) {
  const std::string root = "tests/golden/checkpoints";
  const fs::path scratch =
      fs::temp_directory_path() / ("shardlab_damage_" + std::to_string(getpid()));
  for (const Kind& kind : kKinds) {
    CAPTURE(std::string(kind.name));
    fs::remove_all(scratch);
    fs::copy(root + "/" + kind.folder, scratch, fs::copy_options::recursive);
    damage(kind, scratch.string(), mutations);
  }
  fs::remove_all(scratch);
}

}  // namespace

TEST_CASE("a thousand mutations of each kind of file are read, or refused with one error") {
  damage_all(1000);
}

TEST_CASE("ten thousand mutations of each kind of file are read, or refused with one error") {
  damage_all(10000);
}
