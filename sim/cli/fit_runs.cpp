#include "sim/cli/fit_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "sim/cli/fit_traces.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/setup.h"
#include "sim/cost/hardware/presets.h"
#include "traces/base/decimal.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

// Columns that are flags, in the order of a command line.
constexpr std::array run_columns{"model",
                                 "schedule",
                                 "stages",
                                 "virtual_stages",
                                 "microbatches",
                                 "global_batch",
                                 "micro_batch_size",
                                 "sequence_length",
                                 "tensor_parallel",
                                 "sequence_parallel",
                                 "data_parallel",
                                 "devices",
                                 "zero",
                                 "shard_over",
                                 "gather",
                                 "gradient_bytes",
                                 "bucket_bytes",
                                 "overlap_gather",
                                 "recompute",
                                 "attention",
                                 "precision",
                                 "weights",
                                 "tensor_overlap",
                                 "layout"};
constexpr std::array measured_columns{"seconds", "peak_bytes", "peak_gib", "peak_gb", "trace"};

std::vector<std::string> known_columns() {
  std::vector<std::string> names(measured_columns.begin(), measured_columns.end());
  names.insert(names.end(), run_columns.begin(), run_columns.end());
  return names;
}

// Cells of a line between commas; a quoted one may hold commas and doubled quotes.
std::vector<std::string> cells_of(std::string_view line, const std::string& place) {
  std::vector<std::string> cells;
  std::size_t at = 0;
  while (true) {
    std::string cell;
    const std::size_t first = line.find_first_not_of(" \t", at);
    if (first != std::string_view::npos && line[first] == '"') {
      at = first + 1;
      while (true) {
        const std::size_t end = line.find('"', at);
        if (end == std::string_view::npos) {
          throw input_error(fmt::format("{}:{}: a quote is not closed; add its second one", place,
                                        cells.size() + 1));
        }
        cell += line.substr(at, end - at);
        at = end + 1;
        if (at >= line.size() || line[at] != '"') break;
        cell += '"';
        ++at;
      }
    }
    const std::size_t comma = std::min(line.find(',', at), line.size());
    cell += strip(line.substr(at, comma - at));
    cells.push_back(std::move(cell));
    if (comma == line.size()) return cells;
    at = comma + 1;
  }
}

// Non-empty lines, with their numbers.
class LinesOfRuns {
 public:
  explicit LinesOfRuns(const std::string& path) : file_(path), text_(read_file(path)) {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    std::string_view rest = text_;
    if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
    int number = 0;
    for (const std::string_view line : split(rest, '\n')) {
      ++number;
      if (!strip(line).empty()) lines_.emplace_back(number, strip(line));
    }
  }

  RunTable table() const {
    RunTable table{file_, {}};
    if (lines_.empty()) {
      throw input_error(
          fmt::format("{}: is empty; begin with the names of columns, such as "
                      "model,stages,microbatches,seconds",
                      file_));
    }
    const std::vector<std::string> columns = read_columns();
    for (std::size_t i = 1; i < lines_.size(); ++i) table.rows.push_back(row(i, columns));
    return table;
  }

 private:
  std::string place(int line) const { return fmt::format("{}:{}", file_, line); }

