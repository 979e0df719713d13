// `pipesim schedules`: the list of families; --compare tries them all.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/setup.h"
#include "sim/cli/spread_flags.h"
#include "sim/cost/estimate/explanation.h"
#include "sim/plan/candidates.h"
#include "traces/base/error.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

struct SchedulesFlags {
  ScheduleFlags schedule;
  CostFlags costs;
  SpreadFlags spread;
  Flag memory_cap;
  bool compare = false;
  bool json = false;
};

void print_list(bool json) {
  if (json) {
    Json list = Json::array();
    for (const Family& family : all_families()) {
      list.push_back({{"name", family.name},
                      {"title", family.title},
                      {"summary", family.summary},
                      {"bubble", family.bubble},
                      {"conditions", family.conditions},
                      {"peak_activation_chunks", family.peak},
                      {"default_virtual_stages", family.default_chunks}});
    }
    const Json all{{"format", "pipesim-schedules"}, {"version", 1}, {"schedules", list}};
    print(all.dump(2) + "\n");
    return;
  }
  for (const Family& family : all_families()) {
    print(fmt::format("{:<20} {}\n", family.name, family.summary));
    print(wrap(fmt::format("{:<20} {}; keeps {}\n", "", family.bubble, family.peak),
               standard_output().width));
  }
  print(wrap(
      "\nThe bubble and what rank r keeps at most, for p ranks, v chunks a rank, m microbatches, "
      "groups of g; F, I, W are the times of a chunk's forward, input gradient and weight "
      "gradient, B = I + W; global and span are defined in traces/METRICS.md.\n"
      "`pipesim schedules --compare --stages 4 --microbatches 8,16` tries them all.\n",
      standard_output().width));
}

