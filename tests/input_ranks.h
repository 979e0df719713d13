// Ranks of an input pipeline in one process: a thread each, which swap bytes in memory.
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "exec/input_pipeline/input_workload.h"

namespace pipesim::testing {

// Calls work(rank, exchange) on a thread for each rank; rethrows the first error.
inline void run_input_ranks(int ranks,
                            const std::function<void(int rank, exec::InputExchange&)>& work) {
  struct Table {
    explicit Table(int count) : barrier(count), given(static_cast<std::size_t>(count)) {}
    std::barrier<> barrier;
    std::vector<std::vector<exec::Bytes>> given;  // by rank, to each rank
  };
  class Exchange final : public exec::InputExchange {
   public:
    Exchange(Table& table, int rank, int ranks) : table_(table), rank_(rank), ranks_(ranks) {}
    int rank() const override { return rank_; }
    int ranks() const override { return ranks_; }
    std::vector<exec::Bytes> all_to_all(std::vector<exec::Bytes> given) override {
      table_.given[static_cast<std::size_t>(rank_)] = std::move(given);
      table_.barrier.arrive_and_wait();
      std::vector<exec::Bytes> got;
      for (const auto& of_rank : table_.given) {
        got.push_back(of_rank.at(static_cast<std::size_t>(rank_)));
      }
      table_.barrier.arrive_and_wait();
      return got;
    }

   private:
    Table& table_;
    int rank_, ranks_;
  };

  Table table(ranks);
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Exchange exchange(table, rank, ranks);
        work(rank, exchange);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        table.barrier.arrive_and_drop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace pipesim::testing
