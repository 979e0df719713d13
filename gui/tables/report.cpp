#include "gui/tables/report.h"

#include <fmt/format.h>

#include "gui/tables/tables.h"
#include "sim/report/event_report.h"
#include "sim/report/report.h"
#include "sim/report/run_report.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

std::string report_of(const Document& document, const OpenTrace& trace, const Terminal& terminal) {
  std::string out =
      trace.run ? bold(wrap(printable(verdict(document)), terminal.width), terminal.colour) +
                      "\n\n" + run_report(*trace.run, terminal)
                : event_report({&*trace.events}, terminal);
  const std::string warnings = trace.warnings().text();
  if (!warnings.empty()) out += "\n" + warnings;
  return out;
}

}  // namespace

std::string report_of(const Document& document, const Terminal& terminal) {
  if (!document.not_opened.empty()) throw input_error(document.not_opened.front());
  if (document.traces.size() > 2) {
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
  for (const auto& trace : document.traces) {
    if (!trace->run) throw input_error(trace->name + ": " + trace->banner);
  }
  throw input_error(document.not_compared);
}

}  // namespace pipesim::gui
