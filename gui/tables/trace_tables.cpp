// Tables and sentences of the traces by themselves.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "gui/scene/run_times.h"
#include "gui/tables/table_rows.h"
#include "gui/tables/tables.h"
#include "sim/report/event_report.h"
#include "sim/report/run_report.h"
#include "traces/flame/event_usage.h"
#include "traces/print/input_report.h"
#include "traces/print/rank_table.h"

namespace pipesim::gui {
namespace {

int count_of(const Document& document) { return static_cast<int>(document.traces.size()); }

std::int64_t count_of(const Warnings& warnings) {
  std::int64_t count = 0;
  for (const Warnings::Kind& kind : warnings.kinds()) count += kind.count;
  return count;
}

// A run's ranks; of a pair's sides as the comparison has them, with clocks put right.
struct RankNumbers {
  int trace = 0;
  Metrics metrics;
  std::vector<MemoryPeak> peaks;
  double global_bubble = 0;

  RankRun run(const Document& document) const {
    return {name_of_run(document, trace), metrics.makespan_ns, metrics.ranks, peaks};
  }
};
RankNumbers numbers_of(const Document& document, int trace) {
  const OpenTrace& own = document.trace(trace);
  if (const auto side = document.side_of(trace)) {
    const SideResult& result = document.pair->comparison.sides[*side];
    Metrics metrics;
    metrics.makespan_ns = result.played.makespan_ns;
    metrics.ranks = result.ranks;
    return {trace, std::move(metrics), result.peaks, result.global_bubble};
  }
  if (own.input) {
    const RecordedRun inputs = as_recorded(own.input->run, own.name);
    Metrics metrics = inputs.metrics(0);
    const double bubble = metrics.global_bubble();
    return {trace, std::move(metrics), memory_peaks(inputs), bubble};
  }
  const RecordedRun& run = *own.run;
  if (run.iterations.empty()) return {trace, {}, {}};
  Metrics metrics = run.metrics(run.median_iteration());
  const double bubble = metrics.global_bubble();
  return {trace, std::move(metrics), memory_peaks(run), bubble};
}

// Of each rank, before what it idled.
std::vector<std::vector<Pick>> idle_picks(const Document& document, const RankNumbers& numbers) {
  std::vector<std::vector<Pick>> picks(numbers.metrics.ranks.size());
  const OpenTrace& own = document.trace(numbers.trace);
  if (picks.empty() || own.input) return picks;
  const RecordedIteration& iteration = compared_iteration(*own.run);
  for (const IdleSpan& idle : idle_times(document, numbers.trace, iteration)) {
    auto& of_rank = picks[static_cast<std::size_t>(idle.rank)];
    if (idle.ended_by == iteration.end - iteration.begin || of_rank.size() == max_picks) continue;
    const Pick pick{numbers.trace, static_cast<Ref>(iteration.begin + idle.ended_by), true};
    if (of_rank.empty() || of_rank.back() != pick) of_rank.push_back(pick);
  }
  return picks;
}

}  // namespace

Table bubble_table(const Document& document) {
  std::vector<RankNumbers> numbers;
  for (int trace = 0; trace < count_of(document); ++trace) {
    if (!document.trace(trace).run && !document.trace(trace).input) continue;
    numbers.push_back(numbers_of(document, trace));
  }
  std::ranges::stable_sort(numbers, {}, [&](const RankNumbers& own) {
    const auto side = document.side_of(own.trace);
    return side == measured_side ? 1 : side ? 0 : 2;
  });
  std::vector<RankRun> runs;
  std::size_t ranks = 0;
  std::string shares;
  for (const RankNumbers& own : numbers) {
    runs.push_back(own.run(document));
    ranks = std::max(ranks, own.metrics.ranks.size());
    shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", runs.back().name,
                          format_percent(own.global_bubble));
  }
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  Table table = shown(rank_table(runs, all));
  table.title = "Busy and idle times";
  table.note = runs.empty() ? "No run is open." : "Bubble, of all ranks' time: " + shares + ".";
  std::vector<std::vector<std::vector<Pick>>> picks;
  for (const RankNumbers& own : numbers) picks.push_back(idle_picks(document, own));
  std::size_t next = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (auto& of_run : picks) {
      if (rank < of_run.size()) table.rows[next++].about = std::move(of_run[rank]);
    }
  }
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
