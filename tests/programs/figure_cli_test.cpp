// --figure of a prediction, a recorded run and a comparison, as a user drives it.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/command.h"
#include "tests/files.h"
#include "tests/xml.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using testing::Outcome;
using testing::pipesim;

class FigureFlag : public ::testing::Test {
 protected:
  static std::vector<std::string> prediction(std::vector<std::string> more) {
    more.insert(more.begin(), {"--schedule", "zb-v", "--stages", "4", "--microbatches", "8"});
    return more;
  }
  // Of all actions drawn, by their names.
  std::multiset<std::string> drawn(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--figure", file_});
    const Outcome outcome = pipesim(all);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("Figure: " + file_), std::string::npos) << outcome.out;
    const testing::Xml svg = testing::read_xml(read_file(file_));
    EXPECT_EQ(svg.fault, "");
    return svg.texts("title");
  }

  testing::TemporaryFolder folder_;
  std::string file_ = folder_ / "figure.svg";
  std::string trace_ = folder_ / "run.json";
};

TEST_F(FigureFlag, DrawsThePredictedAndTheRecordedAlike) {
  const std::multiset<std::string> predicted = drawn(prediction({"--trace", trace_}));
  EXPECT_EQ(predicted.size(), 3U * 8 * 8) << "an F, an I and a W of each of 8 virtual stages";
  EXPECT_EQ(predicted.count("7W3"), 1U);
  const std::string of_prediction = read_file(file_);
  EXPECT_EQ(drawn({"report", trace_}), predicted);
  EXPECT_EQ(read_file(file_), of_prediction);
}

TEST_F(FigureFlag, DrawsBothSidesOfAComparison) {
  ASSERT_EQ(pipesim(prediction({"--trace", trace_, "--quiet"})).status, 0);
  const auto both = drawn({"compare", trace_, trace_});
  EXPECT_EQ(both.size(), 2U * 3 * 8 * 8);
  EXPECT_EQ(both.count("7W3"), 2U);
}

TEST_F(FigureFlag, WritesAPngBesideJson) {
  const std::string png = folder_ / "figure.png";
  const Outcome outcome = pipesim(prediction({"--figure", png, "--json"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out.front(), '{');
  EXPECT_TRUE(read_file(png).starts_with("\x89PNG\r\n"));
}

TEST_F(FigureFlag, IsRefusedInOneSentence) {
  const auto refuse = [&](const std::vector<std::string>& arguments, const std::string& part) {
    testing::expect_one_sentence(pipesim(arguments), "pipesim", arguments.back(), 2, part);
  };
  refuse(prediction({"--figure", "a.pdf"}), "ends in .svg or .png");
  refuse(prediction({"--figure", folder_ / "none/a.svg"}), "none/a.svg");
  ASSERT_EQ(pipesim(prediction({"--trace", trace_, "--quiet"})).status, 0);
  refuse({"report", trace_, "--figure", trace_}, "name the same file");
  refuse({"report", testing::source_file("tests/data/traces/hta_event_sync.json.gz"), "--figure",
          file_},
         "no pipeline is known");
  EXPECT_FALSE(std::filesystem::exists(file_)) << "nothing is left of one that fails";
  const std::string input = folder_ / "input.json";
  ASSERT_EQ(pipesim({"--input-pipeline", "sparse-dist", "--model", "dlrm-mini", "--cluster",
                     "dgx-a100", "--ranks", "2", "--batches", "4", "--trace", input, "--quiet"})
                .status,
            0);
  refuse({"report", input, "--figure", input}, "name the same file");
}

}  // namespace
}  // namespace pipesim
