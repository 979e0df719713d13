// pipeexec device on this machine's CPU, and pipesim with what it wrote.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/words.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using Json = nlohmann::json;
using testing::Outcome;

class DeviceCommand : public ::testing::Test {
 protected:
  Outcome call(const std::string& program, const std::string& line) const {
    return testing::run_command(
        {"/bin/sh", "-c", "cd '" + folder_.path().string() + "' && exec '" + program + "' " + line},
        {"COLUMNS=80"});
  }
  void expect_refused(const std::string& line, int status, const std::string& part) const {
    testing::expect_one_sentence(call(PIPEEXEC_COMMAND, line), "pipeexec", line, status, part);
  }

  testing::TemporaryFolder folder_;
};

// However unsteady this machine is.
TEST_F(DeviceCommand, MeasuresWhatPipesimPredictsWith) {
  const Outcome measured =
      call(PIPEEXEC_COMMAND, "device --small --most-spread 100000 --name bench -o mine.json");
  ASSERT_EQ(measured.status, 0) << measured.err;
  EXPECT_NE(measured.out.find("pipesim --cluster mine.json predicts with it."), std::string::npos);
  const Json file = Json::parse(read_file((folder_.path() / "mine.json").string()));
  EXPECT_EQ(file["format"], "pipesim-device");
  EXPECT_EQ(file["name"], "bench");
  EXPECT_LE(file["kernels"]["sustained"]["value"], 1);
  const Outcome predicted = call(PIPESIM_COMMAND,
                                 "--cluster mine.json --model gpt-mini --precision fp32 --schedule "
                                 "1f1b --stages 1 --microbatches 4 --json");
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  const Json json = Json::parse(predicted.out);
  EXPECT_GT(json["makespan_ns"], 0);
  // Nothing was validated on it.
  EXPECT_EQ(json["error_band"], nullptr);
  write_file((folder_.path() / "runs.csv").string(),
             "model,stages,microbatches,precision,seconds\ngpt-mini,1,4,fp32,0.15\n"
             "gpt-mini,1,8,fp32,0.29\ngpt-mini,1,16,fp32,0.58\n");
  const Outcome fitted = call(PIPESIM_COMMAND, "fit runs.csv --cluster mine.json -o fitted.json");
  EXPECT_EQ(fitted.status, 0) << fitted.err;
  const Outcome again = call(PIPESIM_COMMAND,
                             "--cluster fitted.json --model gpt-mini --precision fp32 --schedule "
                             "1f1b --stages 1 --microbatches 4 --json");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NE(Json::parse(again.out)["error_band"], nullptr);
}

TEST_F(DeviceCommand, SaysWhatIsWrong) {
  expect_refused("device --device emulated -o d.json", 2, "it has no kernels to measure");
  expect_refused("device --device abacus -o d.json", 2, "abacus");
  expect_refused("device --seconds 100 -o d.json", 2, "seconds from 0.01 to 60");
  expect_refused("device --most-spread none -o d.json", 2, "percent");
  expect_refused("device -o no/folder/d.json", 2, "no/folder");
  expect_refused("device -o d.txt", 2, "files that end in .json");
  expect_refused("device --name ' ' -o d.json", 2, "give the device a name");
  // No machine is as steady as this; nothing is written.
  expect_refused("device --small --most-spread 0.0001 -o d.json", 1, "cpu: ");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "d.json"));
}

}  // namespace
}  // namespace pipesim
