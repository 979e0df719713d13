// `pipesim schedule print|check|lower|convert`: schedules as files.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "sim/cli/commands.h"
#include "sim/cli/setup.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/deadlock.h"
#include "sim/schedule/lower.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

// What each verb takes beside the schedule.
constexpr BytesNeeded needed_to_check{160, simulation_bytes_per_slot};
constexpr BytesNeeded needed_to_lower{100, simulation_bytes_per_slot};
constexpr BytesNeeded needed_to_print{80, simulation_bytes_per_slot};
constexpr BytesNeeded needed_to_convert{48, simulation_bytes_per_slot};

struct Flags {
  ScheduleFlags schedule;
  Flag output, transport;
  bool merge = false;
  bool json = false;
};

void put(const Flag& output, const std::string& text) {
  if (output) {
    write_file(*output, text);
  } else {
    print(text);
  }
}

// One row a rank, cells in columns of their own.
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

void check_schedule(const Flags& flags) {
  const ScheduleChoice choice = choose_schedule(flags.schedule, needed_to_check);
  const Schedule& schedule = choice.schedule;
  std::vector<Transport> transports = all_transports();
  if (flags.transport) transports = {parse_transport(*flags.transport)};

  // A compute schedule that deadlocks has no lowering to check.
  const auto own =
      schedule.has_transfers() ? std::nullopt : find_deadlock(schedule, Transport::buffered);
  const bool lower_it = !own && !schedule.has_transfers();
  const Schedule lowered = lower_it ? lower(schedule) : Schedule{};
  const Schedule& program = lower_it ? lowered : schedule;

  // Needs a program that runs with buffers at least.
  std::optional<std::int64_t> unit_steps;
  if (!own && !find_deadlock(program, Transport::buffered)) unit_steps = count_unit_steps(program);

  nlohmann::ordered_json verdicts = nlohmann::ordered_json::object();
  std::string text = fmt::format(
      "{}: {}, {}, {}, {}{}\n", printable(schedule.name), plural(schedule.ranks(), "rank"),
      plural(schedule.stages(), "stage"), plural(schedule.microbatches, "microbatch"),
      plural(schedule.actions.size(), "action"),
      schedule.has_transfers() ? "" : "; transfers as `schedule lower` places them");
  std::string stuck;
  for (const Transport transport : transports) {
    const auto cycle = own ? own : find_deadlock(program, transport);
    if (cycle) stuck += fmt::format("{}{}", stuck.empty() ? "" : ", ", transport_name(transport));
    text += fmt::format("{:<11} {}\n", transport_name(transport), cycle.value_or("runs"));
    verdicts[std::string(transport_name(transport))] = {
        {"runs", !cycle}, {"cycle", cycle ? nlohmann::ordered_json(*cycle) : nullptr}};
  }
  if (unit_steps) {
    text += fmt::format("{} unit steps, a receive sharing its send's\n", format_count(*unit_steps));
  }
  if (flags.json) {
    nlohmann::ordered_json json{
        {"format", "pipesim-check"},
        {"version", 1},
        {"schedule", schedule.name},
        {"stages", schedule.ranks()},
        {"virtual_stages", schedule.placement.chunks()},
        {"microbatches", schedule.microbatches},
        {"actions", schedule.actions.size()},
        {"has_transfers", schedule.has_transfers()},
        {"unit_steps", unit_steps ? nlohmann::ordered_json(*unit_steps) : nullptr},
        {"transports", verdicts}};
    text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  print(text);
  if (!stuck.empty()) throw work_error(fmt::format("{} deadlocks on {}", schedule.name, stuck));
}

}  // namespace

void add_schedule(CLI::App& app, Work& chosen) {
  CLI::App* command =
      app.add_subcommand("schedule", "prints, checks, lowers or converts one schedule");
  command->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& help, auto run) {
    auto flags = std::make_shared<Flags>();
    CLI::App* verb = command->add_subcommand(name, help);
    verb->add_option("schedule", flags->schedule.schedule, "a schedule's name or a CSV file")
        ->type_name("NAME|FILE.csv")
        ->required();
    add_schedule_flags(*verb, flags->schedule, false);
    verb->callback([&chosen, flags, run] { chosen = [flags, run] { run(*flags); }; });
    return std::pair(verb, flags);
  };

  add("print", "prints the actions of each rank in columns", [](const Flags& flags) {
    print(grid(choose_schedule(flags.schedule, needed_to_print).schedule));
  });

  const auto [check, check_flags] =
      add("check", "says where it runs; status 1 where it deadlocks", check_schedule);
  check
      ->add_option("--transport", check_flags->transport,
                   "buffered, rendezvous, fifo or edge-fifo; all")
      ->type_name("NAME");
  check->add_flag("--json", check_flags->json, "prints one JSON object")->disable_flag_override();

  const auto [lowered, lower_flags] =
      add("lower", "inserts SEND and RECV, writes the program", [](const Flags& flags) {
        put(flags.output, to_csv(lower(choose_schedule(flags.schedule, needed_to_lower).schedule)));
      });
  const auto [converted, convert_flags] =
      add("convert", "writes it as PyTorch's current CSV", [](const Flags& flags) {
        const Schedule schedule = choose_schedule(flags.schedule, needed_to_convert).schedule;
        put(flags.output, to_csv(flags.merge ? merge_backward(schedule) : schedule));
      });
  converted
      ->add_flag("--merge-backward", convert_flags->merge,
                 "replaces each I that its W follows by B")
      ->disable_flag_override();
  lowered->add_option("-o,--output", lower_flags->output, "the file; default standard output")
      ->type_name("FILE.csv");
  converted->add_option("-o,--output", convert_flags->output, "the file; default standard output")
      ->type_name("FILE.csv");
  command->footer(
      "Examples:\n"
      "  pipesim schedule print zb-h1 --stages 4 --microbatches 8\n"
      "  pipesim schedule check my_order.csv --transport rendezvous\n"
      "  pipesim schedule lower interleaved --stages 4 --microbatches 8 -o program.csv");
}

}  // namespace pipesim::cli
