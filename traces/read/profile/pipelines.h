// Which ranks of a job form one pipeline, among data and tensor replicas.
// Determined by the user; else by the process groups in the files, as named by Megatron-LM
// (PIPELINE_MODEL_PARALLEL_GROUP) and PyTorch's device meshes (mesh_pp); else by which ranks
// exchange messages. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/read/profile/profile_file.h"
#include "traces/read/profile_options.h"

namespace pipesim {

struct PipelineChoice {
  std::vector<std::size_t> files;  // indices among those given, the first rank's first
  std::string said;  // which pipeline it is, for display; empty if it is the whole job
};

// Nothing if none of these apply: then all files are one pipeline. The part of a file before its
// events is enough for the first two. Throws an input error if files are from several jobs, if the
// user's choice does not match them, and if no pipeline is complete.
std::optional<PipelineChoice> choose_pipeline(const std::vector<ProfileFile>& files,
                                              const ProfileOptions& options);

// Whether a process group's description names a pipeline and nothing else.
bool names_pipeline(std::string_view description);

}  // namespace pipesim
