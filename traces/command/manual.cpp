#include "traces/command/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "traces/base/text.h"

namespace pipesim {
namespace {

// A command on a page of 80 columns, seven of which are its margin.
constexpr std::size_t command_width = 71;

// Literal text: characters with a meaning in roff, or set as typographic signs, are escaped. Text
// between backquotes is bold.
std::string roff(std::string_view text) {
  std::string set;
  bool bold = false;
  for (const char c : text) {
    switch (c) {
      case '\\': set += "\\e"; break;
      case '-': set += "\\-"; break;
      case '\'': set += "\\(aq"; break;
      case '^': set += "\\(ha"; break;
      case '~': set += "\\(ti"; break;
      case '.': set += set.empty() || set.back() == '\n' ? "\\&." : "."; break;
      case '`':
        bold = !bold;
        set += bold ? "\\fB" : "\\fR";
        break;
      default: set += c;
    }
  }
  return set;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

// Literal words in bold, placeholders in italics.
std::string type_text(const std::string& type) {
  const std::vector<std::string> values = values_in(type);
  std::string text;
  for (const std::string_view part : split(type, '|')) {
    const bool is_value = std::ranges::find(values, part) != values.end();
    text += (text.empty() ? "" : "|") + (is_value ? bold(part) : italic(part));
  }
  return text;
}

// A paragraph that begins a section needs no break before it.
std::string section(std::string_view name, std::string_view text) {
  constexpr std::string_view paragraph = ".PP\n";
  if (text.starts_with(paragraph)) text.remove_prefix(paragraph.size());
  return fmt::format(".SH {}\n{}", name, text);
}
std::string subheading(std::string_view name) { return fmt::format(".SS \"{}\"\n", roff(name)); }

std::string usage(const CommandDescription& command) {
  std::string text = fmt::format("{} [\\fIoptions\\fR]", bold(command.name));
  for (const FlagDescription& argument : command.arguments) {
    const std::string dots = argument.may_repeat ? "..." : "";
    const std::string name = italic(argument.names.front()) + dots;
    text += argument.is_required ? " " + name : fmt::format(" [{}]", name);
  }
  return text;
}

std::string entry(const FlagDescription& flag) {
  std::string term;
  for (const std::string& name : flag.names) term += (term.empty() ? "" : ", ") + bold(name);
  if (!flag.type.empty()) term += " " + type_text(flag.type);
  if (flag.may_repeat) term += " ...";
  return fmt::format(".TP\n{}\n{}{}\n", term, roff(flag.help),
                     flag.is_required ? "; required" : "");
}

// Flags by their headings, in order.
struct Group {
  std::string name;
  std::vector<FlagDescription> flags;
};

std::vector<Group> groups_of(const CommandDescription& command) {
  std::vector<Group> groups;
  for (const FlagDescription& flag : command.flags) {
    auto group = std::ranges::find(groups, flag.group, &Group::name);
    if (group == groups.end()) group = groups.insert(group, {flag.group, {}});
    group->flags.push_back(flag);
  }
  return groups;
}

// A command's words, with flags and their values together.
std::vector<std::string> parts_of(std::string_view command) {
  std::vector<std::string> parts;
  bool quoted = false;
  bool in_word = false;
  bool after_flag = false;
  for (const char c : command) {
    if (c == '\'' || c == '"') quoted = !quoted;
    if (c == ' ' && !quoted) {
      in_word = false;
    } else if (in_word) {
      parts.back() += c;
    } else if (c != '\\') {
      const bool is_flag = c == '-';
      if (after_flag && !is_flag) {
        parts.back() += std::string(" ") + c;
      } else {
        parts.emplace_back(1, c);
      }
      after_flag = is_flag;
      in_word = true;
    }
  }
  return parts;
}

// A command on lines that a shell reads as one.
std::string broken(std::string_view command) {
  std::string text;
  std::size_t column = 0;
  for (const std::string& part : parts_of(command)) {
    if (column > 0 && column + 1 + part.size() > command_width) {
      text += " \\e\n    ";
      column = 4;
    } else if (column > 0) {
      text += ' ';
      ++column;
    }
    text += roff(part);
    column += part.size();
  }
  return text;
}

// A footer in parts.
struct Footer {
  std::string notes;
  std::string examples;
};

Footer read_footer(const std::string& footer) {
  Footer result;
  bool in_examples = false;
  bool in_text = false;  // continues on the next line
  std::string command;   // not yet written
  const auto write_command = [&] {
    if (command.empty()) return;
    result.examples += fmt::format(".PP\n.EX\n{}\n.EE\n", broken(command));
    command.clear();
  };
  for (const std::string_view line : split(footer, '\n')) {
    std::string& out = in_examples ? result.examples : result.notes;
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view text = line.substr(indent);
    if (indent <= 2) write_command();
    if (text.empty()) {
      in_text = false;
    } else if (indent == 0 && text.starts_with("Example") && text.ends_with(':')) {
      in_examples = true;
      if (text.find(',') != std::string_view::npos) result.examples += ".PP\n" + roff(text) + "\n";
    } else if (indent == 0) {
      out += (in_text ? "" : ".PP\n") + roff(text) + "\n";
      in_text = true;
    } else if (in_examples && indent == 2) {
      command = text;
    } else if (in_examples) {
      command += fmt::format(" {}", text);
    } else if (indent == 2) {
      const std::size_t end = std::min(text.find(' '), text.size());
      const std::size_t next = std::min(text.find_first_not_of(' ', end), text.size());
      out += fmt::format(".TP\n{}\n{}\n", bold(text.substr(0, end)), roff(text.substr(next)));
      in_text = false;
    } else {
      out += roff(text) + "\n";
    }
  }
  write_command();
  return result;
}

// Whether a command has all of these flags, too, with the same meaning.
bool has_all(const CommandDescription& command, const std::vector<FlagDescription>& flags) {
  return std::ranges::all_of(flags, [&](const FlagDescription& flag) {
    return std::ranges::any_of(command.flags, [&](const FlagDescription& known) {
      return known.names == flag.names && known.type == flag.type && known.help == flag.help;
    });
  });
}

std::string names_of(const std::vector<FlagDescription>& flags) {
  std::string names;
  for (const FlagDescription& flag : flags) {
    names += (names.empty() ? "" : ", ") + bold(flag.names.back());
  }
  return names;
}

// A subcommand, and its own subcommands. A group of flags that one of the commands `above` has is
// not explained again.
std::string command_section(const CommandDescription& command,
                            std::vector<const CommandDescription*>& above) {
  std::string text = subheading(command.name) + roff(command.about) + "\n";
  for (const FlagDescription& argument : command.arguments) text += entry(argument);
  for (Group& group : groups_of(command)) {
    std::erase_if(group.flags, [](const auto& flag) { return flag.names.back() == "--help"; });
    const auto same = std::ranges::find_if(
        above, [&](const CommandDescription* other) { return has_all(*other, group.flags); });
    if (!group.name.empty() && same != above.end()) {
      text += fmt::format(".PP\n{}, as of {}:\n{}\n", italic(group.name), bold((*same)->name),
                          names_of(group.flags));
      continue;
    }
    if (!group.name.empty()) text += ".PP\n" + italic(group.name) + "\n";
    for (const FlagDescription& flag : group.flags) text += entry(flag);
  }
  const Footer footer = read_footer(command.footer);
  text += footer.notes;
  if (footer.examples.starts_with(".PP\n.EX")) text += ".PP\nExamples:\n";
  text += footer.examples;
  above.push_back(&command);
  for (const CommandDescription& below : command.commands) text += command_section(below, above);
  return text;
}

void add_usages(const CommandDescription& command, std::string& text) {
  if (command.works) text += (text.empty() ? "" : "\n.br\n") + usage(command);
  for (const CommandDescription& below : command.commands) add_usages(below, text);
}

// The program's summary, up to the first comma or the like.
std::string in_short(const CommandDescription& program) {
  std::string about = program.about.substr(0, program.about.find_first_of(",;:."));
  std::ranges::replace(about, '\n', ' ');
  if (about.starts_with(program.name + " ")) about.erase(0, program.name.size() + 1);
  return about;
}

}  // namespace

std::string manual_page(const CommandDescription& program, const std::string& version) {
  std::string title = program.name;
  std::ranges::transform(title, title.begin(),
                         [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  std::string usages;
  add_usages(program, usages);
  std::string options;
  for (const FlagDescription& argument : program.arguments) options += entry(argument);
  for (const Group& group : groups_of(program)) {
    if (!group.name.empty()) options += subheading(group.name);
    for (const FlagDescription& flag : group.flags) options += entry(flag);
  }
  const Footer footer = read_footer(program.footer);
  std::string commands;
  std::vector<const CommandDescription*> above{&program};
  for (const CommandDescription& command : program.commands) {
    commands += command_section(command, above);
  }
  std::string others;
  for (const char* name : {"pipeexec", "pipesim", "pipeview"}) {
    if (program.name == name) continue;
    others += fmt::format("{}\\fB{}\\fR(1)", others.empty() ? "" : ", ", name);
  }
  // No hyphenation, so that names can be searched for; one space between sentences.
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"pipesim {}\" \"User Commands\"\n.nr HY 0\n.nh\n.ad l\n.ss 12 0\n", title,
      version);
  page += section("NAME", fmt::format("{} \\- {}\n", program.name, roff(in_short(program))));
  page += section("SYNOPSIS", usages + "\n");
  page += section("DESCRIPTION", roff(program.about) + "\n");
  page += section("OPTIONS", options);
  if (!footer.notes.empty()) page += section("NOTES", footer.notes);
  if (!commands.empty()) page += section("SUBCOMMANDS", commands);
  page += section("EXIT STATUS",
                  ".TP\n\\fB0\\fR\nall went well\n.TP\n\\fB1\\fR\nthe work failed\n"
                  ".TP\n\\fB2\\fR\nthe command line or an input is wrong\n");
  if (!footer.examples.empty()) page += section("EXAMPLES", footer.examples);
  return page + section("SEE ALSO", others + "\n");
}

}  // namespace pipesim
