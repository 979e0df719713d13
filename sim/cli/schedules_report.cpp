#include "sim/cli/schedules_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/advice/ranking.h"
#include "sim/cli/training_report.h"
#include "sim/cost/estimate/error_band.h"
#include "sim/cost/estimate/explanation.h"
#include "sim/request/result_json.h"
#include "traces/base/text.h"
#include "traces/print/columns.h"

namespace pipesim::cli {
namespace {

// For a file the last part of its path, cut to fit a table.
std::string candidate_label(const Candidate& one) {
  constexpr std::size_t most = 24;
  std::string name = one.schedule;
  if (one.asked.family == nullptr) name = printable(name.substr(name.find_last_of('/') + 1));
  if (name.size() > most) name = name.substr(0, most - 1) + "~";
  return name;
}

// "interleaved, 2 chunks per rank".
std::string candidate_title(const Candidate& one) {
  const std::string chunks =
      one.chunks > 1 ? fmt::format(", {} per rank", plural(one.chunks, "chunk")) : "";
  return printable(one.schedule) + chunks;
}

// The runs of rows with as many microbatches.
std::vector<std::vector<const ComparedRow*>> rows_by_microbatches(const ComparedSchedules& all) {
  std::vector<std::vector<const ComparedRow*>> groups;
  for (const ComparedRow& row : all.rows) {
    if (groups.empty() ||
        groups.back().front()->candidate.microbatches != row.candidate.microbatches) {
      groups.emplace_back();
    }
    groups.back().push_back(&row);
  }
  return groups;
}

std::string group_verdict(const std::vector<const ComparedRow*>& group,
                          const ComparedSchedules& all) {
  std::string text = plural(group.front()->candidate.microbatches, "microbatch") + ": ";
  const auto fastest =
      std::ranges::find_if(group, [](const ComparedRow* row) { return row->is_fastest; });
  if (fastest == group.end()) return text + "none of these is possible";
  const Candidate& one = (*fastest)->candidate;
  const bool is_first = *fastest == group.front();
  std::string what = "the fastest";
  if (!fits(one, all.memory_cap_bytes)) {
    text += fmt::format("none fits {}; ", format_bytes(*all.memory_cap_bytes));
  } else if (!is_first) {
    what += " that fits";
  }
  return text + fmt::format("{}{} is {}, {}", candidate_title(one), one.chunks > 1 ? "," : "", what,
                            format_time(one.time_ns));
}

// Columns without any value are omitted.
class ComparisonTable {
 public:
  ComparisonTable(const std::vector<const ComparedRow*>& group, const ComparedSchedules& all)
      : group_(group), all_(all) {}

  std::string text(int width) {
    std::vector<std::string> labels{""};
    for (const ComparedRow* row : group_) {
      if (!row->candidate.left_out.empty()) continue;
      const Candidate& one = row->candidate;
      const char mark = !fits(one, all_.memory_cap_bytes) ? '!' : one.on_front ? '*' : ' ';
      labels.push_back(fmt::format("{} {}", mark, candidate_label(one)));
    }
    const auto metrics = [](const Candidate& one) -> const Metrics& {
      return one.prediction.metrics;
    };
    std::vector<ColumnGroup> columns;
    columns.push_back({"", {}});
    add(columns, "v", [](const Candidate& one) { return std::to_string(one.chunks); });
    add(columns, "makespan", [](const Candidate& one) { return format_time(one.time_ns); });
    add(columns, "p95",
        [](const Candidate& one) { return one.spread ? format_time(one.spread->p95_ns) : "-"; });
    const auto percent = [](double fraction) { return fmt::format("{:.1f}", fraction * 100); };
    columns.push_back({"bubble %", {}});
    add(columns, "global",
        [&](const Candidate& one) { return percent(metrics(one).global_bubble()); });
    add(columns, "span", [&](const Candidate& one) { return percent(metrics(one).span_bubble()); });
    columns.push_back({"", {}});
    add(columns, "MFU %", [&](const Candidate& one) {
      if (!all_.model) return std::string("-");
      const auto mfu = throughput(*all_.model, one.microbatches, one.time_ns).mfu;
      return mfu ? percent(*mfu) : "-";
    });
    add(columns, "peak", [](const Candidate& one) { return fmt::format("{:.4g}", one.in_flight); });
    const auto bytes = [](std::int64_t own) { return own > 0 ? format_bytes(own) : "-"; };
    add(columns, "memory",
        [&](const Candidate& one) { return bytes(one.prediction.peak_memory_bytes()); });
    add(columns, "sent", [&](const Candidate& one) { return bytes(one.sent_bytes); });
    std::erase_if(columns, [](const ColumnGroup& group) { return group.columns.empty(); });
    return table(labels, columns, static_cast<std::size_t>(width));
  }

