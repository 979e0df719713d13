#include "sim/import/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t longest_script = 1 << 20;  // bytes
constexpr std::string_view shell_blanks = " \t\r";

bool starts_name(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_name(char c) { return starts_name(c) || is_digit(c); }

using ShellVariables = std::map<std::string, ShellWords, std::less<>>;

// "8 * NODES / (2)", of integers. Empty if something in it is not one.
class ShellSum {
 public:
  ShellSum(std::string_view text, const ShellVariables& variables)
      : rest_(text), variables_(variables) {}

  std::optional<std::int64_t> value() {
    const std::int64_t result = sum();
    skip();
    if (!rest_.empty()) is_good_ = false;
    return is_good_ ? std::optional(result) : std::nullopt;
  }
  // The name without a value that caused it, if any.
  const std::string& unknown() const { return unknown_; }

 private:
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\n')) {
      rest_.remove_prefix(1);
    }
  }
  bool take(char c) {
    skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::int64_t sum() {
    std::int64_t result = product();
    while (is_good_) {
      const bool adds = take('+');
      if (!adds && !take('-')) break;
      const std::int64_t other = product();
      const bool overflows = adds ? __builtin_add_overflow(result, other, &result)
                                  : __builtin_sub_overflow(result, other, &result);
      if (overflows) is_good_ = false;
    }
    return result;
  }

  std::int64_t product() {
    std::int64_t result = factor();
    while (is_good_) {
      if (take('*')) {
        if (__builtin_mul_overflow(result, factor(), &result)) is_good_ = false;
        continue;
      }
      const bool divides = take('/');
      if (!divides && !take('%')) break;
      const std::int64_t by = factor();
      if (by <= 0) {
        is_good_ = false;
        break;
      }
      result = divides ? result / by : result % by;
    }
    return result;
  }

  std::int64_t factor() {
    constexpr int deepest = 32;
    if (++depth_ > deepest) is_good_ = false;
    std::int64_t result = 0;
    if (is_good_ && take('(')) {
      result = sum();
      if (!take(')')) is_good_ = false;
    } else if (is_good_) {
      result = operand();
    }
    --depth_;
    return result;
  }

  std::int64_t operand() {
    take('$');
    const bool in_braces = take('{');
    skip();
    std::size_t size = 0;
    while (size < rest_.size() && in_name(rest_[size])) ++size;
    std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    if (in_braces && !take('}')) is_good_ = false;
    std::string text;
    if (!word.empty() && starts_name(word[0])) {
      const auto found = variables_.find(word);
      if (found == variables_.end() || found->second.size() != 1) {
        unknown_ = word;
        is_good_ = false;
        return 0;
      }
      unknown_ = found->second.front().unknown;
      text = found->second.front().text;
      word = text;
    }
    std::int64_t result = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), result);
    if (word.empty() || status != std::errc() || end != word.data() + word.size()) {
      is_good_ = false;
    }
    return result;
  }

  std::string_view rest_;
  const ShellVariables& variables_;
  std::string unknown_;
  bool is_good_ = true;
  int depth_ = 0;
};

class ShellReader {
 public:
  ShellReader(std::string_view text, const std::string& file)
      : text_(text), file_(file), room_((256 << 10) + 8 * text.size()) {
    if (text.size() > longest_script) {
      throw input_error(fmt::format("{}: more than {} of arguments", printable(file),
                                    format_bytes(static_cast<std::int64_t>(longest_script))));
    }
  }

  ShellScript read() {
    while (at_ < text_.size()) command();
    for (const std::string& name : order_) {
      const ShellWords& words = (*variables_)[name];
      script_.values.insert(script_.values.end(), words.begin(), words.end());
    }
    return std::move(script_);
  }

