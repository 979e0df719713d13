// ucontext makes the stack, and setjmp changes over, since swapcontext asks the
// system for the signal mask every time. Jumping to another stack is beyond what
// C++ promises; glibc does it, unless it is asked to check for it, and so do the
// compilers' own functions, which save next to nothing and are no calls.
#undef _FORTIFY_SOURCE
#include "tests/emulated_gpu/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "tests/emulated_gpu/address_sanitizer.h"

namespace emulated_gpu {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t stack_bytes = std::size_t{128} << 10;

#ifdef __x86_64__
#define PIPESIM_MARK(place) __builtin_setjmp(place)
#define PIPESIM_JUMP(place) __builtin_longjmp(place, 1)
#else
#define PIPESIM_MARK(place) _setjmp(place)
#define PIPESIM_JUMP(place) _longjmp(place, 1)
#endif

// The address sanitizer is told of a change of stacks twice: by departing() on the
// one that is left, right before, and by arrived() on the other, right after. What
// departing() keeps of a stack, its fake stack, goes to the next arrived() there;
// with nowhere to keep it, it is destroyed, and nobody may come back. In between,
// and in a frame that is on both sides, nothing may be instrumented; least of all
// what doesn't return, since the sanitizer would forget what it knows of the stack
// although its frames live on.
#ifdef PIPESIM_ADDRESS_SANITIZER
PIPESIM_UNWATCHED void departing(void** kept, const void* to, std::size_t bytes) {
  __sanitizer_start_switch_fiber(kept, to, bytes);
}
PIPESIM_UNWATCHED void arrived(void* kept, const void** from, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(kept, from, bytes);
}
#else
void departing(void** /*kept*/, const void* /*to*/, std::size_t /*bytes*/) {}
void arrived(void* /*kept*/, const void** /*from*/, std::size_t* /*bytes*/) {}
#endif

// Not in the function that marked a place: compilers don't like that.
[[noreturn]] __attribute__((noinline)) PIPESIM_UNWATCHED void jump(Fiber::Place& place) {
  PIPESIM_JUMP(place);
}

}  // namespace

Fiber::Fiber(std::function<void()> body, std::size_t number)
    : body_(std::move(body)), colour_(number) {
  void* memory = ::mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // The lowest page catches what runs over.
  if (memory == MAP_FAILED || ::mprotect(memory, page, PROT_NONE) != 0) throw std::bad_alloc();
  stack_ = static_cast<char*>(memory);
}

Fiber::~Fiber() {
  end();
  ::munmap(stack_, page + stack_bytes);
}

// The sanitizer's knowledge of the stack ends with it: the fake one is destroyed by
// leaving for good, and what is mapped there next is not poisoned.
void Fiber::end() {
#ifdef PIPESIM_ADDRESS_SANITIZER
  ends_ = true;
  if (started_) resume();
  permit(stack_, page + stack_bytes);
#endif
}

PIPESIM_UNWATCHED void Fiber::enter(unsigned low, unsigned high) {
  const auto address = std::uint64_t{low} | (std::uint64_t{high} << 32);
  auto* fiber = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(address));
  arrived(nullptr, &fiber->outside_stack_, &fiber->outside_bytes_);
  fiber->body_();
  std::abort();
}

PIPESIM_UNWATCHED void Fiber::resume() {
  if (PIPESIM_MARK(outside_) != 0) {
    arrived(outside_kept_, nullptr, nullptr);
    return;
  }
  // Not all stacks end at the same place of a page: they would share few lines of
  // the cache.
  char* const stack = stack_ + page;
  const std::size_t bytes = stack_bytes - colour_ % 32 * 128;
  departing(&outside_kept_, stack, bytes);
  if (started_) jump(inside_);
  started_ = true;
  ucontext_t context;
  ::getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = bytes;
  context.uc_link = nullptr;
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(this));
  ::makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
  ::setcontext(&context);
  std::abort();
}

PIPESIM_UNWATCHED void Fiber::leave() {
  if (PIPESIM_MARK(inside_) == 0) {
    departing(&inside_kept_, outside_stack_, outside_bytes_);
    jump(outside_);
  }
  arrived(inside_kept_, &outside_stack_, &outside_bytes_);
  if (!ends_) return;
  departing(nullptr, outside_stack_, outside_bytes_);
  jump(outside_);
}

}  // namespace emulated_gpu
