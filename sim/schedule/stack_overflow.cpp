// A fault in a guard reaches the handler on a stack of its own, as the fiber's has no room left.
// Handlers may only read: pools are in a table of atomic pointers, and text is put together without
// memory from the heap. Then the former handler is restored, and the fault comes again. Sanitizers
// report such faults themselves.
#include "sim/schedule/stack_overflow.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/rank_context.h"
#include "sim/schedule/fiber_stack.h"
#include "sim/schedule/sanitizer.h"
#include "sim/schedule/stack_map.h"

namespace shardlab {

namespace {

constexpr std::size_t kHandlerStackBytes = 64 * 1024;

std::array<std::atomic<const StackPool*>, 64> watched_pools;
struct sigaction action_before;  // written before the handler is in place

void exchange_pool(const StackPool* from, const StackPool* to) {
  for (std::atomic<const StackPool*>& slot : watched_pools) {
    const StackPool* expected = from;
    if (slot.compare_exchange_strong(expected, to)) return;
  }
}

void report_overflow(const StackPool& stacks) {
  std::array<char, 1024> text;
  const RankContext* rank = current_rank_or_null();
  char* end = fmt::format_to_n(text.begin(), text.size(), "error: rank {} has used up its stack",
                               rank != nullptr ? rank->rank : -1)
                  .out;
  const auto add = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    const auto room = static_cast<std::size_t>(text.end() - end);
    end = fmt::format_to_n(end, room, format, std::forward<Args>(args)...).out;
  };
  add(" of {} KiB\n", stacks.stack_bytes() / 1024);
  if (rank != nullptr && rank->position.file != nullptr) {
    add("  at          {}:{}\n", rank->position.file, rank->position.line);
  }
  add("  fix         keep large arrays in a std::vector, or set "
      "WorldOptions::schedule.stack_bytes\n");
  // If it can't be written, nothing is left to do.
  static_cast<void>(
      !write(STDERR_FILENO, text.data(), static_cast<std::size_t>(end - text.data())));
}

void on_fault(int, siginfo_t* info, void*) {
  for (const std::atomic<const StackPool*>& slot : watched_pools) {
    const StackPool* stacks = slot.load();
    if (stacks == nullptr || !stacks->in_guard(info->si_addr)) continue;
    report_overflow(*stacks);
    break;
  }
  sigaction(kGuardSignal, &action_before, nullptr);
  if (info->si_code <= 0)
    raise(kGuardSignal);  // sent by a process, it does not come again by itself
}

void put_handler_in_place() {
  struct sigaction now = {};
  if (sigaction(kGuardSignal, nullptr, &now) != 0) return;
  const bool ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault;
  if (ours) return;
  action_before = now;
  now = {};
  now.sa_sigaction = on_fault;
  now.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&now.sa_mask);
  sigaction(kGuardSignal, &now, nullptr);
}

}  // namespace

void watch_guards(const StackPool& stacks) { exchange_pool(nullptr, &stacks); }

void forget_guards(const StackPool& stacks) { exchange_pool(&stacks, nullptr); }

OverflowWatch::OverflowWatch() {
  if (sanitizer::kActive) return;
  stack_t now = {};
  if (sigaltstack(nullptr, &now) != 0) return;
  if ((now.ss_flags & SS_DISABLE) != 0) {
    memory_ = std::make_unique<std::byte[]>(kHandlerStackBytes);
    now = {};
    now.ss_sp = memory_.get();
    now.ss_size = kHandlerStackBytes;
    sigaltstack(&now, nullptr);
  }
  put_handler_in_place();
}

OverflowWatch::~OverflowWatch() {
  if (memory_ == nullptr) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

}  // namespace shardlab
