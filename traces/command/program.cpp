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

void run(CLI::App& app, int argc, char** argv, const Work& chosen, bool speaks) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (speaks) print(app.help());
  } catch (const CLI::CallForVersion& version) {
    if (speaks) print(fmt::format("{}\n", version.what()));
  } catch (const CLI::ExtrasError&) {
    throw input_error(unexpected(innermost(app), app.remaining(true)));
  } catch (const CLI::ParseError& error) {
    throw input_error(fmt::format("{}; see `{} --help`", error.what(), name_of(innermost(app))));
  }
  if (chosen) chosen();
  finish_printing();
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, const Work& chosen,
                const std::function<void(const Error&)>& elsewhere) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of write()
  const auto fail = [&](const Error& error) {
    if (elsewhere) {
      elsewhere(error);
      return 0;
    }
    fmt::print(stderr, "{}: {}\n", app.get_name(), printable(error.what()));
    return error.exit_status();
  };
  try {
    run(app, argc, argv, chosen, !elsewhere);
    return 0;
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::bad_alloc&) {
    return fail(input_error("out of memory; use fewer stages or microbatches"));
  }
}

}  // namespace pipesim