  std::vector<std::string> read_columns() const {
    const std::string where = place(lines_[0].first);
    std::vector<std::string> columns = cells_of(lines_[0].second, where);
    const std::vector<std::string> known = known_columns();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (std::ranges::find(known, columns[i]) == known.end()) {
        throw input_error(
            fmt::format("{}:{}: {}", where, i + 1, unknown_name("column", columns[i], known)));
      }
      if (std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i),
                    columns[i]) != columns.begin() + static_cast<std::ptrdiff_t>(i)) {
        throw input_error(fmt::format("{}:{}: column {} is given twice; omit one of them", where,
                                      i + 1, columns[i]));
      }
    }
    const auto has = [&](const char* column) {
      return std::ranges::find(columns, column) != columns.end();
    };
    if (!has("model")) {
      throw input_error(fmt::format("{}: there is no column model; add it", where));
    }
    if (!has("seconds") && !has("trace")) {
      throw input_error(
          fmt::format("{}: there is no column seconds, and none of traces; add one", where));
    }
    return columns;
  }

  RunRow row(std::size_t index, const std::vector<std::string>& columns) const {
    RunRow row;
    row.line = lines_[index].first;
    std::vector<std::string> cells = cells_of(lines_[index].second, place(row.line));
    if (cells.size() != columns.size()) {
      throw input_error(fmt::format("{}: {} for {}; give each column a cell, which may be empty",
                                    place(row.line),
                                    plural(static_cast<std::int64_t>(cells.size()), "cell"),
                                    plural(static_cast<std::int64_t>(columns.size()), "column")));
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!cells[i].empty()) row.cells.emplace(columns[i], std::move(cells[i]));
    }
    const std::filesystem::path folder = std::filesystem::path(file_).parent_path();
    for (const char* column : {"model", "trace"}) {
      const auto path = row.cells.find(column);
      if (path == row.cells.end()) continue;
      const bool is_preset = std::string_view(column) == "model" && !names_file(path->second);
      if (!is_preset) path->second = (folder / path->second).string();
    }
    return row;
  }

  std::string file_;
  std::string text_;
  std::vector<std::pair<int, std::string_view>> lines_;
};

Flag cell(const RunCells& cells, std::string_view column) {
  const auto found = cells.find(column);
  return found == cells.end() ? Flag() : Flag(found->second);
}

bool is_yes(const RunCells& cells, std::string_view column) {
  const Flag text = cell(cells, column);
  if (!text || *text == "false" || *text == "False" || *text == "0") return false;
  if (*text == "true" || *text == "True" || *text == "1") return true;
  throw input_error(
      fmt::format("{}: {} is neither true nor false; give one of them", column, quote(*text)));
}

// A positive decimal, times ten to the power `scale`.
std::int64_t positive(const std::string& text, std::string_view column, int scale,
                      std::int64_t most, std::string_view example) {
  const ScaledDecimal value = scale_decimal(text, scale);
  if (value.status == ScaledDecimal::Status::fine && value.value > 0 && value.value <= most) {
    return value.value;
  }
  throw input_error(fmt::format("{}: {} is not a number above 0 within reason; give one such as {}",
                                column, quote(text), example));
}

std::optional<std::int64_t> peak_of(const RunCells& cells) {
  std::optional<std::int64_t> peak;
  std::string_view first;
  for (const std::string_view column : {"peak_bytes", "peak_gib", "peak_gb"}) {
    const Flag text = cell(cells, column);
    if (!text) continue;
    if (peak) {
      throw input_error(fmt::format("{} and {} both give a peak; omit one of them", first, column));
    }
    first = column;
    if (column == "peak_gib") {
      constexpr std::int64_t max_millionths = std::int64_t{1} << 40;
      const double millionths =
          static_cast<double>(positive(*text, column, 6, max_millionths, "41.5"));
      peak = static_cast<std::int64_t>(millionths / 1e6 * static_cast<double>(1 << 30));
    } else {
      peak = positive(*text, column, column == "peak_gb" ? 9 : 0, max_bytes,
                      column == "peak_gb" ? "41.5" : "41500000000");
    }
  }
  return peak;
}

}  // namespace

RunTable read_run_table(const std::string& path) { return LinesOfRuns(path).table(); }

