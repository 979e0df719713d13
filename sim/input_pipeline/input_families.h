// Programs of input pipelines by name: pure functions, the same on every rank.
// Each is the order of calls of torchrec's pipeline of that name
// (torchrec/distributed/train_pipeline/train_pipelines.py, at 376cac6): the host's order, the
// streams and the waits are the same. Distinguished only here: a forward is BOTTOM, LOOKUP, OUTPUT
// and TOP, the order in which its DLRM calls them; a backward is TOP_BACKWARD, OUTPUT_BACKWARD,
// UPDATE and BOTTOM_BACKWARD, the order in which autograd reaches them; dense gradients are two
// buckets, whose reduction overlaps the following actions. All collectives share one communicator,
// as torchrec's do by default, and run in the order in which the host calls them, on any stream.
// This is what keeps the host, which waits for no work of the device except splits, from running
// ahead: splits come after the exchanges of the previous batch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/input_program.h"

namespace pipesim {

struct InputFamily {
  std::string_view name;     // as in --input-pipeline
  std::string_view title;    // of the class whose order it is
  std::string_view summary;  // one line
};
const std::vector<InputFamily>& all_input_families();
std::vector<std::string> input_family_names();

// The work of a stage of `staged`.
enum class InputStage : std::uint8_t { copy, prepare, dist };

struct InputProgramRequest {
  std::string name;
  int ranks = 1;
  int batches = 1;
  int accumulate = 1;  // batches per step
  // For `staged`, in the order in which a batch passes them: `copy` first, `dist` last.
  std::vector<InputStage> stages = {InputStage::copy, InputStage::dist};
};

// "copy,prepare,dist"; `where` names the flag in an error.
std::vector<InputStage> parse_input_stages(std::string_view text, std::string_view where);

// Throws an input error for an unknown name, which lists the known ones, nearest first.
InputProgram make_input_program(const InputProgramRequest& request);

// Whether it names a file instead of a pipeline: it has a slash or a dot in it.
bool names_input_program_file(std::string_view name);

// By name, or read from a file, which determines ranks and batches: throws an input error if the
// request asks for others (0: any), or if a step has more batches than there are.
InputProgram choose_input_program(const InputProgramRequest& request);

}  // namespace pipesim
