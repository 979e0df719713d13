// `pipesim schedule print|check|lower|convert|streams|receives`: schedules as files.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/cli/commands.h"
#include "sim/cli/receives.h"
#include "sim/cli/setup.h"
#include "sim/engine/p2p.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/description.h"
#include "sim/schedule/lower.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

// Memory that each subcommand needs besides the schedule.
constexpr BytesNeeded needed_to_check{160, 24, 100, 1100};
constexpr BytesNeeded needed_to_lower{100, 24, 0, 150};
constexpr BytesNeeded needed_to_print{80, 24, 0, 150};
constexpr BytesNeeded needed_to_convert{48, 24, 0, 150};

struct ScheduleVerbFlags {
  ScheduleFlags schedule;
  Flag output, transport, p2p;
  ReceiveFlags receives;
  bool merge = false;
  bool whole = false;
  bool json = false;
};

void put(const Flag& output, const std::string& text) {
  if (output) {
    write_file(*output, text);
  } else {
    print(text);
  }
}

// One row per rank, one column per cell.
std::string grid(const Schedule& schedule) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> widths;
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    auto& row = rows.emplace_back();
    const std::string cells = csv_row(schedule.actions[rank]);
    for (const std::string_view cell : split(cells, ',')) {
      if (row.size() == widths.size()) widths.push_back(0);
      widths[row.size()] = std::max(widths[row.size()], cell.size());
      row.emplace_back(cell);
    }
  }
  std::string out;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    std::string line = fmt::format("{:>4} ", rank);
    for (std::size_t i = 0; i < rows[rank].size(); ++i) {
      line += fmt::format(" {:<{}}", rows[rank][i], widths[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

void check_schedule(const ScheduleVerbFlags& flags) {
  const ScheduleChoice choice = choose_schedule(flags.schedule, needed_to_check);
  const Schedule& schedule = choice.schedule;
  std::vector<SendMode> modes = all_send_modes();
  // Streams of a program don't determine others.
  if (choice.schedule.lane != TransferLane::compute) {
    std::erase_if(modes, [&](SendMode mode) { return lane_of(mode) != choice.schedule.lane; });
  }
  if (flags.transport) {
    const SendMode mode = parse_send_mode(*flags.transport);
    if (std::ranges::find(modes, mode) == modes.end()) {
      throw input_error(fmt::format("--transport {}: {} puts its transfers on streams of {}",
                                    *flags.transport, schedule.name,
                                    send_mode_name(modes.front())));
    }
    modes = {mode};
  }

  // A compute schedule that deadlocks has no lowering to check.
  const auto own =
      schedule.has_transfers() ? std::nullopt : find_deadlock(schedule, SendMode::buffered);
  const bool lower_it = !own && !schedule.has_transfers();
  const Schedule lowered = lower_it ? lower(schedule) : Schedule{};
  const Schedule& program = lower_it ? lowered : schedule;

  // Needs a program that runs at least with buffered transfers.
  std::optional<std::int64_t> unit_steps;
  if (!own && schedule.dependencies.empty() && !find_deadlock(program, SendMode::buffered))
    unit_steps = count_unit_steps(program);

  std::int64_t actions = 0;  // but for empty cells
  for (int rank = 0; rank < schedule.ranks(); ++rank) {
    actions += std::ranges::count_if(schedule.actions[rank],
                                     [](const Action& one) { return one.kind != Kind::IDLE; });
  }
  Json verdicts = Json::object();
  std::vector<std::pair<std::string, std::string>> lines;  // a verdict, and the transports it is of
  const int width = standard_output().width;
  std::string text = wrap(
      fmt::format("{}: {}, {}, {}{}\n", printable(schedule.name), shape_text(schedule.placement),
                  plural(schedule.microbatches, "microbatch"), plural(actions, "action"),
                  schedule.has_transfers() ? "" : "; transfers as `schedule lower` places them"),
      width);
  std::string stuck;
  for (const SendMode mode : modes) {
    const auto cycle = own ? own : find_deadlock(program, mode);
    if (cycle) stuck += fmt::format("{}{}", stuck.empty() ? "" : ", ", send_mode_name(mode));
    const auto same = std::ranges::find(lines, cycle, &std::pair<std::string, std::string>::first);
    if (!cycle || same == lines.end()) {
      lines.emplace_back(cycle.value_or("runs"), send_mode_name(mode));
    } else {
      same->second += fmt::format(", {}", send_mode_name(mode));
    }
    verdicts[std::string(send_mode_name(mode))] = {{"runs", !cycle}, {"cycle", cycle}};
  }
  const std::string margin(12, ' ');
  for (const auto& [verdict, transports] : lines) {
    std::string told = wrap(margin + verdict, width);
    if (transports.size() < margin.size()) {
      told.replace(0, transports.size(), transports);
    } else {
      told.insert(0, transports + "\n");
    }
    text += told + "\n";
  }
  if (unit_steps) {
    text +=
        fmt::format("{} steps, where each action takes one, and a message one for both its ends\n",
                    format_count(*unit_steps));
  }
  if (flags.json) {
    Json json{{"format", "pipesim-check"},
              {"version", 1},
              {"schedule", schedule.name},
              {"stages", schedule.ranks()},
              {"virtual_stages", schedule.placement.virtual_stages()},
              {"microbatches", schedule.microbatches},
              {"actions", actions},
              {"has_transfers", schedule.has_transfers()},
              {"unit_steps", unit_steps},
              {"transports", verdicts}};
    text = json.dump(2) + "\n";
  }
  print(text);
  if (!stuck.empty()) throw work_error(fmt::format("{} deadlocks on {}", schedule.name, stuck));
}

void lower_schedule(const ScheduleVerbFlags& flags) {
  const auto where = asked_receives(flags.receives);
  const auto buffers = asked_buffers(flags.receives, where.value_or(Receives::sender));
  if (where == Receives::timed) {
    throw input_error(
        "--receives timed: needs costs; `pipesim schedule receives` takes them, and writes it with "
        "--receives timed -o FILE");
  }
  const Schedule schedule = choose_schedule(flags.schedule, needed_to_lower).schedule;
  // A program's receives are placed anew if a placement is given.
  const bool anew = where && schedule.has_transfers();
  const Schedule program = place_receives(lower(anew ? without_transfers(schedule) : schedule),
                                          where.value_or(Receives::sender), {buffers, {}});
  if (const auto fault = find_fault(program)) {
    throw input_error(fmt::format("{}: rank {}: {}", schedule.name, fault->rank, fault->rule));
  }
  put(flags.output, file_text_of(program));
}

void write_streams(const ScheduleVerbFlags& flags) {
  const ScheduleChoice choice = choose_schedule(flags.schedule, needed_to_lower);
  TransferLane lane = choice.schedule.lane;
  if (flags.p2p) lane = lane_of(send_mode_of(parse_p2p(*flags.p2p)));
  Schedule program = choice.schedule.has_transfers() ? choice.schedule : lower(choice.schedule);
  if (flags.whole) {
    const Closing everything{true, true, true, true};
    program =
        with_closing(program, std::vector(static_cast<std::size_t>(program.ranks()), everything));
  }
  put(flags.output, to_program_text(program, lane));
}

}  // namespace

void set_up_schedule(CommandLine& command) {
  const auto add = [&](const std::string& name, const std::string& help, auto run) {
    auto flags = std::make_shared<ScheduleVerbFlags>();
    CommandLine& verb = command.add_command(name, help);
    verb.add_flags("", {FlagHelp("schedule", &flags->schedule.schedule, "NAME|FILE",
                                 "a schedule's name, or its CSV or program", schedule_names)
                            .required()});
    add_schedule_flags(verb, flags->schedule, false);
    verb.set_work([flags, run] { run(*flags); });
    return std::pair<CommandLine&, ScheduleVerbFlags&>(verb, *flags);
  };

  add("print", "prints the actions of each rank in columns", [](const ScheduleVerbFlags& flags) {
    const Schedule schedule = choose_schedule(flags.schedule, needed_to_print).schedule;
    std::string text = grid(schedule);
    for (const std::string& line : dependencies_of(schedule)) text += line + "\n";
    print(text);
  });

  const auto [check, check_flags] =
      add("check", "finds deadlocks; exit status 1 if there is one", check_schedule);
  check.add_flags("", {{"--transport", &check_flags.transport, "NAME",
                        "buffered, rendezvous, fifo, edge-fifo; default all", send_mode_names},
                       {"--json", &check_flags.json, "prints one JSON object"}});

  const auto [lowered, lower_flags] =
      add("lower", "inserts SENDs and RECVs, writes the program", lower_schedule);
  add_receive_flags(lowered, lower_flags.receives, "placement of RECVs, see below; default sender");
  lowered.add_flags(
      "", {{"-o,--output", &lower_flags.output, "FILE", "the file; default standard output"}});
  lowered.set_footer(receives_help);

  const auto [converted, convert_flags] =
      add("convert", "writes it as PyTorch's current CSV", [](const ScheduleVerbFlags& flags) {
        const Schedule schedule = choose_schedule(flags.schedule, needed_to_convert).schedule;
        put(flags.output, to_csv(flags.merge ? merge_backward(schedule) : schedule));
      });
  converted.add_flags(
      "",
      {{"--merge-backward", &convert_flags.merge, "replaces each I that its W follows by B"},
       {"-o,--output", &convert_flags.output, "FILE.csv", "the file; default standard output"}});

  const auto [streams, streams_flags] =
      add("streams", "writes the program stream by stream, for editing", write_streams);
  streams.add_flags(
      "", {{"--p2p", &streams_flags.p2p, "MODE", "which streams carry transfers; default async",
            p2p_names},
           {"--whole", &streams_flags.whole, "adds the iteration's closing actions if missing"},
           {"-o,--output", &streams_flags.output, "FILE.program",
            "the file; default standard output"}});
  add_schedule_receives(command);
  command.set_footer(
      "Examples:\n"
      "  pipesim schedule print zb-h1 --stages 4 --microbatches 8\n"
      "  pipesim schedule check my_order.csv --transport rendezvous\n"
      "  pipesim schedule lower interleaved --stages 4 --microbatches 8 -o program.csv\n"
      "  pipesim schedule receives 1f1b --stages 4 --microbatches 8 --p2p-latency 100us\n"
      "  pipesim schedule streams 1f1b --stages 4 --microbatches 8 --p2p fifo");
}

}  // namespace pipesim::cli
