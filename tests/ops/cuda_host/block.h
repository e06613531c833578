// A block of CUDA threads on the CPU. Its threads are fibers; warp functions and barriers let a thread go on when all
// have come. Shared memory has a shadow that knows who wrote and read each word and what ordered it, so that a kernel
// fails here for what a GPU would only sometimes get wrong.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/cuda_host/fiber.h"

namespace fovea_tests::cuda_host {

inline constexpr int kWarp = 32;

/// What launches did, summed over their blocks.
struct Counts {
  int64_t shared_accesses = 0;  // of whole warps, in 128-byte wavefronts when free of conflicts
  int64_t bank_conflicts = 0;   // wavefronts beyond that
  int64_t matrix_products = 0;
};

class Block {
 public:
  Block(int threads, int shared_bytes)
      : threads_(static_cast<size_t>(threads)),
        warps_(static_cast<size_t>(threads / kWarp)),
        memory_(static_cast<size_t>(shared_bytes)),
        shadow_(static_cast<size_t>(shared_bytes / 4)) {
    if (threads % kWarp != 0) throw std::invalid_argument("a block is whole warps here");
    for (auto& thread : threads_) thread.fiber = std::make_unique<Fiber>();
  }

  /// Throws std::runtime_error for what the kernel did wrong.
  void run(int64_t index, const std::function<void()>& kernel) {
    index_ = index;
    error_.clear();
    epoch_ = 1;
    arrived_ = 0;
    std::fill(memory_.begin(), memory_.end(), static_cast<unsigned char>(0xFF));
    std::fill(shadow_.begin(), shadow_.end(), Word{});
    for (auto& warp : warps_) warp = Warp{};
    for (auto& thread : threads_) {
      thread.pending.clear();
      thread.group = 0;
      thread.waits = false;
      thread.fiber->start(kernel);
    }
    Block* const outer = std::exchange(current_, this);
    schedule();
    current_ = outer;
    if (!error_.empty()) throw std::runtime_error("block " + std::to_string(index) + ": " + error_);
  }

  static Block& current() { return *current_; }
  int thread() const { return thread_; }
  int64_t index() const { return index_; }
  const Counts& counts() const { return counts_; }
  void count_product() { ++counts_.matrix_products; }

  /// All lanes give a T; the last to come calls compute(T* const (&)[32]), which may write to all of them.
  template <typename T, typename F>
  void collective(const char* name, T& mine, F compute) {
    Warp& warp = warps_[static_cast<size_t>(thread_ / kWarp)];
    if (warp.arrived == 0) warp.name = name;
    if (std::strcmp(warp.name, name) != 0) {
      fail("the lanes of a warp are at different places: " + std::string(warp.name) + " and " + name);
    }
    const int lane = thread_ % kWarp;
    warp.arguments[static_cast<size_t>(lane)] = &mine;
    if (++warp.arrived < kWarp) {
      wait(name);
      return;
    }
    warp.arrived = 0;
    count_banks(warp);
    T* all[kWarp];
    for (int i = 0; i < kWarp; ++i) all[i] = static_cast<T*>(warp.arguments[static_cast<size_t>(i)]);
    compute(all);
    const int first = thread_ / kWarp * kWarp;
    for (int i = 0; i < kWarp; ++i) threads_[static_cast<size_t>(first + i)].waits = false;
  }

  void warp_barrier() {
    int nothing = 0;
    collective("warp_barrier", nothing, [this](int* const*) { ++warps_[static_cast<size_t>(thread_ / kWarp)].epoch; });
  }

  void block_barrier() {
    if (++arrived_ < static_cast<int>(threads_.size())) {
      wait("block_barrier");
      return;
    }
    arrived_ = 0;
    ++epoch_;
    for (auto& warp : warps_) {
      if (warp.arrived != 0) fail("a thread is at the block's barrier, another in " + std::string(warp.name));
      count_banks(warp);
    }
    for (auto& thread : threads_) thread.waits = false;
  }

