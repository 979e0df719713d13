#include "sim/cli/receives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/advice/receive_choices.h"
#include "sim/cli/limits_report.h"
#include "sim/cli/outputs.h"
#include "sim/cli/report.h"
#include "sim/cli/setup.h"
#include "sim/schedule/csv.h"
#include "sim/schedule/description.h"
#include "sim/schedule/program_text.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

constexpr std::array all_modes{P2p::async, P2p::blocking, P2p::fifo, P2p::edge_fifo};

// Memory for a program, its rows and another program made of them.
constexpr BytesNeeded needed_to_place{200, 24, 0, 150};

struct ReceivesVerbFlags {
  ScheduleFlags schedule;
  CostFlags costs;
  ReceiveFlags receives;
  Flag output;
  bool json = false;
};

// All contents of the report.
struct ReceivesAnswer {
  ScheduleChoice schedule;
  std::vector<P2p> modes;
  std::vector<ReceiveChoice> choices;

  const ReceiveChoice& first() const { return choices.front(); }
  // How much less time an iteration takes than with the first; absent if either does not run.
  std::optional<std::int64_t> gain_ns(const ReceiveChoice& choice, P2p mode) const {
    const ReceiveOutcome* own = choice.on(mode);
    const ReceiveOutcome* other = first().on(mode);
    if (own == nullptr || other == nullptr || !own->makespan_ns || !other->makespan_ns) {
      return std::nullopt;
    }
    return *other->makespan_ns - *own->makespan_ns;
  }
  // Whether a transport makes no difference between them.
  bool is_even(P2p mode) const {
    std::optional<std::int64_t> makespan_ns;
    for (const ReceiveChoice& choice : choices) {
      const ReceiveOutcome* outcome = choice.on(mode);
      if (outcome == nullptr) continue;
      if (!outcome->makespan_ns) return false;
      if (makespan_ns.value_or(*outcome->makespan_ns) != *outcome->makespan_ns) return false;
      makespan_ns = outcome->makespan_ns;
    }
    return makespan_ns.has_value();
  }
};

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

// The risk of taking it.
std::string risk_of(const ReceiveChoice& choice) {
  std::vector<std::string> stuck;
  for (const auto& [mode, outcome] : choice.outcomes) {
    if (!outcome.makespan_ns) stuck.emplace_back(p2p_name(mode));
  }
  if (!stuck.empty()) return "deadlocks on " + list_of(stuck);
  if (choice.outcomes.size() == 1) {
    return fmt::format("is for {} alone", p2p_name(choice.outcomes.begin()->first));
  }
  return "deadlocks nowhere";
}

// "batched gains 1.20 ms (3.4 %) on blocking, and deadlocks nowhere".
std::string advice_to_take(const ReceiveChoice& choice, const std::vector<P2p>& modes,
                           const ReceivesAnswer& answer) {
  std::vector<std::string> gains;
  std::vector<std::string> runs;
  for (const P2p mode : modes) {
    const std::int64_t own_ns = *choice.on(mode)->makespan_ns;
    if (const auto gain_ns = answer.gain_ns(choice, mode)) {
      const double share = static_cast<double>(*gain_ns) / static_cast<double>(own_ns + *gain_ns);
      gains.push_back(fmt::format("{} ({}) on {}", format_time(*gain_ns), format_percent(share),
                                  p2p_name(mode)));
    } else {
      runs.push_back(fmt::format("{} in {}", p2p_name(mode), format_time(own_ns)));
    }
  }
  std::string text(choice.name());
  if (!gains.empty()) text += " gains " + list_of(gains) + ",";
  if (!runs.empty()) {
    text += fmt::format(" runs on {}, where {} does not,", list_of(runs), answer.first().name());
  }
  return text + " and " + risk_of(choice);
}

