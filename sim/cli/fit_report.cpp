#include "sim/cli/fit_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/cli/limits_report.h"
#include "sim/fit/cluster_file.h"
#include "traces/base/json.h"
#include "traces/base/portable_math.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

double error_of(std::int64_t predicted, std::int64_t measured) {
  return static_cast<double>(predicted) / static_cast<double>(measured) - 1;
}

// Errors of each run, with the heading of their column.
struct ErrorColumn {
  std::string_view name;
  std::vector<double> errors;

  double mean() const {
    double sum = 0;
    for (const double one : errors) sum += std::abs(one);
    return sum / static_cast<double>(errors.size());
  }
  double worst() const {
    double most = 0;
    for (const double one : errors) most = std::max(most, std::abs(one));
    return most;
  }
};

// The errors of one problem: times of all runs, or peaks of those that have one.
struct ErrorTable {
  std::vector<std::size_t> runs;  // indices of its rows
  std::vector<std::string> measured;
  std::vector<ErrorColumn> columns;              // by others only if fitted
  const std::vector<double>* weights = nullptr;  // likewise

  // Whether the fit ignores a row.
  bool is_outlier(std::size_t row) const {
    constexpr double least = 0.3;
    return weights != nullptr && (*weights)[row] < least;
  }
};

ErrorTable time_errors(const FitView& view) {
  ErrorTable table{
      {}, {}, {{"before", {}}, {"after", {}}, {"by others", {}}}, &view.fitted.time.weights};
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    const std::int64_t measured = view.runs[i].measured_ns;
    table.runs.push_back(i);
    table.measured.push_back(format_time(measured));
    table.columns[0].errors.push_back(error_of(view.before[i].iteration_ns, measured));
    table.columns[1].errors.push_back(error_of(view.after[i].iteration_ns, measured));
    table.columns[2].errors.push_back(error_of(view.fitted.time.by_others[i], measured));
  }
  return table;
}

ErrorTable peak_errors(const FitView& view) {
  ErrorTable table{{}, {}, {{"before", {}}}, nullptr};
  const bool is_fitted = view.fitted.memory.has_value();
  if (is_fitted) {
    table.columns.push_back({"after", {}});
    table.columns.push_back({"by others", {}});
    table.weights = &view.fitted.memory->weights;
  }
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    if (!view.runs[i].peak_bytes) continue;
    const std::int64_t measured = *view.runs[i].peak_bytes;
    table.columns[0].errors.push_back(error_of(view.before[i].peak_bytes, measured));
    if (is_fitted) {
      const std::int64_t by_others = view.fitted.memory->by_others[table.runs.size()];
      table.columns[1].errors.push_back(error_of(view.after[i].peak_bytes, measured));
      table.columns[2].errors.push_back(error_of(by_others, measured));
    }
    table.runs.push_back(i);
    table.measured.push_back(format_bytes(measured));
  }
  return table;
}

std::string percent_off(double fraction) { return fmt::format("{:+.1f}", fraction * 100); }

std::string times_text(double spread) { return fmt::format("{:.0f} %", spread * 100); }

std::string key_of(Constant constant, const ConstantEntry& entry) {
  if (constant == Constant::collectives) return "node.collectives";
  if (entry.section == ConstantEntry::Section::network) return "network." + entry.key;
  return entry.key;
}

std::string why_kept(const FittedConstant& one) {
  if (!one.is_needed) return "kept: no run depends on it";
  return fmt::format("kept: runs leave {:.0f} % of it uncertain", one.open_share * 100);
}

std::string constants_table(const FitView& view) {
  std::string out =
      fmt::format("{:<20} {:>9} {:>9}  {}\n", "constant", "before", "after", "95 % interval");
  for (const FittedConstant& one : view.fitted.constants) {
    if (!one.is_there) continue;
    const std::vector<ConstantEntry> entries = entries_of(view.cluster, one.constant);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const ConstantTexts texts = texts_of(one, view.cluster, i);
      out += fmt::format(
          "{:<20} {:>9} {:>9}  {}\n", key_of(one.constant, entries[i]), texts.before,
          one.is_told ? texts.after : "-",
          one.is_told ? fmt::format("{} to {}", texts.least, texts.most) : why_kept(one));
    }
  }
  return out;
}

