#include "sim/cli/input_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "sim/input_pipeline/calibrate_input.h"
#include "sim/input_pipeline/predict/what_if_input.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/columns.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"
#include "traces/read/input_trace.h"

namespace pipesim::cli {
namespace {

struct InputRow {
  std::string what;
  std::string flags;
  InputWhatIf question;
  InputBasis::Answer answer = {};
};

std::vector<InputRow> input_rows(const InputWhatIfFlags& flags) {
  std::vector<InputRow> rows;
  for (const std::string& text : flags.scales) {
    rows.push_back({text, "--scale " + text, {parse_input_changes(text, "--scale"), {}}});
  }
  for (const std::string& name : flags.programs) {
    rows.push_back({name, "--input-pipeline " + name, {{}, name}});
  }
  if (rows.size() > 1 && flags.programs.size() <= 1) {
    InputRow all{"all of these", {}, {}};
    for (const InputRow& row : rows) {
      all.flags += (all.flags.empty() ? "" : " ") + row.flags;
      all.question.times.insert(all.question.times.end(), row.question.times.begin(),
                                row.question.times.end());
      if (row.question.program) all.question.program = row.question.program;
    }
    rows.push_back(std::move(all));
  }
  return rows;
}

double change_of(const InputBasis::Answer& answer, const InputBasis::Answer& ran) {
  if (ran.steady_ns == 0) return 0;
  return static_cast<double>(answer.steady_ns) / static_cast<double>(ran.steady_ns) - 1;
}

std::string input_rows_json(const std::vector<InputRow>& rows, const InputBasis& basis) {
  const auto json_of = [](const InputBasis::Answer& answer) {
    return Json{{"input_pipeline", answer.program},
                {"steady_iteration_ns", answer.steady_ns},
                {"predicted_ns", answer.predicted_ns},
                {"samples_per_second", answer.samples_per_second},
                {"exposed_fraction", answer.exposed}};
  };
  Json list = Json::array();
  for (const InputRow& row : rows) {
    Json item = json_of(row.answer);
    item["flags"] = row.flags;
    item["change"] = change_of(row.answer, basis.as_it_ran());
    list.push_back(std::move(item));
  }
  const Json json{{"format", "pipesim-whatif"},
                  {"version", 1},
                  {"as_it_ran", json_of(basis.as_it_ran())},
                  {"rows", std::move(list)},
                  {"notes", basis.notes()}};
  return json.dump(2) + "\n";
}

std::string input_rows_text(const std::vector<InputRow>& rows, const InputBasis& basis,
                            const Terminal& terminal) {
  std::vector<std::string> labels{"what if"};
  Column steady{"a batch", {}}, change{"change", {}}, rate{"samples/s", {}}, exposed{"exposed", {}};
  const auto add = [&](const std::string& what, const InputBasis::Answer& answer, bool own) {
    labels.push_back(printable(what));
    steady.cells.push_back(format_time(answer.steady_ns));
    change.cells.push_back(
        own ? "" : fmt::format("{:+.1f} %", change_of(answer, basis.as_it_ran()) * 100));
    rate.cells.push_back(
        answer.samples_per_second == 0 ? "" : format_rounded(answer.samples_per_second));
    exposed.cells.push_back(format_percent(answer.exposed));
  };
  add("as it ran", basis.as_it_ran(), true);
  for (const InputRow& row : rows) add(row.what, row.answer, false);
  return table(labels, {{"", {steady, change, rate, exposed}}},
               static_cast<std::size_t>(terminal.width));
}

// Kinds by rows, ranks by columns.
std::string input_costs_text(const InputCosts& costs, const Terminal& terminal) {
  std::int64_t longest = 0;
  for (const auto& kinds : costs.work) {
    for (const InputWork& work : kinds) longest = std::max(longest, work.duration_ns);
  }
  TableUnit unit = table_unit(longest);
  if (unit.ns == 1e3) unit.decimals = 1;
  std::vector<std::string> labels{fmt::format("action, {}", unit.name)};
  std::vector<Column> columns;
  for (int rank = 0; rank < costs.ranks(); ++rank) {
    columns.push_back({fmt::format("rank {}", rank), {}});
  }
  for (const Kind kind : input_kinds) {
    labels.emplace_back(kind_name(kind));
    for (int rank = 0; rank < costs.ranks(); ++rank) {
      const std::int64_t time = costs.of(rank, kind).duration_ns;
      columns[static_cast<std::size_t>(rank)].cells.push_back(time == 0 ? "" : unit.text(time));
    }
  }
  return table(labels, {{"", columns}}, static_cast<std::size_t>(terminal.width));
}

std::string notes_text(const std::vector<std::string>& notes, int width) {
  std::string text;
  for (const std::string& note : notes) text += wrap("Note: " + note + ".", width) + "\n";
  return text.empty() ? text : "\n" + text;
}

std::string warnings_text(const InputRun& run) {
  return run.warnings.empty() ? "" : "\n" + run.warnings.text();
}

}  // namespace

void calibrate_input_run(const std::string& trace, const std::string& output, bool quiet) {
  OutputFile file(output);
  const InputRun run = read_input_run(trace);
  const InputCalibration calibration = calibrate_input(run);
  file.write(to_json(calibration.costs));
  file.commit();
  if (quiet) return;
  const Terminal terminal = standard_output();
  print(wrap(fmt::format("Calibrated from {}: {}, {}, {}", printable(trace),
                         printable(run.program.name), plural(run.program.ranks(), "rank"),
                         plural(run.program.batches, "batch", "batches")),
             terminal.width) +
        "\n\n" + input_costs_text(calibration.costs, terminal) +
        notes_text(calibration.notes, terminal.width) + warnings_text(run) +
        fmt::format("\nCosts: {}\n", printable(output)));
}

void answer_input_what_if(const std::string& trace, const InputWhatIfFlags& flags) {
  std::vector<InputRow> rows = input_rows(flags);
  if (rows.empty()) {
    throw input_error(
        "whatif: name a change, such as --scale IDS=0.5 or --input-pipeline fused; "
        "`pipesim whatif --help` lists all");
  }
  const InputRun run = read_input_run(trace);
  const InputBasis basis(run);
  for (InputRow& row : rows) row.answer = basis.answer(row.question);
  if (flags.json) {
    print(input_rows_json(rows, basis));
    return;
  }
  const Terminal terminal = standard_output();
  const InputBasis::Answer& ran = basis.as_it_ran();
  std::string about = fmt::format(
      "{}, {}, {}: {} per batch.", printable(run.program.name), plural(run.program.ranks(), "rank"),
      plural(run.program.batches, "batch", "batches"), format_time(ran.steady_ns));
  print(bold(wrap(about, terminal.width), terminal.colour) + "\n");
  const double off =
      ran.steady_ns == 0
          ? 0
          : static_cast<double>(ran.predicted_ns) / static_cast<double>(ran.steady_ns) - 1;
  print(wrap(fmt::format("Costs calibrated from it predict {}, {:+.1f} %; rows are corrected by as "
                         "much.",
                         format_time(ran.predicted_ns), off * 100),
             terminal.width) +
        "\n\n" + input_rows_text(rows, basis, terminal) +
        notes_text(basis.notes(), terminal.width) + warnings_text(run));
}

}  // namespace pipesim::cli
