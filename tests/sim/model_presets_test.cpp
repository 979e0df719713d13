// Models that are files of the program: how many parameters they have.
#include "sim/cost/model_presets.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/cost/model.h"
#include "traces/base/json_reader.h"

namespace pipesim {
namespace {

struct PublishedCount {
  std::string name;
  std::int64_t parameters;  // a tied head counted once
  std::int64_t active = 0;  // if not all
};

// The sums over the tensors that transformers 5.24 makes of the published configurations.
const std::vector<PublishedCount> published_counts{
    // clang-format off
    {"deepseek-v2-lite", 15'706'484'224, 2'661'150'208},
    {"deepseek-v2", 235'741'434'880, 21'375'800'320},
    {"deepseek-v3", 671'026'404'352, 37'552'282'624},
    {"kimi-k2", 1'026'408'209'408, 32'861'477'888},
    {"qwen1.5-moe-a2.7b", 14'315'784'192, 2'689'173'504},
    {"qwen2-57b-a14b", 57'408'658'944, 14'249'270'784},
    {"qwen3-30b-a3b", 30'532'122'624, 3'353'032'704},
    {"qwen3-235b-a22b", 235'093'634'560, 22'190'763'520},
    {"mixtral-8x7b", 46'702'792'704, 12'879'925'248},
    {"mixtral-8x22b", 140'620'634'112, 39'152'031'744},
    {"gpt-oss-20b", 20'914'757'184, 4'187'440'704},
    {"gpt-oss-120b", 116'829'156'672, 5'711'982'912},
    {"llama-4-scout", 107'769'861'120, 17'172'894'720},
    {"llama-4-maverick", 400'711'848'960, 17'184'691'200},
    {"glm-4.5", 352'797'814'784, 33'632'251'904},
    {"glm-4.5-air", 106'852'245'504, 13'424'123'904},
    {"gemma-2-2b", 2'614'341'888},
    {"gemma-2-9b", 9'241'705'984},
    {"gemma-2-27b", 27'227'128'320},
    {"gemma-3-1b", 999'885'952},
    {"gemma-3-4b", 3'880'263'168},
    {"gemma-3-12b", 11'766'034'176},
    {"gemma-3-27b", 27'009'346'304},
    {"phi-3-mini", 3'821'079'552},
    {"phi-3-medium", 13'960'238'080},
    {"phi-4", 14'659'507'200},
    {"olmo-2-7b", 7'298'617'344},
    {"olmo-2-13b", 13'716'198'400},
    {"olmo-2-32b", 32'234'279'936},
    {"olmoe-1b-7b", 6'919'161'856, 1'282'017'280},
    {"falcon-7b", 6'921'720'704},
    {"falcon-40b", 41'303'293'952},
    {"falcon-180b", 178'557'088'768},
    {"opt-6.7b", 6'658'473'984},
    {"opt-30b", 29'974'540'288},
    {"opt-66b", 65'719'701'504},
    {"opt-175b", 174'604'468'224},
    {"bloom-176b", 176'247'271'424},
    {"gpt-j-6b", 6'050'882'784},
    {"mistral-7b-v0.1", 7'241'732'096},
    {"qwen3-0.6b", 596'049'920},
    {"qwen3-1.7b", 1'720'574'976},
    {"qwen3-4b", 4'022'468'096},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-14b", 14'768'307'200},
    {"qwen3-32b", 32'762'123'264},
    {"granite-3-2b", 2'533'531'648},
    {"granite-3-8b", 8'170'848'256},
    {"smollm3-3b", 3'075'098'624},
    {"seed-oss-36b", 36'151'104'512},
    {"glm-4-9b", 9'399'951'360},
    // clang-format on
};

TEST(ModelPresets, HaveThePublishedParameters) {
  std::set<std::string> counted;
  for (const PublishedCount& published : published_counts) {
    const Model model = find_model(published.name);
    EXPECT_EQ(model.parameters(), published.parameters) << published.name;
    EXPECT_EQ(model.active_parameters(),
              published.active > 0 ? published.active : published.parameters)
        << published.name;
    counted.insert(published.name);
  }
  for (const ModelPreset& preset : model_presets()) {
    EXPECT_TRUE(counted.contains(std::string(preset.name))) << preset.name;
  }
}

TEST(ModelPresets, PredictionsComeOnTop) {
  EXPECT_EQ(find_model("deepseek-v3").prediction_parameters(), 11'610'067'968);
  EXPECT_EQ(find_model("glm-4.5").prediction_parameters(), 3'988'069'632);
  EXPECT_EQ(find_model("glm-4.5-air").prediction_parameters(), 2'375'059'456);
  for (const Model& model : known_models()) {
    const bool predicts = model.name == "deepseek-v3" || model.name.starts_with("glm-4.5");
    EXPECT_EQ(model.prediction_depths, predicts ? 1 : 0) << model.name;
  }
}

TEST(ModelPresets, SayWhereTheyAreFrom) {
  for (const ModelPreset& preset : model_presets()) {
    const std::string file(preset.name);
    const JsonValue document = parse_json(preset.text, file);
    JsonMembers members({document, file});
    EXPECT_EQ(members.required("name").string(), file);
    EXPECT_GT(members.required("source").string().size(), 20U) << file;
  }
}

TEST(ModelPresets, BlocksDifferAsPublished) {
  const auto pattern = [](const std::string& name) {
    const Model model = find_model(name);
    std::string text;
    for (int block = 1; block <= model.blocks; ++block) {
      const BlockKind& kind = model.kind_of(block);
      char letter = 'f';
      if (kind.window) letter = 'w';
      if (kind.chunk) letter = 'c';
      text += kind.has_experts ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
    return text;
  };
  EXPECT_EQ(pattern("deepseek-v3"), "fff" + std::string(58, 'F'));
  EXPECT_EQ(pattern("deepseek-v2"), "f" + std::string(59, 'F'));
  EXPECT_EQ(pattern("gpt-oss-20b").substr(0, 6), "WFWFWF");
  EXPECT_EQ(pattern("llama-4-scout").substr(0, 8), "CCCFCCCF");
  EXPECT_EQ(pattern("llama-4-maverick").substr(0, 8), "cCcFcCcF");
  EXPECT_EQ(pattern("gemma-2-2b").substr(0, 4), "wfwf");
  EXPECT_EQ(pattern("gemma-3-1b"), "wwwwwfwwwwwfwwwwwfwwwwwfww");
  EXPECT_EQ(pattern("mixtral-8x22b"), std::string(56, 'F'));
}

}  // namespace
}  // namespace pipesim
