// The size of the house, which may shrink and not grow.
//
// tests/ratchet.tsv holds a bound for each measure. A commit that needs a higher one says why. A
// measure that falls well below its bound asks for a lower one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Measures = std::map<std::string, long>;

struct HouseFile {
  std::string path;  // from the root
  std::vector<std::string> lines;
};

std::vector<HouseFile> sources_of(const std::string& top) {
  const std::filesystem::path root = PIPESIM_SOURCE_DIR;
  std::vector<HouseFile> sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top)) {
    const std::string extension = entry.path().extension().string();
    constexpr std::array<std::string_view, 4> counted{".h", ".cpp", ".cu", ".py"};
    if (std::ranges::find(counted, extension) == counted.end()) continue;
    HouseFile& source = sources.emplace_back();
    source.path = std::filesystem::relative(entry.path(), root).string();
    std::istringstream text(read_file(entry.path().string()));
    for (std::string line; std::getline(text, line);) source.lines.push_back(line);
  }
  std::ranges::sort(sources, {}, &HouseFile::path);
  return sources;
}

// The longest functions, by the layout that clang-format gives them: from a line at the margin or a
// member's, which ends in `{` and has a parameter list, to the brace below its first letter.
long count_long_functions(const HouseFile& source, std::size_t limit) {
  static const std::regex other(
      R"(^\s*(namespace|class|struct|union|enum|extern|switch|if|for|while|do|else)\b.*)");
  long count = 0;
  for (std::size_t begin = 0; begin < source.lines.size(); ++begin) {
    const std::string& line = source.lines[begin];
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent > 2 || line.back() != '{' || std::regex_match(line, other)) continue;
    if (line.find('(') == std::string::npos && line.find(')') == std::string::npos) continue;
    const std::string end = std::string(indent, ' ') + "}";
    std::size_t at = begin + 1;
    while (at < source.lines.size() && !source.lines[at].starts_with(end)) ++at;
    if (at - begin + 1 > limit) ++count;
  }
  return count;
}

// The folder that a file counts for: the first two parts of its path.
std::string room_of(const std::string& path) {
  const std::size_t second = path.find('/', path.find('/') + 1);
  return path.substr(0, second == std::string::npos ? path.find('/') : second);
}

Measures measure_house() {
  Measures found;
  std::map<std::string, std::set<std::string>> users;  // by included header
  std::set<std::string> formats;
  static const std::regex include(R"re(#include "([^"]+)")re");
  static const std::regex format(R"re("(pipe(?:sim|exec)-[a-z-]+)( 1)?")re");
  for (const char* top : {"sim", "exec", "gui", "traces"}) {
    for (const HouseFile& source : sources_of(top)) {
      const long lines = std::ssize(source.lines);
      found["lines of " + room_of(source.path)] += lines;
      found["lines of the product"] += lines;
      found["files over 600 lines"] += lines > 600 ? 1 : 0;
      found["functions over 80 lines"] += count_long_functions(source, 80);
      for (const std::string& line : source.lines) {
        std::smatch match;
        if (std::regex_search(line, match, include)) users[match[1]].insert(source.path);
        // The name that a format had before it was part of another is still read.
        if (line.find("// read, no") != std::string::npos) continue;
        if (std::regex_search(line, match, format)) formats.insert(match[1]);
      }
    }
  }
  for (const HouseFile& source : sources_of("tests")) {
    found["lines of tests"] += std::ssize(source.lines);
  }
  // A header's own source is no user.
  for (const auto& [header, by] : users) {
    const std::string stem = header.substr(0, header.size() - 2);
    const auto others = std::ranges::count_if(
        by, [&](const std::string& path) { return path.substr(0, path.rfind('.')) != stem; });
    found["headers with one user"] += others == 1 ? 1 : 0;
  }
  found["file formats"] = std::ssize(formats);
  return found;
}

Measures read_bounds(const std::string& path) {
  Measures bounds;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t tab = line.find('\t');
    bounds[line.substr(tab + 1)] = std::stol(line.substr(0, tab));
  }
  return bounds;
}

TEST(Ratchet, TheHouseDoesNotGrow) {
  const Measures bounds = read_bounds(testing::source_file("tests/ratchet.tsv"));
  const Measures found = measure_house();
  for (const auto& [what, value] : found) {
    const auto bound = bounds.find(what);
    ASSERT_NE(bound, bounds.end()) << "tests/ratchet.tsv lacks: " << value << '\t' << what;
    EXPECT_LE(value, bound->second)
        << what << ": look for what it makes needless, or raise the bound and say why";
    EXPECT_GE(value, bound->second - bound->second / 25 - 4)
        << what << ": lower its bound in tests/ratchet.tsv to " << value;
  }
  for (const auto& [what, unused] : bounds) {
    EXPECT_TRUE(found.contains(what)) << what << ": nothing is measured by this name any more";
  }
}

TEST(Ratchet, CountsLongFunctions) {
  const auto function = [](const std::string& first, std::size_t body, const std::string& last) {
    HouseFile source{"a.cpp", {first}};
    for (std::size_t i = 0; i < body; ++i) source.lines.push_back(last + "  x();");
    source.lines.push_back(last + "}");
    return source;
  };
  EXPECT_EQ(count_long_functions(function("int f() {", 9, ""), 10), 1);
  EXPECT_EQ(count_long_functions(function("int f() {", 8, ""), 10), 0);
  EXPECT_EQ(count_long_functions(function("  int f() const {", 9, "  "), 10), 1);
  EXPECT_EQ(count_long_functions(function("      int x) {", 9, ""), 10), 0);
  EXPECT_EQ(count_long_functions(function("class A {", 9, ""), 10), 0);
}

}  // namespace
}  // namespace pipesim
