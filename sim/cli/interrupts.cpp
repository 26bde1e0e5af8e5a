// Signal handlers may call little: the text is put together by hand, in memory that is there, and
// written at once. The line's clock is a timer's ticks.
#include "sim/cli/interrupts.h"

#include <sys/time.h>
#include <unistd.h>
#include <atomic>

#include <csignal>

#include "sim/cli/commands.h"

namespace shardlab {

namespace {

Progress progress;
// The name on the shown line; null: no line is shown. Written while the timer does not run.
const char* shown_name = nullptr;
volatile std::sig_atomic_t ticks = 0;

constexpr int kFirstSecond = 2;

// Scenarios under way: a name in the place of each; more than there are places are not named.
constexpr std::size_t kPlaces = 16;
std::atomic<const char*> under_way[kPlaces];
std::atomic<std::size_t> cases_ended = 0, case_count = 0;

class SignalText {
 public:
  void add(const char* text) {
    while (*text != '\0' && size_ < sizeof text_) text_[size_++] = *text++;
  }
  void add(std::int64_t number) {
    char digits[24];
    std::size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    while (count > 0 && size_ < sizeof text_) text_[size_++] = digits[--count];
  }
  void write_out() const {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text_, size_);
  }

 private:
  char text_[512];
  std::size_t size_ = 0;
};

// "on the ranks, line 65, 1234 calls".
void add_place(SignalText& text) {
  const RunPhase phase = progress.phase.load(std::memory_order_relaxed);
  text.add(phase == RunPhase::kRanks       ? "on the ranks"
           : phase == RunPhase::kOneDevice ? "on one device, to compare with"
                                           : "before it runs");
  if (phase == RunPhase::kNone) return;
  text.add(", line ");
  text.add(progress.line.load(std::memory_order_relaxed));
  text.add(", ");
  text.add(progress.calls.load(std::memory_order_relaxed));
  text.add(" calls");
}

// " after 3 of 12 scenarios, in a.toml, b.toml".
void add_cases(SignalText& text) {
  text.add(" after ");
  text.add(static_cast<std::int64_t>(cases_ended.load(std::memory_order_relaxed)));
  text.add(" of ");
  text.add(static_cast<std::int64_t>(case_count.load(std::memory_order_relaxed)));
  text.add(" scenarios");
  const char* before = ", in ";
  for (const std::atomic<const char*>& each : under_way) {
    const char* const name = each.load(std::memory_order_relaxed);
    if (name == nullptr) continue;
    text.add(before);
    text.add(name);
    before = ", ";
  }
}

void on_interrupt(int) {
  SignalText text;
  text.add("\ninterrupted");
  if (case_count.load(std::memory_order_relaxed) > 0) {
    add_cases(text);
  } else if (progress.phase.load(std::memory_order_relaxed) != RunPhase::kNone) {
    text.add(" ");
    add_place(text);
  }
  text.add("\n");
  text.write_out();
  _exit(kInterrupted);
}

void on_tick(int) {
  ticks = ticks + 1;
  if (ticks < kFirstSecond || shown_name == nullptr) return;
  SignalText text;
  text.add("\r\033[K");
  text.add(shown_name);
  text.add(": ");
  add_place(text);
  text.add(", ");
  text.add(static_cast<std::int64_t>(ticks));
  text.add(" s");
  text.write_out();
}

void set_timer(int seconds) {
  itimerval timer{};
  timer.it_interval.tv_sec = timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

Progress& shown_progress() { return progress; }

CaseUnderWay::CaseUnderWay(const char* name, std::size_t count) : place_(0) {
  case_count = count;
  const char* none = nullptr;
  while (place_ < kPlaces && !under_way[place_].compare_exchange_strong(none, name)) {
    none = nullptr;
    ++place_;
  }
}

CaseUnderWay::~CaseUnderWay() {
  if (place_ < kPlaces) under_way[place_] = nullptr;
  ++cases_ended;
}

void report_on_interrupt() { std::signal(SIGINT, on_interrupt); }

ProgressLine::ProgressLine(std::string name)
    : name_(std::move(name)), shows_(isatty(STDERR_FILENO) != 0) {
  progress.begin(RunPhase::kNone);
  if (!shows_) return;
  ticks = 0;
  shown_name = name_.c_str();
  struct sigaction action {};
  action.sa_handler = on_tick;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  set_timer(1);
}

ProgressLine::~ProgressLine() {
  progress.begin(RunPhase::kNone);
  if (!shows_) return;
  set_timer(0);
  shown_name = nullptr;
  if (ticks < kFirstSecond) return;
  SignalText text;
  text.add("\r\033[K");
  text.write_out();
}

}  // namespace shardlab
