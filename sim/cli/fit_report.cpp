#include "sim/cli/fit_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

// Of each run, with the words for its column.
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

std::vector<ErrorColumn> error_columns(const FitView& view) {
  std::vector<ErrorColumn> columns{{"before", {}}, {"after", {}}, {"by others", {}}};
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    const std::int64_t measured = view.runs[i].measured_ns;
    columns[0].errors.push_back(error_of(view.before[i].iteration_ns, measured));
    columns[1].errors.push_back(error_of(view.after[i].iteration_ns, measured));
    columns[2].errors.push_back(error_of(view.fitted.by_others_ns[i], measured));
  }
  return columns;
}

// Of those runs whose peaks were measured.
std::vector<double> peak_errors(const FitView& view) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    if (!view.runs[i].peak_bytes) continue;
    errors.push_back(error_of(view.after[i].peak_bytes, *view.runs[i].peak_bytes));
  }
  return errors;
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
  return fmt::format("kept: runs leave {:.0f} % of it open", one.open_share * 100);
}

std::string constants_table(const FitView& view) {
  std::string out =
      fmt::format("{:<20} {:>9} {:>9}  {}\n", "constant", "before", "after", "95 % interval");
  for (const FittedConstant& one : view.fitted.constants) {
    if (!one.is_there) continue;
    const std::vector<ConstantEntry> entries = entries_of(view.preset, one.constant);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const ConstantTexts texts = texts_of(one, view.preset, i);
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

bool is_outlier(const FitView& view, std::size_t run) { return view.fitted.weights[run] < 0.3; }

std::string runs_table(const FitView& view) {
  constexpr std::size_t most_name = 12;
  const std::vector<ErrorColumn> columns = error_columns(view);
  const std::vector<double> peaks = peak_errors(view);
  const auto model_of = [](const MeasuredIteration& run) {
    return printable(std::get<TrainingRequest>(run.request.costs.costs).model.name);
  };
  std::string out =
      fmt::format("{:>4}  {:<12} {:<20} {:>9} {}\n", "", "", "", "", "------- error, % -------");
  out += fmt::format("{:>4}  {:<12} {:<20} {:>9} {:>7} {:>7} {:>9}{}\n", "line", "model", "run",
                     "measured", "before", "after", "by others", peaks.empty() ? "" : "  peak");
  const auto cells = [&](auto text) {
    return fmt::format("{:>7} {:>7} {:>9}", text(columns[0]), text(columns[1]), text(columns[2]));
  };
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    const MeasuredIteration& run = view.runs[i];
    std::string name = model_of(run);
    if (name.size() > most_name) name = name.substr(0, most_name - 2) + "..";
    out += fmt::format(
        "{:>4}{} {:<12} {:<20} {:>9} {}", view.table.rows[i].line, is_outlier(view, i) ? "*" : " ",
        name, shape_text(run), format_time(run.measured_ns),
        cells([&](const ErrorColumn& column) { return percent_off(column.errors[i]); }));
    if (!peaks.empty()) {
      out += run.peak_bytes
                 ? fmt::format(" {:>5}",
                               percent_off(error_of(view.after[i].peak_bytes, *run.peak_bytes)))
                 : "     -";
    }
    out += "\n";
  }
  const auto sum = [&](std::string_view name, auto value) {
    out += fmt::format("{:<49} {}\n", name, cells([&](const ErrorColumn& column) {
                         return fmt::format("{:.1f}", value(column) * 100);
                       }));
  };
  sum("      mean of sizes", [](const ErrorColumn& column) { return column.mean(); });
  sum("      worst", [](const ErrorColumn& column) { return column.worst(); });
  return out;
}

std::vector<std::string> next_command(const FitView& view) {
  std::vector<std::string> words{"pipesim"};
  for (std::string& flag : run_flags(view.next->cells)) words.push_back(std::move(flag));
  const std::string& cluster = view.file.empty() ? view.place.cluster : view.file;
  words.push_back("--cluster " + shell_word(cluster));
  if (view.file.empty() && view.place.software) {
    words.push_back("--software " + *view.place.software);
  }
  return words;
}

// Lines that a shell takes as one.
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
  std::string name(name_of(promise.constant));
  return wrap(fmt::format("\nOf {} near these, this one is known least, to {}; measured, it would "
                          "narrow {} from {} to {}:\n",
                          plural(view.next->tried, "run"), times_text(promise.spread), name,
                          times_text(promise.spread_before), times_text(promise.spread_after)),
              width) +
         shell_lines(next_command(view), width);
}

