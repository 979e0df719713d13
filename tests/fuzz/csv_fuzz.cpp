// Any bytes as a schedule file of either form: an Error or a schedule that every later step
// takes: written and read again, lowered, checked for deadlock, evaluated.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "sim/engine/simulate.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Schedule schedule = parse_schedule(text, "fuzz.csv");
    const auto is_of_csv = [](Kind kind) { return is_of_pytorch(kind) || kind == Kind::IDLE; };
    if (schedule.dependencies.empty() &&
        std::ranges::all_of(schedule.actions.all(), is_of_csv, &Action::kind)) {
      const std::string written = to_csv(schedule);
      if (to_csv(parse_csv(written, "fuzz.csv")) != written) std::abort();
    }
    for (const TransferLane lane :
         {TransferLane::compute, TransferLane::rank, TransferLane::edge}) {
      const std::string written = to_program_text(schedule, lane);
      const Schedule read = parse_program(written, "fuzz.program");
      if (to_program_text(read, lane) != written) std::abort();
    }
    bool buffered_runs = false;
    for (const SendMode mode : all_send_modes()) {
      if (!schedule.has_transfers() && mode != SendMode::buffered) continue;
      const bool runs = !find_deadlock(schedule, mode);
      if (mode == SendMode::buffered) buffered_runs = runs;
    }
    Costs costs;
    StageCosts stage;
    stage.forward_ns = 3;
    stage.split_backward(5);
    costs.stages.assign(static_cast<std::size_t>(schedule.stages()), stage);
    bool simulated = true;
    try {
      simulate(schedule, costs);
    } catch (const Error&) {
      simulated = false;
    }
    // Asynchronous receives hold nobody, buffered ones their rank.
    if (buffered_runs && !simulated) std::abort();
    if (!schedule.has_transfers() && simulated != buffered_runs) std::abort();
    if (!schedule.has_transfers()) {
      const Schedule program = lower(schedule);
      if (find_fault(program)) std::abort();
      for (const SendMode mode : all_send_modes()) {
        if (find_deadlock(program, mode)) std::abort();
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
