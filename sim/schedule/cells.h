// Common to both forms of schedule files: cells of joined actions, and the shape
// that follows from all actions. Pure; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "sim/schedule/schedule.h"

namespace pipesim {

// "(0F7;7B3)OVERLAP_F_B" or "(0SEND_F0;2RECV_F0)BATCH_P2P": calls `add` with each of its
// actions, joined, and `fail`, which throws, with what is wrong. `read` reads one action.
void read_joined(std::string_view cell, const std::function<Action(std::string_view text)>& read,
                 const std::function<void(const Action&)>& add,
                 const std::function<void(const std::string& rule)>& fail);

// Fills in placement and microbatches: stages and microbatches are numbered from 0 without
// gaps, and a stage lives on the rank whose list has it. `fail_at`, which throws, gets what
// is wrong with an action of a rank's list; `file` names the whole in errors.
using FailAt = std::function<void(int rank, std::size_t index, const std::string& rule)>;
void infer_shape(Schedule& schedule, const std::string& file, const FailAt& fail_at);

}  // namespace pipesim
