// Saves the registers that a call must preserve, exchanges stack pointers and loads the registers
// of the other side. Compatible with Boost's frames, so that make_fcontext() makes the first one.
#include "sim/schedule/jump.h"

namespace shardlab {

namespace context = boost::context::detail;

#if defined(__x86_64__) && defined(__LP64__)

// As Boost's jump_fcontext on frames laid out like its own, but the control words of the
// floating-point units stay as they are: loading them takes a quarter of a meeting of many ranks.
// Not inlined: registers that are not named here are the caller's own to save. TSan takes this for
// the next fiber already.
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

context::transfer_t jump(context::fcontext_t machine, void* data) {
  return context::jump_fcontext(machine, data);
}

#endif

}  // namespace shardlab
