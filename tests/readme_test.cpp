// What the README shows is what the command prints.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/command.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

TEST(Readme, ShowsRealOutput) {
  const std::string text = read_file(testing::source_file("README.md"));
  const std::string mark = "<!-- output: ";
  int shown = 0;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::size_t flags = at + mark.size();
    std::istringstream words(text.substr(flags, text.find(" -->", flags) - flags));
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    const std::size_t block = text.find("```\n", flags) + 4;
    const std::string want = text.substr(block, text.find("```\n", block) - block);
    EXPECT_EQ(testing::pipesim(arguments, {"COLUMNS=80"}).out, want);
    ++shown;
  }
  EXPECT_GE(shown, 1);
}

}  // namespace
}  // namespace pipesim