std::vector<int> parse_microbatches(const Flag& text) {
  if (!text) throw input_error("--microbatches is missing: give one number, or several as 8,16,32");
  std::vector<int> counts;
  for (const std::string_view part : split(*text, ',')) {
    const int count = parse_count(part, "--microbatches");
    if (std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  }
  return counts;
}

void print_json(const std::vector<Candidate>& all, const std::optional<CostModel>& model,
                std::optional<std::int64_t> cap) {
  Json rows = Json::array();
  for (const Candidate& c : all) {
    Json row{
        {"schedule", c.schedule}, {"virtual_stages", c.chunks}, {"microbatches", c.microbatches}};
    if (!c.left_out.empty()) {
      row["error"] = c.left_out;
    } else {
      const Metrics& metrics = c.prediction.metrics;
      row["makespan_ns"] = metrics.makespan_ns;
      if (c.spread) {
        row["makespan_spread_ns"] = {
            {"p50", c.spread->p50_ns}, {"p95", c.spread->p95_ns}, {"seeds", c.spread->seeds}};
      }
      if (model) {
        const Throughput reached = throughput(*model, c.microbatches, metrics.makespan_ns);
        row["tokens_per_second"] = reached.tokens_per_second;
        row["mfu"] = reached.mfu;
      }
      row["bubble_fraction"] = {{"global", metrics.global_bubble()},
                                {"span", metrics.span_bubble()}};
      row["peak_activation_chunks"] = metrics.peak_activation_chunks();
      row["peak_activation_bytes"] = metrics.peak_activation_bytes();
      row["peak_memory_bytes"] = c.prediction.peak_memory_bytes();
      row["on_front"] = c.on_front;
      if (cap) row["fits"] = c.prediction.peak_memory_bytes() <= *cap;
    }
    rows.push_back(std::move(row));
  }
  const Json all_rows{{"format", "pipesim-schedules-comparison"}, {"version", 1}, {"rows", rows}};
  print(all_rows.dump(2) + "\n");
}

// The span bubble, or, where a model tells more, how much it uses of the devices.
std::string last_share(const Candidate& c, const std::optional<CostModel>& model) {
  if (!model) return format_percent(c.prediction.metrics.span_bubble());
  const auto mfu = throughput(*model, c.microbatches, c.prediction.metrics.makespan_ns).mfu;
  return mfu ? format_percent(*mfu) : "-";
}

void print_table(const std::vector<Candidate>& all, bool by_layer,
                 const std::optional<CostModel>& model, std::optional<std::int64_t> cap) {
  bool chunks_differ = false;
  bool has_bytes = false;
  bool varies = false;
  for (const Candidate& c : all) {
    chunks_differ = chunks_differ || (c.left_out.empty() && c.chunks > 1);
    varies = varies || c.spread.has_value();
    has_bytes = has_bytes || c.prediction.peak_memory_bytes() > 0;
  }
  std::string out;
  int microbatches = 0;
  for (const Candidate& c : all) {
    if (c.microbatches != microbatches) {
      out += fmt::format("{}{}\n", microbatches == 0 ? "" : "\n",
                         plural(c.microbatches, "microbatch"));
      out += fmt::format("  {:<20}{:>2} {:>11} {}{:>8} {:>8}  {}\n", "", "v", "makespan",
                         varies ? fmt::format("{:>11} ", "p95") : "", "global",
                         model ? "MFU" : "span", "peak kept");
      microbatches = c.microbatches;
    }
    if (!c.left_out.empty()) {
      out += fmt::format("  {:<20}{:>2} left out: {}\n", c.schedule, c.chunks, c.left_out);
      continue;
    }
    const Metrics& metrics = c.prediction.metrics;
    std::string peak = plural(metrics.peak_activation_chunks(), "chunk");
    if (has_bytes) peak += ", " + format_bytes(c.prediction.peak_memory_bytes());
    if (cap && c.prediction.peak_memory_bytes() > *cap) peak += " !";
    out += fmt::format("{} {:<20}{:>2} {:>11} {}{:>8} {:>8}  {}\n", c.on_front ? '*' : ' ',
                       c.schedule, c.chunks, format_time(metrics.makespan_ns),
                       c.spread ? fmt::format("{:>11} ", format_time(c.spread->p95_ns)) : "",
                       format_percent(metrics.global_bubble()), last_share(c, model), peak);
  }
  out += "\n* on the time-memory front: nothing else is as fast and as small.\n";
  if (cap) {
    out += fmt::format("! more than the {} of {}.\n", format_bytes(*cap),
                       model && *cap == model->cluster().device.memory_bytes
                           ? printable(model->cluster().device.name)
                           : "--memory-cap");
  }
  if (chunks_differ && !by_layer) {
    out +=
        "Times and bytes are per chunk, so v chunks are v times the work: the front compares "
        "makespan / v and peak / v, as cuts of the same model.\n";
  }
  print(wrap(out, standard_output().width));
}

void run(const CommandLine& command, const SchedulesFlags& flags) {
  if (!flags.compare) {
    if (const std::string stray = command.first_given({"--json"}); !stray.empty()) {
      throw input_error(fmt::format("{} belongs to --compare; add it", stray));
    }
    print_list(flags.json);
    return;
  }
  CostRequest costs = cost_request(flags.costs);
  ScheduleFlags first = flags.schedule;
  set_microbatches(flags.costs.model.global_batch, costs, first);
  const std::vector<int> microbatches = parse_microbatches(first.microbatches);
  first.microbatches = std::to_string(microbatches.front());
  const ScheduleRequest request = parse_request(first);
  add_slow_ranks(flags.spread, costs);
  const CostSource source(std::move(costs));
  const std::optional<CostModel> model = source.cost_model(request.ranks);
  const auto cap = memory_cap(flags.memory_cap, model);
  Trial trial = trial_with(source);
  const std::int64_t actions = std::int64_t{2} * request.ranks * std::ranges::max(microbatches);
  trial.spread = spread_question(flags.spread, source, actions);
  std::optional<Progress> progress(std::in_place);
  trial.progress = [&](const std::string& what) { progress->show(what); };
  const auto all = try_all(request, microbatches, trial);
  progress.reset();
  if (std::ranges::none_of(all, [](const Candidate& c) { return c.left_out.empty(); })) {
    throw input_error(all.front().left_out);
  }
  if (flags.json) {
    print_json(all, model, cap);
  } else {
    print_table(all, source.by_layer(), model, cap);
  }
}

}  // namespace

void add_schedules(CommandLine& program) {
  auto flags = std::make_shared<SchedulesFlags>();
  CommandLine& command = program.add_command("schedules", "lists the schedules, or compares them");
  command.add_flags(
      "", {{"--compare", &flags->compare, "tries every schedule; --microbatches may be a list"},
           {"--memory-cap", &flags->memory_cap, "BYTES", "says what exceeds so much memory"},
           {"--json", &flags->json, "prints one JSON object"}});
  add_schedule_flags(command, flags->schedule, false);
  add_cost_flags(command, flags->costs);
  add_spread_flags(command, flags->spread);
  command.set_footer(
      "Example:\n"
      "  pipesim schedules --compare --stages 8 --microbatches 16,64 --p2p-latency 9us");
  command.set_work([&command, flags] { run(command, *flags); });
}

}  // namespace pipesim::cli