std::string shape_text(const MeasuredIteration& run) {
  const auto& asked = std::get<TrainingRequest>(run.request.costs.costs);
  const Schedule& schedule = run.request.schedule.schedule;
  const int chunks = schedule.placement.virtual_stages();
  return fmt::format("t{} p{}{} d{} b{} m{}", asked.training.tensor_parallel, schedule.ranks(),
                     chunks > 1 ? fmt::format("x{}", chunks) : "", asked.replicas(schedule.ranks()),
                     asked.training.micro_batch_size, schedule.microbatches);
}

std::string model_text(const MeasuredIteration& run) {
  constexpr std::size_t most = 12;
  std::string name = printable(std::get<TrainingRequest>(run.request.costs.costs).model.name);
  return name.size() > most ? name.substr(0, most - 2) + ".." : name;
}

std::string runs_table(const FitView& view, const ErrorTable& table, std::string_view title) {
  const auto cells = [&](auto text) {
    std::string out;
    for (const ErrorColumn& column : table.columns) {
      out += fmt::format(" {:>{}}", text(column), std::max<std::size_t>(7, column.name.size()));
    }
    return out;
  };
  std::string out = table.columns.size() == 1
                        ? fmt::format("{:<48} {:>8}\n", title, "error, %")
                        : fmt::format("{:<49} {:>25}\n", title, "------- error, % -------");
  out += fmt::format("{:>4}  {:<12} {:<20} {:>9}{}\n", "line", "model", "run", "measured",
                     cells([](const ErrorColumn& column) { return column.name; }));
  for (std::size_t row = 0; row < table.runs.size(); ++row) {
    const MeasuredIteration& run = view.runs[table.runs[row]];
    out += fmt::format(
        "{:>4}{} {:<12} {:<20} {:>9}{}\n", view.table.rows[table.runs[row]].line,
        table.is_outlier(row) ? "*" : " ", model_text(run), shape_text(run), table.measured[row],
        cells([&](const ErrorColumn& column) { return percent_off(column.errors[row]); }));
  }
  const auto sum = [&](std::string_view name, auto value) {
    out += fmt::format("{:<49}{}\n", name, cells([&](const ErrorColumn& column) {
                         return fmt::format("{:.1f}", value(column) * 100);
                       }));
  };
  sum("      mean of sizes", [](const ErrorColumn& column) { return column.mean(); });
  sum("      worst", [](const ErrorColumn& column) { return column.worst(); });
  return out;
}

// Traces' times of single kinds, before and after.
constexpr std::array traced_kinds{std::pair("forward", &KindTimes::forward_ns),
                                  std::pair("backward", &KindTimes::backward_ns),
                                  std::pair("messages", &KindTimes::messages_ns)};

std::string kinds_table(const FitView& view) {
  std::string rows;
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    const std::optional<KindTimes>& traced = view.runs[i].kinds;
    if (!traced) continue;
    rows += fmt::format("{:>4} ", view.table.rows[i].line);
    for (const KindTimes& predicted : {view.before[i].kinds, view.after[i].kinds}) {
      rows += " ";
      for (const auto& [name, ns] : traced_kinds) {
        rows += fmt::format(" {:>8}", (*traced).*ns > 0
                                          ? percent_off(error_of(predicted.*ns, (*traced).*ns))
                                          : "-");
      }
    }
    rows += "\n";
  }
  if (rows.empty()) return rows;
  std::string heads;
  for (int i = 0; i < 2; ++i) {
    heads += " ";
    for (const auto& [name, ns] : traced_kinds) heads += fmt::format(" {:>8}", name);
  }
  return fmt::format("\nof traces  {:-^23}   {:-^26}\nline {}\n{}", " before, % ",
                     " after, error, % ", heads, rows);
}

