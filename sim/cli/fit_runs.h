// RUNS.csv: measured iterations, a row each, in columns that are called like flags.
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

// A row by its columns; empty cells are left away. Paths of models and traces are as they count
// from here.
using RunCells = std::map<std::string, std::string, std::less<>>;

struct RunRow {
  int line = 0;
  RunCells cells;
};

struct RunTable {
  std::string file;
  std::vector<RunRow> rows;
};

// An input error of file, line and column where it can't be.
RunTable read_run_table(const std::string& path);

// What a row is a run of. An input error, in the words of the command line.
PredictionRequest run_request(const RunCells& cells, const FitStart& start);

struct MeasuredRuns {
  std::vector<MeasuredIteration> runs;  // one a row
  std::string notes;                    // of their models and traces, a line each
};
// An error says which line. Peaks are the rows' `peak_...`; what an iteration took is `seconds`, or
// where there are none the trace's.
MeasuredRuns measured_runs(const RunTable& table, const FitStart& start);

// The flags that predict a row, without cluster and software, each with its value as a shell takes
// it.
std::vector<std::string> run_flags(const RunCells& cells);

}  // namespace pipesim::cli