  /// `thread` is who reads or writes: for warp functions the lane that gave the address.
  const unsigned char* read(uint32_t address, uint32_t bytes, int thread, const char* who) {
    check_range(address, bytes, who);
    for (uint32_t at = address; at < address + bytes; at += 4) {
      Word& word = shadow_[at / 4];
      if (word.in_flight) fail(describe(who, at) + " reads what copy_async has not been waited for");
      if (word.writer < 0) fail(describe(who, at) + " reads what nobody wrote");
      if (!ordered(word.writer, word.write_epoch, word.write_warp_epoch, thread)) {
        fail(describe(who, at) + " of thread " + std::to_string(thread) + " reads what thread " +
             std::to_string(word.writer) + " wrote, without a barrier between");
      }
      const bool same_phase = word.reader != kNobody && word.read_epoch == epoch_;
      const uint32_t warp_epoch = warps_[static_cast<size_t>(thread / kWarp)].epoch;
      if (!same_phase || word.reader == thread) {
        word.reader = thread;
      } else if (word.reader == kMany || word.reader / kWarp != thread / kWarp) {
        word.reader = kMany;
      } else if (word.read_warp_epoch == warp_epoch) {
        word.several_lanes = true;
      } else {
        word.reader = thread;
        word.several_lanes = false;
      }
      if (!same_phase) word.several_lanes = false;
      word.read_epoch = epoch_;
      word.read_warp_epoch = warp_epoch;
    }
    return memory_.data() + address;
  }

  unsigned char* write(uint32_t address, uint32_t bytes, int thread, const char* who) {
    check_range(address, bytes, who);
    for (uint32_t at = address; at < address + bytes; at += 4) {
      Word& word = shadow_[at / 4];
      check_writable(word, at, thread, who);
      word.writer = thread;
      word.write_epoch = epoch_;
      word.write_warp_epoch = warps_[static_cast<size_t>(thread / kWarp)].epoch;
    }
    return memory_.data() + address;
  }

  void copy_async(uint32_t to, const void* from) {
    check_range(to, 16, "copy_async");
    if (from != nullptr && reinterpret_cast<uintptr_t>(from) % 16 != 0) fail("copy_async: the source is not aligned");
    note_access(to, 16);
    for (uint32_t at = to; at < to + 16; at += 4) {
      check_writable(shadow_[at / 4], at, thread_, "copy_async");
      shadow_[at / 4].in_flight = true;
    }
    Thread& thread = threads_[static_cast<size_t>(thread_)];
    Copy copy{to, thread.group, {}};
    if (from != nullptr) std::memcpy(copy.data.data(), from, 16);
    thread.pending.push_back(copy);
  }

  void copy_async_commit() { ++threads_[static_cast<size_t>(thread_)].group; }

  void copy_async_wait(int pending) {
    Thread& thread = threads_[static_cast<size_t>(thread_)];
    while (!thread.pending.empty() && thread.pending.front().group < thread.group - pending) {
      const Copy& copy = thread.pending.front();
      for (uint32_t at = copy.to; at < copy.to + 16; at += 4) shadow_[at / 4].in_flight = false;
      std::memcpy(write(copy.to, 16, thread_, "copy_async"), copy.data.data(), 16);
      thread.pending.pop_front();
    }
  }

  /// For counting bank conflicts: accesses between two warp functions are taken to be the same instruction when
  /// they have the same number in their lane.
  void note_access(uint32_t address, uint32_t bytes) {
    warps_[static_cast<size_t>(thread_ / kWarp)].log[static_cast<size_t>(thread_ % kWarp)].push_back({address, bytes});
  }

  /// Eight 16-byte rows that one wavefront could bring.
  void count_rows(const uint32_t* addresses, int count) {
    std::array<int, 8> rows = {};
    for (int i = 0; i < count; ++i) ++rows[addresses[i] / 16 % 8];
    ++counts_.shared_accesses;
    counts_.bank_conflicts += *std::max_element(rows.begin(), rows.end()) - 1;
  }

  [[noreturn]] void fail(const std::string& what) {
    if (error_.empty()) error_ = what + " (thread " + std::to_string(thread_) + ")";
    threads_[static_cast<size_t>(thread_)].fiber->yield();  // never resumed
    std::abort();
  }

 private:
  static constexpr int kNobody = -1, kMany = -2;

  struct Word {
    int writer = kNobody;
    int reader = kNobody;
    uint32_t write_epoch = 0, write_warp_epoch = 0, read_epoch = 0, read_warp_epoch = 0;
    bool several_lanes = false;
    bool in_flight = false;
  };
  struct Copy {
    uint32_t to;
    int group;
    std::array<unsigned char, 16> data;
  };
  struct Thread {
    std::unique_ptr<Fiber> fiber;
    std::deque<Copy> pending;
    int group = 0;
    bool waits = false;
    const char* where = "";
  };
  struct Access {
    uint32_t address, bytes;
  };
  struct Warp {
    int arrived = 0;
    uint32_t epoch = 1;
    const char* name = "";
    std::array<void*, kWarp> arguments = {};
    std::array<std::vector<Access>, kWarp> log;
  };

