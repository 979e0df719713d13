#include "exec/run/shards_in_turn.h"

#include <fmt/format.h>

#include <vector>

#include "exec/model/parameters.h"
#include "traces/base/threads.h"

namespace pipesim::exec {
namespace {

// Ends the work of a shard when that of another has failed.
struct OtherFailed {};

}  // namespace

ShardsInTurn::ShardsInTurn(Device& device, int shards)
    : device_(device), numbers_(static_cast<std::size_t>(shards)) {
  for (int i = 0; i < shards; ++i) groups_.emplace_back(*this, i);
}

void ShardsInTurn::run(const std::function<void(int shard)>& work) {
  if (count() == 1) return work(0);
  turn_ = nobody;
  error_ = nullptr;
  const auto take_part = [&](int shard) {
    try {
      await_turn(shard);
      device_.enter_thread();
      work(shard);
    } catch (const OtherFailed&) {
    } catch (...) {
      fail();
    }
    pass_on();
  };
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < count(); ++i) {
      threads.push_back(
          start_thread(fmt::format("for shard {}", i), [&take_part, i] { take_part(i); }));
    }
  } catch (const Error&) {  // ends those that wait for the first turn
    fail();
  }
  if (!error_) pass_on();
  threads.clear();
  if (error_) std::rethrow_exception(error_);
}

void ShardsInTurn::fail() {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  passed_on_.notify_all();
}

void ShardsInTurn::pass_on() {
  {
    const std::lock_guard lock(mutex_);
    if (turn_ != nobody || !error_) turn_ = (turn_ + 1) % count();
  }
  passed_on_.notify_all();
}

void ShardsInTurn::await_turn(int rank) {
  std::unique_lock lock(mutex_);
  passed_on_.wait(lock, [&] { return turn_ == rank || (turn_ == nobody && error_); });
  if (error_) throw OtherFailed();
}

void ShardsInTurn::meet(int rank, const Slice& numbers, bool sums) {
  numbers_[static_cast<std::size_t>(rank)] = numbers;
  if (rank + 1 == count()) {
    if (sums) {
      add_up();
    } else {
      gather();
    }
  }
  pass_on();
  await_turn(rank);
}

void ShardsInTurn::add_up() {
  const Slice& sum = numbers_.front();
  for (std::size_t i = 1; i < numbers_.size(); ++i) {
    device_.add(sum.size(), sum.data(), numbers_[i].data(), sum.data());
  }
  for (std::size_t i = 1; i < numbers_.size(); ++i) {
    device_.copy(sum.size(), sum.data(), numbers_[i].data());
  }
}

void ShardsInTurn::gather() {
  for (int from = 0; from < count(); ++from) {
    const Slice& theirs = numbers_[static_cast<std::size_t>(from)];
    const Range part = part_of({0, theirs.size()}, from, count());
    for (int to = 0; to < count(); ++to) {
      if (to == from) continue;
      const Slice& there = numbers_[static_cast<std::size_t>(to)];
      device_.copy(part.size(), theirs.part(part.begin, part.size()).data(),
                   there.part(part.begin, part.size()).data());
    }
  }
}

}  // namespace pipesim::exec
