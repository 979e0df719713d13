// Pictures of layouts, in characters and as SVG.
#include "traces/print/layout_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/files.h"
#include "tests/xml.h"
#include "traces/base/error.h"

namespace pipesim {
namespace {

// Stages on these ranks, one layer each, that send 1 KiB.
PipelineLayout layout_on(const std::vector<int>& ranks) {
  PipelineLayout layout;
  layout.model = "tiny";
  layout.schedule = "1F1B";
  layout.microbatches = 4;
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    LaidStage& stage = layout.stages.emplace_back();
    stage.rank = ranks[s];
    stage.first_layer = static_cast<int>(s);
    stage.layers = 1;
    stage.layer_names = "block " + std::to_string(s);
    stage.parameters = 1'200'000;
    stage.weight_bytes = 2'400'000;
    layout.sizes.pipeline = std::max<std::int64_t>(layout.sizes.pipeline, ranks[s] + 1);
    if (s > 0 && ranks[s - 1] != ranks[s]) {
      layout.messages.push_back({static_cast<int>(s) - 1, ranks[s - 1], ranks[s], 1024});
    }
  }
  return layout;
}

PipelineLayout looped(int ranks, int chunks) {
  std::vector<int> all;
  for (int s = 0; s < ranks * chunks; ++s) all.push_back(s % ranks);
  return layout_on(all);
}

std::string drawn(const PipelineLayout& layout, int width = 80) {
  return layout_text(layout, {width, false});
}

std::size_t widest(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(LayoutText, DrawsALoop) {
  PipelineLayout layout = looped(2, 2);
  layout.tied = {0, 1, 2048};
  EXPECT_EQ(drawn(layout), R"(tiny, 1F1B: 2 ranks x 2 chunks, 4 microbatches

        chunk 0                         chunk 1
                                          v F ^ B 1.0 KiB from rank 1
        +---------------------------+   +---------------------------+
rank 0  | stage 0                   |   | stage 2                   |
        | block 0                   |   | block 2                   |
        | 1.2 M parameters, 2.3 MiB |   | 1.2 M parameters, 2.3 MiB |
        | tied to rank 1            |   |                           |
        +---------------------------+   +---------------------------+
          v F 1.0 KiB   ^ B 1.0 KiB       v F 1.0 KiB   ^ B 1.0 KiB
        +---------------------------+   +---------------------------+
rank 1  | stage 1                   |   | stage 3                   |
        | block 1                   |   | block 3                   |
        | 1.2 M parameters, 2.3 MiB |   | 1.2 M parameters, 2.3 MiB |
        |                           |   | tied to rank 0            |
        +---------------------------+   +---------------------------+
          v F ^ B 1.0 KiB to rank 0

messages  F activations, B their gradients; bytes per microbatch
tied      ranks 0 and 1 sum the gradients of the matrix that both have: 2.0 KiB
          each way per iteration
)");
}

TEST(LayoutText, DrawsAVWithReplicas) {
  PipelineLayout layout = layout_on({0, 1, 1, 0});
  layout.sizes.tensor = 2;
  layout.sizes.data = 2;
  layout.replicas.push_back({"gradients", "all-reduce", {0, 2, 2}, {4096, 2048}});
  EXPECT_EQ(drawn(layout),
            R"(tiny, 1F1B: 2 ranks x 2 chunks, 4 microbatches; 2 replicas of 4 devices

             chunk 0                         chunk 1
             +---------------------------+   +---------------------------+
rank 0       | stage 0                   |   | stage 3                   |
devices 0-1  | block 0                   |   | block 3                   |
             | 1.2 M parameters, 2.3 MiB |   | 1.2 M parameters, 2.3 MiB |
             +---------------------------+   +---------------------------+
               v F 1.0 KiB   ^ B 1.0 KiB       ^ F 1.0 KiB   v B 1.0 KiB
             +---------------------------+   +---------------------------+
rank 1       | stage 1                   |F >| stage 2                   |
devices 4-5  | block 1                   |< B| block 2                   |
             | 1.2 M parameters, 2.3 MiB |   | 1.2 M parameters, 2.3 MiB |
             +---------------------------+   +---------------------------+

messages   F activations, B their gradients; bytes per microbatch, from each
           device
           stages of one rank send nothing to each other
boxes      parameters each device computes with, bytes of weights it keeps
tensor     2 devices have a part of each layer of their rank
replicas   2; rank 0 is devices 0-1, 2-3
gradients  all-reduce over 2 devices, as 0, 2; each sends 4.0 KiB on rank 0,
           2.0 KiB on rank 1 per iteration
)");
}

TEST(LayoutText, SaysWhereSequencesAndExpertsAre) {
  PipelineLayout layout = layout_on({0, 1});
  layout.sizes = {.tensor = 2, .context = 2, .data = 2, .pipeline = 2};
  layout.experts = 16;
  layout.expert_sizes = {.expert = 8, .pipeline = 2};
  const std::string text = drawn(layout);
  EXPECT_TRUE(text.starts_with("tiny, 1F1B: 2 ranks, 4 microbatches; 2 replicas of 8 devices\n"));
  EXPECT_NE(text.find("\ndevices 8-11 "), std::string::npos) << text;
  EXPECT_NE(text.find(R"(
tensor    2 devices have a part of each layer of their rank, except routed
          experts
context   2 devices have a part of each sequence, as 0, 2
experts   8 devices share out the 16 experts of a block: device 0 has 0-1, 1 has
          2-3, ..., 7 has 14-15; no other device has the same
replicas  2; rank 0 is devices 0-3, 4-7
)"),
            std::string::npos)
      << text;
  layout.expert_sizes = {.tensor = 2, .expert = 2, .data = 2, .pipeline = 2};
  layout.replicas.push_back({"gradients", "all-reduce", {0, 4, 2}, {4096, 4096}, "experts"});
  EXPECT_NE(drawn(layout).find(R"(
tensor     2 devices have a part of each layer of their rank
context    2 devices have a part of each sequence, as 0, 2
experts    2 devices share out the 16 experts of a block: device 0 has 0-7, 2
           has 8-15; 2 devices have a part of each, as 0, 1
replicas   2; rank 0 is devices 0-3, 4-7
gradients  of experts: all-reduce over 2 devices, as 0, 4; each sends 4.0 KiB
           per iteration
)"),
            std::string::npos)
      << drawn(layout);
}

TEST(LayoutText, DrawsOneRank) {
  EXPECT_EQ(drawn(layout_on({0})), R"(tiny, 1F1B: 1 rank, 4 microbatches

        +---------------------------+
rank 0  | stage 0                   |
        | block 0                   |
        | 1.2 M parameters, 2.3 MiB |
        +---------------------------+
)");
}

// No line is wider than the page, and what is not shown is counted.
TEST(LayoutText, FitsThePageWhateverTheSize) {
  for (const int width : {48, 60, 80, 120, 200}) {
    for (const auto& [ranks, chunks] : {std::pair(1, 1), {4, 3}, {9, 1}, {10, 1}, {64, 8}}) {
      const std::string text = drawn(looped(ranks, chunks), width);
      EXPECT_LE(widest(text), static_cast<std::size_t>(width)) << text;
      EXPECT_NE(text.find("stage 0 "), std::string::npos) << text;
      const std::string last = "stage " + std::to_string(ranks * chunks - 1);
      const bool has_last = text.find(last) != std::string::npos;
      EXPECT_TRUE(has_last || width < 80) << text;
      EXPECT_TRUE(has_last || text.find(" more") != std::string::npos) << text;
      EXPECT_EQ(text.find("ranks 4-" + std::to_string(ranks - 5)) != std::string::npos, ranks > 9)
          << text;
    }
  }
  const std::string narrow = drawn(looped(4, 6), 80);
  const std::string wide = drawn(looped(4, 6), 200);
  EXPECT_EQ(narrow.find("chunk 3"), std::string::npos);
  EXPECT_NE(wide.find("chunk 3"), std::string::npos);
}

TEST(LayoutText, CountsWhatIsLeftOut) {
  const std::string text = drawn(looped(64, 1));
  EXPECT_NE(text.find("ranks 4-59"), std::string::npos) << text;
  EXPECT_NE(text.find("56 more"), std::string::npos) << text;
  EXPECT_NE(text.find("stages 4-59"), std::string::npos) << text;
  EXPECT_NE(text.find("1 layer each"), std::string::npos) << text;
}

TEST(LayoutText, IsColouredOnATerminal) {
  const std::string text = layout_text(looped(2, 1), {80, true});
  EXPECT_NE(text.find("\x1b[38;5;231;48;5;25mv F\x1b[0m"), std::string::npos) << text;
  EXPECT_EQ(drawn(looped(2, 1)).find('\x1b'), std::string::npos);
}

// ---- SVG

// What arrows are called: "F stage 0 to stage 1, 1.0 KiB".
std::set<std::string> expected_arrows(const PipelineLayout& layout) {
  std::set<std::string> all;
  for (std::size_t s = 0; s + 1 < layout.stages.size(); ++s) {
    const bool is_sent = layout.stages[s].rank != layout.stages[s + 1].rank;
    const std::string bytes = is_sent ? ", 1.0 KiB" : "";
    const std::string from = std::to_string(s);
    const std::string to = std::to_string(s + 1);
    all.insert("F stage " + from + " to stage " + to + bytes);
    all.insert("B stage " + to + " to stage " + from + bytes);
  }
  return all;
}

TEST(LayoutSvg, HasEveryStageAndEveryEdgeBothWays) {
  for (const std::vector<int>& ranks : {std::vector<int>{0},
                                        {0, 1, 2, 3},
                                        {0, 1, 2, 0, 1, 2},
                                        {0, 1, 2, 2, 1, 0},
                                        {0, 2, 1, 0, 2, 1, 1, 1, 2, 0, 0, 2}}) {
    const PipelineLayout layout = layout_on(ranks);
    const testing::Xml xml = testing::read_xml(layout_svg(layout));
    ASSERT_EQ(xml.fault, "");
    EXPECT_EQ(xml.elements[0].name, "svg");
    // An arrow around boxes has several lines.
    const auto titles = xml.texts("title");
    EXPECT_EQ(std::set(titles.begin(), titles.end()), expected_arrows(layout));
    const auto texts = xml.texts("text");
    for (std::size_t s = 0; s < ranks.size(); ++s) {
      EXPECT_EQ(texts.count("stage " + std::to_string(s)), 1U);
      EXPECT_EQ(texts.count("block " + std::to_string(s)), 1U);
    }
    // Nothing from elsewhere, and nothing outside the page.
    const double width = std::stod(xml.elements[0].attributes.at("width"));
    for (const testing::XmlElement& element : xml.elements) {
      EXPECT_EQ(element.attributes.count("href"), 0U);
      if (element.name != "rect") continue;
      EXPECT_LE(std::stod(element.attributes.count("x") != 0 ? element.attributes.at("x") : "0") +
                    std::stod(element.attributes.at("width")),
                width);
    }
  }
}

TEST(LayoutSvg, LeavesOutTheMiddle) {
  const testing::Xml xml = testing::read_xml(layout_svg(looped(64, 10)));
  ASSERT_EQ(xml.fault, "");
  const auto texts = xml.texts("text");
  EXPECT_EQ(texts.count("ranks 4-59"), 1U);
  EXPECT_EQ(texts.count("chunks 3-7"), 1U);
  EXPECT_EQ(texts.count("stage 0"), 1U);
  EXPECT_EQ(texts.count("stage 639"), 1U);
  EXPECT_EQ(texts.count("stage 20"), 0U);
}

TEST(LayoutSvg, EscapesNames) {
  PipelineLayout layout = layout_on({0, 1});
  layout.model = "a<b>&\"c\"\x01\xff";
  layout.stages[0].layer_names = "<\xef\xbf\xbf>";
  const testing::Xml xml = testing::read_xml(layout_svg(layout));
  EXPECT_EQ(xml.fault, "");
  const std::string none = "\xef\xbf\xbd";  // for each byte of what is no character
  EXPECT_EQ(xml.texts("text").count("&lt;" + none + none + none + "&gt;"), 1U);
}

TEST(LayoutSvg, IsTheSameEachTime) {
  EXPECT_EQ(layout_svg(looped(5, 3)), layout_svg(looped(5, 3)));
}

TEST(LayoutOutput, SaysWhatItCannotDo) {
  const testing::TemporaryFolder folder;
  EXPECT_FALSE(LayoutOutput({}, true).is_wanted());
  EXPECT_TRUE(LayoutOutput(LayoutOutput::printed, false).is_wanted());
  EXPECT_THROW(LayoutOutput(LayoutOutput::printed, true), Error);
  EXPECT_THROW(LayoutOutput(folder / "a.png", false), Error);
  EXPECT_THROW(LayoutOutput(folder / "nowhere/a.svg", false), Error);
  const std::string path = folder / "a.svg";
  { const LayoutOutput unused(path, true); }
  EXPECT_FALSE(std::filesystem::exists(path));
  LayoutOutput output(path, true);
  output.show(looped(2, 1), {}, false);
  EXPECT_EQ(read_file(path), layout_svg(looped(2, 1)));
  EXPECT_EQ(output.told(), "Layout: " + path + "\n");
}

}  // namespace
}  // namespace pipesim
