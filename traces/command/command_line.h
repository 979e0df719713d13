// A program's command line: its commands, their flags, and the work they do.
//
// CLI11 parses, and only command_line.cpp includes it: its headers take seconds to
// compile. Flags come as text or as switches; the code that uses a text
// interprets it. CommandLine owns its subcommands; the variables that flags are stored in
// belong to the caller and must outlive run(). For one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "traces/base/error.h"
#include "traces/command/description.h"
#include "traces/command/foreign_flags.h"

namespace CLI {
class App;
}

namespace pipesim {

// A flag's text, absent if the flag was not given.
using Flag = std::optional<std::string>;

// A flag's name, meaning and variable. A name without dashes is a positional
// argument's. Completions offer `names`, which are asked for only when they are made.
struct FlagHelp {
  using Names = std::vector<std::string> (*)();

  FlagHelp(std::string called, Flag* text, std::string kind, std::string meaning,
           Names names = nullptr)
      : name(std::move(called)),
        value(text),
        type(std::move(kind)),
        help(std::move(meaning)),
        known(names) {}
  FlagHelp(std::string called, std::vector<std::string>* texts, std::string kind,
           std::string meaning, Names names = nullptr)
      : name(std::move(called)),
        value(texts),
        type(std::move(kind)),
        help(std::move(meaning)),
        known(names) {}
  // A switch.
  FlagHelp(std::string called, bool* given, std::string meaning)
      : name(std::move(called)), value(given), help(std::move(meaning)) {}

  FlagHelp required() && {
    is_required = true;
    return std::move(*this);
  }
  // A flag with an optional text: without one it means `text`.
  FlagHelp or_alone(std::string text) && {
    alone = std::move(text);
    return std::move(*this);
  }
  bool is_given() const;

  std::string name;
  std::variant<Flag*, std::vector<std::string>*, bool*> value;
  std::string type;  // of the text, as help shows it
  std::string help;
  bool is_required = false;
  std::string alone;  // empty: needs a text
  Names known = nullptr;
};

// The name of the first that was given; empty if none was.
std::string first_given(std::span<const FlagHelp> flags);

class CommandLine {
 public:
  // A program.
  CommandLine(const std::string& name, const std::string& about, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CommandLine& add_command(const std::string& name, const std::string& about);
  // The same, but `set_up` adds the command's flags only if the command line names it:
  // making hundreds of unused flags would take longer than a short prediction.
  void add_command(const std::string& name, const std::string& about,
                   std::function<void(CommandLine&)> set_up);
  // Shown in help below the heading `group`, or with those without one.
  void add_flags(const std::string& group, std::span<const FlagHelp> flags);
  void add_flags(const std::string& group, std::initializer_list<FlagHelp> flags) {
    add_flags(group, std::span(flags.begin(), flags.size()));
  }
  // Heads help with these of the flags that have been added, in the order in which they were added.
  // The first flag of all must be among them: a heading stands where its first flag does.
  void show_first(const std::vector<std::string>& flags);
  // Shown below the flags in help.
  void set_footer(const std::string& text);
  // A program's help, instead of a list of flags and commands, and what it says without arguments.
  void set_overview(std::string text) { overview_ = std::move(text); }
  // A program's command line that begins with a flag is that of the command, of these, that has
  // most of its flags; of the first at a tie.
  void set_unnamed(std::vector<std::string> commands) { unnamed_ = std::move(commands); }
  // For a program and all its commands.
  void set_foreign_flags(ForeignFlags flags) { foreign_ = std::move(flags); }
  // Runs if the command line ends with this command. A command without
  // work needs one of its subcommands.
  void set_work(std::function<void()> work) { work_ = std::move(work); }

  // The first flag given to this command itself, other than `except`; empty
  // if there is none. For its work to call.
  std::string first_given(const std::vector<std::string>& except = {}) const;

  // All arguments of the program, as given. For its work to call.
  const std::vector<std::string>& arguments() const {
    return parent_ != nullptr ? parent_->arguments() : arguments_;
  }

  // Called once for a program, by main: parses, works, and returns the exit status.
  // Errors go to standard error as one sentence after the program's name; unknown
  // flags and subcommands with the nearest names known. A program of several
  // processes prints on one of them: the others print nothing, pass their errors to
  // `elsewhere` and end with status 0, so a launcher waits for the one that
  // reports.
  //
  // `--write-manual FOLDER`, which no help shows, is for the build of the program: it writes
  // its manual page, its completions and Python functions (manual.h, completion.h,
  // python_functions.h) into the folder.
  int run(int argc, char** argv, const std::function<void(const Error&)>& elsewhere = {});

 private:
  CommandLine(CLI::App& app, const CommandLine& parent);

  std::string full_name() const;
  CommandLine& chosen();
  // The arguments with our own flag names.
  std::vector<std::string> translated() const;
  // Those of a command line that names no command, with the one that it means.
  void name_command(std::vector<std::string>& words);
  CommandLine& command(const std::string& name);
  // The command, this or one below it, that has a flag; empty if none does.
  std::string command_with(const std::string& flag);
  std::string unexpected_words();
  void require_subcommands();
  void set_up();
  CommandDescription describe();
  void write_manual(const std::string& folder);
  void parse_and_work(int argc, char** argv, bool speaks);

  std::unique_ptr<CLI::App> program_;  // for a program itself
  CLI::App& app_;
  const CommandLine* parent_ = nullptr;
  std::vector<std::unique_ptr<CommandLine>> commands_;
  std::function<void(CommandLine&)> set_up_;  // empty once done
  std::function<void()> work_;
  std::map<std::string, FlagHelp::Names> known_names_;  // of flags, by name
  // For a program itself:
  std::string version_;
  std::vector<std::string> arguments_;
  std::string overview_;
  std::vector<std::string> unnamed_;
  ForeignFlags foreign_;
};

}  // namespace pipesim
