// RUNS.csv: measured iterations, one per row, in columns named like flags.
//
// traces/FORMAT.md, "Measured runs", has the columns. Plain values; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fit/cluster_file.h"
#include "traces/command/command_line.h"

namespace pipesim::cli {

// A row by its columns, without empty cells. Paths of models and traces are relative to the current
// folder.
using RunCells = std::map<std::string, std::string, std::less<>>;

struct RunRow {
  int line = 0;
  RunCells cells;
};

struct RunTable {
  std::string file;
  std::vector<RunRow> rows;
};

// Throws an input error with file, line and column if it can't be read.
RunTable read_run_table(const std::string& path);

// The request for a row's run. Throws an input error in the terms of the command line.
PredictionRequest run_request(const RunCells& cells, const FitStart& start);

struct MeasuredRuns {
  std::vector<MeasuredIteration> runs;  // one per row
  std::string notes;                    // of their models and traces, one per line
};
// Errors name the line. Peaks are the rows' `peak_...`; an iteration's time is `seconds`, or else
// the trace's.
MeasuredRuns measured_runs(const RunTable& table, const FitStart& start);

// The flags that predict a row, without cluster and software, each with its value, quoted for a
// shell.
std::vector<std::string> run_flags(const RunCells& cells);

}  // namespace pipesim::cli
