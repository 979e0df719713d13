#include "exec/supervise/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::exec {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view supervised_program = "pipeexec";
constexpr std::array<std::string_view, 4> rank_counts{"-n", "-np", "--np", "--ntasks"};

// The index of pipeexec in the command.
std::size_t place_of_program(const Words& words) {
  const auto is_program = [](const std::string& word) {
    return word.substr(word.rfind('/') + 1) == supervised_program;
  };
  const auto found = std::ranges::find_if(words, is_program);
  if (found == words.end()) {
    throw input_error(fmt::format(
        "{}: no word of it is pipeexec; write -- mpirun -n 4 pipeexec ... with all its flags",
        quote(command_text(words))));
  }
  return static_cast<std::size_t>(found - words.begin());
}

bool is_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
}

// Whether a word is that flag: "--flag value" or "--flag=value".
bool is_written(std::string_view word, std::string_view flag) {
  const std::string_view name = word.substr(0, word.find('='));
  const auto counts = [](std::string_view one) {
    return std::ranges::find(rank_counts, one) != rank_counts.end();
  };
  return name == flag || (counts(name) && counts(flag));
}

struct FlagPlace {
  std::size_t at;
  bool joined;  // with its value, by '='
};

// The last occurrence, which counts if a flag is given twice.
std::optional<FlagPlace> find_flag(const Words& words, std::size_t from, std::size_t to,
                                   std::string_view flag) {
  for (std::size_t i = to; i > from; --i) {
    const std::string_view word = words[i - 1];
    if (is_flag(word) && is_written(word, flag)) {
      return FlagPlace{i - 1, word.find('=') != std::string_view::npos};
    }
  }
  return std::nullopt;
}

std::optional<std::string> value_of(const Words& words, const std::optional<FlagPlace>& flag) {
  if (!flag) return std::nullopt;
  const std::string& word = words[flag->at];
  if (flag->joined) return word.substr(word.find('=') + 1);
  if (flag->at + 1 == words.size()) return std::nullopt;
  return words[flag->at + 1];
}

std::optional<int> ranks_of(const Words& words) {
  const std::size_t program = place_of_program(words);
  const auto text = value_of(words, find_flag(words, 0, program, rank_counts.front()));
  int ranks = 0;
  if (!text) return std::nullopt;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), ranks);
  if (status != std::errc() || end != text->data() + text->size() || ranks < 1) {
    return std::nullopt;
  }
  return ranks;
}

// Inserts one flag of an alternative, with its values, into the command.
void replace_flag(Words& words, const Words& flag) {
  const std::string name = flag.front().substr(0, flag.front().find('='));
  const std::size_t program = place_of_program(words);
  auto found = find_flag(words, 0, program, name);
  const std::size_t end = found ? program : words.size();
  if (!found) found = find_flag(words, program + 1, words.size(), name);
  const auto at = [&](std::size_t place) {
    return words.begin() + static_cast<std::ptrdiff_t>(place);
  };
  if (!found) {
    const bool is_launchers = !name.starts_with("--") && program > 0;
    words.insert(is_launchers ? at(program) : words.end(), flag.begin(), flag.end());
    return;
  }
  const bool joined = flag.front().find('=') != std::string::npos;
  const std::size_t values = found->joined ? 0 : joined ? 1 : flag.size() - 1;
  words.erase(at(found->at), at(std::min(found->at + 1 + values, end)));
  words.insert(at(found->at), flag.begin(), flag.end());
}

CommandLayout alternative_of(const Words& command, const std::string& text) {
  CommandLayout layout{command, std::nullopt, text};
  Words flag;
  const auto put = [&] {
    if (!flag.empty()) replace_flag(layout.words, flag);
    flag.clear();
  };
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (is_flag(word)) {
      put();
      for (const char* fixed : {"--checkpoint", "--resume"}) {
        if (is_written(word, fixed)) {
          throw input_error(fmt::format("--or {}: all go on from the same checkpoints; omit {}",
                                        quote(text), fixed));
        }
      }
    } else if (flag.empty()) {
      throw input_error(
          fmt::format("--or {}: {} belongs to no flag; write as in --or '-n 2 --data-parallel 1'",
                      quote(text), quote(word)));
    }
    flag.emplace_back(word);
  }
  if (flag.empty()) {
    throw input_error("--or: it is empty; write as in --or '-n 2 --data-parallel 1'");
  }
  put();
  layout.ranks = ranks_of(layout.words);
  return layout;
}

// Adds --resume if it is missing.
std::string go_on_from_checkpoint(Words& words) {
  const std::size_t from = place_of_program(words) + 1;
  const auto folder = value_of(words, find_flag(words, from, words.size(), "--checkpoint"));
  if (!folder || folder->empty() || is_flag(*folder)) {
    throw input_error(
        "pipeexec is to save, so that a restart can go on from there; give it --checkpoint DIR and "
        "--checkpoint-every N");
  }
  const auto resume = find_flag(words, from, words.size(), "--resume");
  if (!resume) {
    words.insert(words.end(), {"--resume", *folder});
  } else if (value_of(words, resume) != folder) {
    throw input_error(
        fmt::format("--resume: a restart goes on from --checkpoint {0}; omit --resume, or give "
                    "--resume {0}",
                    printable(*folder)));
  }
  return *folder;
}

}  // namespace

std::string CommandLayout::name() const { return flags.empty() ? "the command" : quote(flags); }

SupervisedCommand supervised_command(const Words& command, const Words& alternatives) {
  SupervisedCommand supervised;
  Words words = command;
  supervised.checkpoint = go_on_from_checkpoint(words);
  supervised.layouts.push_back({words, ranks_of(words), ""});
  for (const std::string& text : alternatives) {
    supervised.layouts.push_back(alternative_of(words, text));
  }
  return supervised;
}

std::string command_text(const Words& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("-_=+./,:@%").find(c) != std::string_view::npos;
    });
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace pipesim::exec
