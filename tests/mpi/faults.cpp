// Faults at the places where a process of a job meets the others, linked in front of the library's
// own functions (--wrap): SHARDLAB_FAULT="RANK STAGE HOW, RANK STAGE HOW". STAGE: join, begin,
// id and start (of NCCL), run, end, gather, sent, judge, share, tell, leave; HOW: kill, stop, exit,
// memory, throw. Driven by faults_test.py.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "backends/process/control_channel.h"
#include "base/error.h"

namespace shardlab {

namespace {

using process::ControlChannel;

struct Fault {
  std::string rank, stage, how;
};

std::vector<Fault> wanted() {
  const char* text = std::getenv("SHARDLAB_FAULT");
  std::istringstream words(text == nullptr ? "" : text);
  std::vector<Fault> faults;
  for (std::string one; std::getline(words, one, ',');) {
    Fault& fault = faults.emplace_back();
    std::istringstream(one) >> fault.rank >> fault.stage >> fault.how;
  }
  return faults;
}

std::string own_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "RANK"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return "0";
}

int exchanges_since_gather = -1;  // before it
bool has_begun = false;           // and has exchanged nothing since
bool judges = false;

// No further large allocation succeeds.
void starve() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t now = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{now, now};
  setrlimit(RLIMIT_AS, &limit);
}

void at(const char* stage) {
  static const std::vector<Fault> faults = wanted();
  const auto due = std::ranges::find_if(
      faults, [&](const Fault& fault) { return fault.stage == stage && fault.rank == own_rank(); });
  if (due == faults.end()) return;
  const Fault& fault = *due;
  std::fprintf(stderr, "fault: rank %s %s at %s\n", fault.rank.c_str(), fault.how.c_str(), stage);
  if (fault.how == "kill") kill(getpid(), SIGKILL);
  if (fault.how == "stop") kill(getpid(), SIGSTOP);
  if (fault.how == "exit") std::exit(7);
  if (fault.how == "memory") starve();
  if (fault.how == "throw") {
    fail(ErrorKind::kRuntime, Fix{"plant no fault"}, "rank {} cannot go on", fault.rank);
  }
}

}  // namespace

// clang-format off
#define SHARDLAB_CHANNEL "_ZN8shardlab7process14ControlChannel"
#define SHARDLAB_SPEAKS "_ZNK8shardlab7process14ControlChannel6speaksEv"
std::unique_ptr<ControlChannel> real_open(const process::Membership&,
                                          std::optional<process::Listener>)
    asm("__real_" SHARDLAB_CHANNEL "4openERKNS0_10MembershipESt8optionalINS0_8ListenerEE");
std::unique_ptr<ControlChannel> open(const process::Membership&, std::optional<process::Listener>)
    asm("__wrap_" SHARDLAB_CHANNEL "4openERKNS0_10MembershipESt8optionalINS0_8ListenerEE");
void real_begin_run(ControlChannel*, std::string_view)
    asm("__real_" SHARDLAB_CHANNEL "9begin_runESt17basic_string_viewIcSt11char_traitsIcEE");
void begin_run(ControlChannel*, std::string_view)
    asm("__wrap_" SHARDLAB_CHANNEL "9begin_runESt17basic_string_viewIcSt11char_traitsIcEE");
void real_waits_for(ControlChannel*, std::string_view)
    asm("__real_" SHARDLAB_CHANNEL "9waits_forESt17basic_string_viewIcSt11char_traitsIcEE");
void waits_for(ControlChannel*, std::string_view)
    asm("__wrap_" SHARDLAB_CHANNEL "9waits_forESt17basic_string_viewIcSt11char_traitsIcEE");
void real_enter(ControlChannel*, const process::Entrance&, const Call&, CollectiveChecks)
    asm("__real_" SHARDLAB_CHANNEL "5enterERKNS0_8EntranceERKNS_4CallENS_16CollectiveChecksE");
