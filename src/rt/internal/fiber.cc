#include "rt/internal/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/sanitizers.h"
#include "rt/internal/race_detector.h"

#if BASALT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

// swapcontext saves the signal mask with a system call, and signals are no business of a simulation; so on x86-64 the
// switch is our own. Elsewhere (and with BASALT_FIBER_UCONTEXT, to test it) the portable way is fast enough.
#if defined(__x86_64__) && !defined(BASALT_FIBER_UCONTEXT)
#define BASALT_FIBER_ASSEMBLY 1
#else
#define BASALT_FIBER_ASSEMBLY 0
#include <ucontext.h>
#endif

#if BASALT_FIBER_ASSEMBLY
// basalt_fiber_switch(save, load): pushes the registers that a call must preserve (System V ABI), stores the stack
// pointer in *save, takes `load` as the stack pointer and pops what an earlier call pushed there. The floating-point
// control words are left alone: nobody in this program changes them.
//
// basalt_fiber_start is where the first switch to a fiber "returns" to; the constructor put entry and argument into the
// places of r13 and r12. A debugger's walk of the stack ends here.
extern "C" {
void basalt_fiber_switch(void** save, void* load);
void basalt_fiber_start();
}
__asm__(R"(
.text
.p2align 4
.type basalt_fiber_switch, @function
basalt_fiber_switch:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
.size basalt_fiber_switch, .-basalt_fiber_switch

.p2align 4
.type basalt_fiber_start, @function
basalt_fiber_start:
  .cfi_startproc
  .cfi_undefined %rip
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
.size basalt_fiber_start, .-basalt_fiber_start
)");
#endif

