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

// Not in the function that marked a place: compilers don't like that.
[[noreturn]] __attribute__((noinline)) void jump(Fiber::Place& place) { PIPESIM_JUMP(place); }

}  // namespace

Fiber::Fiber(std::function<void()> body, std::size_t number)
    : body_(std::move(body)), colour_(number) {
  void* memory = ::mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // The lowest page catches what runs over.
  if (memory == MAP_FAILED || ::mprotect(memory, page, PROT_NONE) != 0) throw std::bad_alloc();
  stack_ = static_cast<char*>(memory);
}

Fiber::~Fiber() { ::munmap(stack_, page + stack_bytes); }

void Fiber::enter(unsigned low, unsigned high) {
  const auto address = std::uint64_t{low} | (std::uint64_t{high} << 32);
  reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(address))->body_();
  std::abort();
}

void Fiber::resume() {
  if (PIPESIM_MARK(outside_) != 0) return;
  if (started_) jump(inside_);
  started_ = true;
  ucontext_t context;
  ::getcontext(&context);
  context.uc_stack.ss_sp = stack_ + page;
  // Not all stacks end at the same place of a page: they would share few lines of
  // the cache.
  context.uc_stack.ss_size = stack_bytes - colour_ % 32 * 128;
  context.uc_link = nullptr;
  const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(this));
  ::makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
  ::setcontext(&context);
  std::abort();
}

void Fiber::leave() {
  if (PIPESIM_MARK(inside_) == 0) jump(outside_);
}

}  // namespace emulated_gpu