 private:
  [[noreturn]] void fail(std::string_view rule) const {
    throw input_error(fmt::format("{}:{}: {}", printable(file_), line_, rule));
  }

  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void advance() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }
  bool continues_line() const {
    return peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'));
  }
  void skip_continuation() {
    while (peek() != '\n') advance();
    advance();
  }

  // Blanks, continued lines and a comment; with `lines` also ends of lines.
  void skip_blanks(bool lines) {
    while (at_ < text_.size()) {
      if (continues_line()) {
        skip_continuation();
      } else if (shell_blanks.find(peek()) != std::string_view::npos || (lines && peek() == '\n')) {
        advance();
      } else if (peek() == '#') {
        while (at_ < text_.size() && peek() != '\n') advance();
      } else {
        return;
      }
    }
  }

  // ---- Commands

  void command() {
    skip_blanks(true);
    const std::string_view separators = ";&|";
    while (at_ < text_.size() && separators.find(peek()) != std::string_view::npos) {
      advance();
      skip_blanks(true);
    }
    ShellWords words;
    bool is_first = true;
    while (at_ < text_.size()) {
      skip_blanks(false);
      if (at_ >= text_.size() || peek() == '\n') break;
      if (separators.find(peek()) != std::string_view::npos) break;
      if (is_first && assignment()) continue;
      if (is_first && declares()) continue;
      if (is_first) refuse_control();
      is_first = false;
      const std::size_t before = at_;
      word(words);
      if (at_ == before) advance();  // a bracket that stands alone
    }
    if (words.empty()) return;
    const bool goes_on = words.front().text.starts_with('-') && !script_.commands.empty();
    if (goes_on) {
      ShellWords& last = script_.commands.back();
      last.insert(last.end(), words.begin(), words.end());
    } else {
      script_.commands.push_back(std::move(words));
    }
  }

  std::string_view bare_word() const {
    std::size_t end = at_;
    while (end < text_.size() && shell_blanks.find(text_[end]) == std::string_view::npos &&
           text_[end] != '\n' && text_[end] != ';') {
      ++end;
    }
    return text_.substr(at_, end - at_);
  }

  bool declares() {
    for (const std::string_view word : {"export", "declare", "local", "readonly"}) {
      if (bare_word() != word) continue;
      at_ += word.size();
      return true;
    }
    return false;
  }

  void refuse_control() const {
    for (const std::string_view word : {"if", "for", "while", "until", "case", "select", "function",
                                        "[", "[[", "test", "eval", "source", "."}) {
      if (bare_word() == word) {
        fail(
            fmt::format("{}: conditions, loops and other scripts are not followed; give the "
                        "commands that are left of them",
                        word));
      }
    }
  }

  // NAME=word, NAME=(words) and the same with +=.
  bool assignment() {
    std::size_t end = at_;
    if (end >= text_.size() || !starts_name(text_[end])) return false;
    while (end < text_.size() && in_name(text_[end])) ++end;
    const std::string name(text_.substr(at_, end - at_));
    const bool appends = text_.substr(end, 2) == "+=";
    if (!appends && text_.substr(end, 1) != "=") return false;
    at_ = end + (appends ? 2 : 1);
    ShellWords words;
    const bool is_list = peek() == '(';
    if (is_list) {
      advance();
      skip_blanks(true);
      while (peek() != ')') {
        if (at_ >= text_.size()) fail(fmt::format("the list of {} is never closed", name));
        if (peek() == ';')
          fail(fmt::format("a ; in the list of {}; quote it, or close the list", name));
        word(words, true);
        skip_blanks(true);
      }
      advance();
    } else {
      words.push_back(scalar());
    }
    const auto [variable, is_new] = variables_->try_emplace(name);
    if (is_new) order_.push_back(name);
    ShellWords& value = variable->second;
    if (!appends) {
      value = std::move(words);
    } else if (is_list || value.empty()) {
      value.insert(value.end(), words.begin(), words.end());
    } else {
      value.back().text += words.front().text;
      if (value.back().unknown.empty()) value.back().unknown = words.front().unknown;
    }
    return true;
  }

  // ---- Words

  // A word of an assignment, which is not split.
  ShellWord scalar() {
    ShellWord result{.text = {}, .line = line_};
    while (at_ < text_.size() && !ends_word(false)) {
      for (const ShellWord& part : piece(true)) join(result, part);
    }
    return result;
  }

  // Lines that repeat a long variable would take the square of the script.
  void spend(const ShellWords& words) {
    for (const ShellWord& word : words) {
      const std::size_t bytes = sizeof(ShellWord) + word.text.size();
      if (bytes > room_) fail("variables grow beyond what is read here");
      room_ -= bytes;
    }
  }

  static void join(ShellWord& word, const ShellWord& part) {
    if (word.unknown.empty()) word.unknown = part.unknown;
    word.text += part.text;
  }

  // Brackets and bars within a word belong to it: a layout need not be quoted.
  bool ends_word(bool in_list) const {
    const char c = peek();
    if (c == '\n' || c == ';' || shell_blanks.find(c) != std::string_view::npos) return true;
    if (continues_line()) return true;
    return in_list && c == ')';
  }

  // Appends the expansion of a word: none, one or several.
  void word(ShellWords& words, bool in_list = false) {
    std::optional<ShellWord> open;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == '(') ++depth;
      if (ends_word(in_list && depth == 0)) break;
      if (c == ')') --depth;
      const bool is_quoted = c == '"' || c == '\'';
      bool splits = false;
      const ShellWords parts = piece(false, &splits);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0 && open) words.push_back(*std::exchange(open, std::nullopt));
        if (!open) open = ShellWord{.text = {}, .line = line_};
        join(*open, parts[i]);
      }
      if (parts.empty() && is_quoted && !splits && !open) {
        open = ShellWord{.text = {}, .line = line_};
      }
    }
    if (open) words.push_back(std::move(*open));
  }

  // The next character, quotes or variable. Several words if it contains an array, or if a value
  // has shell_blanks and `whole` is false.
  ShellWords piece(bool whole, bool* splits = nullptr) {
    const char c = peek();
    if (c == '\'') return {single_quotes()};
    if (c == '"') return double_quotes(whole, splits);
    if (c == '$' || c == '`') {
      ShellWords parts = expansion();
      parts = whole ? joined(parts) : split_words(parts);
      spend(parts);
      if (splits != nullptr) *splits = true;
      return parts;
    }
    if (c == '\\' && at_ + 1 < text_.size()) advance();
    ShellWord result{.text = std::string(1, peek()), .line = line_};
    advance();
    return {result};
  }

  ShellWord single_quotes() {
    ShellWord result{.text = {}, .line = line_};
    advance();
    while (peek() != '\'') {
      if (at_ >= text_.size()) fail("a ' that is never closed");
      result.text += peek();
      advance();
    }
    advance();
    return result;
  }

  ShellWords double_quotes(bool whole, bool* splits) {
    ShellWords words{{.text = {}, .line = line_}};
    advance();
    bool is_only_list = true;
    while (peek() != '"') {
      if (at_ >= text_.size()) fail("a \" that is never closed");
      if (continues_line()) {
        skip_continuation();
        continue;
      }
      if (peek() == '$' || peek() == '`') {
        const ShellWords parts = expansion();
        spend(parts);
        for (std::size_t i = 0; i < parts.size(); ++i) {
          if (i > 0) words.push_back({.text = {}, .line = line_});
          join(words.back(), parts[i]);
        }
        if (!parts.empty()) is_only_list = false;
        continue;
      }
      is_only_list = false;
      const bool escapes =
          peek() == '\\' && std::string_view("\"\\$`").find(peek(1)) != std::string_view::npos;
      if (escapes) advance();
      words.back().text += peek();
      advance();
    }
    advance();
    // "${EMPTY[@]}" expands to no word.
    if (is_only_list && had_list_) {
      if (splits != nullptr) *splits = true;
      words.clear();
    }
    had_list_ = false;
    return whole ? joined(words) : words;
  }

  static ShellWords joined(const ShellWords& parts) {
    if (parts.empty()) return {};
    ShellWord one = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) {
      one.text += ' ';
      join(one, parts[i]);
    }
    return {one};
  }

  static ShellWords split_words(const ShellWords& parts) {
    ShellWords words;
    for (const ShellWord& part : parts) {
      // A command substitution is one word, verbatim.
      if (!part.unknown.empty() && (part.text.starts_with("$(") || part.text.starts_with('`'))) {
        words.push_back(part);
        continue;
      }
      std::string_view rest = part.text;
      while (true) {
        const std::size_t begin = rest.find_first_not_of(" \t\r\n");
        if (begin == std::string_view::npos) break;
        rest.remove_prefix(begin);
        const std::size_t end = std::min(rest.find_first_of(" \t\r\n"), rest.size());
        // A copy of the part would keep its room: all words together the square of it.
        ShellWord word{.text = std::string(rest.substr(0, end)), .line = part.line};
        // The position of the unknown variable.
        if (word.text.find('$') != std::string::npos) word.unknown = part.unknown;
        words.push_back(std::move(word));
        rest.remove_prefix(end);
      }
    }
    return words;
  }

  // ---- ShellVariables

  ShellWords unknown(std::size_t begin, std::string name) const {
    return {{.text = std::string(text_.substr(begin, at_ - begin)),
             .line = line_,
             .unknown = std::move(name)}};
  }

  std::string_view until_closed(char open, char close, std::string_view what) {
    const std::size_t begin = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      if (peek() == open) ++depth;
      if (peek() == close && depth-- == 0) {
        const std::string_view inner = text_.substr(begin, at_ - begin);
        advance();
        return inner;
      }
      advance();
    }
    fail(fmt::format("a {} that is never closed", what));
  }

  ShellWords expansion() {
    const std::size_t begin = at_;
    if (peek() == '`') {
      advance();
      while (peek() != '`') {
        if (at_ >= text_.size()) fail("a ` that is never closed");
        advance();
      }
      advance();
      return unknown(begin, std::string(text_.substr(begin, at_ - begin)));
    }
    advance();
    if (peek() == '(' && peek(1) == '(') {
      advance();
      advance();
      const std::string_view inner = until_closed('(', ')', "$((");
      if (peek() == ')') advance();
      ShellSum sum(inner, *variables_);
      if (const auto value = sum.value()) {
        return {{.text = std::to_string(*value), .line = line_}};
      }
      return unknown(begin, sum.unknown().empty() ? std::string(text_.substr(begin, at_ - begin))
                                                  : sum.unknown());
    }
    if (peek() == '(') {
      advance();
      until_closed('(', ')', "$(");
      return unknown(begin, std::string(text_.substr(begin, at_ - begin)));
    }
    if (peek() == '{') {
      advance();
      return braces(begin, until_closed('{', '}', "${"));
    }
    std::size_t end = at_;
    if (starts_name(peek())) {
      while (end < text_.size() && in_name(text_[end])) ++end;
    } else if (end < text_.size() && (is_digit(peek()) || peek() == '@' || peek() == '*')) {
      ++end;
    }
    const std::string name(text_.substr(at_, end - at_));
    at_ = end;
    if (name.empty()) return {{.text = "$", .line = line_}};
    const auto found = variables_->find(name);
    if (found == variables_->end()) return unknown(begin, name);
    // An array's name alone is its first item.
    if (found->second.empty()) return {};
    return {found->second.front()};
  }

  // Of "NAME", "NAME[@]", "NAME:-default".
  ShellWords braces(std::size_t begin, std::string_view inner) {
    std::size_t size = 0;
    while (size < inner.size() && in_name(inner[size])) ++size;
    const std::string name(inner.substr(0, size));
    std::string_view rest = inner.substr(size);
    const bool is_list = rest.starts_with("[@]") || rest.starts_with("[*]");
    if (is_list) rest.remove_prefix(3);
    const auto found = variables_->find(name);
    const bool has_default = rest.starts_with(":-") || rest.starts_with("-") ||
                             rest.starts_with(":=") || rest.starts_with("=");
    if (found == variables_->end() && has_default) {
      rest.remove_prefix(rest[0] == ':' ? 2 : 1);
      ShellReader inside(rest, file_);
      inside.variables_ = variables_;
      inside.room_ = room_;
      inside.line_ = line_;
      inside.depth_ = depth_ + 1;
      if (inside.depth_ > 16) fail("defaults of variables nested too deep");
      const ShellWord value = inside.scalar_of_all();
      room_ = inside.room_;
      return {value};
    }
    if (found == variables_->end() || (!rest.empty() && !has_default)) return unknown(begin, name);
    if (is_list) {
      had_list_ = true;
      return found->second;
    }
    if (found->second.empty()) return {};
    return {found->second.front()};
  }

  ShellWord scalar_of_all() {
    ShellWord result{.text = {}, .line = line_};
    while (at_ < text_.size()) {
      for (const ShellWord& part : piece(true)) join(result, part);
    }
    return result;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t room_;  // bytes that words from variables may still take
  int depth_ = 0;     // of defaults within defaults
  bool had_list_ = false;
  ShellVariables own_;
  ShellVariables* variables_ = &own_;  // of the reader of the text that contains a default
  std::vector<std::string> order_;
  ShellScript script_;
};

}  // namespace

ShellScript read_shell(std::string_view text, const std::string& file) {
  return ShellReader(text, file).read();
}

}  // namespace pipesim