namespace basalt::rt::internal {
namespace {

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void unmap(FiberStack stack) {
#if BASALT_TSAN
  __tsan_destroy_fiber(stack.tsan_fiber);
#endif
  BASALT_CHECK(munmap(stack.low - page_bytes(), stack.bytes + page_bytes()) == 0);
}

}  // namespace

void leak_on_purpose([[maybe_unused]] const void* object) {
#if BASALT_ASAN
  __lsan_ignore_object(object);
#endif
}

bool has_sanitizer() { return BASALT_ASAN || BASALT_TSAN; }

StackPool::StackPool(std::size_t stack_bytes)
    : stack_bytes_((stack_bytes + page_bytes() - 1) / page_bytes() * page_bytes()) {
#if BASALT_TSAN
  // A shared_ptr counts without atomics in a process that never had a second thread, and fibers would race for it.
  [[maybe_unused]] static const bool has_had_threads = (std::thread([] {}).join(), true);
#endif
}

StackPool::~StackPool() {
  for (const FiberStack& stack : free_) unmap(stack);
}

FiberStack StackPool::take() {
  if (!free_.empty()) {
    const FiberStack stack = free_.back();
    free_.pop_back();
    return stack;
  }
  // Pages are given by the kernel when touched, so a generous size costs address space only.
  void* memory = mmap(nullptr, stack_bytes_ + page_bytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  BASALT_CHECK_MSG(memory != MAP_FAILED, "no memory for a fiber's stack");
  BASALT_CHECK(mprotect(memory, page_bytes(), PROT_NONE) == 0);
  FiberStack stack{static_cast<std::byte*>(memory) + page_bytes(), stack_bytes_};
#if BASALT_TSAN
  stack.tsan_fiber = __tsan_create_fiber(0);
#endif
  return stack;
}

void StackPool::give(FiberStack stack) {
#if BASALT_ASAN
  // The red zones of frames that were left by exit_to() would hit the next user of the stack.
  __asan_unpoison_memory_region(stack.low, stack.bytes);
#endif
  free_.push_back(stack);
}

void StackPool::abandon(FiberStack stack) {
#if BASALT_ASAN
  __lsan_register_root_region(stack.low, stack.bytes);
#else
  unmap(stack);
#endif
}

FiberContext::FiberContext() {
#if !BASALT_FIBER_ASSEMBLY
  ucontext_ = new ucontext_t;
#endif
#if BASALT_TSAN
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

#if !BASALT_FIBER_ASSEMBLY
namespace {

// makecontext passes on only int arguments, so the pointers travel in halves.
void start_halves(unsigned entry_high, unsigned entry_low, unsigned argument_high, unsigned argument_low) {
  const auto join = [](unsigned high, unsigned low) {
    return (static_cast<std::uintptr_t>(high) << 32) | static_cast<std::uintptr_t>(low);
  };
  reinterpret_cast<FiberContext::Entry>(join(entry_high, entry_low))(
      reinterpret_cast<void*>(join(argument_high, argument_low)));
}

}  // namespace
#endif

FiberContext::FiberContext(FiberStack stack, Entry entry, void* argument)
    : stack_(stack), asan_low_(stack.low), asan_bytes_(stack.bytes), tsan_fiber_(stack.tsan_fiber) {
#if BASALT_FIBER_ASSEMBLY
  // From the stack pointer upward: r15 r14 r13 r12 rbx rbp, the return address, and zeros that end the frame chain.
  // After the return into basalt_fiber_start the stack pointer is a multiple of 16, as its call needs.
  auto** top = reinterpret_cast<void**>(stack.low + stack.bytes) - 2;
  top[0] = top[1] = nullptr;
  void** frame = top - 7;
  std::memset(frame, 0, 7 * sizeof(void*));
  frame[2] = reinterpret_cast<void*>(entry);
  frame[3] = argument;
  frame[6] = reinterpret_cast<void*>(&basalt_fiber_start);
  stack_pointer_ = frame;
#else
  auto context = std::make_unique<ucontext_t>();
  BASALT_CHECK(getcontext(context.get()) == 0);
  context->uc_stack.ss_sp = stack.low;
  context->uc_stack.ss_size = stack.bytes;
  context->uc_link = nullptr;
  const auto high = [](std::uintptr_t x) { return static_cast<unsigned>(x >> 32); };
  const auto low = [](std::uintptr_t x) { return static_cast<unsigned>(x); };
  const auto e = reinterpret_cast<std::uintptr_t>(entry);
  const auto a = reinterpret_cast<std::uintptr_t>(argument);
  makecontext(context.get(), reinterpret_cast<void (*)()>(&start_halves), 4, high(e), low(e), high(a), low(a));
  ucontext_ = context.release();
#endif
}

FiberContext::~FiberContext() {
#if !BASALT_FIBER_ASSEMBLY
  delete static_cast<ucontext_t*>(ucontext_);
#endif
}

void FiberContext::before_switch(FiberContext& next, [[maybe_unused]] bool exits) {
  next.came_from_ = this;
  void* globals = abi::__cxa_get_globals();
  std::memcpy(&exceptions_, globals, sizeof exceptions_);
  std::memcpy(globals, &next.exceptions_, sizeof exceptions_);
#if BASALT_ASAN
  // Null instead of a place to save says that this stack's bookkeeping can be freed.
  __sanitizer_start_switch_fiber(exits ? nullptr : &fake_stack_, next.asan_low_, next.asan_bytes_);
#endif
}

void FiberContext::after_switch() {
#if BASALT_ASAN
  const void* low = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &low, &bytes);
  // This is how the bounds of a thread's own stack become known.
  came_from_->asan_low_ = low;
  came_from_->asan_bytes_ = bytes;
#endif
}

void FiberContext::entered() { after_switch(); }

// Unseen itself, because what it reads of `next` belongs to the simulation.
BASALT_UNSEEN_BY_TSAN void FiberContext::switch_to(FiberContext& next) {
  before_switch(next, false);
  unseen_ends();
#if BASALT_TSAN
  // Not in before_switch(), whose return would be booked on the other fiber's stack.
  __tsan_switch_to_fiber(next.tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
#if BASALT_FIBER_ASSEMBLY
  basalt_fiber_switch(&stack_pointer_, next.stack_pointer_);
#else
  BASALT_CHECK(swapcontext(static_cast<ucontext_t*>(ucontext_), static_cast<ucontext_t*>(next.ucontext_)) == 0);
#endif
  unseen_begins();
  after_switch();
}

// Unseen, because it does not return: the stack that ThreadSanitizer keeps would grow with each user.
BASALT_UNSEEN_BY_TSAN void FiberContext::exit_to(FiberContext& next) {
  before_switch(next, true);
  unseen_ends();
#if BASALT_TSAN
  __tsan_switch_to_fiber(next.tsan_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
#if BASALT_FIBER_ASSEMBLY
  basalt_fiber_switch(&stack_pointer_, next.stack_pointer_);
#else
  setcontext(static_cast<ucontext_t*>(next.ucontext_));
#endif
  base::check_failed(__FILE__, __LINE__, "an ended fiber was switched to");
}

}  // namespace basalt::rt::internal