 private:
  template <typename Cell>
  void add(std::vector<ColumnGroup>& groups, const char* name, Cell cell) {
    Column column{name, {}};
    for (const ComparedRow* row : group_) {
      if (row->candidate.left_out.empty()) column.cells.push_back(cell(row->candidate));
    }
    const auto is_there = [](const std::string& text) { return text != "-"; };
    if (std::ranges::any_of(column.cells, is_there)) {
      groups.back().columns.push_back(std::move(column));
    }
  }

  const std::vector<const ComparedRow*>& group_;
  const ComparedSchedules& all_;
};

// A name and its text, with a hanging indent.
std::string hanging(const std::string& name, std::size_t name_width, const std::string& words,
                    int width) {
  const std::size_t indent = name_width + 4;
  std::string text = wrap(words, std::max(24, width - static_cast<int>(indent)));
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += indent) {
    text.insert(++at, std::string(indent, ' '));
  }
  return fmt::format("  {:<{}}  {}\n", name, name_width, text);
}

// "16 microbatches", "1 chunk per rank": how a shape differs from the request.
std::string shape_difference(const ScheduleRequest& near, const Candidate& asked) {
  const ScheduleRequest& own = asked.asked.request;
  if (near.microbatches != own.microbatches) return plural(near.microbatches, "microbatch");
  if (near.group != own.group) return fmt::format("--group {}", near.group.value_or(0));
  return plural(near.chunks.value_or(asked.chunks), "chunk") + " per rank";
}

// Why each of them is not the fastest; for omitted ones, why they are omitted.
std::string loss_lines(const std::vector<const ComparedRow*>& group, bool left_out, int width) {
  std::size_t name_width = 0;
  std::vector<std::pair<std::string, std::string>> said;
  for (const ComparedRow* row : group) {
    const Candidate& one = row->candidate;
    if (row->is_fastest || one.left_out.empty() == left_out) continue;
    std::string name = candidate_label(one);
    const bool is_one_of_several =
        std::ranges::count(group, one.schedule,
                           [](const ComparedRow* other) { return other->candidate.schedule; }) > 1;
    if (is_one_of_several) name += fmt::format(", {}", plural(one.chunks, "chunk"));
    name_width = std::max(name_width, name.size());
    std::string words = left_out ? printable(one.left_out) : row->why;
    if (row->nearest) words += fmt::format("; works with {}", shape_difference(*row->nearest, one));
    said.emplace_back(std::move(name), std::move(words));
  }
  if (said.empty()) return {};
  std::string out = left_out ? "\nomitted\n" : "\nwhat the others lose, averaged over ranks\n";
  for (const auto& [name, words] : said) out += hanging(name, name_width, words, width);
  return out;
}

std::string table_notes(const ComparedSchedules& all) {
  bool has_chunks = false;
  bool sends = false;
  bool is_over = false;
  for (const ComparedRow& row : all.rows) {
    if (!row.candidate.left_out.empty()) continue;
    has_chunks = has_chunks || row.candidate.chunks > 1;
    sends = sends || row.candidate.sent_bytes > 0;
    is_over = is_over || !fits(row.candidate, all.memory_cap_bytes);
  }
  std::string out = "\n* Pareto-optimal: nothing else is both as fast and as small.\n";
  if (is_over) {
    out +=
        fmt::format("! exceeds the {} of {}.\n", format_bytes(*all.memory_cap_bytes),
                    all.model && *all.memory_cap_bytes == all.model->cluster().device.memory_bytes
                        ? printable(all.model->cluster().device.name)
                        : "--memory-cap");
  }
  out += "v: chunks per rank; peak: microbatches in flight at most";
  if (has_chunks) out += ", each of v chunks counted as 1/v";
  out += sends ? "; sent: by all ranks per iteration.\n" : ".\n";
  if (has_chunks && !all.by_layer) {
    out +=
        "All use the same model: costs are per rank, and each of its v chunks takes 1/v of them; "
        "a message keeps its bytes.\n";
  }
  return out;
}

Json comparison_row_json(const ComparedRow& row, const ComparedSchedules& all) {
  const Candidate& c = row.candidate;
  Json json{
      {"schedule", c.schedule}, {"virtual_stages", c.chunks}, {"microbatches", c.microbatches}};
  if (!c.left_out.empty()) {
    json["error"] = c.left_out;
    json["nearest"] = nullptr;
    if (row.nearest) {
      json["nearest"] = {{"microbatches", row.nearest->microbatches},
                         {"virtual_stages", row.nearest->chunks.value_or(c.chunks)}};
      if (row.nearest->group) json["nearest"]["group"] = *row.nearest->group;
    }
    return json;
  }
  const Metrics& metrics = c.prediction.metrics;
  json["makespan_ns"] = metrics.makespan_ns;
  if (c.spread) {
    json["makespan_spread_ns"] = {
        {"p50", c.spread->p50_ns}, {"p95", c.spread->p95_ns}, {"seeds", c.spread->seeds}};
  }
  if (all.model) {
    const Throughput reached = throughput(*all.model, c.microbatches, metrics.makespan_ns);
    json["tokens_per_second"] = reached.tokens_per_second;
    json["mfu"] = reached.mfu;
  }
  json["bubble_fraction"] = {{"global", metrics.global_bubble()}, {"span", metrics.span_bubble()}};
  json["peak_activation_chunks"] = metrics.peak_activation_chunks();
  json["peak_activation_stages"] = c.in_flight;
  json["peak_activation_bytes"] = metrics.peak_activation_bytes();
  json["peak_memory_bytes"] = c.prediction.peak_memory_bytes();
  json["sent_bytes"] = c.sent_bytes;
  json["sent_bytes_of_rank"] = c.sent_bytes_of_rank;
  Json times = Json::object();
  for (std::size_t i = 0; i < time_part_count; ++i) {
    times[name_of(static_cast<TimePart>(i))] = c.parts.ns[i];
  }
  json["time_ns"] = std::move(times);
  json["on_front"] = c.on_front;
  if (all.memory_cap_bytes) json["fits"] = fits(c, all.memory_cap_bytes);
  json["why"] = row.why;
  return json;
}

}  // namespace

