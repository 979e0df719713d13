// An emulated workload of an input pipeline: each action takes the time in its costs, while
// streams, waits and the meetings of ranks are real.
//
// A collective begins when the last rank reaches it. The bytes of an action cross its links,
// shared with concurrent traffic; then it takes its duration. Only the
// arrival times of ranks are really sent. Ranks share one CLOCK_MONOTONIC.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "exec/input_pipeline/input_workload.h"
#include "exec/run/precise_sleep.h"
#include "sim/input_pipeline/input_costs.h"
#include "traces/event/flow_network.h"

namespace pipesim::exec {

// The links of all ranks of this process, by the wall clock. Any thread.
class EmulatedNetwork {
 public:
  explicit EmulatedNetwork(const InputCosts& costs);

  // Blocks until so many bytes of one action have crossed these links, from `start_ns` of
  // CLOCK_MONOTONIC on, now or a moment ago; returns that time.
  std::int64_t transfer(std::span<const std::uint32_t> links, std::int64_t bytes,
                        std::int64_t start_ns);

 private:
  // Links joined by actions. Traffic on the links of one part does not affect other parts.
  struct Part {
    std::mutex mutex;
    std::condition_variable shared_anew;
    FlowNetwork network;
    std::vector<FlowNetwork::Alarm> alarms;
    std::int64_t passed_ns = 0;                   // as far as the network is known
    std::uint32_t flows = 0;                      // so far
    std::map<std::uint32_t, std::int64_t> ended;  // flow -> time, until it is told

    // Advances the network's time. Flows that end on the way leave their share to the others.
    void pass_until(std::int64_t time_ns);
    std::int64_t next_ns() const;  // when the first may end
    void take_alarms();
  };

  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Part*> part_of_;   // by link
  std::vector<LinkId> link_of_;  // in its part's network
};

class EmulatedInput final : public InputWorkload {
 public:
  // Costs and network must outlive it.
  EmulatedInput(const InputCosts& costs, int rank, EmulatedNetwork& network)
      : costs_(costs), rank_(rank), network_(network) {}

  void call(const Action& action) override;
  void run(const Action& action, InputExchange* exchange) override;

 private:
  void sleep_until(std::int64_t monotonic_ns);

  const InputCosts& costs_;
  int rank_;
  EmulatedNetwork& network_;
  std::mutex mutex_;
  std::map<std::thread::id, PreciseSleep> sleeps_;  // of each stream's thread
};

// Throws an input error if several ranks share a link: traffic of other processes is not visible.
void check_links_apart(const InputCosts& costs);

}  // namespace pipesim::exec
