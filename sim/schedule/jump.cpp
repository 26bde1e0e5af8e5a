#include "sim/schedule/jump.h"

namespace shardlab {

namespace context = boost::context::detail;

#if defined(__x86_64__) && defined(__LP64__)

// Not inlined: registers that are not named here are the caller's own to save. TSan takes this for
// the next fiber already.
__attribute__((noinline, no_sanitize("thread"))) context::transfer_t jump(
    context::fcontext_t machine, void* data) {
  context::transfer_t transfer;
  // A call without `call`; 128 bytes below the stack pointer may be in use by this function.
  asm volatile(
      "subq $128, %%rsp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "jmp *%[target]\n"
      "1:\n\t"
      "addq $128, %%rsp"
      : "=&a"(transfer.fctx), "=&d"(transfer.data), "+D"(machine), "+S"(data)
      : [target] "r"(&context::jump_fcontext)
      : "rcx", "r8", "r9", "r10", "r11", "memory", "cc");
  return transfer;
}

#else

context::transfer_t jump(context::fcontext_t machine, void* data) {
  return context::jump_fcontext(machine, data);
}

#endif

}  // namespace shardlab
