// What control groups leave of a machine's memory.
#include "traces/base/memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

class Groups {
 public:
  void add(const std::string& group, const std::string& file, const std::string& content) {
    std::filesystem::create_directories(folder_.path() / group);
    write_file(folder_ / (group + "/" + file), content);
  }
  std::int64_t left(const std::string& groups, std::int64_t most = unlimited) const {
    return group_memory_bytes(groups, folder_.path(), most);
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST(Memory, OfGroupsOfTheSecondVersion) {
  Groups groups;
  EXPECT_EQ(groups.left("0::/a/b\n"), unlimited);
  groups.add("a/b", "memory.max", "max\n");
  EXPECT_EQ(groups.left("0::/a/b\n"), unlimited);
  groups.add("a", "memory.max", "1000\n");
  groups.add("a", "memory.current", "300\n");
  EXPECT_EQ(groups.left("0::/a/b\n"), 700);
  groups.add("a", "memory.stat", "anon 100\ninactive_file 200\n");
  EXPECT_EQ(groups.left("0::/a/b\n"), 900);
  for (const std::int64_t most : {699, 700, 800, 899})
    EXPECT_EQ(groups.left("0::/a\n", most), most);
  EXPECT_EQ(groups.left("0::/a\n", 901), 900);
  groups.add("a/b", "memory.max", "50\n");
  groups.add("a/b", "memory.current", "80\n");
  EXPECT_EQ(groups.left("0::/a/b\n"), 0);
  EXPECT_EQ(groups.left("0::/\n"), unlimited);
}

TEST(Memory, OfGroupsOfTheFirstVersion) {
  Groups groups;
  groups.add("memory/job", "memory.limit_in_bytes", "2000\n");
  groups.add("memory/job", "memory.usage_in_bytes", "500\n");
  EXPECT_EQ(groups.left("12:cpuset:/other\n9:memory:/job\n1:name=systemd:/x\n"), 1500);
  EXPECT_EQ(groups.left("12:cpuset:/job\n"), unlimited);
}

TEST(Memory, ThereIsSome) { EXPECT_GT(available_memory_bytes(), 0); }

}  // namespace
}  // namespace pipesim