std::vector<std::string> next_command(const FitView& view) {
  std::vector<std::string> words{"pipesim"};
  for (std::string& flag : run_flags(view.next->cells)) words.push_back(std::move(flag));
  const std::string& cluster = view.file.empty() ? view.start.cluster : view.file;
  words.push_back("--cluster " + shell_word(cluster));
  if (view.file.empty() && view.start.software) {
    words.push_back("--software " + shell_word(*view.start.software));
  }
  return words;
}

// Lines that a shell reads as one.
std::string shell_lines(const std::vector<std::string>& words, int width) {
  std::string out;
  std::string line = " ";
  for (const std::string& word : words) {
    if (line.size() > 4 && line.size() + word.size() + 3 > static_cast<std::size_t>(width)) {
      out += line + " \\\n";
      line = "   ";
    }
    line += " " + word;
  }
  return out + line + "\n";
}

std::string next_text(const FitView& view, int width) {
  if (!view.next) return "";
  const Promise& promise = view.next->promise;
  const std::string_view name = name_of(promise.constant);
  return wrap(fmt::format("\nOf {} similar to these, this one is the least certain, to {}; "
                          "measuring it would "
                          "narrow {} from {} to {}:\n",
                          plural(view.next->tried, "run"), times_text(promise.spread), name,
                          times_text(promise.spread_before), times_text(promise.spread_after)),
              width) +
         shell_lines(next_command(view), width);
}

std::string peaks_text(const FitView& view) {
  const ErrorTable peaks = peak_errors(view);
  if (peaks.runs.empty()) return "";
  std::string out = "\n" + runs_table(view, peaks, "memory of the fullest rank");
  if (!view.fitted.memory) {
    out += fmt::format("memory is not fitted: its constants need {} or more peaks\n", min_runs);
  }
  return out;
}

}  // namespace

std::string fit_report(const FitView& view, int width) {
  const ErrorTable times = time_errors(view);
  const ErrorTable peaks = peak_errors(view);
  const std::string software = view.cluster.device.software.name;
  const auto errors_text = [](const ErrorTable& table) {
    return fmt::format(
        "erred by {:.1f} % on average, now by {:.1f} %, and by {:.1f} % where each run is "
        "predicted by the others",
        table.columns[0].mean() * 100, table.columns[1].mean() * 100,
        table.columns[2].mean() * 100);
  };
  std::string head = fmt::format(
      "{}: {} on {}{}; predictions {}", printable(view.table.file),
      plural(static_cast<std::int64_t>(view.runs.size()), "run"), printable(view.cluster.name),
      software.empty() ? "" : fmt::format(" with {}", printable(software)), errors_text(times));
  if (view.fitted.memory) head += fmt::format("; peaks of memory {}", errors_text(peaks));
  std::string out = wrap(head + "\n", width);
  out += "\n" + constants_table(view) + "\n" + runs_table(view, times, "") + kinds_table(view) +
         peaks_text(view);
  bool has_outlier = false;
  for (const ErrorTable* table : {&times, &peaks}) {
    for (std::size_t row = 0; row < table->runs.size(); ++row)
      has_outlier |= table->is_outlier(row);
  }
  if (has_outlier) out += "* an outlier, which hardly counts\n";
  if (!view.notes.empty()) out += "\n" + wrap(view.notes, width);
  return out + next_text(view, width);
}

