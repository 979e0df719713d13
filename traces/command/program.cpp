#include "traces/command/program.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim {
namespace {

// The innermost subcommand that was given.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string name_of(const CLI::App& app) {
  if (app.get_parent() == nullptr) return app.get_name();
  return name_of(*app.get_parent()) + " " + app.get_name();
}

// What was not expected on the command line, with the nearest names known.
std::string unexpected(const CLI::App& command, const std::vector<std::string>& extras) {
  const std::string extra = extras.empty() ? "" : extras.front();
  std::vector<std::string> known;
  if (extra.starts_with('-')) {
    const std::string name = extra.substr(0, extra.find('='));
    for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
    known = nearest_first(name, known);
    constexpr std::size_t most = 5;
    if (known.size() > most) known.resize(most);
    return unknown_name("flag", name, known) +
           fmt::format("; `{} --help` lists all", name_of(command));
  }
  for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  if (known.empty()) return fmt::format("{} was not expected", quote(extra));
  return unknown_name("subcommand", extra, known);
}

int fail(const CLI::App& app, const std::string& message, int status, bool speaks) {
  if (!speaks) return 0;
  fmt::print(stderr, "{}: {}\n", app.get_name(), printable(message));
  return status;
}

int run(CLI::App& app, int argc, char** argv, const Work& chosen, bool speaks) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (speaks) print(app.help());
  } catch (const CLI::CallForVersion& version) {
    if (speaks) print(fmt::format("{}\n", version.what()));
  } catch (const CLI::ExtrasError&) {
    return fail(app, unexpected(innermost(app), app.remaining(true)), 2, speaks);
  } catch (const CLI::ParseError& error) {
    return fail(app, fmt::format("{}; see `{} --help`", error.what(), name_of(innermost(app))), 2,
                speaks);
  }
  if (chosen) chosen();
  finish_printing();
  return 0;
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, const Work& chosen, bool speaks) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write()
  try {
    return run(app, argc, argv, chosen, speaks);
  } catch (const Error& error) {
    return fail(app, error.what(), error.exit_status(), speaks);
  } catch (const std::bad_alloc&) {
    return fail(app, "out of memory; use fewer stages or microbatches", 2, speaks);
  }
}

}  // namespace pipesim
