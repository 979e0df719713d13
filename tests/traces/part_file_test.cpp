// Files under construction, when their maker is ended.
#include "traces/base/part_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>

#include "tests/errors.h"
#include "tests/files.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::TemporaryFolder;

// How a process ended that did that.
int status_of(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(PartFile, GoesWithTheObjectUnlessForgotten) {
  const TemporaryFolder folder;
  {
    const PartFile part(folder / "part");
    write_file(part.name(), "x");
    PartFile kept(folder / "kept");
    write_file(kept.name(), "x");
    kept.forget();
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "part"));
  EXPECT_TRUE(std::filesystem::exists(folder / "kept"));
}

TEST(PartFile, GoesWhenASignalEndsTheProcess) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    const TemporaryFolder folder;
    const int status = status_of([&] {
      const PartFile first(folder / "first");
      write_file(first.name(), "x");
      PartFile other(folder / "other");
      write_file(other.name(), "x");
      other.forget();
      const PartFile second(folder / "second");
      write_file(second.name(), "x");
      std::raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status)) << signal;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_FALSE(std::filesystem::exists(folder / "first"));
    EXPECT_FALSE(std::filesystem::exists(folder / "second"));
    EXPECT_TRUE(std::filesystem::exists(folder / "other"));
  }
}

TEST(PartFile, LeavesIgnoredSignalsAlone) {
  const TemporaryFolder folder;
  const int status = status_of([&] {
    std::signal(SIGHUP, SIG_IGN);
    PartFile part(folder / "part");
    write_file(part.name(), "x");
    std::raise(SIGHUP);
    part.forget();
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(std::filesystem::exists(folder / "part"));
}

TEST(PartFile, MoreAtOnceThanHandlersKnowGoAsWell) {
  const TemporaryFolder folder;
  {
    std::deque<PartFile> parts;
    for (int i = 0; i < 40; ++i) {
      parts.emplace_back(folder / std::to_string(i));
      write_file(parts.back().name(), "x");
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(OutputName, IsRefusedAtOnceWhereItIsTooLong) {
  const TemporaryFolder folder;
  EXPECT_NE(testing::input_error_of([&] {
              OutputFile(folder / std::string(256, 'x'));
            }).find("File name too long"),
            std::string::npos);
  write_file(folder / std::string(255, 'x'), "x");
}

TEST(InputName, IsRefusedAtOnceWhereItIsADevice) {
  for (const char* path : {"/dev/zero", "/dev/null", "/dev/full"}) {
    const auto refused = [&](const std::function<void()>& read) {
      return testing::input_error_of(read).find("it is a device") != std::string::npos;
    };
    EXPECT_TRUE(refused([&] { read_file(path); })) << path;
    EXPECT_TRUE(refused([&] { InputFile{path}; })) << path;
  }
}

}  // namespace
}  // namespace pipesim