std::string fit_json(const FitView& view) {
  Json constants = Json::array();
  for (const FittedConstant& one : view.fitted.constants) {
    Json values = Json::array();
    if (one.is_there) {
      const std::vector<ConstantEntry> entries = entries_of(view.cluster, one.constant);
      for (std::size_t i = 0; i < entries.size(); ++i) {
        ConstantValues own = values_of(one, view.cluster, i);
        Json value{{"key", key_of(one.constant, entries[i])},
                   {"before", std::move(own.before)},
                   {"after", std::move(own.after)}};
        value["p2_5"] = one.is_told ? std::move(own.least) : nullptr;
        value["p97_5"] = one.is_told ? std::move(own.most) : nullptr;
        values.push_back(std::move(value));
      }
    }
    const Range interval = interval_of(one, view.cluster);
    const bool is_factor = !is_added(one.constant);
    const auto factor = [&](double by, bool is_known) {
      return is_factor && is_known ? std::optional(exponential(by)) : std::nullopt;
    };
    constants.push_back({{"name", name_of(one.constant)},
                         {"told", one.is_told},
                         {"needed", one.is_needed},
                         {"factor", factor(one.by, true)},
                         {"factor_p2_5", factor(interval.least, one.is_told)},
                         {"factor_p97_5", factor(interval.most, one.is_told)},
                         {"open_share", one.open_share},
                         {"values", std::move(values)}});
  }
  const auto kinds_json = [](const KindTimes& kinds) {
    return Json{{"forward", kinds.forward_ns},
                {"backward", kinds.backward_ns},
                {"messages", kinds.messages_ns}};
  };
  Json runs = Json::array();
  std::size_t peaks = 0;
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    const MeasuredIteration& run = view.runs[i];
    const FittedQuestion& time = view.fitted.time;
    const std::optional<FittedQuestion>& memory = view.fitted.memory;
    const bool has_fitted_peak = run.peak_bytes && memory;
    Json json{
        {"line", view.table.rows[i].line},
        {"flags", fmt::format("{}", fmt::join(run_flags(view.table.rows[i].cells), " "))},
        {"measured_ns", run.measured_ns},
        {"before_ns", view.before[i].iteration_ns},
        {"after_ns", view.after[i].iteration_ns},
        {"by_others_ns", time.by_others[i]},
        {"weight", time.weights[i]},
        {"peak_bytes", run.peak_bytes},
        {"before_peak_bytes", view.before[i].peak_bytes},
        {"predicted_peak_bytes", view.after[i].peak_bytes},
        {"by_others_peak_bytes",
         has_fitted_peak ? std::optional(memory->by_others[peaks]) : std::nullopt},
        {"peak_weight", has_fitted_peak ? std::optional(memory->weights[peaks]) : std::nullopt}};
    if (run.peak_bytes) ++peaks;
    if (run.kinds) {
      json["kinds_ns"] = {{"measured", kinds_json(*run.kinds)},
                          {"before", kinds_json(view.before[i].kinds)},
                          {"after", kinds_json(view.after[i].kinds)}};
    }
    runs.push_back(std::move(json));
  }
  const auto errors_json = [](const ErrorTable& table) {
    Json errors = Json::object();
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      constexpr std::array keys{"before", "after", "by_others"};
      errors[keys[c]] = {{"mean", table.columns[c].mean()}, {"worst", table.columns[c].worst()}};
    }
    return errors;
  };
  const ErrorTable peak_table = peak_errors(view);
  Json next;
  if (view.next) {
    const Promise& promise = view.next->promise;
    next = {{"command", fmt::format("{}", fmt::join(next_command(view), " "))},
            {"spread", promise.spread},
            {"constant", name_of(promise.constant)},
            {"spread_before", promise.spread_before},
            {"spread_after", promise.spread_after},
            {"tried", view.next->tried}};
  }
  const std::string& software = view.cluster.device.software.name;
  Json json{{"format", "pipesim-fit"},
            {"version", 1},
            {"cluster", view.start.cluster},
            {"software", software.empty() ? std::nullopt : std::optional(software)},
            {"noise", view.fitted.time.noise},
            {"memory_noise",
             view.fitted.memory ? std::optional(view.fitted.memory->noise) : std::nullopt},
            {"constants", std::move(constants)},
            {"runs", std::move(runs)},
            {"errors", errors_json(time_errors(view))}};
  json["memory_errors"] = peak_table.runs.empty() ? Json() : errors_json(peak_table);
  json["next"] = std::move(next);
  return json.dump() + "\n";
}

}  // namespace pipesim::cli