std::string verdict_on_receives(const ReceivesAnswer& answer) {
  std::vector<std::string> parts;
  std::vector<std::string> others;  // if none gains
  for (const P2p mode : answer.modes) {
    const ReceiveChoice* fastest = fastest_on(mode, answer.choices);
    if (fastest == nullptr || fastest == &answer.first()) others.emplace_back(p2p_name(mode));
  }
  for (const ReceiveChoice& choice : answer.choices) {
    std::vector<P2p> modes;
    for (const P2p mode : answer.modes) {
      if (&choice != &answer.first() && fastest_on(mode, answer.choices) == &choice) {
        modes.push_back(mode);
      }
    }
    if (!modes.empty()) parts.push_back(advice_to_take(choice, modes, answer));
  }
  if (!others.empty()) {
    parts.push_back(
        fmt::format("on {} nothing is faster than {}", list_of(others), answer.first().name()));
  }
  std::string text = schedule_text(answer.schedule, {}) + ": ";
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i > 0 ? "; " : "") + parts[i];
  return text + "\n";
}

// "33.00 ms for any placement", or the differences.
std::string even_line(P2p mode, const ReceivesAnswer& answer) {
  std::string text =
      fmt::format("{:<10} {} for any placement", p2p_name(mode),
                  format_time(*fastest_on(mode, answer.choices)->on(mode)->makespan_ns));
  if (mode == P2p::async) text += ": a posted receive delays nothing";
  return text + "\n";
}

// A cycle of waits, and where it occurs.
struct Stuck {
  std::string cycle;
  std::string name;  // of its streams, without differences between transports
};

// The number of a cycle among those known, to which it is added.
std::size_t note_cycle(const std::string& cycle, bool whole, std::vector<Stuck>& stuck) {
  constexpr std::string_view transfers = "'s transfers";
  std::string name = cycle;
  for (std::size_t at; !whole && (at = name.find(transfers)) != std::string::npos;) {
    name.erase(at, transfers.size());
  }
  const auto known = std::ranges::find(stuck, name, &Stuck::name);
  if (known != stuck.end()) return static_cast<std::size_t>(known - stuck.begin()) + 1;
  stuck.push_back({cycle, std::move(name)});
  return stuck.size();
}

std::string receives_table(const ReceivesAnswer& answer, const std::vector<P2p>& modes, bool whole,
                           std::vector<Stuck>& stuck) {
  std::int64_t longest_ns = 0;
  for (const ReceiveChoice& choice : answer.choices) {
    for (const auto& [mode, outcome] : choice.outcomes) {
      longest_ns = std::max(longest_ns, outcome.makespan_ns.value_or(0));
    }
  }
  const TableUnit unit = table_unit(longest_ns);
  std::string out = fmt::format("makespan, {:<2}", unit.name);
  for (const P2p mode : modes) out += fmt::format("{:>11}{:>9}", p2p_name(mode), "");
  out += fmt::format("{:>8}\n", "buffers");
  for (const ReceiveChoice& choice : answer.choices) {
    out += fmt::format("{:<12}", choice.name());
    for (const P2p mode : modes) {
      const ReceiveOutcome* outcome = choice.on(mode);
      std::string time = "-";
      std::string beside;
      if (outcome != nullptr && outcome->makespan_ns) {
        time = unit.text(*outcome->makespan_ns);
        const std::int64_t gain_ns = answer.gain_ns(choice, mode).value_or(0);
        if (gain_ns != 0) beside = (gain_ns < 0 ? "+" : "") + unit.text(-gain_ns);
      } else if (outcome != nullptr) {
        time = "deadlocks";
        beside = fmt::format("({})", note_cycle(outcome->cycle, whole, stuck));
      }
      out += fmt::format("{:>11}{:>9}", time, beside);
    }
    out += fmt::format("{:>8}\n", choice.buffers);
  }
  return out;
}

// Whole, or its first wait.
std::string cycle_text(const std::string& cycle, bool whole) {
  constexpr std::string_view head = "deadlock: ";
  std::string text = cycle.starts_with(head) ? cycle.substr(head.size()) : cycle;
  const std::size_t end = text.find("; ");
  if (whole || end == std::string::npos) return text;
  const auto more = 1 + std::ranges::count(text.substr(end + 1), ';');
  return text.substr(0, end) + (more == 1 ? "; 1 more wait closes the cycle"
                                          : fmt::format("; {} more waits close the cycle", more));
}

