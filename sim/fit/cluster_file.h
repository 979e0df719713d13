// The file of a fitted cluster: what the fit started from, and what it found otherwise.
//
// Pure but for the files that it starts from; any thread.
#pragma once

#include <optional>
#include <string>

#include "sim/fit/fit.h"

namespace pipesim {

// Where runs were measured, and what trained: presets' names, or files.
struct FitStart {
  std::string cluster;
  std::optional<std::string> software;  // nothing: the cluster's own
};

// The cluster with that software. An input error where there is none such.
Cluster find_start(const FitStart& start);

struct ClusterFileNames {
  std::string name;  // what the file is called
  std::string runs;  // what it was fitted on, such as "runs.csv"
};

// A "pipesim-cluster" (FORMAT.md), with the source and interval of each value that was fitted.
// Presets are its bases; of files it has all that they say, so that it needs none of them.
std::string cluster_file(const FitStart& start, const ClusterFileNames& names,
                         const FittedCluster& fitted, const Cluster& cluster);

// The 95 % interval of how far a constant moves, within its range.
Range interval_of(const FittedConstant& constant, const Cluster& start);

// What a value and the ends of its interval read; of a list, as factors on the start's.
struct ConstantTexts {
  std::string before, after, least, most;
};
ConstantTexts texts_of(const FittedConstant& constant, const Cluster& start, std::size_t entry);
// The same as a file has them.
struct ConstantValues {
  Json before, after, least, most;
};
ConstantValues values_of(const FittedConstant& constant, const Cluster& start, std::size_t entry);

}  // namespace pipesim
