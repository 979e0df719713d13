// How long a recorded run of an input pipeline would take if something about it were changed.
// Costs are calibrated on the run (calibrate_input.h), changed, and simulated, by its own program
// or another one. Their prediction for the unchanged run is compared with its measured time, and
// every answer is corrected by the same factor. Plain values; const use is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input_pipeline/input_costs.h"
#include "traces/input_run.h"

namespace pipesim {

// Multiplies the time of actions: of a kind, a rank, or both.
struct InputTimeChange {
  std::optional<Kind> kind;
  std::optional<int> rank;
  double factor = 1;
};
// "IDS=0.5", "LOOKUP@rank1=2", "rank0=1.1,COPY=0"; an input error names `where`.
std::vector<InputTimeChange> parse_input_changes(std::string_view text, std::string_view where);

struct InputWhatIf {
  std::vector<InputTimeChange> times;
  std::optional<std::string> program;  // a family by name, or a file
};

class InputBasis {
 public:
  explicit InputBasis(const InputRun& run);

  struct Answer {
    std::string program;
    std::int64_t predicted_ns = 0;  // steady, by the costs
    std::int64_t steady_ns = 0;     // the same corrected
    double samples_per_second = 0;  // 0 if batch sizes are not known
    double exposed = 0;             // the share of all time in which compute waits or exchanges
  };
  // Throws if a change names a rank or kind that the run does not have, or a program is for other
  // ranks.
  Answer answer(const InputWhatIf& question) const;

  const Answer& as_it_ran() const { return as_it_ran_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Answer simulated(const InputWhatIf& question) const;

  InputProgram own_;
  InputCosts costs_;
  std::vector<std::string> notes_;
  Answer as_it_ran_;
};

}  // namespace pipesim
