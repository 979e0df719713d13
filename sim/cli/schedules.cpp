// `pipesim schedules`: the list of families; --compare tries them all.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "sim/calibrate/calibration.h"
#include "sim/calibrate/exchange_times.h"
#include "sim/calibrate/split_sums.h"
#include "sim/cli/commands.h"
#include "sim/cli/outputs.h"
#include "sim/cli/schedules_report.h"
#include "sim/cli/setup.h"
#include "sim/cli/spread_flags.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/small_multiples.h"
#include "traces/print/terminal.h"
#include "traces/read/read_run.h"

namespace pipesim::cli {
namespace {

struct SchedulesFlags {
  std::vector<std::string> files;  // schedules in addition to the families
  std::vector<std::string> run;    // files of one
  ScheduleFlags schedule;
  CostFlags costs;
  SpreadFlags spread;
  Flag only;  // what is compared, if not all: names and files
  std::optional<std::vector<std::string>> families;  // the names among them
  Flag memory_cap, figure;
  bool compare = false;
  bool picture = false;
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
    print(wrap(fmt::format("{:<20} {}; peak {}\n", "", family.bubble, family.peak),
               standard_output().width));
  }
  print(
      wrap("\nBubble, and peak chunks in flight on rank r, for p ranks, v chunks per rank, m "
           "microbatches, "
           "groups of g. F, I, W are the times of a chunk's forward, input gradient and weight "
           "gradient, B = I + W. traces/METRICS.md defines global and span.\n"
           "`pipesim schedules --compare --stages 4 --microbatches 8,16` tries them all.\n",
           standard_output().width));
}

// Numbers separated by commas, each once.
std::vector<int> parse_counts(const Flag& text, std::string_view name) {
  std::vector<int> counts;
  if (!text) return counts;
  for (const std::string_view part : split(*text, ',')) {
    const int count = parse_count(part, name);
    if (std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
  }
  return counts;
}

struct AskedCosts {
  CostRequest request;
  std::optional<Placement> measured;  // of a run
};

// Costs from the flags, or calibrated on the run, whose shape then fills in missing flags.
AskedCosts asked_costs(const SchedulesFlags& flags, ScheduleFlags& schedule) {
  if (flags.run.empty()) {
    CostRequest costs = cost_request(flags.costs);
    settle_schedule(flags.costs.model.global_batch, costs, schedule);
    return {std::move(costs), {}};
  }
  refuse_other_costs(flags.costs, "--run");
  ReadOptions options;
  options.layers = true;
  const RecordedRun run = read_run(flags.run, options);
  CostsFile calibrated = calibrate(std::span(&run, 1)).costs;
  calibrated.name = run.name;
  const bool has_replicas = run.about.replicas > 1 && calibrated.costs.replicas;
  CostRequest costs = cost_request(flags.costs, std::move(calibrated), run.name);
  if (!costs.p2p && !run.about.p2p.empty()) costs.p2p = parse_p2p(run.about.p2p);
  if (!flags.costs.eager_limit) costs.eager_limit_bytes = run.about.eager_limit_bytes;
  if (has_replicas) costs.replicas = replicas_of(run.about);
  if (!schedule.stages) schedule.stages = std::to_string(run.ranks);
  if (!schedule.microbatches && flags.files.empty()) {
    schedule.microbatches = std::to_string(run.microbatches);
  }
  return {std::move(costs), placement_of(run)};
}

// The candidates: families with all given numbers, then files, which have their own.
class Proposals {
 public:
  Proposals(const SchedulesFlags& flags, ScheduleFlags schedule, const CostSource& source) {
    sweep_.microbatches = parse_counts(schedule.microbatches, "--microbatches");
    sweep_.chunks = parse_counts(schedule.virtual_stages, "--virtual-stages");
    for (const std::string& file : flags.files) add(file, source, schedule);
    sweep_.families = flags.families;
    if (sweep_.microbatches.empty()) {
      throw input_error("--microbatches is missing: give one number, or several as 8,16,32");
    }
    schedule.microbatches = std::to_string(sweep_.microbatches.front());
    schedule.virtual_stages.reset();
    sweep_.request = parse_request(schedule);
    check_size(all_families().front(), sweep_.request, source.bytes_needed());
  }

  int ranks() const { return sweep_.request.ranks; }
  int most_microbatches() const { return std::ranges::max(sweep_.microbatches); }
  std::vector<Proposal> all() const {
    std::vector<Proposal> list = proposals(sweep_);
    list.insert(list.end(), files_.begin(), files_.end());
    return list;
  }

 private:
  void add(const std::string& file, const CostSource& source, ScheduleFlags& schedule) {
    ScheduleFlags own;
    own.schedule = names_a_file(file) ? file : "./" + file;
    const bool on_streams = !file.ends_with(".csv");
    auto made = std::make_shared<const ScheduleChoice>(
        choose_schedule(own, source.bytes_needed(on_streams)));
    const int ranks = made->schedule.ranks();
    const int microbatches = made->schedule.microbatches;
    if (!schedule.stages) schedule.stages = std::to_string(ranks);
    if (parse_count(*schedule.stages, "--stages") != ranks) {
      throw input_error(fmt::format("{}: has {}, but the others {}; compare it with --stages {}",
                                    quote(file), plural(ranks, "rank"), *schedule.stages, ranks));
    }
    if (std::ranges::find(sweep_.microbatches, microbatches) == sweep_.microbatches.end()) {
      if (schedule.microbatches) {
        throw input_error(
            fmt::format("{}: has {}, which --microbatches {} lacks; give --microbatches {},{}",
                        quote(file), plural(microbatches, "microbatch"), *schedule.microbatches,
                        *schedule.microbatches, microbatches));
      }
      sweep_.microbatches.push_back(microbatches);
    }
    const Transfers transfers = source.transfers_of(*made);
    files_.push_back({nullptr, {}, std::move(made), transfers});
  }

  Sweep sweep_;
  std::vector<Proposal> files_;
};

// The placement of the costs' stages: as measured, else dealt out to ranks in turn.
Placement given_placement(const CostSource& source, const std::optional<Placement>& measured,
                          int ranks, const std::string& name) {
  const int told = source.stages_told();
  if (measured && measured->ranks() == ranks && measured->stages() == told) return *measured;
  if (told % ranks != 0) {
    throw input_error(fmt::format(
        "{}: of {}, but the model is to be split over {}; give one value for all, {} in its "
        "order, or a multiple of that",
        name, plural(told, "virtual stage"), plural(ranks, "rank"), ranks));
  }
  return Placement::loop(ranks, std::max(1, told / ranks));
}

void print_pictures(const std::vector<TimelineGroup>& groups, const Terminal& terminal) {
  for (const TimelineGroup& group : groups) print("\n" + small_multiples(group, terminal));
}

// What --schedule lists: files are compared like those given as arguments.
void take_apart(SchedulesFlags& flags) {
  if (!flags.only) return;
  flags.families.emplace();
  for (const std::string_view part : split(*flags.only, ',')) {
    const std::string name(part);
    if (names_a_file(name)) {
      flags.files.push_back(name);
    } else {
      flags.families->emplace_back(family(name).name);
    }
  }
}

void compare_schedules(SchedulesFlags flags) {
  take_apart(flags);
  if (flags.picture && flags.json) {
    throw input_error(
        "--picture and --json both print; give the picture a file: --figure FILE.svg");
  }
  std::vector<NamedFile> files{{"--costs", flags.costs.costs},
                               {"--model", file_of(flags.costs.model.model)},
                               {"--cluster", file_of(flags.costs.model.cluster)},
                               {"--figure", flags.figure, true}};
  for (const std::string& file : flags.run) files.push_back({"--run", file});
  for (const std::string& file : flags.files) files.push_back({"a schedule to be read", file});
  check_outputs(files);

  ScheduleFlags schedule = flags.schedule;
  auto [costs, measured] = asked_costs(flags, schedule);
  add_slow_ranks(flags.spread, costs);
  const std::string name = costs.name;
  const CostSource source(std::move(costs));
  const Proposals asked(flags, schedule, source);

  ComparedSchedules all;
  all.ranks = asked.ranks();
  all.model = source.cost_model(all.ranks);
  all.by_layer = source.by_layer();
  if (!flags.run.empty()) all.measured = name;
  all.memory_cap_bytes = memory_cap(flags.memory_cap, all.model);
  Trial trial = trial_with(source, given_placement(source, measured, all.ranks, name));
  trial.spread = spread_question(flags.spread, source,
                                 std::int64_t{2} * all.ranks * asked.most_microbatches());
  FigureFile figure(flags.figure);

  std::optional<Progress> progress(std::in_place);
  trial.progress = [&](const std::string& what) { progress->show(what); };
  std::vector<Candidate> tried = try_all(asked.all(), trial);
  trial.progress = {};
  progress->show("searching for shapes that work");
  const auto works = [](const Candidate& one) { return one.left_out.empty(); };
  if (std::ranges::none_of(tried, works)) throw input_error(tried.front().left_out);
  all.rows = compared_rows(std::move(tried), trial, all.memory_cap_bytes);
  std::vector<TimelineGroup> timelines;
  if (figure.is_wanted() || flags.picture) timelines = timelines_of(all, trial);
  if (figure.is_wanted()) {
    progress->show("drawing");
    figure.write(timelines);
  }
  progress.reset();
  if (flags.json) {
    print(schedules_json(all).dump(2) + "\n");
    return;
  }
  const Terminal terminal = standard_output();
  print(schedules_table(all, terminal));
  if (flags.picture) print_pictures(timelines, terminal);
  if (figure.is_wanted()) print("\n" + figure.told());
}

void run(const CommandLine& command, const SchedulesFlags& flags) {
  if (flags.compare) return compare_schedules(flags);
  if (const std::string stray = command.first_given({"--json"}); !stray.empty()) {
    throw input_error(fmt::format("{} belongs to --compare; add it", stray));
  }
  print_list(flags.json);
}

}  // namespace

void set_up_schedules(CommandLine& command) {
  auto flags = std::make_shared<SchedulesFlags>();
  command.add_flags(
      "",
      {{"files", &flags->files, "FILE", "more schedules to compare, as for --schedule"},
       {"--compare", &flags->compare, "tries every schedule on the same model"},
       {"--memory-cap", &flags->memory_cap, "BYTES", "marks schedules that exceed this memory"}});
  command.add_flags("Schedule", {{"--schedule", &flags->only, "NAME|FILE,...",
                                  "which to compare; default all that have a name"}});
  add_schedule_flags(command, flags->schedule, false);
  add_cost_flags(command, flags->costs, "per rank and microbatch; a list has one per rank");
  command.add_flags("Costs of a run", {{"--run", &flags->run, "TRACE",
                                        "traces to calibrate from, one or one per rank"}});
  add_spread_flags(command, flags->spread);
  command.add_flags("Output",
                    {{"--picture", &flags->picture, "draws all timelines on one time axis"},
                     {"--figure", &flags->figure, "FILE.svg|FILE.png", "draws them as a figure"},
                     {"--json", &flags->json, "prints one JSON object"}});
  command.show_first({"--compare", "--schedule", "--stages", "--microbatches", "--model",
                      "--cluster", "--run", "--memory-cap", "--picture", "--figure", "--json"});
  command.set_footer(
      "--microbatches and --virtual-stages may be lists, such as 8,16,32; all pairs are\n"
      "tried. All use the same model: costs that are not a model's or by layer\n"
      "are those of a whole rank. With V chunks per rank each chunk takes 1/V of the\n"
      "times and bytes; a message keeps its bytes.\n"
      "\n"
      "Examples:\n"
      "  pipesim schedules --compare --stages 8 --microbatches 16,64 --p2p-latency 9us\n"
      "  pipesim schedules --compare own.csv --stages 4 --microbatches 8 --picture\n"
      "  pipesim schedules --compare --schedule 1f1b,zb-h1 --stages 4 --microbatches 8\n"
      "  pipesim schedules --compare --run run.json.gz --microbatches 16");
  command.set_work([&command, flags] { run(command, *flags); });
}

}  // namespace pipesim::cli