// The given command, with the choice and an output file, in lines of at most that width.
std::string command_to_write(const ReceiveChoice& choice, const std::vector<std::string>& arguments,
                             int width) {
  std::vector<std::string> words{"pipesim"};
  for (const std::string& argument : arguments) {
    const bool is_value = !argument.starts_with("-") && words.back().starts_with("--");
    words.push_back(shell_word(argument));
    if (!is_value) continue;
    const std::string value = words.back();
    words.pop_back();
    words.back() += " " + value;
  }
  words.push_back(fmt::format("--receives {}", choice.name()));
  words.push_back(choice.where == Receives::edge ? "-o edge.program" : "-o program.csv");
  std::string text;
  std::string line = "  " + words.front();
  for (const std::string& word : std::span(words).subspan(1)) {
    if (line.size() + word.size() + 3 > static_cast<std::size_t>(width)) {
      text += line + " \\\n";
      line = "    " + word;
    } else {
      line += " " + word;
    }
  }
  return text + line + "\n";
}

std::string report_on_receives(const ReceivesAnswer& answer, const ReceivesVerbFlags& flags,
                               const std::vector<std::string>& arguments,
                               const Terminal& terminal) {
  std::string out = bold(wrap(verdict_on_receives(answer), terminal.width), terminal.colour);
  std::vector<P2p> uneven;
  std::string notes;
  for (const P2p mode : answer.modes) {
    if (answer.is_even(mode)) {
      notes += even_line(mode, answer);
    } else {
      uneven.push_back(mode);
    }
  }
  const bool is_one = asked_receives(flags.receives).has_value();
  std::vector<Stuck> stuck;
  if (!uneven.empty()) {
    out += "\n" + receives_table(answer, uneven, is_one, stuck);
    notes += "buffers    most inputs received but not used yet on a rank, by its list\n";
  }
  for (std::size_t i = 0; i < stuck.size(); ++i) {
    notes += fmt::format("({}) {}\n", i + 1, cycle_text(stuck[i].cycle, is_one));
  }
  out += "\n" + wrap(notes, terminal.width);
  std::string commands;
  for (const ReceiveChoice& choice : answer.choices) {
    const bool is_fastest = std::ranges::any_of(
        answer.modes, [&](P2p mode) { return fastest_on(mode, answer.choices) == &choice; });
    if (!is_one && is_fastest && &choice != &answer.first()) {
      commands += command_to_write(choice, arguments, terminal.width);
    }
  }
  if (!commands.empty()) out += "\nTo write the faster ones:\n" + commands;
  return out;
}

std::string json_of_receives(const ReceivesAnswer& answer, std::int64_t eager_limit_bytes) {
  Json choices = Json::array();
  for (const ReceiveChoice& choice : answer.choices) {
    Json transports = Json::object();
    for (const auto& [mode, outcome] : choice.outcomes) {
      const auto cycle = outcome.makespan_ns ? std::nullopt : std::optional(outcome.cycle);
      transports[std::string(p2p_name(mode))] = {{"makespan_ns", outcome.makespan_ns},
                                                 {"gain_ns", answer.gain_ns(choice, mode)},
                                                 {"cycle", cycle}};
    }
    choices.push_back({{"receives", choice.name()},
                       {"receive_buffers", choice.buffers},
                       {"transports", std::move(transports)}});
  }
  Json fastest = Json::object();
  for (const P2p mode : answer.modes) {
    const ReceiveChoice* own = fastest_on(mode, answer.choices);
    fastest[std::string(p2p_name(mode))] =
        own == nullptr ? std::nullopt : std::optional(own->name());
  }
  Json json{{"format", "pipesim-receives"}, {"version", 1}};
  describe(answer.schedule.schedule, json);
  json["eager_limit_bytes"] = eager_limit_bytes;
  json["choices"] = std::move(choices);
  json["fastest"] = std::move(fastest);
  return json.dump(2) + "\n";
}

