#include "gui/tables/report.h"

#include <fmt/format.h>

#include <algorithm>
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

// Of input pipelines' runs, one or two.
std::string report_of_inputs(const Document& document, const Terminal& terminal) {
  const auto run_of = [](const auto& trace) { return as_recorded(trace->input->run, trace->name); };
  const RecordedRun first = run_of(document.traces.front());
  if (document.traces.size() == 1) return report_of(first, terminal);
  if (document.traces.size() > 2) {
    throw input_error(fmt::format("{} traces are given; a report is of one run or of two",
                                  document.traces.size()));
  }
  const RecordedRun second = run_of(document.traces.back());
  return comparison_report(first, second, compare(first, second), terminal);
}

}  // namespace

std::string report_of(const Document& document, const Terminal& terminal) {
  if (!document.not_opened.empty()) throw input_error(document.not_opened.front());
  const auto check_runs = [&] {
    for (const auto& trace : document.traces) {
      if (trace->input) {
        throw input_error(
            trace->name +
            ": it is a run of an input pipeline; a report is of one, or of two of one "
            "program");
      }
      if (!trace->run) throw input_error(trace->name + ": " + trace->banner);
    }
  };
  if (!document.traces.empty() && std::ranges::all_of(document.traces, [](const auto& trace) {
        return trace->input.has_value();
      })) {
    return report_of_inputs(document, terminal);
  }
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
