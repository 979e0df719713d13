#include "sim/import/number_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

class NumberListReader {
 public:
  explicit NumberListReader(std::string_view text) : all_(text), rest_(text) {}

  std::vector<int> read() {
    std::vector<int> list = sum(0);
    if (!rest_.empty()) fail("+ or *");
    return list;
  }

 private:
  static constexpr int deepest = 16;
  static constexpr std::size_t longest = 1 << 20;

  [[noreturn]] void fail(std::string_view expected) const {
    throw input_error(
        fmt::format("{}: {} is expected at character {}; give a list such as "
                    "([0]*3+[1]*58)",
                    quote(all_), expected, all_.size() - rest_.size() + 1));
  }
  bool takes(char one) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(one)) return false;
    rest_.remove_prefix(1);
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    return true;
  }
  void expect(char one) {
    if (!takes(one)) fail(std::string_view(&one, 1));
  }
  int number() {
    int value = 0;
    const auto [at, fault] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (fault != std::errc() || value < 0) fail("a whole number");
    rest_.remove_prefix(static_cast<std::size_t>(at - rest_.data()));
    return value;
  }
  std::vector<int> sum(int depth) {
    std::vector<int> list = multiple(depth);
    while (takes('+')) {
      const std::vector<int> more = multiple(depth);
      list.insert(list.end(), more.begin(), more.end());
      if (list.size() > longest) fail("a shorter list");
    }
    return list;
  }
  std::vector<int> multiple(int depth) {
    std::vector<int> list;
    if (takes('(')) {
      if (depth == deepest) fail("a list that is nested less");
      list = sum(depth + 1);
      expect(')');
    } else {
      expect('[');
      do {
        list.push_back(number());
      } while (takes(','));
      expect(']');
    }
    while (takes('*')) {
      const std::vector<int> one = list;
      const auto times = static_cast<std::size_t>(number());
      if (times * one.size() > longest) fail("a shorter list");
      list.clear();
      for (std::size_t i = 0; i < times; ++i) list.insert(list.end(), one.begin(), one.end());
    }
    return list;
  }

  std::string_view all_, rest_;
};

}  // namespace

std::vector<int> parse_number_list(std::string_view text) { return NumberListReader(text).read(); }

std::string number_list_text(const std::vector<int>& list) {
  std::string text;
  for (auto first = list.begin(); first != list.end();) {
    const auto end = std::find_if(first, list.end(), [&](int one) { return one != *first; });
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", *first, end - first);
    first = end;
  }
  return text;
}

}  // namespace pipesim
