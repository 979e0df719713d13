#include "traces/command/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/command/completion.h"
#include "traces/command/manual.h"
#include "traces/command/python_functions.h"
#include "traces/print/terminal.h"

namespace pipesim {
namespace {

// The unexpected words of the command line, with the nearest known names.
std::string unexpected(const CLI::App& command, const std::string& name,
                       const std::vector<std::string>& extras) {
  const std::string extra = extras.empty() ? "" : extras.front();
  std::vector<std::string> known;
  if (extra.starts_with('-')) {
    const std::string flag = extra.substr(0, extra.find('='));
    for (const CLI::Option* option : command.get_options()) known.push_back(option->get_name());
    known = nearest_first(flag, known);
    constexpr std::size_t most = 5;
    if (known.size() > most) known.resize(most);
    return unknown_name("flag", flag, known) + fmt::format("; `{} --help` lists all", name);
  }
  for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  if (known.empty()) return fmt::format("{} was not expected", quote(extra));
  return unknown_name("subcommand", extra, known);
}

std::string comes_before(const std::string& flag, const std::string& command) {
  return fmt::format("{} comes before {}; write a command's flags after it", flag, command);
}

// If standard input, output or error is closed, occupies its descriptor, so that no opened file
// gets it and using it still fails.
void occupy_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

bool FlagHelp::is_given() const {
  return std::visit(
      [](const auto* given) {
        if constexpr (std::is_same_v<decltype(given), const bool*>) {
          return *given;
        } else if constexpr (std::is_same_v<decltype(given), const Flag*>) {
          return given->has_value();
        } else {
          return !given->empty();
        }
      },
      value);
}

std::string first_given(std::span<const FlagHelp> flags) {
  const auto found = std::ranges::find_if(flags, &FlagHelp::is_given);
  return found == flags.end() ? "" : found->name;
}

CommandLine::CommandLine(const std::string& name, const std::string& about,
                         const std::string& version)
    : program_(std::make_unique<CLI::App>(about, name)), app_(*program_), version_(version) {
  app_.set_version_flag("--version", name + " " + version);
}

CommandLine::CommandLine(CLI::App& app, const CommandLine& parent) : app_(app), parent_(&parent) {}

CommandLine::~CommandLine() = default;

CommandLine& CommandLine::add_command(const std::string& name, const std::string& about) {
  CLI::App& app = *app_.add_subcommand(name, about);
  return *commands_.emplace_back(new CommandLine(app, *this));
}

void CommandLine::add_command(const std::string& name, const std::string& about,
                              std::function<void(CommandLine&)> set_up) {
  CommandLine& command = add_command(name, about);
  command.set_up_ = std::move(set_up);
  command.app_.preparse_callback([&command](std::size_t) {
    command.set_up();
    command.require_subcommands();
  });
}

void CommandLine::set_up() {
  if (set_up_) std::exchange(set_up_, {})(*this);
}

void CommandLine::add_flags(const std::string& group, std::span<const FlagHelp> flags) {
  for (const FlagHelp& flag : flags) {
    CLI::Option* option = std::visit(
        [&](auto* value) {
          if constexpr (std::is_same_v<decltype(value), bool*>) {
            return app_.add_flag(flag.name, *value, flag.help)->disable_flag_override();
          } else if constexpr (std::is_same_v<decltype(value), Flag*>) {
            const auto store = [value, alone = flag.alone](const std::string& text) {
              *value = text.empty() ? alone : text;
            };
            if (flag.alone.empty()) {
              return app_.add_option(flag.name, *value, flag.help)->type_name(flag.type);
            }
            return app_.add_option_function<std::string>(flag.name, store, flag.help)
                ->type_name(flag.type)
                ->expected(0, 1);
          } else {
            return app_.add_option(flag.name, *value, flag.help)->type_name(flag.type);
          }
        },
        flag.value);
    // A flag that may be given several times takes one text each time.
    if (flag.name.starts_with('-')) option->allow_extra_args(false);
    if (!group.empty()) option->group(group);
    if (flag.is_required) option->required();
    if (flag.known != nullptr) known_names_[option->get_name()] = flag.known;
  }
}

void CommandLine::show_first(const std::vector<std::string>& flags) {
  for (const std::string& name : flags) app_.get_option(name)->group("Most used");
}

void CommandLine::set_footer(const std::string& text) { app_.footer(text); }

std::string CommandLine::first_given(const std::vector<std::string>& except) const {
  for (const CLI::Option* option : app_.get_options()) {
    if (option->count() > 0 && std::ranges::find(except, option->get_name()) == except.end()) {
      return option->get_name();
    }
  }
  return {};
}

std::string CommandLine::full_name() const {
  return (parent_ == nullptr ? "" : parent_->full_name() + " ") + app_.get_name();
}

CommandDescription CommandLine::describe() {
  set_up();
  CommandDescription description{full_name(),
                                 app_.get_description(),
                                 app_.get_footer(),
                                 commands_.empty() || work_,
                                 {},
                                 {},
                                 {},
                                 {}};
  for (const CLI::Option* option : app_.get_options()) {
    FlagDescription flag;
    const bool is_argument = option->get_positional();
    if (is_argument) flag.names.push_back(option->get_name(true));
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    if (option->get_type_size() > 0) flag.type = option->get_type_name();
    flag.help = option->get_description();
    if (option->get_group() != "Options") flag.group = option->get_group();
    flag.is_required = option->get_required();
    flag.may_repeat = option->get_expected_max() > 1;
    flag.may_be_alone = !flag.type.empty() && option->get_expected_min() == 0;
    flag.values = values_in(flag.type);
    flag.paths = paths_of(flag.type);
    if (const auto known = known_names_.find(option->get_name()); known != known_names_.end()) {
      const std::vector<std::string> names = known->second();
      flag.values.insert(flag.values.end(), names.begin(), names.end());
    }
    (is_argument ? description.arguments : description.flags).push_back(std::move(flag));
  }
  for (const auto& command : commands_) description.commands.push_back(command->describe());
  for (const std::string& name : unnamed_) {
    for (FlagDescription& flag : command(name).describe().flags) {
      const auto same = [&](const FlagDescription& other) { return other.names == flag.names; };
      if (std::ranges::any_of(description.flags, same)) continue;
      const auto known = std::ranges::find_if(description.flags_of_commands, same);
      if (known == description.flags_of_commands.end()) {
        description.flags_of_commands.push_back(std::move(flag));
        continue;
      }
      for (std::string& value : flag.values) {
        if (std::ranges::find(known->values, value) == known->values.end()) {
          known->values.push_back(std::move(value));
        }
      }
    }
  }
  return description;
}

void CommandLine::write_manual(const std::string& folder) {
  const std::string& name = app_.get_name();
  const CommandDescription program = describe();
  std::error_code failed;  // then writing fails, too
  std::filesystem::create_directories(folder, failed);
  OutputFile page(folder + "/" + name + ".1.gz", true);
  page.write(manual_page(program, version_));
  page.commit();
  write_file(folder + "/" + name + ".bash", bash_completion(program));
  write_file(folder + "/_" + name, zsh_completion(program));
  const std::string functions = python_functions(program);
  if (!functions.empty()) write_file(folder + "/" + name + ".py", functions);
}

// The innermost command that was given.
CommandLine& CommandLine::chosen() {
  const auto given =
      std::ranges::find_if(commands_, [](const auto& command) { return command->app_.parsed(); });
  return given == commands_.end() ? *this : (*given)->chosen();
}

void CommandLine::require_subcommands() {
  if (!commands_.empty()) app_.require_subcommand(work_ ? 0 : 1, 1);
  for (const auto& command : commands_) command->require_subcommands();
}

std::vector<std::string> CommandLine::translated() const {
  std::vector<std::string> words = arguments_;
  for (std::string& word : words) {
    const std::string flag = word.substr(0, word.find('='));
    const auto found = std::ranges::find(foreign_.names, flag, &ForeignFlags::Name::foreign);
    if (found != foreign_.names.end()) word.replace(0, flag.size(), found->own);
  }
  return words;
}

CommandLine& CommandLine::command(const std::string& name) {
  return **std::ranges::find_if(
      commands_, [&](const auto& command) { return command->app_.get_name() == name; });
}

void CommandLine::name_command(std::vector<std::string>& words) {
  if (unnamed_.empty() || words.empty() || !words.front().starts_with('-') ||
      app_.get_option_no_throw(words.front()) != nullptr) {
    return;
  }
  const auto flags_of = [&](const std::string& name) {
    CommandLine& meant = command(name);
    meant.set_up();
    return std::ranges::count_if(words, [&](const std::string& word) {
      const std::string flag = word.substr(0, word.find('='));
      return word.starts_with("--") && meant.app_.get_option_no_throw(flag) != nullptr;
    });
  };
  words.insert(words.begin(), *std::ranges::max_element(unnamed_, {}, flags_of));
}

std::string CommandLine::command_with(const std::string& flag) {
  set_up();
  if (app_.get_option_no_throw(flag) != nullptr) return full_name();
  for (const auto& command : commands_) {
    if (std::string name = command->command_with(flag); !name.empty()) return name;
  }
  return {};
}

// Why the remaining arguments were not expected.
std::string CommandLine::unexpected_words() {
  const std::vector<std::string> extras = app_.remaining(true);
  const std::string flag = extras.empty() ? "" : extras.front().substr(0, extras.front().find('='));
  const auto found = std::ranges::find(foreign_.missing, flag, &ForeignFlags::Missing::foreign);
  if (found != foreign_.missing.end()) {
    return fmt::format("{}: there is no {} here; omit the flag", flag, found->what);
  }
  const auto is_extra = [&](const auto& command) { return command->app_.get_name() == flag; };
  if (arguments_.front().starts_with('-') && std::ranges::any_of(commands_, is_extra)) {
    return comes_before(arguments_.front(), flag);
  }
  CommandLine& own = chosen();
  const std::string reason = unexpected(own.app_, own.full_name(), extras);
  if (!flag.starts_with("--")) return reason;
  std::string other = own.command_with(flag);
  if (other.empty()) other = command_with(flag);
  if (other.empty()) return reason;
  const std::size_t known = reason.find("; ");
  return fmt::format("{} is a flag of `{}`, not of `{}`{}", flag, other, own.full_name(),
                     known == reason.npos ? "" : reason.substr(known));
}

void CommandLine::parse_and_work(int argc, char** argv, bool speaks) {
  if (argc == 3 && std::string_view(argv[1]) == "--write-manual") return write_manual(argv[2]);
  require_subcommands();
  arguments_.assign(argv + std::min(argc, 1), argv + argc);
  std::vector<std::string> words = translated();
  name_command(words);
  std::ranges::reverse(words);  // the order that CLI11 expects
  try {
    app_.parse(words);
  } catch (const CLI::CallForHelp&) {
    const bool gives_overview = !overview_.empty() && &chosen() == this;
    if (speaks) print(gives_overview ? overview_ : app_.help());
    return finish_printing();
  } catch (const CLI::CallForVersion& version) {
    if (speaks) print(fmt::format("{}\n", version.what()));
    return finish_printing();
  } catch (const CLI::ExtrasError&) {
    throw input_error(unexpected_words());
  } catch (const CLI::ParseError& error) {
    // A missing subcommand may be misspelt.
    const bool lacks_command = !chosen().commands_.empty() && !chosen().work_;
    if (lacks_command && !app_.remaining(true).empty()) throw input_error(unexpected_words());
    throw input_error(fmt::format("{}; see `{} --help`", error.what(), chosen().full_name()));
  }
  const CommandLine& command = chosen();
  for (const CommandLine* above = command.parent_; above != nullptr; above = above->parent_) {
    if (const std::string stray = above->first_given(); !stray.empty()) {
      throw input_error(comes_before(stray, command.app_.get_name()));
    }
  }
  command.work_();
  finish_printing();
}

int CommandLine::run(int argc, char** argv, const std::function<void(const Error&)>& elsewhere) {
  // A file size limit and a reader that has gone are errors of write().
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  occupy_standard_descriptors();
  const auto fail = [&](const Error& error) {
    if (elsewhere) {
      elsewhere(error);
      return 0;
    }
    complain(fmt::format("{}: {}\n", app_.get_name(), printable(error.what())));
    return error.exit_status();
  };
  if (argc <= 1 && !overview_.empty()) {
    complain(overview_);
    return input_error("").exit_status();
  }
  try {
    parse_and_work(argc, argv, !elsewhere);
    return 0;
  } catch (const Error& error) {
    return fail(error);  // of its own type, which `elsewhere` may ask for
  } catch (const std::exception& thrown) {
    return fail(as_error(thrown));
  }
}

}  // namespace pipesim
