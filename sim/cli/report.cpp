#include "sim/cli/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/cli/picture.h"
#include "sim/plan/candidates.h"
#include "traces/base/text.h"

namespace pipesim::cli {
namespace {

std::string title_of(const Setup& setup) {
  return setup.family != nullptr ? std::string(setup.family->title)
                                 : printable(setup.schedule.name);
}

std::string verdict(const Setup& setup, const Prediction& prediction, const Terminal& terminal) {
  const Schedule& schedule = setup.schedule;
  const int chunks = schedule.placement.chunks();
  std::string what = fmt::format("{}, {}", title_of(setup), plural(schedule.ranks(), "stage"));
  if (chunks > 1) what += fmt::format(" x {}", plural(chunks, "chunk"));
  what += fmt::format(", {}", plural(schedule.microbatches, "microbatch"));
  const P2p mode = prediction.transfers.mode;
  if (mode != P2p::async) what += fmt::format(", {} transfers", p2p_name(mode));
  what += ": ";
  what += fmt::format("{}, of which {:.0f} % bubble", format_time(prediction.metrics.makespan_ns),
                      prediction.metrics.global_bubble() * 100);
  return bold(wrap(what, terminal.width), terminal.colour) + "\n";
}

std::string picture(const Setup& setup, const Costs& costs, const Prediction& prediction,
                    const Terminal& terminal) {
  const Schedule& schedule = setup.schedule;
  Picture::Frame frame;
  frame.ranks = shown_ranks(schedule.ranks());
  frame.chunk_of_stage = schedule.placement.chunk_of_stage();
  frame.all_ranks = schedule.ranks();
  frame.chunks = schedule.placement.chunks();
  frame.makespan_ns = prediction.metrics.makespan_ns;
  for (const int rank : frame.ranks) {
    frame.longest_list = std::max(frame.longest_list, schedule.actions[rank].size());
  }
  Picture drawing(std::move(frame), terminal);
  SimulationOptions options;
  options.sink = [&](const Span& span) { drawing.add(span); };
  options.transfers = prediction.transfers;
  simulate(schedule, costs, options);
  return drawing.draw();
}

// Small enough to be simulated again and again for advice. Where edges share
// links, a transfer's start or end costs as much as there are of them.
bool is_small(const Setup& setup, const Costs& costs) {
  constexpr std::int64_t largest = 50'000;  // (stage, microbatch) pairs
  const auto sharing = std::ranges::count_if(
      costs.edges, [](const auto& edge) { return !edge.second.through.empty(); });
  return std::int64_t{setup.schedule.stages()} * setup.schedule.microbatches <=
         largest / std::max<std::int64_t>(1, sharing);
}

// Of a column of bytes: "123.4 MiB" has nine characters.
std::size_t width_of(std::string_view name) { return std::max<std::size_t>(name.size(), 9); }

// One unit for a whole table, so that its columns stay narrow.
struct TableUnit {
  std::string_view name;
  double ns;
  int decimals;

