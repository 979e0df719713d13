// Faults injected into a run, to test whether a diagnosis finds them: on an emulated device
// (emulation.h), or in a training on the CPU (fault_injection.h), which can only become slower.
//
//   B@stage2=x1.4        each B of stage 2 takes 1.4 times as long
//   2B5=x1.4             that one does
//   launch@rank1=300us   rank 1 starts each F, I, W and B later than it could, by that much
//   pause@2B5=20ms       its rank pauses that long before it, in each iteration
//   jitter=5%            durations vary, by a normal distribution with that deviation
//   jitter@rank1=5%      those of one rank do
//
// Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/schedule/schedule.h"
#include "traces/action.h"

namespace pipesim::exec {

class Faults {
 public:
  // Throws if the text is none of these, or names an action that the program does not have.
  void add(std::string_view text, const Schedule& program);

  bool empty() const { return faults_.empty(); }
  std::vector<std::string> texts() const;
  // The first that makes something faster; empty if none does.
  std::string shortening() const;

  // An action's duration with faults; drawn anew in each iteration, deterministically.
  std::int64_t duration_ns(const Action& action, int iteration, int rank,
                           std::int64_t duration_ns) const;
  // How much later it starts.
  std::int64_t delay_ns(const Action& action, int rank) const;

 private:
  enum class What : std::uint8_t { scale, launch, pause, jitter };
  struct Fault {
    What what{};
    std::string text;
    std::optional<Kind> kind;
    std::optional<std::int32_t> stage, microbatch, rank;
    double factor = 1;  // or the deviation
    std::int64_t ns = 0;

    bool is_of(const Action& action, int on_rank) const;
  };

  std::vector<Fault> faults_;
};

}  // namespace pipesim::exec
