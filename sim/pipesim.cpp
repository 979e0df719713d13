// pipesim: predicts what a pipeline schedule does with time and memory.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "sim/cli/commands.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace {

// The innermost subcommand that was given.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

// What was not expected on the command line, with the nearest names known.
std::string unexpected(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  const std::vector<std::string> extras = app.remaining(true);
  const std::string extra = extras.empty() ? "" : extras.front();
  std::vector<std::string> known;
  if (extra.starts_with('-')) {
    for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
    return pipesim::unknown_name("flag", extra.substr(0, extra.find('=')), known);
  }
  for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  if (known.empty()) return fmt::format("{} was not expected", pipesim::quote(extra));
  return pipesim::unknown_name("subcommand", extra, known);
}

int fail(const std::string& message, int status) {
  fmt::print(stderr, "pipesim: {}\n", message);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "pipesim predicts how long a pipeline-parallel training iteration takes, how much of it is\n"
      "bubble, and how much memory activations need.",
      "pipesim");
  app.set_version_flag("--version", "pipesim " PIPESIM_VERSION);
  app.require_subcommand(0, 1);
  pipesim::cli::add_predict(app);
  pipesim::cli::add_schedules(app);
  pipesim::cli::add_schedule(app);
  app.footer(
      "Examples:\n"
      "  pipesim --schedule 1f1b --stages 4 --microbatches 8\n"
      "  pipesim --schedule interleaved --stages 8 --microbatches 32 --forward 12ms\n"
      "      --backward 24ms --p2p-latency 300us --trace timeline.json\n"
      "  pipesim --schedule my_order.csv --costs costs.json --memory-cap 80GiB --json\n"
      "  pipesim schedules --compare --stages 4 --microbatches 8,16");
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) return fail("cannot write to standard output", 1);
    return 0;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", innermost(app).help());
    return 0;
  } catch (const CLI::CallForVersion&) {
    fmt::print("pipesim {}\n", PIPESIM_VERSION);
    return 0;
  } catch (const CLI::ExtrasError&) {
    return fail(unexpected(app), 2);
  } catch (const CLI::ParseError& error) {
    return fail(error.what(), 2);
  } catch (const pipesim::Error& error) {
    return fail(error.what(), error.exit_status());
  } catch (const std::bad_alloc&) {
    return fail("out of memory; use fewer stages or microbatches", 1);
  }
}