  std::string text(std::int64_t time_ns) const {
    if (time_ns == 0) return "-";
    return fmt::format("{:.{}f}", static_cast<double>(time_ns) / ns, decimals);
  }
};

TableUnit unit_for(std::int64_t longest_ns) {
  if (longest_ns < 10'000) return {"ns", 1, 0};
  if (longest_ns < 10'000'000) return {"us", 1e3, 2};
  if (longest_ns < 1'000'000'000) return {"ms", 1e6, 3};
  if (longest_ns < 100'000'000'000) return {"ms", 1e6, 2};
  if (longest_ns < 10'000'000'000'000) return {"s", 1e9, 3};
  return {"s", 1e9, 0};
}

std::string table(const Prediction& prediction) {
  const Metrics& metrics = prediction.metrics;
  const std::vector<int> shown = shown_ranks(static_cast<int>(metrics.ranks.size()));
  const TableUnit unit = unit_for(metrics.makespan_ns);
  const bool bytes = metrics.peak_activation_bytes() > 0;
  std::string out = fmt::format("{:>21}{:-^35}{}\n", "", fmt::format(" bubble, {} ", unit.name),
                                bytes ? "  --- peak kept ---" : "     peak");
  out += fmt::format("rank {:>9}   util {:>8} {:>8} {:>8} {:>8} {:>8}{}\n",
                     fmt::format("busy, {}", unit.name), "warm-up", "steady", "drain", "p2p",
                     "chunks", bytes ? "      bytes" : "");
  for (const int r : shown) {
    const RankMetrics& rank = metrics.ranks[static_cast<std::size_t>(r)];
    out += fmt::format("{:>4} {:>9} {:>3.0f} % {:>8} {:>8} {:>8} {:>8} {:>8}", r,
                       unit.text(rank.busy_ns), metrics.utilisation(r) * 100,
                       unit.text(rank.bubble.warmup_ns), unit.text(rank.bubble.steady_ns),
                       unit.text(rank.bubble.drain_ns), unit.text(rank.bubble.p2p_ns),
                       format_count(rank.peak_activation_chunks));
    out += bytes ? fmt::format(" {:>10}\n", format_bytes(rank.peak_activation_bytes)) : "\n";
  }
  if (shown.size() < metrics.ranks.size()) {
    out += fmt::format("     {} of {} ranks; --json lists them all\n", shown.size(),
                       metrics.ranks.size());
  }
  return out;
}

std::string closed_form_text(const Setup& setup, const Prediction& prediction) {
  if (setup.family == nullptr) return "none for a schedule from a file";
  if (!prediction.closed_form) {
    return fmt::format("{}, but not here: {}", setup.family->bubble, prediction.no_closed_form);
  }
  const auto& closed = *prediction.closed_form;
  const bool global = closed.form.metric == BubbleMetric::global;
  return fmt::format("{} = {}, {} {}: {} (stages and hops alike; {})", closed.form.formula,
                     format_time(closed.form.bubble_ns), format_percent(closed.fraction),
                     global ? "global" : "span",
                     closed.exact ? "exact here" : "differs from the simulation",
                     setup.family->conditions);
}

std::string bubbles(const Setup& setup, const Prediction& prediction) {
  const Metrics& metrics = prediction.metrics;
  std::string out;
  out += fmt::format("bubble  global {:>7}  of all ranks' time, until the last end\n",
                     format_percent(metrics.global_bubble()));
  out +=
      fmt::format("        span   {:>7}  of the longest span, first start to last end, rank {}\n",
                  format_percent(metrics.span_bubble()), metrics.widest_rank);
  out += fmt::format("        closed form: {}\n", closed_form_text(setup, prediction));
  if (metrics.critical_path.p2p_ns > 0) {
    out += fmt::format("critical path  {} compute, {} transfers{}\n",
                       format_time(metrics.critical_path.compute_ns),
                       format_time(metrics.critical_path.p2p_ns),
                       metrics.critical_path.other_ns > 0
                           ? ", " + format_time(metrics.critical_path.other_ns) + " other"
                           : "");
  }
  if (setup.schedule.placement.chunks() > 1) {
    out += "Times and bytes are per chunk: a rank's share of the model is all its chunks.\n";
  }
  return out;
}

// What the ranks shown hold at their fullest, by category; a category that no
// rank has is left out.
std::string memory_table(const Prediction& prediction, int width) {
  struct Column {
    std::string_view name;
    std::int64_t (*bytes)(const RankMemory&);
  };
  const std::vector<Column> working{
      {"activations", [](const RankMemory& rank) { return rank.peak.bytes.activations; }},
      {"W residue", [](const RankMemory& rank) { return rank.peak.bytes.residue; }},
      {"buffers",
       [](const RankMemory& rank) {
         return rank.peak.bytes.send_buffers + rank.peak.bytes.receive_buffers;
       }},
      {"total", [](const RankMemory& rank) { return rank.total(); }}};
  const std::vector<Column> each_state{
      {"weights", [](const RankMemory& rank) { return rank.states.weights; }},
      {"gradients", [](const RankMemory& rank) { return rank.states.gradients; }},
      {"optimizer", [](const RankMemory& rank) { return rank.states.optimizer; }}};
  const std::vector<Column> all_states{
      {"states", [](const RankMemory& rank) { return rank.states.total(); }}};

  const std::vector<int> shown = shown_ranks(static_cast<int>(prediction.memory.size()));
  const auto table_of = [&](std::vector<Column> columns) {
    columns.insert(columns.end(), working.begin(), working.end());
    std::erase_if(columns, [&](const Column& column) {
      return std::ranges::none_of(prediction.memory,
                                  [&](const RankMemory& rank) { return column.bytes(rank) > 0; });
    });
    std::vector<std::string> lines{"rank"};
    // Activations alone stand in the first table.
    const bool has_others = std::ranges::any_of(columns, [](const Column& column) {
      return column.name != "activations" && column.name != "total";
    });
    if (!has_others) return std::vector<std::string>();
    for (const Column& column : columns) {
      lines[0] += fmt::format(" {:>{}}", column.name, width_of(column.name));
    }
    lines[0] += "  filled by";
    for (const int r : shown) {
      const RankMemory& rank = prediction.memory[static_cast<std::size_t>(r)];
      std::string& line = lines.emplace_back(fmt::format("{:>4}", r));
      for (const Column& column : columns) {
        const std::int64_t bytes = column.bytes(rank);
        line +=
            fmt::format(" {:>{}}", bytes == 0 ? "-" : format_bytes(bytes), width_of(column.name));
      }
      line += "  " + (rank.peak.total == 0 ? "-" : to_text(rank.peak.action));
    }
    return lines;
  };
  std::vector<std::string> lines = table_of(each_state);
  const auto is_wide = [&](const std::string& line) {
    return line.size() > static_cast<std::size_t>(width);
  };
  if (std::ranges::any_of(lines, is_wide)) lines = table_of(all_states);
  if (lines.empty()) return {};
  return fmt::format("memory, each rank at its fullest\n{}\n\n", fmt::join(lines, "\n"));
}

// What it costs that transfers wait for each other.
std::string cost_of_waiting(const Setup& setup, const Costs& costs, const Prediction& prediction) {
  if (prediction.transfers.mode == P2p::async || !is_small(setup, costs)) return {};
  const std::int64_t own = prediction.metrics.makespan_ns;
  const std::int64_t async = simulate(setup.schedule, costs).makespan_ns;
  if (own == async) return "Asynchronous transfers would be no faster.\n";
  // They may take longer: those that go at once share their links.
  return fmt::format("Asynchronous transfers would take {}, {} {}.\n", format_time(async),
                     format_time(std::max(own, async) - std::min(own, async)),
                     async < own ? "less" : "more");
}

std::string memory_verdict(const Prediction& prediction, std::int64_t cap) {
  std::vector<std::size_t> over;
  for (std::size_t r = 0; r < prediction.memory.size(); ++r) {
    if (prediction.memory[r].total() > cap) over.push_back(r);
  }
  if (over.empty()) {
    return fmt::format("memory  fits: the fullest rank holds {} of {}\n",
                       format_bytes(prediction.peak_memory_bytes()), format_bytes(cap));
  }
  const auto worst = std::ranges::max_element(
      over, {}, [&](std::size_t r) { return prediction.memory[r].total(); });
  const std::int64_t need = prediction.memory[*worst].total();
  return fmt::format("memory  does not fit: {} of {} exceed {}; rank {} needs {}, {} too much\n",
                     over.size(),
                     plural(static_cast<std::int64_t>(prediction.memory.size()), "rank"),
                     format_bytes(cap), *worst, format_bytes(need), format_bytes(need - cap));
}

std::string limited_by(const Prediction& prediction) {
  long double ends = 0;
  long double steady = 0;
  long double p2p = 0;
  for (const RankMetrics& rank : prediction.metrics.ranks) {
    ends += static_cast<long double>(rank.bubble.warmup_ns) +
            static_cast<long double>(rank.bubble.drain_ns);
    steady += static_cast<long double>(rank.bubble.steady_ns);
    p2p += static_cast<long double>(rank.bubble.p2p_ns);
  }
  const long double all = ends + steady + p2p;
  if (all == 0) return "No rank ever waits.\n";
  const long double most = std::max({ends, steady, p2p});
  const char* cause = "";
  if (most == p2p) cause = "transfers that a rank waits for";
  if (most == steady) {
    cause = prediction.transfers.mode == P2p::async
                ? "stalls in the steady state, where stages or the order don't match"
                : "stalls in the steady state, where ranks wait until transfers meet";
  }
  if (most == ends) cause = "filling and draining the pipeline";
  return fmt::format("Limited by {}: {:.0f} % of the bubble.\n", cause, most / all * 100);
}

// What would shrink the bubble: more microbatches, another schedule.
std::string advice(const Setup& setup, const Costs& costs, const Prediction& prediction,
                   const ScheduleFlags& flags, const CostSource& source) {
  const double bubble = prediction.metrics.global_bubble();
  if (setup.family == nullptr || !is_small(setup, costs) || bubble < 0.005 ||
      setup.shape.ranks == 1)
    return {};
  ScheduleRequest request = parse_request(flags);
  const int m = request.microbatches;
  const auto all = try_all(request, {m, 2 * m}, trial_with(source));
  const Candidate* more = nullptr;
  const Candidate* same_memory = nullptr;
  const Candidate* fastest = nullptr;
  const auto own = std::ranges::find_if(all, [&](const Candidate& c) {
    return c.schedule == setup.family->name && c.microbatches == m;
  });
  if (own == all.end() || !own->left_out.empty()) return {};
  const auto improves = [&](const Candidate& c, const Candidate* best) {
    return c.time_ns < (best == nullptr ? own->time_ns : best->time_ns);
  };
  for (const Candidate& c : all) {
    if (!c.left_out.empty()) continue;
    if (c.microbatches != m) {
      if (c.schedule == own->schedule) more = &c;
      continue;
    }
    if (c.memory <= own->memory && improves(c, same_memory)) same_memory = &c;
    if (improves(c, fastest)) fastest = &c;
  }
  // Only what a reader would see in whole per cents.
  const auto percent = [](double fraction) { return std::lround(fraction * 100); };
  std::string out;
  const auto add = [&](const Candidate* c, const std::string& what, const std::string& memory) {
    if (c == nullptr) return;
    const double theirs = c->prediction.metrics.global_bubble();
    if (percent(theirs) >= percent(bubble)) return;
    const std::string chunks = c->chunks > 1 ? fmt::format(" ({} chunks a rank)", c->chunks) : "";
    out += fmt::format("{}{}{} to {} %{}", out.empty() ? "To shrink it: " : "; ", what,
                       c == more ? "" : chunks, percent(theirs), memory);
  };
  add(more, plural(std::int64_t{2} * m, "microbatch"), "");
  if (same_memory != nullptr) add(same_memory, same_memory->schedule, " at no more memory");
  if (fastest != nullptr && fastest != same_memory) {
    add(fastest, fastest->schedule,
        fmt::format(" at {:.1f} times the memory", fastest->memory / own->memory));
  }
  if (out.empty()) return {};
  return out + ".\n`pipesim schedules --compare` shows all.\n";
}

}  // namespace

std::string report(const Setup& setup, const Costs& costs, const Prediction& prediction,
                   const ScheduleFlags& flags, const CostSource& source,
                   std::optional<std::int64_t> memory_cap, const Terminal& terminal) {
  std::string sentences = bubbles(setup, prediction);
  if (memory_cap) sentences += memory_verdict(prediction, *memory_cap);
  sentences += "\n" + limited_by(prediction) + cost_of_waiting(setup, costs, prediction) +
               advice(setup, costs, prediction, flags, source);
  return verdict(setup, prediction, terminal) + "\n" + picture(setup, costs, prediction, terminal) +
         "\n" + table(prediction) + "\n" + memory_table(prediction, terminal.width) +
         wrap(sentences, terminal.width);
}

}  // namespace pipesim::cli
