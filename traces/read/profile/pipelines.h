// Which ranks of a job are one pipeline, where data and tensor replicas are others.
//
// Told by the user; else by the process groups that the files describe, as Megatron-LM
// (PIPELINE_MODEL_PARALLEL_GROUP) and PyTorch's device meshes (mesh_pp) name theirs; else by
// who exchanges messages with whom. Pure functions; any thread.
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
  std::vector<std::size_t> files;  // places among those given, the first rank's first
  std::string said;  // which pipeline it is, for people; empty where it is all there is
};

// Nothing where neither tells: then all files are one pipeline. What stands before a file's
// events is enough for the first two. Throws an input error where files are of several jobs,
// where what the user says does not fit, and where no pipeline is there whole.
std::optional<PipelineChoice> choose_pipeline(const std::vector<ProfileFile>& files,
                                              const ProfileOptions& options);

// Whether a process group is said to be that of a pipeline, and of nothing beside.
bool names_pipeline(std::string_view description);

}  // namespace pipesim
