// The file of a fitted cluster: the start of the fit, with the fitted values.
// Pure, except that it reads the files that the fit started from; any thread.
#pragma once

#include <optional>
#include <string>

#include "sim/fit/fit.h"

namespace pipesim {

// The cluster that runs were measured on, and their software: presets' names, or files.
struct FitStart {
  std::string cluster;
  std::optional<std::string> software;  // nothing: the cluster's own
};

// The cluster with that software. Throws an input error if there is no such preset or file.
Cluster find_start(const FitStart& start);

struct ClusterFileNames {
  std::string name;  // the file's own name
  std::string runs;  // the file it was fitted on, such as "runs.csv"
};

// A "pipesim-cluster" (FORMAT.md), with the source and interval of each fitted value. Presets are
// its bases; files are copied into it, so that it needs none of them.
std::string cluster_file(const FitStart& start, const ClusterFileNames& names,
                         const FittedCluster& fitted, const Cluster& cluster);

// The 95 % interval of a constant's move, within its range.
Range interval_of(const FittedConstant& constant, const Cluster& start);

// A value and the ends of its interval as text; for a list, as factors on the start's.
struct ConstantTexts {
  std::string before, after, least, most;
};
ConstantTexts texts_of(const FittedConstant& constant, const Cluster& start, std::size_t entry);
// The same as JSON, for a file.
struct ConstantValues {
  Json before, after, least, most;
};
ConstantValues values_of(const FittedConstant& constant, const Cluster& start, std::size_t entry);

}  // namespace pipesim