  void wait(const char* where) {
    Thread& self = threads_[static_cast<size_t>(thread_)];
    self.waits = true;
    self.where = where;
    self.fiber->yield();
  }

  void schedule() {
    for (;;) {
      bool progress = false, all_done = true;
      for (size_t i = 0; i < threads_.size(); ++i) {
        Thread& thread = threads_[i];
        if (thread.fiber->finished()) continue;
        all_done = false;
        if (thread.waits) continue;
        thread_ = static_cast<int>(i);
        thread.fiber->resume();
        progress = true;
        if (!error_.empty()) return;
      }
      if (all_done) break;
      if (!progress) {
        for (const auto& thread : threads_) {
          if (!thread.fiber->finished()) error_ = "no thread can go on; one waits in " + std::string(thread.where);
        }
        return;
      }
    }
    for (auto& warp : warps_) count_banks(warp);
    for (const auto& thread : threads_) {
      if (!thread.pending.empty()) error_ = "the kernel ended with a copy_async that was not waited for";
    }
  }

  void check_range(uint32_t address, uint32_t bytes, const char* who) {
    if (address % bytes != 0) fail(describe(who, address) + " is not aligned to " + std::to_string(bytes));
    if (uint64_t{address} + bytes > memory_.size()) {
      fail(describe(who, address) + " is outside of " + std::to_string(memory_.size()) + " bytes of shared memory");
    }
  }

  void check_writable(const Word& word, uint32_t at, int thread, const char* who) {
    if (word.in_flight) fail(describe(who, at) + " writes where a copy_async is under way");
    if (word.writer >= 0 && !ordered(word.writer, word.write_epoch, word.write_warp_epoch, thread)) {
      fail(describe(who, at) + " of thread " + std::to_string(thread) + " overwrites what thread " +
           std::to_string(word.writer) + " wrote, without a barrier between");
    }
    if (word.reader == kNobody || word.read_epoch < epoch_ || (word.reader == thread && !word.several_lanes)) return;
    const bool same_warp = word.reader != kMany && word.reader / kWarp == thread / kWarp;
    if (!same_warp || word.read_warp_epoch == warps_[static_cast<size_t>(thread / kWarp)].epoch) {
      fail(describe(who, at) + " of thread " + std::to_string(thread) +
           " overwrites what another thread may still read, without a barrier between");
    }
  }

  bool ordered(int writer, uint32_t epoch, uint32_t warp_epoch, int thread) const {
    return writer == thread || epoch < epoch_ ||
           (writer / kWarp == thread / kWarp && warp_epoch < warps_[static_cast<size_t>(thread / kWarp)].epoch);
  }

  static std::string describe(const char* who, uint32_t at) { return std::string(who) + " at " + std::to_string(at); }

  void count_banks(Warp& warp) {
    size_t longest = 0;
    for (const auto& lane : warp.log) longest = std::max(longest, lane.size());
    for (size_t i = 0; i < longest; ++i) {
      std::vector<uint32_t> words;
      uint32_t width = 4;
      for (const auto& lane : warp.log) {
        if (lane.size() <= i) continue;
        width = std::max(width, lane[i].bytes);
        words.push_back(lane[i].address);
      }
      // A wavefront serves 128 bytes: 32 lanes of 4 bytes, 16 of 8, 8 of 16.
      const size_t lanes = 128 / width;
      for (size_t first = 0; first < words.size(); first += lanes) {
        std::vector<uint32_t> part(words.begin() + static_cast<ptrdiff_t>(first),
                                   words.begin() + static_cast<ptrdiff_t>(std::min(words.size(), first + lanes)));
        std::sort(part.begin(), part.end());
        part.erase(std::unique(part.begin(), part.end()), part.end());
        std::vector<int> load(lanes);
        for (const uint32_t address : part) ++load[address / width % lanes];
        ++counts_.shared_accesses;
        counts_.bank_conflicts += *std::max_element(load.begin(), load.end()) - 1;
      }
    }
    for (auto& lane : warp.log) lane.clear();
  }

  static inline Block* current_ = nullptr;

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned char> memory_;
  std::vector<Word> shadow_;
  int64_t index_ = 0;
  int thread_ = 0;
  int arrived_ = 0;
  uint32_t epoch_ = 1;
  std::string error_;
  Counts counts_;
};

/// Runs the blocks one after the other.
inline Counts launch(int64_t blocks, int threads, int shared_bytes, const std::function<void()>& kernel) {
  Block block(threads, shared_bytes);
  for (int64_t i = 0; i < blocks; ++i) block.run(i, kernel);
  return block.counts();
}

}  // namespace fovea_tests::cuda_host
