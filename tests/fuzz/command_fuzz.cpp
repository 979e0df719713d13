// What a command is told on the first line, and below it the file that it reads, FILE on the line:
//   goodput|whatif|schedule receives FLAGS...   the command, as pipesim runs it
//   fit                                         measured runs of dgx-a100
//   device|software|cluster                     a run predicted with the file
// An Error, or it goes well; prints nothing.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cli/commands.h"
#include "sim/cli/fit_runs.h"
#include "tests/fuzz/memory_file.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

using Words = std::vector<std::string>;

void run_command(Words words) {
  CommandLine program("pipesim", "", "");
  program.add_command("goodput", "", cli::set_up_goodput);
  program.add_command("whatif", "", cli::set_up_what_if);
  program.add_command("schedule", "", cli::set_up_schedule);
  words.insert(words.begin(), "pipesim");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  program.run(static_cast<int>(argv.size()), argv.data(), [](const Error& error) {
    if (std::string_view(error.what()).starts_with("a fault of")) std::abort();
  });
}

void predict_with(const FitStart& start) {
  const PredictionRequest request = cli::run_request({{"model", "gpt2-small"},
                                                      {"stages", "2"},
                                                      {"tensor_parallel", "2"},
                                                      {"data_parallel", "4"},
                                                      {"zero", "1"},
                                                      {"global_batch", "8"}},
                                                     start);
  const PredictedRun run =
      predict_on(std::get<TrainingRequest>(request.costs.costs).cluster, request);
  if (run.iteration_ns < 0 || run.peak_bytes < 0) std::abort();
}

// As far as each run's prediction: a fit takes seconds.
void read_runs(const std::string& path) {
  const cli::RunTable table = cli::read_run_table(path);
  const cli::MeasuredRuns measured = cli::measured_runs(table, {"dgx-a100", {}});
  if (measured.runs.size() != table.rows.size()) std::abort();
  for (const MeasuredIteration& run : measured.runs) {
    if (run.measured_ns <= 0 || run.peak_bytes.value_or(1) <= 0) std::abort();
  }
  for (const cli::RunRow& row : table.rows) cli::run_flags(row.cells);
}

// Lets nothing through that names another file, but for what writes, or asks for much work. Longer
// numbers than these the commands refuse, and what follows a letter or a point is none: a100.
bool is_tried(std::string_view line) {
  std::size_t digits = 0;
  bool is_name = false;
  char before = ' ';
  for (const char c : std::string(line) + ' ') {
    const bool is_rate = before == 'B' || before == 's';  // 2GB/s/device
    if (c == '\0' || (c == '/' && !is_rate)) return false;
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (digits == 0) is_name = before == '.' || std::isalpha(static_cast<unsigned char>(before));
      ++digits;
    } else {
      if (!is_name && digits > 2 && digits < 12) return false;
      digits = 0;
    }
    before = c;
  }
  return true;
}

void check_text(std::string_view line, std::string_view file) {
  const testing::MemoryFile there(file);
  std::istringstream typed{std::string(line)};
  Words words{std::istream_iterator<std::string>(typed), {}};
  std::ranges::replace(words, "FILE", there.path());
  if (words.empty()) return;
  const bool writes = std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("-o") || word.starts_with("--o");
  });
  if (words.front() == "fit") {
    if (is_tried(file)) read_runs(there.path());
  } else if (words.front() == "cluster") {
    predict_with({there.path(), {}});
  } else if (words.front() == "software") {
    predict_with({"dgx-a100", there.path()});
  } else if (words.front() == "device") {
    const testing::MemoryFile cluster(
        R"({"format":"pipesim-cluster","version":1,"name":"fuzz","base":"dgx-a100","device":")" +
        there.path() + "\"}");
    predict_with({cluster.path(), {}});
  } else if (!writes) {
    run_command(words);
  }
}

}  // namespace
}  // namespace pipesim

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  if (line == text.npos || !pipesim::is_tried(text.substr(0, line))) return -1;
  try {
    pipesim::check_text(text.substr(0, line), text.substr(line + 1));
  } catch (const pipesim::Error&) {
  }
  return 0;
}