void run_receives(ReceivesVerbFlags flags, const std::vector<std::string>& arguments) {
  ReceiveQuestion question;
  question.only = asked_receives(flags.receives);
  question.buffers = asked_buffers(flags.receives, question.only);
  if (flags.output && !question.only) {
    throw input_error("--output: say which of them to write; give --receives");
  }
  check_outputs(
      {{"schedule", names_a_file(*flags.schedule.schedule) ? flags.schedule.schedule : Flag()},
       {"--costs", flags.costs.costs},
       {"--model", file_of(flags.costs.model.model)},
       {"--cluster", file_of(flags.costs.model.cluster)},
       {"--output", flags.output, true}});
  CostRequest request = cost_request(flags.costs);
  settle_schedule(flags.costs.model.global_batch, request, flags.schedule);
  const CostSource source(request);
  BytesNeeded needed = source.bytes_needed(true);
  needed += needed_to_place;
  ReceivesAnswer answer;
  answer.schedule = choose_schedule(flags.schedule, needed);
  const Schedule& schedule = answer.schedule.schedule;
  const Costs costs = source.resolve(source.complete(schedule));
  if (request.p2p) {
    answer.modes = {*request.p2p};
  } else {
    answer.modes.assign(all_modes.begin(), all_modes.end());
  }
  question.modes = answer.modes;
  question.eager_limit_bytes = request.eager_limit_bytes;
  question.complete = [&](Schedule program) { return source.complete(std::move(program)); };
  std::optional<Progress> progress(std::in_place);
  question.progress = [&](const std::string& what) { progress->show(what); };
  answer.choices = try_receives(schedule, costs, question);
  progress.reset();
  if (flags.output) {
    write_file(*flags.output,
               file_text_of(with_receives(schedule, *question.only, costs, question)));
  }
  print(flags.json ? json_of_receives(answer, request.eager_limit_bytes)
                   : report_on_receives(answer, flags, arguments, standard_output()));
}

}  // namespace

std::string file_text_of(const Schedule& program) {
  return program.lane == TransferLane::edge ? to_program_text(program, program.lane)
                                            : to_csv(program);
}

const char* const receives_help =
    "Where each RECV goes in its rank's list, --receives:\n"
    "  sender        at its sender's turn, as in PyTorch; no transport deadlocks\n"
    "  just-in-time  right before the action that needs it\n"
    "  early         as early as its SEND can come: right after the last SEND of its\n"
    "                rank that it needs\n"
    "  batched       just in time; adjacent SENDs and RECVs form one BATCH_P2P\n"
    "  timed         when its message is sent, by costs; no transport deadlocks\n"
    "  edge          on the stream of its directed pair of ranks";

void add_receive_flags(CommandLine& command, ReceiveFlags& flags, const std::string& meaning) {
  command.add_flags("", {{"--receives", &flags.where, "WHERE", meaning, receives_names},
                         {"--receive-buffers", &flags.buffers, "N",
                          "inputs early may receive ahead; default any number"}});
}

std::optional<Receives> asked_receives(const ReceiveFlags& flags) {
  return flags.where ? std::optional(parse_receives(*flags.where)) : std::nullopt;
}

std::optional<int> asked_buffers(const ReceiveFlags& flags, std::optional<Receives> where) {
  if (!flags.buffers) return std::nullopt;
  if (where.value_or(Receives::early) != Receives::early) {
    throw input_error(fmt::format("--receive-buffers: only --receives early has them, not {}",
                                  receives_name(*where)));
  }
  return parse_count(*flags.buffers, "--receive-buffers");
}

void add_schedule_receives(CommandLine& schedule) {
  auto flags = std::make_shared<ReceivesVerbFlags>();
  CommandLine& command =
      schedule.add_command("receives", "compares placements of receives, and deadlocks");
  command.add_flags("", {FlagHelp("schedule", &flags->schedule.schedule, "NAME|FILE",
                                  "a schedule's name, or its CSV or program", schedule_names)
                             .required()});
  add_receive_flags(command, flags->receives, "only this one, with its deadlocks in full");
  command.add_flags(
      "", {{"-o,--output", &flags->output, "FILE", "writes the program that --receives asks for"},
           {"--json", &flags->json, "prints one JSON object"}});
  add_schedule_flags(command, flags->schedule, false);
  add_cost_flags(command, flags->costs);
  command.set_footer(
      std::string(receives_help) +
      "\n\n--p2p asks for one transport alone; `pipesim predict --help` says what each "
      "is.\n\nExamples:\n"
      "  pipesim schedule receives 1f1b --stages 4 --microbatches 8\n"
      "      --p2p-latency 100us\n"
      "  pipesim schedule receives my_program.csv --p2p fifo --receives batched");
  command.set_work([&command, flags] { run_receives(*flags, command.arguments()); });
}

}  // namespace pipesim::cli
