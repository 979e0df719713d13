// Parses the name of a range in a profile.
// Names are those of torch.distributed.pipelining, of torch.profiler and, if the profiler recorded
// Python's calls, of functions of Megatron-LM, DeepSpeed and PyTorch that run one microbatch. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "traces/action.h"

namespace pipesim {

struct RangeName {
  enum class Says : std::uint8_t {
    nothing,     // nothing about a pipeline
    action,      // "PP:0F1": `action`; "PP:(0F1;2B0)OVERLAP_F_B": joined with `partner`
    microbatch,  // "Forward 1": `action` without its stage, in schedules of one stage per rank
    turn,        // "forward_step": only the kind of `action`; B for any backward
    optimizer,   // "Optimizer.step#AdamW.step"
    iteration,   // "ProfilerStep#3": `number`
    wait,        // "PP:0WAIT_SEND_F1": for a transfer begun by another range
    unknown,     // "PP:" and an unknown name
  };

  Says says = Says::nothing;
  Action action;
  Action partner;
  std::int32_t number = 0;
};

RangeName parse_range_name(std::string_view name);

// Two actions of one cell, "(0F1;2B0)OVERLAP_F_B", the first joined with the second; false if
// `text` is not such a cell.
bool parse_overlap(std::string_view text, Action& first, Action& second);

// The function that a turn is named after, in Python's calls or ranges: "schedules.py(12):
// forward_step" is "forward_step".
std::string_view turn_name(std::string_view name);

}  // namespace pipesim
