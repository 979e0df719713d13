// What is put wrong with a run on purpose, to see whether a diagnosis finds it: on an emulated
// device (emulation.h), or in a training on the CPU (faulty.h), which can only become longer.
//
//   B@stage2=x1.4        each B of stage 2 takes 1.4 times as long
//   2B5=x1.4             that one does
//   launch@rank1=300us   rank 1 starts each F, I, W and B so much later than it could
//   pause@2B5=20ms       its rank stands still for so long before it, in each iteration
//   jitter=5%            durations vary, by a normal distribution of that deviation
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
  // Throws where the text is none of these, or names what the program does not do.
  void add(std::string_view text, const Schedule& program);

  bool empty() const { return faults_.empty(); }
  std::vector<std::string> texts() const;
  // The first that makes something take less time; empty where none does.
  std::string shortening() const;

  // What an action takes instead; in each iteration another draw, always the same.
  std::int64_t duration_ns(const Action& action, int iteration, int rank,
                           std::int64_t duration_ns) const;
  // By how much later it starts.
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
