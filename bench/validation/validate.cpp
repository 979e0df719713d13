// Predicts every published row, and says by how much the predictions err.
//
//   validate [-o FILE]    writes the report, or prints it
//   validate --check      compares the errors with bounds.json, fails where one is passed
//   validate --bounds     prints the errors as they are, as a bounds.json
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/validation/findings.h"
#include "bench/validation/goals.h"
#include "bench/validation/report.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/command/program.h"
#include "traces/print/terminal.h"

namespace {

using namespace pipesim;

const std::string folder = PIPESIM_SOURCE_DIR "/bench/validation";

// GPT-3 on 1,024 devices: 8 tensor x 8 pipeline x 16 data parallel.
validation::Row gpt3() {
  validation::Row row;
  row.model.blocks = 96;
  row.model.hidden_size = 12288;
  row.model.heads = 96;
  row.model.kv_heads = 96;
  row.model.mlp_size = 4 * row.model.hidden_size;
  row.model.vocabulary_size = 51200;
  row.model.max_sequence_length = 2048;
  row.training.sequence_length = 2048;
  row.training.tensor_parallel = 8;
  row.training.pipeline_parallel = 8;
  row.training.data_parallel = 16;
  row.training.sequence_parallel = true;
  row.training.recompute = Recompute::selective;
  row.microbatches = 1536 / 16;
  return row;
}

std::string timing() {
  const Cluster cluster = find_cluster("dgx-a100");
  std::vector<double> milliseconds;
  double predicted_s = 0;
  for (int turn = 0; turn < 15; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    predicted_s = validation::predict_row(gpt3(), cluster).seconds;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    milliseconds.push_back(took.count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return fmt::format(
      "GPT-3 175B on 1,024 A100, batch 1,536: {:.2f} s an iteration, predicted in {:.2f} ms "
      "(median of {})\n",
      predicted_s, milliseconds[milliseconds.size() / 2], milliseconds.size());
}

void check(const validation::Findings& findings) {
  const std::vector<std::string> broken =
      validation::broken_bounds(findings, folder + "/bounds.json");
  for (const std::string& sentence : broken) print(sentence + "\n");
  if (!broken.empty()) {
    throw work_error(
        fmt::format("{} of {} measures passed their bounds; mend the cost model, or "
                    "record new bounds in bench/validation/bounds.json",
                    broken.size(), findings.measures.size()));
  }
  print(fmt::format("{} measures within their bounds\n", findings.measures.size()));
}

void report(const validation::Findings& findings, const std::string& output) {
  const std::string text = validation::validation_report(findings, folder + "/data");
  if (output.empty()) {
    print(text);
    return;
  }
  write_file(output, text);
  for (const validation::Goal& goal : validation::goals(findings)) {
    print(fmt::format("{:<6} {} {}: {:.2f} %, goal {:.2f} %\n", goal.met() ? "met" : "missed",
                      goal.measure, goal.statistic, 100 * goal.reached, 100 * goal.limit));
  }
  print(timing());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("validate predicts published measurements and compares.", "validate");
  bool checks = false;
  bool bounds = false;
  std::string output;
  app.add_flag("--check", checks, "fail where an error passes its bound in bounds.json");
  app.add_flag("--bounds", bounds, "print the present errors as a bounds.json");
  app.add_option("-o,--output", output, "the report's file; else it is printed");
  return run_program(app, argc, argv, [&] {
    const validation::Findings findings = validation::examine(folder + "/data");
    if (checks) {
      check(findings);
    } else if (bounds) {
      print(validation::present_bounds(findings));
    } else {
      report(findings, output);
    }
  });
}
