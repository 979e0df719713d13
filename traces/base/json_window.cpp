#include "traces/base/json_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

constexpr std::size_t first_size = std::size_t{1} << 16;

using ByteSet = std::array<bool, 256>;

constexpr ByteSet set_of(std::string_view bytes) {
  ByteSet set{};
  for (const char byte : bytes) set[static_cast<unsigned char>(byte)] = true;
  set[0] = true;  // the end of the window
  return set;
}

constexpr ByteSet of_note_in_strings = set_of("\"\\");
constexpr ByteSet of_note_between = set_of("\"{}[]ni");
constexpr ByteSet after_scalars = set_of(" ,:]}");

const char* find(const ByteSet& set, const char* at) {
  while (!set[static_cast<unsigned char>(*at)]) ++at;
  return at;
}

// Respells a word that is not JSON as RapidJSON accepts it.
void respell(char* word) {
  if (std::strncmp(word, "nan", 3) == 0) std::memcpy(word, "NaN", 3);
  if (std::strncmp(word, "inf", 3) == 0) *word = 'I';
}

// The longest noteworthy sequence in bytes: a pair of escapes such as \ud83d\ude00.
constexpr std::size_t longest_note = 12;

// The 16 bits of the escape at the start of a text, such as \u00e9; nothing if it starts with
// another character.
std::optional<unsigned> unit_of(std::span<const char> text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  unsigned unit = 0;
  const auto [end, error] = std::from_chars(&text[2], &text[2] + 4, unit, 16);
  if (error != std::errc() || end != &text[2] + 4) return std::nullopt;
  return unit;
}

// Replaces half of a surrogate pair by the replacement character. Returns the bytes of the escape,
// or of the pair.
std::size_t respell_escape(std::span<char> text) {
  const auto first = unit_of(text);
  if (!first || *first < 0xd800 || *first > 0xdfff) return 2;
  const auto second = *first < 0xdc00 ? unit_of(text.subspan(6)) : std::nullopt;
  if (second && *second >= 0xdc00 && *second <= 0xdfff) return 12;
  std::memcpy(text.data(), "\\ufffd", 6);
  return 6;
}

}  // namespace

JsonWindow::JsonWindow(const std::string& path) : file_(path), window_(first_size + 1) {
  fill();
  if (head_.starts_with("\xef\xbb\xbf")) at_ = 3;
}

bool JsonWindow::fill() {
  if (at_end_) return false;
  std::copy(window_.begin() + static_cast<std::ptrdiff_t>(at_),
            window_.begin() + static_cast<std::ptrdiff_t>(end_), window_.begin());
  passed_ += static_cast<std::int64_t>(at_);
  end_ -= at_;
  at_ = 0;
  if (end_ + 1 == window_.size()) {
    if (end_ >= most_bytes) {
      throw input_error(
          fmt::format("{}: byte {}: one value has more than {}; is a quotation mark "
                      "or a bracket missing?",
                      file_.path(), format_count(passed_), format_bytes(most_bytes)));
    }
    window_.resize(2 * end_ + 1);
  }
  char* fresh = window_.data() + end_;
  const std::size_t wanted = window_.size() - 1 - end_;
  const std::size_t got = file_.read(fresh, wanted);
  at_end_ = got < wanted;
  if (passed_ == 0 && end_ == 0) head_.assign(fresh, std::min<std::size_t>(got, 512));
  for (std::size_t i = 0; i < got; ++i) {
    if (static_cast<unsigned char>(fresh[i]) < 0x20) fresh[i] = ' ';
  }
  end_ += got;
  window_[end_] = '\0';
  return got > 0;
}

char JsonWindow::peek() {
  if (is_held_) {
    window_[at_] = behind_;
    is_held_ = false;
  }
  const std::int64_t begin = passed_ + static_cast<std::int64_t>(at_);
  for (;;) {
    while (window_[at_] == ' ') ++at_;
    if (at_ < end_ || !fill()) return window_[at_];
    if (passed_ - begin > static_cast<std::int64_t>(most_bytes)) {
      throw input_error(fmt::format("{}: byte {}: nothing but blanks for {}; does the file end?",
                                    file_.path(), format_count(begin), format_bytes(most_bytes)));
    }
  }
}

void JsonWindow::skip() { ++at_; }

std::optional<JsonWindow::Value> JsonWindow::take_scalar() {
  std::size_t length = 0;
  for (;;) {
    const char* text = window_.data() + at_;
    length = static_cast<std::size_t>(find(after_scalars, text + length) - text);
    if (at_ + length < end_) break;
    if (!fill()) return std::nullopt;
  }
  respell(window_.data() + at_ + (window_[at_] == '-' ? 1 : 0));
  Value value{{window_.data() + at_, length}, 0};
  at_ += length;
  return value;
}

std::optional<JsonWindow::Value> JsonWindow::take() {
  const char first = peek();
  if (first == '\0') return std::nullopt;
  std::optional<Value> value;
  if (first != '"' && first != '{' && first != '[') {
    value = take_scalar();
  } else {
    std::size_t length = 0;
    int depth = 0;
    int deepest = 0;
    bool in_string = false;
    for (bool goes_on = true; goes_on;) {
      char* const text = window_.data() + at_;
      const char* const note =
          find(in_string ? of_note_in_strings : of_note_between, text + length);
      length = static_cast<std::size_t>(note - text);
      if (at_ + length + longest_note > end_ && fill()) continue;
      if (at_ + length == end_) return std::nullopt;
      switch (window_[at_ + length]) {
        case '"': in_string = !in_string; break;
        case '\\':
          length += respell_escape({window_.data() + at_ + length, end_ - at_ - length}) - 1;
          break;
        case '{':
        case '[': deepest = std::max(deepest, ++depth); break;
        case '}':
        case ']': --depth; break;
        default: respell(window_.data() + at_ + length); break;
      }
      ++length;
      if (at_ + length > end_) return std::nullopt;
      goes_on = in_string || depth > 0;
    }
    value = Value{{window_.data() + at_, length}, deepest};
    at_ += length;
  }
  if (value && !value->text.empty()) {
    behind_ = std::exchange(window_[at_], '\0');
    is_held_ = true;
  }
  return value;
}

}  // namespace pipesim
