#include "gui/tables/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "gui/tables/tables.h"
#include "sim/report/report.h"
#include "sim/report/run_report.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/tables.h"

namespace pipesim::gui {
namespace {

// In columns; at most so many rows.
std::string text_of(const Table& table, std::size_t most) {
  const std::size_t rows = std::min(table.rows.size(), most);
  std::vector<std::size_t> widths;
  for (const Table::Column& column : table.columns) widths.push_back(column.name.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], printable(table.rows[r].cells[c]).size());
    }
  }
  std::string out;
  const auto add_row = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string cell = cell_of(c);
      line += table.columns[c].number ? fmt::format("{:>{}}  ", cell, widths[c])
                                      : fmt::format("{:<{}}  ", cell, widths[c]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_row([&](std::size_t c) { return table.columns[c].name; });
  for (std::size_t r = 0; r < rows; ++r) {
    add_row([&](std::size_t c) { return printable(table.rows[r].cells[c]); });
  }
  if (table.rows.size() > rows) {
    out += fmt::format("and {} more\n",
                       format_count(static_cast<std::int64_t>(table.rows.size() - rows)));
  }
  return out;
}

std::string report_of(const Document& document, const OpenTrace& trace, const Terminal& terminal) {
  constexpr std::size_t most_names = 20;
  std::string out =
      bold(wrap(printable(verdict(document)), terminal.width), terminal.colour) + "\n\n";
  out += trace.run ? run_report(*trace.run, terminal) : text_of(name_table(document), most_names);
  const std::string warnings = trace.warnings().text();
  if (!warnings.empty()) out += "\n" + warnings;
  return out;
}

}  // namespace

std::string report_of(const Document& document, const Terminal& terminal) {
  if (!document.not_opened.empty()) throw input_error(document.not_opened.front());
  const auto check_runs = [&] {
    for (const auto& trace : document.traces) {
      if (!trace->run) throw input_error(trace->name + ": " + trace->banner);
    }
  };
  if (document.traces.size() > 2) {
    check_runs();
    throw input_error(fmt::format("{} traces are given; a report is of one run or of two",
                                  document.traces.size()));
  }
  if (document.pair) {
    const auto run = [&](std::size_t side) -> const RecordedRun& {
      return *document.traces[static_cast<std::size_t>(document.pair->trace[side])]->run;
    };
    return comparison_report(run(0), run(1), document.pair->comparison, terminal);
  }
  if (document.traces.size() == 1) return report_of(document, *document.traces.front(), terminal);
  check_runs();
  throw input_error(document.not_compared);
}

}  // namespace pipesim::gui
