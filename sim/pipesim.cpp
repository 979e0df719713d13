// pipesim: predicts what a pipeline schedule does with time and memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <new>

#include "sim/cli/commands.h"
#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace {

// The innermost subcommand that was given.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string name_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return "pipesim";
  return name_of(*app.get_parent()) + " " + app.get_name();
}

// What was not expected on the command line, with the nearest names known.
std::string unexpected(const CLI::App& command, const std::vector<std::string>& extras) {
  const std::string extra = extras.empty() ? "" : extras.front();
  std::vector<std::string> known;
  if (extra.starts_with('-')) {
    const std::string name = extra.substr(0, extra.find('='));
    for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
    known = pipesim::nearest_first(name, known);
    constexpr std::size_t most = 5;
    if (known.size() > most) known.resize(most);
    return pipesim::unknown_name("flag", name, known) +
           fmt::format("; `{} --help` lists all", name_of(command));
  }
  for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  if (known.empty()) return fmt::format("{} was not expected", pipesim::quote(extra));
  return pipesim::unknown_name("subcommand", extra, known);
}

int fail(const std::string& message, int status) {
  fmt::print(stderr, "pipesim: {}\n", pipesim::printable(message));
  return status;
}

int run(CLI::App& app, int argc, char** argv, pipesim::cli::Work& chosen) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    pipesim::print(app.help());
  } catch (const CLI::CallForVersion&) {
    pipesim::print("pipesim " PIPESIM_VERSION "\n");
  } catch (const CLI::ExtrasError&) {
    return fail(unexpected(innermost(app), app.remaining(true)), 2);
  } catch (const CLI::ParseError& error) {
    return fail(fmt::format("{}; see `{} --help`", error.what(), name_of(innermost(app))), 2);
  }
  if (chosen) chosen();
  pipesim::finish_printing();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write()
  CLI::App app(
      "pipesim predicts how long a pipeline-parallel training iteration takes,\n"
      "how much of it is bubble, and how much memory activations need.",
      "pipesim");
  app.set_version_flag("--version", "pipesim " PIPESIM_VERSION);
  app.require_subcommand(0, 1);
  pipesim::cli::Work chosen;
  pipesim::cli::add_predict(app, chosen);
  pipesim::cli::add_schedules(app, chosen);
  pipesim::cli::add_schedule(app, chosen);
  app.footer(
      "How results travel, --p2p:\n"
      "  async      from the moment they exist, holding no device\n"
      "  blocking   SEND and RECV meet and hold both devices\n"
      "  fifo       the same on one in-order communication stream a rank, as with one\n"
      "             NCCL communicator\n"
      "  edge-fifo  the same on one stream a directed pair of ranks\n"
      "\n"
      "Examples:\n"
      "  pipesim --schedule 1f1b --stages 4 --microbatches 8\n"
      "  pipesim --schedule interleaved --stages 8 --microbatches 32 --forward 12ms\n"
      "      --backward 24ms --p2p-latency 300us --trace timeline.json\n"
      "  pipesim --schedule my_order.csv --costs costs.json --memory-cap 80GiB --json\n"
      "  pipesim schedules --compare --stages 4 --microbatches 8,16");
  try {
    return run(app, argc, argv, chosen);
  } catch (const pipesim::Error& error) {
    return fail(error.what(), error.exit_status());
  } catch (const std::bad_alloc&) {
    return fail("out of memory; use fewer stages or microbatches", 2);
  }
}
