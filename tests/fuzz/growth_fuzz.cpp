// A reader's name on the first line, and below a text of which parts are repeated (see
// template.h): whatever there is much of, its reader takes time in near proportion to it, and
// memory that is a multiple of it. The mutations know what lists, numbers, strings, lines and
// nesting look like.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "tests/growth/linear.h"
#include "tests/growth/readers.h"
#include "tests/growth/template.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace pipesim::testing {
namespace {

// See FORMAT.md, "What can be relied on".
constexpr double max_memory = 64;  // for each byte of text
constexpr std::size_t first_text = 12 << 10;
constexpr std::size_t max_text = 1 << 20;

void check(const Reader& reader, std::string_view text) {
  const Growing input = growing(std::string(reader.name), std::string(text),
                                static_cast<int>(first_text / (bytes_of_each(text) + 1) + 4));
  const Growth growth = growth_of(input, max_memory, max_text, reader.read);
  if (growth.fault.empty()) return;
  fmt::print(stderr, "{}\n", growth.fault);
  std::abort();
}

// ---- Mutations

using Random = std::minstd_rand;

std::size_t below(Random& random, std::size_t n) {
  return n == 0 ? 0 : std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
}

struct Part {
  std::size_t begin = 0, end = 0;
};

bool is(char c, std::string_view set) { return set.find(c) != set.npos; }

// The element of a list, the cell or the line around a place.
Part element_around(std::string_view text, std::size_t at, bool whole_line) {
  const std::string_view ends = whole_line ? "\n" : ",\n";
  Part part{at, at};
  for (int depth = 0; part.begin > 0; --part.begin) {
    const char c = text[part.begin - 1];
    if (is(c, "]})")) ++depth;
    if (depth == 0 && (is(c, "[{(") || is(c, ends))) break;
    if (is(c, "[{(")) --depth;
  }
  for (int depth = 0; part.end < text.size(); ++part.end) {
    const char c = text[part.end];
    if (depth == 0 && (is(c, "]})") || is(c, ends))) break;
    if (is(c, "[{(")) ++depth;
    if (is(c, "]})")) --depth;
  }
  return part;
}

// One or several neighbours, or what they are elements of, and so on.
Part some_elements(std::string_view text, Random& random, bool whole_line) {
  Part part = element_around(text, below(random, text.size()), whole_line);
  while (part.begin > 0 && is(text[part.begin - 1], "[{(") && below(random, 2) == 0) {
    part = element_around(text, part.begin - 1, whole_line);
  }
  while (part.end + 1 < text.size() && is(text[part.end], ",\n") && below(random, 3) == 0) {
    part.end = element_around(text, part.end + 1, whole_line).end;
  }
  return part;
}

// Some of a part's numbers become the number of the copy.
std::string numbered(std::string_view part, Random& random) {
  std::string result;
  const bool every = below(random, 2) == 0;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < part.size() && part[at] >= '0' && part[at] <= '9';
    };
    if (is_digit(i) && (every || below(random, 3) == 0)) {
      while (is_digit(i + 1)) ++i;
      result += '#';
    } else if (part[i] != '<' && part[i] != '>' && part[i] != '|') {
      result += part[i];
    }
  }
  return result;
}

// Returns an empty text where nothing is to be done there.
std::string mutated(std::string_view text, Random& random) {
  const bool whole_line = below(random, 4) == 0;
  const Part part = some_elements(text, random, whole_line);
  const std::string before(text.substr(0, part.begin));
  const std::string_view item = text.substr(part.begin, part.end - part.begin);
  const std::string after(text.substr(part.end));
  switch (below(random, 7)) {
    case 0:
    case 1: return before + "<" + numbered(item, random) + (whole_line ? "|\n>" : "|,>") + after;
    case 2:  // adds copies to what is there
      return before + std::string(item) + (whole_line ? "\n<" : ",<") + numbered(item, random) +
             (whole_line ? "|\n>" : "|,>") + after;
    case 3: return before + "<[>" + std::string(item) + "<]>" + after;
    case 4: return before + R"(<{"a":>)" + std::string(item) + "<}>" + after;
    case 5: {
      const std::size_t quotation = text.find('"', part.begin);
      if (quotation == text.npos) return {};
      return std::string(text.substr(0, quotation + 1)) + "<x>" +
             std::string(text.substr(quotation + 1));
    }
    default: {  // once instead of many times
      const std::size_t open = text.find('<', part.begin);
      const std::size_t close = text.find('>', open);
      if (close == text.npos) return {};
      return std::string(text.substr(0, open)) +
             std::string(text.substr(open + 1, close - open - 1)) +
             std::string(text.substr(close + 1));
    }
  }
}

}  // namespace
}  // namespace pipesim::testing

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace pipesim::testing;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  const auto reader = std::ranges::find(readers(), text.substr(0, line), &Reader::name);
  if (line == text.npos || reader == readers().end()) return -1;
  text.remove_prefix(line + 1);
  check(*reader, text);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  using namespace pipesim::testing;
  Random random(seed);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  if (line == text.npos || below(random, 3) == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string result =
      std::string(text.substr(0, line + 1)) + mutated(text.substr(line + 1), random);
  if (result.size() <= line + 1 || result.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::ranges::copy(result, data);
  return result.size();
}
