// Tensor-parallel ranks that take turns on one device, for a reference: each works until it reaches
// an exchange, then the next one does, and the last one makes the exchange for all. So operators
// have the same shapes as on separate ranks, and sums are made in the order of ranks. They are
// threads, one of which runs at a time; the device must outlive them.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "exec/model/tensor_group.h"

namespace pipesim::exec {

class ShardsInTurn {
 public:
  ShardsInTurn(Device& device, int shards);
  ShardsInTurn(const ShardsInTurn&) = delete;
  ShardsInTurn& operator=(const ShardsInTurn&) = delete;

  int count() const { return static_cast<int>(groups_.size()); }
  // A shard's view of the others; null if there are none.
  TensorGroup* group(int shard) {
    return count() == 1 ? nullptr : &groups_[static_cast<std::size_t>(shard)];
  }
  // Returns once all have done the work, which must have the same exchanges for each. The first
  // error of any ends all, and is thrown here.
  void run(const std::function<void(int shard)>& work);

 private:
  class Group final : public TensorGroup {
   public:
    Group(ShardsInTurn& all, int rank) : all_(all), rank_(rank) {}
    int ranks() const override { return all_.count(); }
    int rank() const override { return rank_; }
    void start_sum(const Slice& numbers, Keeps /*keeps*/) override {
      all_.meet(rank_, numbers, true);
    }
    void finish_sum() override {}
    void poll() override {}
    void all_gather(const Slice& numbers) override { all_.meet(rank_, numbers, false); }

   private:
    ShardsInTurn& all_;
    int rank_;
  };

  void meet(int rank, const Slice& numbers, bool sums);
  void add_up();
  void gather();
  // Fails all with the error that is being handled.
  void fail();
  void pass_on();
  void await_turn(int rank);

  Device& device_;
  std::vector<Group> groups_;
  std::vector<Slice> numbers_;  // of the exchange that they have reached, by rank
  std::mutex mutex_;
  std::condition_variable passed_on_;
  static constexpr int nobody = -1;  // before the first turn
  int turn_ = nobody;
  std::exception_ptr error_;
};

}  // namespace pipesim::exec