std::string peaks_text(const FitView& view) {
  const ErrorColumn peaks{"peak", peak_errors(view)};
  if (peaks.errors.empty()) return "";
  return fmt::format(
      "memory  peaks err by {:.1f} % in the mean, {:.1f} % at worst; memory is not "
      "fitted\n",
      peaks.mean() * 100, peaks.worst() * 100);
}

}  // namespace

std::string fit_report(const FitView& view, int width) {
  const std::vector<ErrorColumn> columns = error_columns(view);
  const std::string software = view.preset.device.software.name;
  std::string out = wrap(
      fmt::format("{}: {} on {}{}; predictions erred by {:.1f} % in the mean, now by {:.1f} %, and "
                  "by {:.1f} % where each run is predicted by the others\n",
                  printable(view.table.file),
                  plural(static_cast<std::int64_t>(view.runs.size()), "run"),
                  printable(view.preset.name),
                  software.empty() ? "" : fmt::format(" with {}", printable(software)),
                  columns[0].mean() * 100, columns[1].mean() * 100, columns[2].mean() * 100),
      width);
  out += "\n" + constants_table(view) + "\n" + runs_table(view);
  bool has_outlier = false;
  for (std::size_t i = 0; i < view.runs.size(); ++i) has_outlier |= is_outlier(view, i);
  if (has_outlier) out += "* does not go with the others, and hardly counts\n";
  if (const std::string peaks = peaks_text(view); !peaks.empty()) out += "\n" + wrap(peaks, width);
  return out + next_text(view, width);
}

std::string fit_json(const FitView& view) {
  Json constants = Json::array();
  for (const FittedConstant& one : view.fitted.constants) {
    Json values = Json::array();
    if (one.is_there) {
      const std::vector<ConstantEntry> before = entries_of(view.preset, one.constant);
      const std::vector<ConstantEntry> after =
          entries_of(view.fitted.on(view.preset), one.constant);
      for (std::size_t i = 0; i < before.size(); ++i) {
        values.push_back({{"key", key_of(one.constant, before[i])},
                          {"before", before[i].value},
                          {"after", after[i].value}});
      }
    }
    const Interval interval = interval_of(one);
    constants.push_back(
        {{"name", name_of(one.constant)},
         {"told", one.is_told},
         {"needed", one.is_needed},
         {"factor", one.factor},
         {"factor_p2_5", one.is_told ? std::optional(interval.least) : std::nullopt},
         {"factor_p97_5", one.is_told ? std::optional(interval.most) : std::nullopt},
         {"open_share", one.open_share},
         {"values", std::move(values)}});
  }
  Json runs = Json::array();
  for (std::size_t i = 0; i < view.runs.size(); ++i) {
    const MeasuredIteration& run = view.runs[i];
    runs.push_back(
        {{"line", view.table.rows[i].line},
         {"flags", fmt::format("{}", fmt::join(run_flags(view.table.rows[i].cells), " "))},
         {"measured_ns", run.measured_ns},
         {"before_ns", view.before[i].iteration_ns},
         {"after_ns", view.after[i].iteration_ns},
         {"by_others_ns", view.fitted.by_others_ns[i]},
         {"weight", view.fitted.weights[i]},
         {"peak_bytes", run.peak_bytes},
         {"predicted_peak_bytes", view.after[i].peak_bytes}});
  }
  const std::vector<ErrorColumn> columns = error_columns(view);
  Json errors = Json::object();
  for (const auto& [key, column] :
       {std::pair("before", &columns[0]), {"after", &columns[1]}, {"by_others", &columns[2]}}) {
    errors[key] = {{"mean", column->mean()}, {"worst", column->worst()}};
  }
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
  const std::string& software = view.preset.device.software.name;
  const Json json{{"format", "pipesim-fit"},
                  {"version", 1},
                  {"cluster", view.place.cluster},
                  {"software", software.empty() ? std::nullopt : std::optional(software)},
                  {"noise", view.fitted.noise},
                  {"constants", std::move(constants)},
                  {"runs", std::move(runs)},
                  {"errors", std::move(errors)},
                  {"next", std::move(next)}};
  return json.dump() + "\n";
}

}  // namespace pipesim::cli
