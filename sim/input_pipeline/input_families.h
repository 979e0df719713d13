// Programs of input pipelines by name: pure functions, alike on every rank.
//
// Each is the order in which torchrec's pipeline of that name calls things (torchrec/distributed/
// train_pipeline/train_pipelines.py, at 376cac6); the host's order, what stands on which stream
// and what waits for what are as there. What is told apart here and not there: a forward is
// BOTTOM, LOOKUP, OUTPUT and TOP, the order in which its DLRM calls them; a backward is
// TOP_BACKWARD, OUTPUT_BACKWARD, UPDATE and BOTTOM_BACKWARD, the order in which autograd comes to
// them; dense gradients are two buckets, reduced beside what follows.
//
// All collectives are one communicator's, as torchrec's are by default, and run in the order in
// which the host calls them, whatever their streams. It is this that keeps the host, which waits
// for no other work of the device but splits, from running away: splits come behind the exchanges
// of the batch before.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/input_pipeline/input_program.h"

namespace pipesim {

struct InputFamily {
  std::string_view name;     // as in --input-pipeline
  std::string_view title;    // of the class that it is the order of
  std::string_view summary;  // one line
};
const std::vector<InputFamily>& all_input_families();

// What a stage of `staged` does with a batch.
enum class InputStage : std::uint8_t { copy, prepare, dist };

struct InputProgramRequest {
  std::string name;
  int ranks = 1;
  int batches = 1;
  int accumulate = 1;  // batches to a step
  // Of `staged`, in the order in which a batch passes them: `copy` first, `dist` last.
  std::vector<InputStage> stages = {InputStage::copy, InputStage::dist};
};

// "copy,prepare,dist"; `where` names the flag in an error.
std::vector<InputStage> parse_input_stages(std::string_view text, std::string_view where);

// An unknown name is an input error that lists those known, nearest first.
InputProgram make_input_program(const InputProgramRequest& request);

// Whether it names a file, not a pipeline: with a slash or a dot in it.
bool names_input_program_file(std::string_view name);

// By name, or read from a file, where ranks and batches are then the file's: an input error where
// those asked for are others (0: none are). Also where a step has more batches than there are.
InputProgram choose_input_program(const InputProgramRequest& request);

}  // namespace pipesim
