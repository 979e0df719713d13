#include "tests/growth/template.h"

#include <algorithm>
#include <vector>

namespace pipesim::testing {
namespace {

struct Part {
  std::string_view item;
  std::string_view separator;
  bool repeats = false;
};

std::vector<Part> parts_of(std::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    const std::size_t open = text.find('<');
    const std::size_t close = text.find('>', open);
    if (close == std::string_view::npos) {
      parts.push_back({text, {}});
      break;
    }
    parts.push_back({text.substr(0, open), {}});
    const std::string_view inner = text.substr(open + 1, close - open - 1);
    const std::size_t bar = inner.rfind('|');
    parts.push_back({inner.substr(0, bar),
                     bar == std::string_view::npos ? std::string_view{} : inner.substr(bar + 1),
                     true});
    text.remove_prefix(close + 1);
  }
  return parts;
}

void append_copy(std::string& text, std::string_view item, int number) {
  for (const char c : item) {
    if (c == '#') {
      text += std::to_string(number);
    } else {
      text += c;
    }
  }
}

}  // namespace

std::string grown(std::string_view text, int n) {
  std::string result;
  for (const Part& part : parts_of(text)) {
    if (!part.repeats) {
      result += part.item;
      continue;
    }
    for (int i = 0; i < n; ++i) {
      if (i > 0) result += part.separator;
      append_copy(result, part.item, i);
    }
  }
  return result;
}

std::size_t bytes_of_each(std::string_view text) {
  std::size_t bytes = 0;
  for (const Part& part : parts_of(text)) {
    if (!part.repeats) continue;
    const auto numbers = static_cast<std::size_t>(std::ranges::count(part.item, '#'));
    bytes += part.item.size() + 3 * numbers + part.separator.size();
  }
  return bytes;
}

}  // namespace pipesim::testing
