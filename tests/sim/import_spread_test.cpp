// How imported configurations share experts and sequences, and the models that have experts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "sim/import/imported.h"
#include "sim/import/torchtitan.h"
#include "tests/imports.h"

namespace pipesim {
namespace {

using namespace testing;

// ---- Megatron-LM

const std::string small_llama =
    "--num-layers 12 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
    "--vocab-size 50304 --micro-batch-size 1 --global-batch-size 64 --bf16 --swiglu "
    "--normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
    "--untie-embeddings-and-output-weights ";
const std::string small_experts = small_llama + "--num-experts 8 --moe-ffn-hidden-size 512 ";

ImportedFlags spread_of(const std::string& text, std::int64_t devices = 16) {
  ImportedFlags all = flags_of(import(text, {.devices = devices, .vocabulary = {}}));
  std::erase_if(all, [](const auto& one) {
    return !starts_with_any(one.first, "--context- --expert- --shard-over");
  });
  return all;
}

TEST(ImportSpread, RanksShareSequences) {
  const std::string four =
      small_gpt + "--context-parallel-size 4 --pipeline-model-parallel-size 2 ";
  EXPECT_EQ(spread_of(four),
            (ImportedFlags{{"--context-parallel", "4"}, {"--context-parallel-type", "ring"}}));
  EXPECT_EQ(import(four, {.devices = 16, .vocabulary = {}}).devices, 16);
  EXPECT_EQ(spread_of(four + "--cp-comm-type a2a")["--context-parallel-type"], "a2a");
  EXPECT_EQ(spread_of(four + "--cp-comm-type all_gather")["--context-parallel-type"], "gather");
  const Imported mixed = import(four +
                                "--cp-comm-type a2a+p2p "
                                "--hierarchical-context-parallel-sizes 2 2");
  EXPECT_EQ(mixed.without_counterpart.size(), 1U);
  EXPECT_TRUE(has_remark(mixed.without_counterpart, "--cp-comm-type a2a+p2p"));
  EXPECT_EQ(import(four + "--cp-comm-type a2a p2p").without_counterpart.size(), 1U);
  // Weights and states are those of 2 replicas of 4 ranks.
  EXPECT_EQ(spread_of(four + "--use-distributed-optimizer "
                             "--num-distributed-optimizer-instances 2")["--shard-over"],
            "4");
  const auto refuse = [&](const std::string& more, const std::string& part) {
    const std::string error = import_refusal(four + more, {.devices = 16, .vocabulary = {}});
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuse("--cp-comm-type ring", "known");
  refuse("--seq-length 508", "multiples of 2 x --context-parallel-size 4");
  refuse("--tensor-model-parallel-size 4", "4 context-parallel x 2 pipeline ranks");
}

TEST(ImportSpread, RanksShareExperts) {
  EXPECT_EQ(spread_of(small_experts), ImportedFlags());
  const std::string eight = small_experts + "--expert-model-parallel-size 8 ";
  EXPECT_EQ(spread_of(eight),
            (ImportedFlags{{"--expert-parallel", "8"}, {"--expert-dispatch", "allgather"}}));
  EXPECT_EQ(spread_of(eight + "--moe-token-dispatcher-type alltoall")["--expert-dispatch"],
            "alltoall");
  EXPECT_EQ(spread_of(eight + "--moe-token-dispatcher-type flex")["--expert-dispatch"],
            "deduplicated");
  // Over tensor- and context-parallel ranks, too.
  const std::string folded = eight +
                             "--tensor-model-parallel-size 4 --sequence-parallel "
                             "--context-parallel-size 2 --expert-tensor-parallel-size 1 ";
  EXPECT_EQ(spread_of(folded)["--expert-tensor-parallel"], "1");
  EXPECT_EQ(spread_of(eight + "--moe-expert-capacity-factor 1.25 "
                              "--moe-pad-expert-input-to-capacity")["--expert-load"],
            "1.25");
  EXPECT_FALSE(spread_of(eight + "--moe-expert-capacity-factor -1").contains("--expert-capacity"));
  const Imported dropping = import(eight + "--moe-expert-capacity-factor 1.25");
  EXPECT_EQ(flags_of(dropping).at("--expert-capacity"), "1.25");
  EXPECT_TRUE(has_remark(dropping.approximated, "--moe-expert-capacity-factor 1.25"));
  const auto refuse = [](const std::string& text, const std::string& part) {
    const std::string error = import_refusal(text, {.devices = 16, .vocabulary = {}});
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuse(small_llama + "--expert-model-parallel-size 8", "takes --num-experts");
  refuse(eight + "--tensor-model-parallel-size 2", "--sequence-parallel alone");
  refuse(small_experts + "--expert-model-parallel-size 3", "do not divide");
  refuse(eight + "--moe-token-dispatcher-type magic", "allgather");
}

TEST(ImportSpread, BlocksDiffer) {
  const auto kinds = [](const std::string& more) {
    std::string text;
    const Imported imported = import(small_experts + more);
    for (const BlockKind& kind : imported.model->kinds) {
      text += kind.has_experts ? 'x' : '-';
      if (kind.window) text += std::to_string(*kind.window);
    }
    return text;
  };
  EXPECT_EQ(kinds(""), "x");
  EXPECT_EQ(kinds("--moe-layer-freq 3"), "x--");  // the first of each three
  EXPECT_EQ(kinds("--moe-layer-freq '([0]*2+[1]*10)'"), "--xxxxxxxxxx");
  EXPECT_EQ(kinds("--moe-layer-freq '([0,1]*2+[0]+[1])*2'"), "-x");
  EXPECT_EQ(kinds("--window-size '(127,0)'"), "x128");
  EXPECT_EQ(kinds("--window-size 127,0 --window-attn-skip-freq 3"), "x128x128x");
  EXPECT_EQ(kinds("--window-size 127,0 --window-attn-skip-freq '[0,1]*6'"), "xx128");
  EXPECT_EQ(kinds("--window-size -1,-1"), "x");
  const auto refuse = [](const std::string& more, const std::string& part) {
    const std::string error = import_refusal(small_experts + more);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuse("--moe-layer-freq '[0]*3'", "3 numbers for 12 blocks");
  refuse("--moe-layer-freq '[0*3'", "at character 3");
  refuse("--moe-layer-freq '([0]*3+'", "at character 8");
  refuse("--moe-layer-freq '[0]*999999999'", "a shorter list");
  refuse("--window-size wide", "no numbers");
}

TEST(ImportSpread, Predictions) {
  const std::string one = small_llama + "--mtp-num-layers 1 ";
  EXPECT_EQ(import(one).model->prediction_depths, 1);
  EXPECT_TRUE(import(one).without_counterpart.empty());
  const auto layout = [&](const std::string& more) {
    return flags_of(import(one + "--pipeline-model-parallel-size 2 " + more)).at("--layout");
  };
  EXPECT_EQ(layout("--pipeline-model-parallel-layout 'Et*7|t*5mL'"), "Et*7|t*5mL");
  EXPECT_EQ(layout("--decoder-first-pipeline-num-layers 7"), "8,7");
  EXPECT_EQ(layout("--account-for-embedding-in-pipeline-split "
                   "--account-for-loss-in-pipeline-split"),
            "7,8");
  EXPECT_NE(import_refusal(small_gpt + "--mtp-num-layers 1").find("rope or none"),
            std::string::npos);
}

// DeepSeek-AI, 2024, arXiv 2412.19437, section 4.2, as Megatron-LM has it.
TEST(ImportSpread, LatentAttention) {
  const Model model =
      *import(
           "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 "
           "--num-attention-heads 128 --multi-latent-attention --q-lora-rank 1536 "
           "--kv-lora-rank 512 --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 "
           "--qk-layernorm --swiglu --normalization RMSNorm --disable-bias-linear "
           "--position-embedding-type rope --untie-embeddings-and-output-weights "
           "--seq-length 4096 --vocab-size 129280 --num-experts 256 --moe-router-topk 8 "
           "--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 "
           "--moe-layer-freq '([0]*3+[1]*58)' --moe-router-num-groups 8 "
           "--moe-router-group-topk 4 --mtp-num-layers 1 --hidden-dropout 0 "
           "--attention-dropout 0")
           .model;
  EXPECT_EQ(model.parameters(), 671'026'404'352);
  EXPECT_EQ(model.prediction_parameters(), 11'610'067'968);
  EXPECT_EQ(model.groups_per_token, 4);
  EXPECT_EQ(torchtitan_name(model).name, "");  // it has no predictions there
  const Imported plain = import(small_llama + "--multi-latent-attention");
  EXPECT_EQ(plain.model->latent->kv_rank, 32);  // the default
  EXPECT_TRUE(has_remark(plain.approximated, "no --qk-layernorm"));
  EXPECT_NE(import_refusal(small_llama + "--multi-latent-attention --group-query-attention")
                .find("refuses it with"),
            std::string::npos);
}

// ---- torchtitan

// As published: of DeepSeek-V2-Lite, V2 and V3, gpt-oss, Llama 4.
TEST(ImportSpread, TorchtitanFlavorsHaveTheirParameters) {
  const std::tuple<const char*, const char*, std::int64_t> flavors[] = {
      {"deepseek_v3", "16B", 15'706'484'224},       {"deepseek_v3", "236B", 235'741'434'880},
      {"deepseek_v3", "671B", 671'026'404'352},     {"gpt_oss", "20b", 20'914'757'184},
      {"gpt_oss", "120b", 116'829'156'672},         {"llama4", "17bx16e", 107'769'861'120},
      {"llama4", "17bx128e_irope", 400'711'848'960}};
  for (const auto& [name, flavor, parameters] : flavors) {
    const Imported imported =
        import(fmt::format("[model]\nname = \"{}\"\nflavor = \"{}\"\n", name, flavor));
    ASSERT_TRUE(imported.model) << flavor;
    EXPECT_EQ(imported.model->parameters(), parameters) << flavor;
    EXPECT_EQ(torchtitan_name(*imported.model).flavor, flavor);
  }
}

TEST(ImportSpread, TorchtitanRanksShareSequencesAndExperts) {
  const std::string job =
      "[model]\nname = \"deepseek_v3\"\nflavor = \"debugmodel\"\n[training]\nseq_len = 4096\n"
      "[parallelism]\ncontext_parallel_degree = 2\nexpert_parallel_degree = 8\n";
  const Imported imported = import(job, {.devices = 16, .vocabulary = {}});
  EXPECT_EQ(imported.devices, 16);
  EXPECT_TRUE(imported.without_counterpart.empty());
  const ImportedFlags flags = flags_of(imported);
  EXPECT_EQ(flags.at("--context-parallel-type"), "gather");
  EXPECT_EQ(flags.at("--expert-parallel"), "8");
  EXPECT_EQ(flags.at("--expert-dispatch"), "alltoall");
  EXPECT_EQ(flags.at("--zero"), "3");
  const std::string more = job +
                           "tensor_parallel_degree = 2\ndata_parallel_replicate_degree = 2\n"
                           "context_parallel_rotate_method = \"alltoall\"\n"
                           "expert_parallel_comm_backend = \"deepep\"\n";
  const ImportedFlags two = flags_of(import(more, {.devices = 16, .vocabulary = {}}));
  EXPECT_EQ(two.at("--shard-over"), "4");  // 2 x 2
  EXPECT_EQ(two.at("--context-parallel-type"), "ring");
  EXPECT_EQ(two.at("--expert-tensor-parallel"), "1");
  EXPECT_EQ(two.at("--expert-dispatch"), "deduplicated");
  EXPECT_NE(import_refusal(job + "expert_tensor_parallel_degree = 3\n").find("takes 1"),
            std::string::npos);
  EXPECT_NE(import_refusal("[model]\nname = \"gpt_oss\"\nflavor = \"20b\"\n[parallelism]\n"
                           "context_parallel_degree = 2\n")
                .find("torchtitan refuses it"),
            std::string::npos);
}

// ---- DeepSpeed

TEST(ImportSpread, DeepspeedRanksShareSequencesAndExperts) {
  const Imported imported =
      import(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2,)"
             R"( "zero_optimization": {"stage": 3}, "sequence_parallel_size": 4,)"
             R"( "expert_parallel": {"enabled": true, "autoep_size": 8}})",
             {.devices = 16, .vocabulary = {}});
  EXPECT_EQ(imported.devices, 16);
  EXPECT_TRUE(imported.without_counterpart.empty());
  const ImportedFlags flags = flags_of(imported);
  EXPECT_EQ(flags.at("--microbatches"), "2");  // 16 / (2 x 4 replicas)
  EXPECT_EQ(flags.at("--context-parallel-type"), "a2a");
  EXPECT_EQ(flags.at("--expert-parallel"), "8");
}

}  // namespace
}  // namespace pipesim
