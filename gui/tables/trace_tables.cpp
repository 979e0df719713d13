// Tables and sentences of the traces by themselves.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "gui/scene/run_times.h"
#include "gui/tables/table_rows.h"
#include "gui/tables/tables.h"
#include "sim/report/event_report.h"
#include "sim/report/run_report.h"
#include "traces/flame/event_usage.h"
#include "traces/print/input_report.h"

namespace pipesim::gui {
namespace {

int count_of(const Document& document) { return static_cast<int>(document.traces.size()); }

std::int64_t count_of(const Warnings& warnings) {
  std::int64_t count = 0;
  for (const Warnings::Kind& kind : warnings.kinds()) count += kind.count;
  return count;
}

// Of a pair's sides as the comparison has them, with clocks put right.
struct RankNumbers {
  std::vector<RankMetrics> ranks;
  std::vector<MemoryPeak> peaks;
  double global_bubble = 0;
  std::vector<std::vector<Pick>> idle;  // of each rank, before what
};
RankNumbers numbers_without_idle(const Document& document, int trace) {
  if (const auto side = document.side_of(trace)) {
    const SideResult& own = document.pair->comparison.sides[*side];
    return {own.ranks, own.peaks, own.global_bubble, {}};
  }
  const OpenTrace& own = document.trace(trace);
  if (own.input) {
    const RecordedRun inputs = as_recorded(own.input->run, own.name);
    const Metrics metrics = inputs.metrics(0);
    return {metrics.ranks, memory_peaks(inputs), metrics.global_bubble(), {}};
  }
  const RecordedRun& run = *own.run;
  if (run.iterations.empty()) return {};
  const Metrics metrics = run.metrics(run.median_iteration());
  return {metrics.ranks, memory_peaks(run), metrics.global_bubble(), {}};
}

RankNumbers numbers_of(const Document& document, int trace) {
  RankNumbers numbers = numbers_without_idle(document, trace);
  numbers.idle.resize(numbers.ranks.size());
  if (numbers.ranks.empty() || document.trace(trace).input) return numbers;
  const RecordedIteration& iteration = compared_iteration(*document.trace(trace).run);
  for (const IdleSpan& idle : idle_times(document, trace, iteration)) {
    auto& own = numbers.idle[static_cast<std::size_t>(idle.rank)];
    if (idle.ended_by == iteration.end - iteration.begin || own.size() == max_picks) continue;
    const Pick pick{trace, static_cast<Ref>(iteration.begin + idle.ended_by), true};
    if (own.empty() || own.back() != pick) own.push_back(pick);
  }
  return numbers;
}

}  // namespace

Table bubble_table(const Document& document) {
  Table table;
  table.title = "Busy and idle times";
  std::vector<std::pair<int, RankNumbers>> runs;
  std::size_t ranks = 0;
  std::string shares;
  for (int trace = 0; trace < count_of(document); ++trace) {
    if (!document.trace(trace).run && !document.trace(trace).input) continue;
    runs.emplace_back(trace, numbers_of(document, trace));
  }
  std::ranges::stable_sort(runs, {}, [&](const auto& run) {
    return document.side_of(run.first) == measured_side ? 1 : document.side_of(run.first) ? 0 : 2;
  });
  for (const auto& [trace, numbers] : runs) {
    ranks = std::max(ranks, numbers.ranks.size());
    shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", name_of_run(document, trace),
                          format_percent(numbers.global_bubble));
  }
  // What all rows would leave empty, or say alike, has no column.
  const bool names_runs = runs.size() != 1;
  const bool has_peaks = runs.empty() || std::ranges::any_of(runs, [](const auto& run) {
                           return !run.second.peaks.empty();
                         });
  table.columns = {number_column("rank")};
  if (names_runs) table.columns.push_back(text_column("run"));
  for (const char* name : {"busy", "bubble", "warm-up", "steady", "drain", "p2p"}) {
    table.columns.push_back(time_column(name));
  }
  table.columns.push_back(number_column("in flight"));
  if (has_peaks) {
    table.columns.push_back(number_column("peak", "bytes"));
    table.columns.push_back(text_column("peak in"));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const auto& [trace, numbers] : runs) {
      if (rank >= numbers.ranks.size()) continue;
      const RankMetrics& own = numbers.ranks[rank];
      RowOf row(table);
      row.count(static_cast<std::int64_t>(rank));
      if (names_runs) row.text(name_of_run(document, trace));
      for (const Pick& pick : numbers.idle[rank]) row.about(pick);
      row.time(own.busy_ns).time(own.bubble.total_ns());
      row.time(own.bubble.warmup_ns).time(own.bubble.steady_ns);
      row.time(own.bubble.drain_ns).time(own.bubble.p2p_ns).count(own.peak_activation_chunks);
      if (!has_peaks) continue;
      if (numbers.peaks.empty()) {
        row.none().none();
        continue;
      }
      const MemoryPeak& peak = numbers.peaks[rank];
      row.bytes(peak.total).text(peak.action.kind == Kind::IDLE ? "" : to_text(peak.action));
    }
  }
  table.note = runs.empty() ? "No run is open." : "Bubble, of all ranks' time: " + shares + ".";
  return table;
}

