#include "gui/tables/report.h"

#include <fmt/format.h>

#include <vector>

#include "sim/report/event_report.h"
#include "sim/report/report.h"
#include "sim/report/run_report.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

std::string with_warnings(std::string text, const Warnings& warnings) {
  const std::string odd = warnings.text();
  return odd.empty() ? text : text + "\n" + odd;
}

std::string report_of(const RecordedRun& run, const Terminal& terminal) {
  return with_warnings(bold(wrap(printable(run_verdict(run)), terminal.width), terminal.colour) +
                           "\n\n" + run_report(run, terminal),
                       run.warnings);
}

}  // namespace

std::string report_of(const Document& document, const Terminal& terminal) {
  if (!document.not_opened.empty()) throw input_error(document.not_opened.front());
  const auto check_runs = [&] {
    for (const auto& trace : document.traces) {
      if (!trace->run) throw input_error(trace->name + ": " + trace->banner);
    }
  };
  std::vector<const EventTrace*> events;
  Warnings odd;
  for (const auto& trace : document.traces) {
    if (!trace->events) continue;
    // A profile of a pipeline whose actions a flag would name is no plain one.
    if (trace->banner.find("--schedule") != std::string::npos) check_runs();
    events.push_back(&*trace->events);
    odd.add(trace->events->warnings);
  }
  if (!events.empty() && events.size() == document.traces.size()) {
    return with_warnings(event_report(events, terminal), odd);
  }
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
  if (document.traces.size() == 1) return report_of(*document.traces.front()->run, terminal);
  check_runs();
  throw input_error(document.not_compared);
}

}  // namespace pipesim::gui