PredictionRequest run_request(const RunCells& cells, const FitStart& start) {
  ScheduleFlags schedule;
  schedule.stages = cell(cells, "stages");
  schedule.microbatches = cell(cells, "microbatches");
  schedule.virtual_stages = cell(cells, "virtual_stages");
  schedule.schedule = cell(cells, "schedule");
  if (!schedule.schedule) {
    const bool is_chunked = schedule.virtual_stages && *schedule.virtual_stages != "1";
    schedule.schedule = is_chunked ? "interleaved" : "1f1b";
  }
  CostFlags costs;
  costs.layout = cell(cells, "layout");
  ModelFlags& model = costs.model;
  model.is_row = true;
  model.model = cell(cells, "model");
  model.cluster = start.cluster;
  model.software = start.software;
  model.micro_batch_size = cell(cells, "micro_batch_size");
  model.sequence_length = cell(cells, "sequence_length");
  model.tensor_parallel = cell(cells, "tensor_parallel");
  model.sequence_parallel = is_yes(cells, "sequence_parallel");
  model.devices = cell(cells, "devices");
  model.recompute = cell(cells, "recompute");
  model.attention = cell(cells, "attention");
  model.precision = cell(cells, "precision");
  model.weights = cell(cells, "weights");
  model.gradient_bytes = cell(cells, "gradient_bytes");
  model.tensor_overlap = cell(cells, "tensor_overlap");
  model.replicas.data_parallel = cell(cells, "data_parallel");
  model.replicas.zero = cell(cells, "zero");
  model.replicas.shard_over = cell(cells, "shard_over");
  model.replicas.gather = cell(cells, "gather");
  model.replicas.bucket_bytes = cell(cells, "bucket_bytes");
  model.overlap_gather = cell(cells, "overlap_gather");
  model.global_batch = cell(cells, "global_batch");
  PredictionRequest request;
  request.costs = cost_request(costs);
  settle_schedule(model.global_batch, request.costs, schedule);
  request.schedule = choose_schedule(schedule, request.costs.bytes_needed());
  return request;
}

namespace {

// Appends remarks on the row's trace to `notes`.
MeasuredIteration measured_run(const RunRow& row, const FitStart& start, std::string& notes) {
  MeasuredIteration run;
  const Flag seconds = cell(row.cells, "seconds");
  const Flag trace = cell(row.cells, "trace");
  if (!seconds && !trace) {
    throw input_error(
        "seconds: is empty; give an iteration's time, a trace of it, or remove the row");
  }
  if (seconds) run.measured_ns = positive(*seconds, "seconds", 9, max_time_ns, "3.26");
  run.peak_bytes = peak_of(row.cells);
  run.request = run_request(row.cells, start);
  predict_on(std::get<TrainingRequest>(run.request.costs.costs).cluster, run.request);
  if (!trace) return run;
  const TracedRun traced = read_traced_run(*trace, run.request);
  run.kinds = traced.kinds;
  if (!seconds) run.measured_ns = traced.iteration_ns;
  notes += fmt::format("line {}: {} {} of {}{}\n", row.line,
                       seconds ? "forwards, backwards and messages of" : "the median of",
                       plural(traced.iterations, "iteration"), printable(*trace),
                       traced.source == Source::predicted ? ", a prediction, no measurement" : "");
  notes += traced.warnings;
  return run;
}

}  // namespace

MeasuredRuns measured_runs(const RunTable& table, const FitStart& start) {
  MeasuredRuns measured;
  std::set<std::string> told;
  for (const RunRow& row : table.rows) {
    try {
      if (const Flag model = cell(row.cells, "model"); model && told.insert(*model).second) {
        std::vector<std::string> notes;
        find_model(*model, &notes);
        for (const std::string& note : notes) measured.notes += note + "\n";
      }
      measured.runs.push_back(measured_run(row, start, measured.notes));
    } catch (const Error& error) {
      throw Error(error.cause(), fmt::format("{}:{}: {}", table.file, row.line, error.what()));
    }
  }
  return measured;
}

std::vector<std::string> run_flags(const RunCells& cells) {
  std::vector<std::string> flags;
  for (const char* column : run_columns) {
    Flag text = cell(cells, column);
    if (std::string_view(column) == "schedule" && !text) {
      const Flag chunks = cell(cells, "virtual_stages");
      text = chunks && *chunks != "1" ? "interleaved" : "1f1b";
    }
    if (!text) continue;
    std::string name = column;
    std::ranges::replace(name, '_', '-');
    if (name == "sequence-parallel") {
      if (is_yes(cells, column)) flags.emplace_back("--sequence-parallel");
      continue;
    }
    flags.push_back(fmt::format("--{} {}", name, shell_word(*text)));
  }
  return flags;
}

}  // namespace pipesim::cli