namespace {

struct Named {
  std::string name;
  NameTimes times;
  int trace = 0;
};

// Of an input pipeline those of all batches together: "READ waits".
void add_names(const Document& document, int trace, std::vector<Named>& names) {
  const EventTrace& events = *document.trace(trace).events;
  std::map<std::string, std::size_t> places;  // among the names
  for (const NameTimes& times : name_times(events)) {
    std::string name(events.text(times.name));
    if (!document.trace(trace).input) {
      names.push_back({std::move(name), times, trace});
      continue;
    }
    std::erase_if(name, [](char letter) { return letter >= '0' && letter <= '9'; });
    const auto [known, is_new] = places.emplace(name, names.size());
    if (is_new) {
      names.push_back({std::move(name), times, trace});
      continue;
    }
    NameTimes& sum = names[known->second].times;
    const auto length = [&](std::uint32_t slice) {
      return events.slices[slice].end_ns - events.slices[slice].start_ns;
    };
    if (length(times.longest) > length(sum.longest)) sum.longest = times.longest;
    sum.count += times.count;
    sum.self_ns += times.self_ns;
    sum.total_ns += times.total_ns;
  }
}

}  // namespace

Table name_table(const Document& document, std::size_t most) {
  Table table;
  table.title = "Slices by name";
  std::vector<Named> names;
  for (int trace = 0; trace < count_of(document); ++trace) {
    if (document.trace(trace).events) add_names(document, trace, names);
  }
  const bool names_traces = std::ranges::count_if(document.traces, [](const auto& trace) {
                              return trace->events.has_value();
                            }) > 1;
  table.columns = {text_column("name")};
  if (names_traces) table.columns.push_back(text_column("trace"));
  table.columns.push_back(number_column("count"));
  for (const char* column : {"self", "total", "mean", "greatest"}) {
    table.columns.push_back(time_column(column));
  }
  std::ranges::stable_sort(names, std::greater(),
                           [](const Named& named) { return named.times.self_ns; });
  if (names.empty()) table.note = "No slices of a trace without a pipeline are open.";
  if (names.size() > most) {
    table.note =
        fmt::format("The {} of most self time, of {} names.",
                    format_count(static_cast<std::int64_t>(most)), format_count(std::ssize(names)));
    names.resize(most);
  }
  for (const auto& [name, times, trace] : names) {
    const EventTrace& events = *document.trace(trace).events;
    const Slice& longest = events.slices[times.longest];
    RowOf row(table);
    row.text(name);
    if (names_traces) row.text(document.trace(trace).name);
    row.count(times.count)
        .time(times.self_ns)
        .time(times.total_ns)
        .time(times.total_ns / times.count)
        .time(longest.end_ns - longest.start_ns)
        .about({trace, times.longest, false});
  }
  return table;
}

Table trace_table(const Document& document) {
  Table table;
  table.title = "Traces";
  table.columns = {text_column("name"),           text_column("role"),
                   text_column("source"),         text_column("schedule"),
                   number_column("ranks"),        number_column("stages"),
                   number_column("microbatches"), number_column("iterations"),
                   time_column("makespan"),       number_column("warnings")};
  for (int trace = 0; trace < count_of(document); ++trace) {
    const OpenTrace& own = document.trace(trace);
    const auto side = document.side_of(trace);
    RowOf row(table);
    row.text(own.name).text(side ? *side == predicted_side ? "first" : "second" : "");
    if (own.run) {
      const RecordedRun& run = *own.run;
      row.text(name_of(run.about.source)).text(run.about.schedule).count(run.ranks);
      row.count(std::ssize(run.chunk_of_stage)).count(run.microbatches);
      row.count(std::ssize(run.iterations));
      if (run.iterations.empty()) {
        row.none();
      } else {
        row.time(compared_iteration(run).makespan_ns);
      }
    } else if (own.input) {
      const InputRun& run = own.input->run;
      row.text(name_of(own.source())).text(run.program.name).count(run.program.ranks()).none();
      row.count(run.program.batches).none().time(measure(run).makespan_ns);
    } else {
      row.text("events").none().none().none().none().none().time(length_ns(*own.events));
    }
    row.count(count_of(own.warnings()));
  }
  return table;
}

std::string verdict(const Document& document) {
  if (document.pair) return verdict_of(document.pair->comparison);
  std::string text;
  const auto add = [&](const std::string& sentence) {
    text += (text.empty() ? "" : " ") + sentence;
  };
  if (!document.not_compared.empty()) add("Not compared: " + document.not_compared + ".");
  for (const auto& trace : document.traces) {
    std::string sentence = trace->run ? run_verdict(*trace->run)
                           : trace->input
                               ? input_verdict(trace->input->run, measure(trace->input->run))
                               : event_verdict({&*trace->events});
    add(document.traces.size() == 1 ? sentence : trace->name + ": " + sentence);
  }
  return text.empty() ? "Nothing is open." : text;
}

}  // namespace pipesim::gui
