// Feeds mutated texts to the readers of scenarios, programs, type strings and facts, and runs some
// of the scenarios.
//
//     fuzz ROOT [--inputs N | --minutes N] [--seed S] [--target NAME [--only INDEX]]
//          [--accepted FILE]
//
// Inputs are numbered and depend on seed, target and number alone. They are fed in child processes;
// one that ends a child, hangs in it, breaks a property or gives an Internal error is a finding: it
// is cut down while it still does the same, and printed with the command that replays it. The last
// line is `N inputs, N accepted, N findings`; exit code 1 with findings. --accepted writes the
// programs that were accepted, each closed by a zero byte. With --minutes each target has that much
// time of a processor, however many inputs that is.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <optional>

#include "base/error.h"
#include "sim/language/syntax/source.h"
#include "sim/schedule/sanitizer.h"
#include "tests/fuzz/targets.h"

namespace {

using namespace shardlab;
using namespace shardlab::fuzz;

constexpr unsigned kSecondsEach = sanitizer::kActive ? 60 : 20;
constexpr std::uint64_t kBatch = 4000;  // inputs of one child: its memory is freed with it
constexpr rlim_t kMemoryBytes = 4ull << 30;
constexpr int kPropertyBroken = 77, kOutOfMemory = 78;

struct Arguments {
  std::string root, target, accepted;
  std::uint64_t inputs = 200'000, seed = 1;
  std::optional<std::uint64_t> only;
  std::optional<double> minutes;  // of a processor, for each target
};

double seconds_of(int who) {
  rusage use{};
  getrusage(who, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// The report of a child, in memory that both processes share.
struct Shared {
  std::uint64_t done = 0, accepted = 0;
  char text[512] = {};  // of a broken property
};

Shared& shared() {
  static Shared* const memory = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *memory;
}

[[noreturn]] void end_child(int code, const char* text) {
  std::strncpy(shared().text, text, sizeof shared().text - 1);
  _exit(code);
}

Answer feed(const Target& target, const std::string& text) {
  alarm(kSecondsEach);
  try {
    return target.feed(text);
  } catch (const ScenarioError&) {
    return Answer::kRefused;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) end_child(kPropertyBroken, error.text().c_str());
    return Answer::kRefused;
  } catch (const std::bad_alloc&) {
    end_child(kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {
    end_child(kPropertyBroken, error.what());
  }
}

std::string input_of(const Target& target, std::uint64_t seed, std::uint64_t index) {
  Random random(seed * 0x9E3779B97F4A7C15ull + index * 2 + 1);
  return mutated(target.material, random);
}

// The way in which a child ended: 0 for well.
template <typename Body>
int in_child(const Body& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (!sanitizer::kActive) {
      const rlimit limit{kMemoryBytes, kMemoryBytes};
      setrlimit(RLIMIT_AS, &limit);
    }
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string how(int code) {
  if (code == 256 + SIGALRM) return fmt::format("takes more than {} s", kSecondsEach);
  if (code > 256) return fmt::format("ends the process by signal {}", code - 256);
  if (code == kPropertyBroken || code == kOutOfMemory) return shared().text;
  return fmt::format("ends the process with code {}", code);
}

// Shorter texts that end a child the same way.
std::string minimised(const Target& target, std::string text, int code) {
  for (std::size_t size = text.size() / 2; size > 0; size /= 2) {
    for (std::size_t at = 0; at + size <= text.size();) {
      std::string shorter = text;
      shorter.erase(at, size);
      const int ended = in_child([&] {
        std::freopen("/dev/null", "w", stderr);
        feed(target, shorter);
      });
      if (ended == code) {
        text = std::move(shorter);
      } else {
        at += size;
      }
    }
  }
  return text;
}

void tell(const Arguments& arguments, const Target& target, std::uint64_t index, int code) {
  const std::string why = how(code);
  const std::string text = input_of(target, arguments.seed, index);
  const bool slow = code == 256 + SIGALRM;
  std::printf("finding: %s %llu %s\n%s\n", target.name.c_str(),
              static_cast<unsigned long long>(index), why.c_str(),
              (slow ? text : minimised(target, text, code)).c_str());
  std::printf("again: fuzz %s --seed %llu --target %s --only %llu\n\n", arguments.root.c_str(),
              static_cast<unsigned long long>(arguments.seed), target.name.c_str(),
              static_cast<unsigned long long>(index));
}

// `seconds`: of the processor that are left.
void feed_batch(const Arguments& arguments, const Target& target, std::uint64_t begin,
                std::uint64_t end, double seconds) {
  std::FILE* accepted = nullptr;
  if (!arguments.accepted.empty() && target.name == "program") {
    accepted = std::fopen(arguments.accepted.c_str(), "ab");
  }
  for (std::uint64_t index = begin; index < end; ++index) {
    shared().done = index;
    if (seconds_of(RUSAGE_SELF) > seconds) break;
    const std::string text = input_of(target, arguments.seed, index);
    if (feed(target, text) != Answer::kAccepted) continue;
    ++shared().accepted;
    if (accepted != nullptr) std::fwrite(text.c_str(), 1, text.size() + 1, accepted);
  }
  if (accepted != nullptr) std::fclose(accepted);
}

// Findings of one target; stops after a few, which mostly have one cause.
int fuzz_target(const Arguments& arguments, const Target& target) {
  constexpr int kMost = 5;
  int findings = 0;
  std::uint64_t begin = arguments.only.value_or(0);
  constexpr double kForever = 1e18;
  const double before = seconds_of(RUSAGE_CHILDREN);
  const double seconds = arguments.minutes ? before + 60 * *arguments.minutes : kForever;
  const std::uint64_t share = arguments.inputs * static_cast<std::uint64_t>(target.share) / 100;
  const std::uint64_t end =
      arguments.only ? begin + 1
                     : (arguments.minutes ? std::numeric_limits<std::uint64_t>::max() / 2 : share);
  const std::uint64_t accepted_before = shared().accepted;
  while (begin < end && findings < kMost) {
    const double left = seconds - seconds_of(RUSAGE_CHILDREN);
    if (left <= 0) break;
    const std::uint64_t last = std::min(begin + kBatch, end);
    const int code = in_child([&] { feed_batch(arguments, target, begin, last, left); });
    if (code == 0) {
      begin = last;
      continue;
    }
    ++findings;
    const std::uint64_t index = shared().done;
    tell(arguments, target, index, code);
    begin = index + 1;
  }
  const std::uint64_t fed =
      (arguments.minutes ? shared().done : begin) - arguments.only.value_or(0);
  std::printf("%-9s %llu inputs, %llu accepted, %d findings", target.name.c_str(),
              static_cast<unsigned long long>(fed),
              static_cast<unsigned long long>(shared().accepted - accepted_before), findings);
  if (arguments.minutes) {
    std::printf(", %.1f min", (seconds_of(RUSAGE_CHILDREN) - before) / 60);
  }
  std::printf("\n");
  return findings;
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      arguments.root = word;
    } else if (i + 1 == argc) {
      std::fprintf(stderr, "error: %s needs a value\n", word.c_str());
      std::exit(2);
    } else if (const std::string value = argv[++i]; word == "--inputs") {
      arguments.inputs = std::stoull(value);
    } else if (word == "--minutes") {
      arguments.minutes = std::stod(value);
    } else if (word == "--seed") {
      arguments.seed = std::stoull(value);
    } else if (word == "--target") {
      arguments.target = value;
    } else if (word == "--only") {
      arguments.only = std::stoull(value);
    } else if (word == "--accepted") {
      arguments.accepted = value;
    } else {
      std::fprintf(stderr, "error: no option %s\n", word.c_str());
      std::exit(2);
    }
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = read_arguments(argc, argv);
  int findings = 0;
  for (const Target& target : make_targets(arguments.root)) {
    if (arguments.target.empty() || arguments.target == target.name) {
      findings += fuzz_target(arguments, target);
    }
  }
  std::printf("seed %llu: %d findings\n", static_cast<unsigned long long>(arguments.seed),
              findings);
  return findings == 0 ? 0 : 1;
}