std::vector<ComparedRow> compared_rows(std::vector<Candidate> candidates, const Trial& trial,
                                       std::optional<std::int64_t> memory_cap_bytes) {
  sort_by_time(candidates);
  std::vector<ComparedRow> rows;
  for (const Candidate& one : candidates) {
    ComparedRow row{one, false, {}, {}};
    if (!one.left_out.empty()) {
      row.nearest = nearest_that_works(one.asked, trial);
    } else {
      const Candidate& fastest = *fastest_of(candidates, one.microbatches, memory_cap_bytes);
      row.is_fastest = &fastest == &one;
      row.why = row.is_fastest ? "the fastest" : why_not(one, fastest, memory_cap_bytes);
      if (row.is_fastest && !fits(one, memory_cap_bytes)) row.why += ", but none fits";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string schedules_table(const ComparedSchedules& all, const Terminal& terminal) {
  std::string out;
  if (all.model) {
    const auto band = error_band(*all.model);
    out +=
        wrap(fmt::format("{}, {}; times{}: {}\n", name_of(*all.model), plural(all.ranks, "stage"),
                         band_text(band), validation_text(all.model->cluster(), band)),
             terminal.width) +
        "\n";
  } else if (!all.measured.empty()) {
    out += wrap(fmt::format("{}, costs as measured in {}\n", plural(all.ranks, "stage"),
                            printable(all.measured)),
                terminal.width) +
           "\n";
  }
  for (const auto& group : rows_by_microbatches(all)) {
    out += bold(wrap(group_verdict(group, all), terminal.width), terminal.colour) + "\n";
    const auto is_there = [](const ComparedRow* row) { return row->candidate.left_out.empty(); };
    if (std::ranges::any_of(group, is_there)) {
      out += "\n" + ComparisonTable(group, all).text(terminal.width);
    }
    out +=
        loss_lines(group, false, terminal.width) + loss_lines(group, true, terminal.width) + "\n";
  }
  out.pop_back();
  return out + wrap(table_notes(all), terminal.width);
}

Json schedules_json(const ComparedSchedules& all) {
  Json rows = Json::array();
  for (const ComparedRow& row : all.rows) rows.push_back(comparison_row_json(row, all));
  Json json{{"format", "pipesim-schedules-comparison"}, {"version", 1}, {"stages", all.ranks}};
  if (all.model) json["error_band"] = error_band_json(error_band(*all.model));
  json["rows"] = std::move(rows);
  return json;
}

std::vector<TimelineGroup> timelines_of(const ComparedSchedules& all, const Trial& trial) {
  std::vector<TimelineGroup> groups;
  for (const auto& rows : rows_by_microbatches(all)) {
    TimelineGroup group{group_verdict(rows, all), {}, {}};
    for (const ComparedRow* row : rows) {
      const Candidate& one = row->candidate;
      if (!one.left_out.empty()) continue;
      // Next to one that takes far longer no other would be readable.
      if (one.asked.family != nullptr && one.time_ns / 2 > rows.front()->candidate.time_ns) {
        group.note += fmt::format("{}{}, {}", group.note.empty() ? "too long to draw: " : "; ",
                                  candidate_title(one), format_time(one.time_ns));
        continue;
      }
      const ScheduleChoice choice = make(one.asked, trial);
      TimelinePanel panel;
      panel.title = fmt::format("{}: {}", candidate_title(one), format_time(one.time_ns));
      panel.chunk_of_stage = choice.schedule.placement.chunk_of_stage();
      panel.actions_of_rank = choice.schedule.actions.lengths();
      panel.makespan_ns = one.time_ns;
      panel.replay = [&one, &trial](const SpanSink& sink) {
        const Schedule schedule = make(one.asked, trial).schedule;
        SimulationOptions options = trial.options(one.asked);
        options.sink = sink;
        simulate(schedule, trial.costs(schedule), options);
      };
      group.panels.push_back(std::move(panel));
    }
    if (!group.panels.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace pipesim::cli
