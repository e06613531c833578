// A fiber: a function with a stack of its own that runs until it yields.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

// AddressSanitizer follows swapcontext, and other processors have no switch of ours.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define FOVEA_FIBER_SWITCH
#else
#include <ucontext.h>
#endif

namespace fovea_tests::cuda_host {

#ifdef FOVEA_FIBER_SWITCH
// Saves the callee-saved registers on this stack, and goes on where the other stack was left.
__attribute__((naked, noinline)) inline void switch_stack(void** /*from*/, void* /*to*/) {
  asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
      "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
      "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
}
#endif

class Fiber {
 public:
  static constexpr size_t kStackBytes = 256 * 1024;

  Fiber() : stack_(new char[kStackBytes]) {}
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// `body` must outlive the run and must not throw.
  void start(const std::function<void()>& body) {
    body_ = &body;
    finished_ = false;
#ifdef FOVEA_FIBER_SWITCH
    // The stack as switch_stack leaves one: six registers and an address to return to, which is 8 bytes off a
    // multiple of 16 where a function begins.
    auto top = reinterpret_cast<uintptr_t>(stack_.get() + kStackBytes) & ~uintptr_t{15};
    auto* words = reinterpret_cast<void**>(top) - 8;
    std::memset(words, 0, 8 * sizeof(void*));
    words[6] = reinterpret_cast<void*>(&Fiber::enter);
    own_ = words;
#else
    getcontext(&own_);
    own_.uc_stack.ss_sp = stack_.get();
    own_.uc_stack.ss_size = kStackBytes;
    own_.uc_link = nullptr;
    makecontext(&own_, &Fiber::enter, 0);
#endif
  }

  void resume() {
    starting_ = this;
#ifdef FOVEA_FIBER_SWITCH
    switch_stack(&caller_, own_);
#else
    swapcontext(&caller_, &own_);
#endif
  }

  /// From within: back to who resumed it.
  void yield() {
#ifdef FOVEA_FIBER_SWITCH
    switch_stack(&own_, caller_);
#else
    swapcontext(&own_, &caller_);
#endif
  }

  bool finished() const {
    return finished_;
  }

 private:
  static void enter() {
    Fiber* self = starting_;
    (*self->body_)();
    self->finished_ = true;
    self->yield();
    __builtin_unreachable();
  }

  static inline Fiber* starting_ = nullptr;
  std::unique_ptr<char[]> stack_;
  const std::function<void()>* body_ = nullptr;
  bool finished_ = false;
#ifdef FOVEA_FIBER_SWITCH
  void* own_ = nullptr;
  void* caller_ = nullptr;
#else
  ucontext_t own_ = {};
  ucontext_t caller_ = {};
#endif
};

}  // namespace fovea_tests::cuda_host
