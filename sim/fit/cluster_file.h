// The file of a fitted cluster: a preset, its software, and what a fit found otherwise.
//
// Pure; any thread.
#pragma once

#include <string>

#include "sim/fit/fit.h"

namespace pipesim {

struct ClusterFileNames {
  std::string base;      // the cluster's preset
  std::string software;  // a preset, too; empty: the device's own
  std::string name;      // what the file is called
  std::string runs;      // what it was fitted on, such as "runs.csv"
};

// A "pipesim-cluster" (FORMAT.md), with the source and interval of each value that was fitted.
std::string cluster_file(const ClusterFileNames& names, const FittedCluster& fitted,
                         const Cluster& preset);

// The 95 % interval of a constant's factor.
struct Interval {
  double least = 1;
  double most = 1;
};
Interval interval_of(const FittedConstant& constant);

// What a value and the ends of its interval read; of a list, as factors on the preset's.
struct ConstantTexts {
  std::string before, after, least, most;
};
ConstantTexts texts_of(const FittedConstant& constant, const Cluster& preset, std::size_t entry);

}  // namespace pipesim