void enter(ControlChannel*, const process::Entrance&, const Call&, CollectiveChecks)
    asm("__wrap_" SHARDLAB_CHANNEL "5enterERKNS0_8EntranceERKNS_4CallENS_16CollectiveChecksE");
std::vector<std::string> real_end_run(ControlChannel*, std::string_view)
    asm("__real_" SHARDLAB_CHANNEL "7end_runB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE");
std::vector<std::string> end_run(ControlChannel*, std::string_view)
    asm("__wrap_" SHARDLAB_CHANNEL "7end_runB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE");
std::vector<std::string> real_gather(ControlChannel*, std::string_view, std::int64_t)
    asm("__real_" SHARDLAB_CHANNEL "6gatherB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEEl");
std::vector<std::string> gather(ControlChannel*, std::string_view, std::int64_t)
    asm("__wrap_" SHARDLAB_CHANNEL "6gatherB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEEl");
void real_reports(ControlChannel*) asm("__real_" SHARDLAB_CHANNEL "7reportsEv");
void reports(ControlChannel*) asm("__wrap_" SHARDLAB_CHANNEL "7reportsEv");
bool real_speaks(const ControlChannel*) asm("__real_" SHARDLAB_SPEAKS);
bool speaks(const ControlChannel*) asm("__wrap_" SHARDLAB_SPEAKS);
bool real_leave(ControlChannel*, std::string_view)
    asm("__real_" SHARDLAB_CHANNEL "5leaveESt17basic_string_viewIcSt11char_traitsIcEE");
bool leave(ControlChannel*, std::string_view)
    asm("__wrap_" SHARDLAB_CHANNEL "5leaveESt17basic_string_viewIcSt11char_traitsIcEE");
std::vector<std::string> real_exchange(ControlChannel*, std::string_view)
    asm("__real_" SHARDLAB_CHANNEL "8exchangeB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE");
std::vector<std::string> exchange(ControlChannel*, std::string_view)
    asm("__wrap_" SHARDLAB_CHANNEL "8exchangeB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE");
// clang-format on

std::unique_ptr<ControlChannel> open(const process::Membership& membership,
                                     std::optional<process::Listener> listener) {
  at("join");
  return real_open(membership, std::move(listener));
}

void begin_run(ControlChannel* channel, std::string_view about) {
  at("begin");
  real_begin_run(channel, about);
  has_begun = true;
}

void waits_for(ControlChannel* channel, std::string_view what) {
  at("start");
  real_waits_for(channel, what);
}

void enter(ControlChannel* channel, const process::Entrance& entrance, const Call& call,
           CollectiveChecks checks) {
  static int calls = 0;
  constexpr int kMiddle = 4;
  if (++calls == kMiddle) at("run");
  real_enter(channel, entrance, call, checks);
}

std::vector<std::string> end_run(ControlChannel* channel, std::string_view mine) {
  at("end");
  return real_end_run(channel, mine);
}

std::vector<std::string> gather(ControlChannel* channel, std::string_view mine, std::int64_t root) {
  at("gather");
  exchanges_since_gather = 0;
  auto all = real_gather(channel, mine, root);
  at("sent");
  return all;
}

void reports(ControlChannel* channel) {
  judges = true;
  at("judge");
  real_reports(channel);
}

// The first after the gathering says that it is complete, the second what the judge has found.
std::vector<std::string> exchange(ControlChannel* channel, std::string_view mine) {
  if (std::exchange(has_begun, false)) at("id");
  const bool shares = exchanges_since_gather == 1;
  if (exchanges_since_gather >= 0) ++exchanges_since_gather;
  if (shares && !judges) at("judge");
  auto all = real_exchange(channel, mine);
  if (shares) at("share");
  return all;
}

bool speaks(const ControlChannel* channel) {
  at("tell");
  return real_speaks(channel);
}

bool leave(ControlChannel* channel, std::string_view reason) {
  at("leave");
  return real_leave(channel, reason);
}

}  // namespace shardlab
