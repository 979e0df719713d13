// bench/gpu/run.sh and carry.sh, called wrongly and where there is no GPU.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/command.h"
#include "tests/files.h"

namespace pipesim {
namespace {

using testing::Outcome;

Outcome script(const std::string& name, const std::vector<std::string>& arguments,
               const std::vector<std::string>& environment = {}) {
  std::vector<std::string> argv{"/bin/bash", testing::source_file(name)};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return testing::run_command(argv, environment);
}

TEST(GpuScripts, SayWhatIsWrongWithTheCommandLine) {
  const testing::TemporaryFolder folder;
  const std::string empty = folder.path().string();
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--only"}, "--only has no value"},
      {{"--only", ""}, "--only has no value"},
      {{"--only", "speed,sped"}, "--only sped: there are build, parity"},
      {{"--seconds", "soon"}, "--seconds soon is not a whole number"},
      {{"--seconds", "0"}, "--seconds 0 is not a whole number"},
      {{"--with", empty}, "there is no packages.tar.gz in it"},
      {{"--binaries", empty}, "there is no pipesim in it"},
      {{"--fast"}, "--fast is no option; there are: --only --seconds"},
      {{"metal"}, "metal is no kind of GPU; there are: cuda hip"},
      {{"cuda", empty, "more"}, "more is one word too many"}};
  for (const auto& [arguments, part] : cases) {
    testing::expect_one_sentence(script("bench/gpu/run.sh", arguments), "bench/gpu/run.sh", part, 2,
                                 part);
  }
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"a", "b"}}) {
    testing::expect_one_sentence(script("bench/gpu/carry.sh", arguments), "bench/gpu/carry.sh",
                                 arguments.front(), 2, "is not one folder");
  }
}

// Once, rather than by each part.
TEST(GpuScripts, SayWhyThereIsNoGpu) {
  const testing::TemporaryFolder folder;
  const std::vector<std::string> arguments{"--binaries",     PIPESIM_FOLDER, "--module",
                                           PIPESIM_EMULATED, "cuda",         folder / "results"};
  const Outcome outcome = script("bench/gpu/run.sh", arguments, {"PIPESIM_EMULATED_GPUS=0"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_NE(outcome.out.find("\nFAILED: the GPU cuda:0: emulated CUDA could not count the GPUs"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("\n0 ok, 1 failed, 1 left out"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace pipesim
