// Saves the registers that a call must preserve, exchanges stack pointers and loads the registers
// of the other side. The frames are our own, the first one, too: the layout of Boost's frames
// changes from version to version.
#include "sim/schedule/jump.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <exception>

namespace shardlab {

namespace context = boost::context::detail;

#if defined(__x86_64__) && defined(__LP64__)

namespace {

// The return address of `enter`.
[[noreturn]] void fiber_returned() { std::terminate(); }

}  // namespace

// The contents that jump() leaves on a stack: a place that is not used, r12 to r15, rbx, rbp, the
// address to continue at. Above it, the return address of `enter`, which finds the stack as after
// any call.
context::fcontext_t make_fiber(void* top, std::size_t, void (*enter)(context::transfer_t)) {
  constexpr std::uintptr_t kAlignment = 16;
  std::array<std::uintptr_t, 9> frame{};
  frame[7] = reinterpret_cast<std::uintptr_t>(enter);
  frame[8] = reinterpret_cast<std::uintptr_t>(&fiber_returned);
  const auto end = reinterpret_cast<std::uintptr_t>(top) / kAlignment * kAlignment;
  auto* const place = reinterpret_cast<void*>(end - sizeof frame);
  std::memcpy(place, frame.data(), sizeof frame);
  return place;
}

// Boost's jump_fcontext, but the control words of the floating-point units are not changed:
// loading them takes a quarter of a meeting of many ranks. Not inlined: registers that are not
// named here are the caller's own to save. TSan takes this for the next fiber already.
__attribute__((noinline, no_sanitize("thread"))) context::transfer_t jump(
    context::fcontext_t machine, void* data) {
  context::transfer_t transfer;
  // A call without `call`; 128 bytes below the stack pointer may be in use by this function. A new
  // fiber takes its first argument from rdi and rsi.
  asm volatile(
      "subq $128, %%rsp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "subq $0x38, %%rsp\n\t"
      "movq %%r12, 0x08(%%rsp)\n\t"
      "movq %%r13, 0x10(%%rsp)\n\t"
      "movq %%r14, 0x18(%%rsp)\n\t"
      "movq %%r15, 0x20(%%rsp)\n\t"
      "movq %%rbx, 0x28(%%rsp)\n\t"
      "movq %%rbp, 0x30(%%rsp)\n\t"
      "movq %%rsp, %%rax\n\t"
      "movq %%rdi, %%rsp\n\t"
      "movq 0x38(%%rsp), %%r8\n\t"
      "movq 0x08(%%rsp), %%r12\n\t"
      "movq 0x10(%%rsp), %%r13\n\t"
      "movq 0x18(%%rsp), %%r14\n\t"
      "movq 0x20(%%rsp), %%r15\n\t"
      "movq 0x28(%%rsp), %%rbx\n\t"
      "movq 0x30(%%rsp), %%rbp\n\t"
      "addq $0x40, %%rsp\n\t"
      "movq %%rsi, %%rdx\n\t"
      "movq %%rax, %%rdi\n\t"
      "jmp *%%r8\n"
      "1:\n\t"
      "addq $128, %%rsp"
      : "=&a"(transfer.fctx), "=&d"(transfer.data), "+D"(machine), "+S"(data)
      :
      : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
  return transfer;
}

#else

context::fcontext_t make_fiber(void* top, std::size_t size_bytes,
                               void (*enter)(context::transfer_t)) {
  return context::make_fcontext(top, size_bytes, enter);
}

context::transfer_t jump(context::fcontext_t machine, void* data) {
  return context::jump_fcontext(machine, data);
}

#endif

}  // namespace shardlab
