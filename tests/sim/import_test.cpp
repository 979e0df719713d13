// Configurations of Megatron-LM, torchtitan and DeepSpeed, and the shell_texts's words that some
// are in.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/import/imported.h"
#include "sim/import/shell_words.h"
#include "sim/import/toml.h"
#include "sim/import/torchtitan.h"
#include "tests/errors.h"
#include "tests/files.h"
#include "tests/imports.h"
#include "traces/base/files.h"

namespace pipesim {
namespace {

using namespace testing;

// ---- The shell_texts

std::vector<std::string> shell_texts(const std::string& text) {
  std::vector<std::string> words;
  const ShellScript script = read_shell(text, "s.sh");
  for (const ShellWords& command : script.commands) {
    for (const ShellWord& word : command) words.push_back(word.text);
  }
  return words;
}
using ShellTexts = std::vector<std::string>;

TEST(ShellWordsOf, QuotesBlanksAndComments) {
  EXPECT_EQ(shell_texts("a 'b c' \"d e\" f\\ g # h"), (ShellTexts{"a", "b c", "d e", "f g"}));
  EXPECT_EQ(shell_texts("a \\\n  b\nc"), (ShellTexts{"a", "b", "c"}));
  EXPECT_EQ(shell_texts("a#b \"\" ''"), (ShellTexts{"a#b", "", ""}));
  EXPECT_EQ(shell_texts("x \"a \\\"b\\\" \\$c\""), (ShellTexts{"x", "a \"b\" $c"}));
  EXPECT_EQ(shell_texts("--layout Et|(tt|)*2L --next"),
            (ShellTexts{"--layout", "Et|(tt|)*2L", "--next"}));
  EXPECT_EQ(shell_texts("a; b && c | d\r\ne\r\n"), (ShellTexts{"a", "b", "c", "d", "e"}));
}

TEST(ShellWordsOf, Variables) {
  EXPECT_EQ(shell_texts("A=1\nx $A ${A}2 \"$A\" '$A'"), (ShellTexts{"x", "1", "12", "1", "$A"}));
  EXPECT_EQ(shell_texts("A='b c'\nx $A \"$A\""), (ShellTexts{"x", "b", "c", "b c"}));
  EXPECT_EQ(shell_texts("A=b; A+=c; x $A"), (ShellTexts{"x", "bc"}));
  EXPECT_EQ(shell_texts("A=(1 'b c')\nA+=(3)\nx \"${A[@]}\" y"),
            (ShellTexts{"x", "1", "b c", "3", "y"}));
  EXPECT_EQ(shell_texts("A=()\nx \"${A[@]}\" ${A[*]} y"), (ShellTexts{"x", "y"}));
  EXPECT_EQ(shell_texts("A=(1 # one\n 2)\nx ${A[@]}"), (ShellTexts{"x", "1", "2"}));
  EXPECT_EQ(shell_texts("export A=1 B=2\nx $A$B"), (ShellTexts{"x", "12"}));
  EXPECT_EQ(shell_texts("A=1 x $A"), (ShellTexts{"x", "1"}));
  EXPECT_EQ(shell_texts("x ${A:-7} ${A-8} \"${A:-b c}\""), (ShellTexts{"x", "7", "8", "b c"}));
  EXPECT_EQ(shell_texts("A=1\nx ${A:-7}"), (ShellTexts{"x", "1"}));
  EXPECT_EQ(shell_texts("A=3\nx $((A * 2 + 1)) $((($A+1)/2)) $((7%4))"),
            (ShellTexts{"x", "7", "2", "3"}));
}

TEST(ShellWordsOf, WhatHasNoValueIsNamed) {
  const auto unknown = [](const std::string& text) {
    std::vector<std::string> names;
    const ShellScript script = read_shell(text, "s.sh");
    for (const ShellWord& word : script.commands.at(0)) {
      if (!word.unknown.empty()) names.push_back(word.text + "=" + word.unknown);
    }
    return names;
  };
  EXPECT_EQ(unknown("x $A"), ShellTexts{"$A=A"});
  EXPECT_EQ(unknown("x a${B}c"), ShellTexts{"a${B}c=B"});
  EXPECT_EQ(unknown("A=$B\nx $A"), ShellTexts{"$B=B"});
  EXPECT_EQ(unknown("x $((A + 1))"), ShellTexts{"$((A + 1))=A"});
  EXPECT_EQ(unknown("x $(cat list) y"), ShellTexts{"$(cat list)=$(cat list)"});
  EXPECT_EQ(unknown("A=\"--save $1 --lr 1\"\nx $A"), ShellTexts{"$1=1"});
}

TEST(ShellWordsOf, WhatIsNotFollowedIsRefused) {
  const auto refusal = [](const std::string& text) {
    return input_error_of([&] { read_shell(text, "s.sh"); });
  };
  EXPECT_NE(refusal("a\nif [ 1 ]; then b; fi").find("s.sh:2: if: conditions"), std::string::npos);
  EXPECT_NE(refusal("[ -z \"$A\" ] && A=1").find("s.sh:1: [: conditions"), std::string::npos);
  EXPECT_NE(refusal("x 'abc").find("never closed"), std::string::npos);
  EXPECT_NE(refusal("x \"abc").find("never closed"), std::string::npos);
  EXPECT_NE(refusal("A=(1 2").find("never closed"), std::string::npos);
  EXPECT_NE(refusal("A=(1;2)").find("a ; in the list of A"), std::string::npos);
  EXPECT_NE(refusal("A=(\\\n;)").find("a ; in the list of A"), std::string::npos);
  EXPECT_NE(refusal("x ${A").find("never closed"), std::string::npos);
  std::string doubled = "A=aaaaaaaaaaaaaaaa\n";
  for (int i = 0; i < 40; ++i) doubled += "A=$A$A\n";
  EXPECT_NE(refusal(doubled).find("beyond what is read"), std::string::npos);
}

// ---- All formats

Imported import_sample(const std::string& name, const ImportQuestion& question = {}) {
  const std::string path = source_file("examples/import/" + name);
  return import_training(read_file(path), name, question);
}

TEST(Import, FormatsAreToldApart) {
  // An exported configuration says in a comment what it was predicted for.
  EXPECT_EQ(import("# Predicted: --micro-batch-size 2\n[training]\nseq_len = 128\n").format,
            "TOML of torchtitan");
  EXPECT_EQ(import("--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
                   "--vocab-size 100")
                .format,
            "Megatron-LM arguments");
  EXPECT_EQ(import("[training]\nseq_len = 128\n").format, "TOML of torchtitan");
  EXPECT_EQ(import(R"({"train_batch_size": 8})").format, "JSON of DeepSpeed");
  EXPECT_NE(import_refusal("hello").find("none of the formats"), std::string::npos);
  EXPECT_NE(import_refusal("").find("none of the formats"), std::string::npos);
  EXPECT_NE(import_refusal(R"({"model_type": "llama"})").find("--model"), std::string::npos);
  EXPECT_NE(import_refusal(R"({"a": 1})").find("not a configuration of DeepSpeed"),
            std::string::npos);
}

TEST(Import, ModelsAreKnownByTheirNumbers) {
  Model model = find_model("llama-3-8b");
  model.name = "mine";
  model.max_sequence_length = 131072;
  ASSERT_NE(known_model_like(model), nullptr);
  EXPECT_EQ(known_model_like(model)->name, "llama-3-8b");
  model.kv_heads = 4;
  EXPECT_EQ(known_model_like(model), nullptr);
  Model gpt = find_model("gpt2-small");
  gpt.max_sequence_length = 2048;  // a longer table
  EXPECT_EQ(known_model_like(gpt), nullptr);
}

// ---- Megatron-LM

TEST(ImportMegatron, ASample) {
  const Imported imported = import_sample("megatron_gpt3.sh");
  ASSERT_TRUE(imported.model);
  ASSERT_NE(known_model_like(*imported.model), nullptr);
  EXPECT_EQ(known_model_like(*imported.model)->name, "gpt3-175b");
  EXPECT_EQ(imported.devices, 64);
  EXPECT_EQ(flags_of(imported), (ImportedFlags{{"--micro-batch-size", "1"},
                                               {"--global-batch", "64"},
                                               {"--sequence-length", "2048"},
                                               {"--schedule", "interleaved"},
                                               {"--stages", "8"},
                                               {"--virtual-stages", "3"},
                                               {"--tensor-parallel", "8"},
                                               {"--sequence-parallel", ""},
                                               {"--tensor-overlap", "reductions"},
                                               {"--precision", "bf16"},
                                               {"--gradient-bytes", "4"},
                                               {"--attention", "unfused"},
                                               {"--recompute", "selective"}}));
  EXPECT_TRUE(imported.missing.empty());
  EXPECT_TRUE(has_remark(imported.approximated, "--no-rope-fusion"));
  EXPECT_TRUE(imported.without_counterpart.empty());
  EXPECT_TRUE(has_text(imported.without_effect, "--save $1"));
}

TEST(ImportMegatron, ListsOfAllShapesSayTheSame) {
  const Imported expected = import(small_gpt + "--tensor-model-parallel-size 2");
  std::string lines = small_gpt + "--tensor-model-parallel-size 2";
  std::ranges::replace(lines, ' ', '\n');
  const std::vector<std::string> shapes{
      lines, "ARGS=(" + small_gpt + "--tensor-model-parallel-size=2)\n",
      "ARGS=\"" + small_gpt + "\"\nMORE='--tensor-model-parallel-size 2'\n",
      "T=2\ntorchrun train.py " + small_gpt + "--tensor-model-parallel-size $T",
      small_gpt + "--tensor-model-parallel-size 4 \\\n --tensor-model-parallel-size 2"};
  for (const std::string& text : shapes) {
    const Imported imported = import(text);
    EXPECT_EQ(imported.model, expected.model) << text;
    EXPECT_EQ(flags_of(imported), flags_of(expected)) << text;
  }
}

TEST(ImportMegatron, Models) {
  const Model gpt = *import(small_gpt).model;
  EXPECT_EQ(gpt.architecture, Architecture::gpt);
  EXPECT_EQ(gpt.mlp_size, 4096);
  EXPECT_EQ(gpt.vocabulary_size, 1024);  // filled up to a multiple of 128
  EXPECT_TRUE(gpt.tied_head);
  EXPECT_EQ(gpt.dropout_ppm, 100'000);
  EXPECT_EQ(import(small_gpt + "--tensor-model-parallel-size 8").model->vocabulary_size, 1024);
  EXPECT_EQ(import(small_gpt + "--tensor-model-parallel-size 16").model->vocabulary_size, 2048);
  EXPECT_TRUE(import(small_gpt + "--position-embedding-type rope").model->positions ==
              Positions::rotary);
  const std::string llama =
      "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm "
      "--disable-bias-linear --position-embedding-type rope --rotary-base 500000 "
      "--untie-embeddings-and-output-weights --seq-length 8192 --hidden-dropout 0 "
      "--attention-dropout 0 ";
  EXPECT_EQ(known_model_like(*import(llama, {.devices = {}, .vocabulary = 128256}).model)->name,
            "llama-3-8b");
  EXPECT_NE(import_refusal(llama).find("give --vocabulary"), std::string::npos);
  const Imported experts =
      import(llama + "--vocab-size 32000 --num-experts 8 --kv-channels 64 --qk-layernorm");
  EXPECT_EQ(experts.model->experts, 8);
  EXPECT_EQ(experts.model->experts_per_token, 2);
  EXPECT_EQ(experts.model->head_size(), 64);
  EXPECT_TRUE(experts.model->qk_norm != QkNorm::none);
  const Imported mixed = import(small_gpt + "--normalization RMSNorm --disable-bias-linear");
  EXPECT_TRUE(mixed.model->norm_kind == NormKind::rms);
  EXPECT_EQ(mixed.model->biases, (Biases{}));
  EXPECT_TRUE(mixed.approximated.empty());
  const Imported biased = import(small_gpt + "--swiglu --qk-layernorm");
  EXPECT_TRUE(biased.model->is_gated && biased.model->has_positions());
  EXPECT_EQ(biased.model->biases, (Biases{true, true, true, false, false}));
  EXPECT_TRUE(biased.model->norm_kind == NormKind::layer);
  EXPECT_TRUE(has_remark(biased.approximated, "--qk-layernorm"));
  EXPECT_EQ(import("--micro-batch-size 1 --global-batch-size 8").model, std::nullopt);
}

TEST(ImportMegatron, Layouts) {
  const auto layout = [](const std::string& more) {
    const ImportedFlags flags = flags_of(import(small_gpt + more));
    const auto at = [&](const char* name) {
      const auto found = flags.find(name);
      return found == flags.end() ? std::string() : found->second;
    };
    return at("--schedule") + " " + at("--stages") + " " + at("--virtual-stages") + " " +
           at("--layout");
  };
  const std::string four = "--pipeline-model-parallel-size 4 ";
  EXPECT_EQ(layout(""), "1f1b 1  ");
  EXPECT_EQ(layout(four), "1f1b 4  ");
  EXPECT_EQ(layout(four + "--num-layers-per-virtual-pipeline-stage 3"), "interleaved 4 2 ");
  EXPECT_EQ(layout(four + "--num-layers-per-virtual-pipeline-stage 6"), "1f1b 4  ");
  EXPECT_EQ(layout(four + "--num-virtual-stages-per-pipeline-rank 3"), "interleaved 4 3 ");
  EXPECT_EQ(layout(four + "--pipeline-model-parallel-layout 'Et*5|(t*7|)*2,t*5L'"),
            "1f1b 4  Et*5|(t*7|)*2,t*5L");
  EXPECT_EQ(layout(four + "--pipeline-model-parallel-layout 'Et*3|(t*3|)*6t*3L'"),
            "interleaved 4 2 Et*3|(t*3|)*6t*3L");
  EXPECT_EQ(layout(four + "--decoder-first-pipeline-num-layers 3 "
                          "--decoder-last-pipeline-num-layers 5"),
            "1f1b 4  4,8,8,6");
  EXPECT_EQ(layout("--pipeline-model-parallel-size 13 --account-for-embedding-in-pipeline-split "
                   "--account-for-loss-in-pipeline-split"),
            "1f1b 13  2,2,2,2,2,2,2,2,2,2,2,2,2");
  EXPECT_EQ(layout("--pipeline-model-parallel-size 5 --account-for-loss-in-pipeline-split"),
            "1f1b 5  6,5,5,5,5");
  const auto refuse = [&](const std::string& more, const std::string& part) {
    const std::string error = import_refusal(small_gpt + more);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refuse(four + "--num-layers-per-virtual-pipeline-stage 5", "not a multiple of 5");
  refuse(four + "--pipeline-model-parallel-layout 'Et*8|t*8|t*8L'", "3 stages on 4 ranks");
  refuse(four + "--pipeline-model-parallel-layout 'Et*8|t*8|t*7|L'", "--layout");
  refuse(four + "--pipeline-model-parallel-layout nonsense", "letters");
  refuse(four + "--decoder-first-pipeline-num-layers 4", "can't be divided");
}

TEST(ImportMegatron, Replicas) {
  const std::string zero = small_gpt + "--use-distributed-optimizer ";
  const auto flags = [](const std::string& text, std::optional<std::int64_t> devices) {
    ImportedFlags all = flags_of(import(text, {.devices = devices, .vocabulary = {}}));
    std::erase_if(all, [](const auto& one) {
      return one.first != "--zero" && one.first != "--bucket-bytes" && one.first != "--gather" &&
             one.first != "--overlap-gather" && one.first != "--shard-over";
    });
    return all;
  };
  EXPECT_EQ(
      flags(zero, 8),
      (ImportedFlags{{"--zero", "1"}, {"--bucket-bytes", "off"}, {"--overlap-gather", "off"}}));
  EXPECT_EQ(flags(zero, 1), ImportedFlags());
  EXPECT_EQ(
      flags(zero + "--overlap-grad-reduce --overlap-param-gather", 8),
      (ImportedFlags{{"--zero", "1"}, {"--bucket-bytes", "160MB"}, {"--overlap-gather", "on"}}));
  EXPECT_EQ(flags(small_gpt + "--global-batch-size 128 --bf16 --overlap-grad-reduce", 64),
            (ImportedFlags{{"--bucket-bytes", "256MB"}}));
  EXPECT_EQ(
      flags(zero + "--bf16 --overlap-grad-reduce --ddp-bucket-size 5000000", 8),
      (ImportedFlags{{"--zero", "1"}, {"--bucket-bytes", "20MB"}, {"--overlap-gather", "off"}}));
  EXPECT_EQ(flags(zero + "--num-distributed-optimizer-instances 2", 8)["--shard-over"], "4");
  EXPECT_EQ(flags(small_gpt + "--use-megatron-fsdp", 8),
            (ImportedFlags{{"--zero", "3"}, {"--gather", "pass"}}));
  EXPECT_EQ(
      flags(small_gpt + "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", 8),
      (ImportedFlags{{"--zero", "2"}, {"--overlap-gather", "off"}}));
  EXPECT_EQ(flags(small_gpt + "--use-torch-fsdp2", {}),
            (ImportedFlags{{"--zero", "3"}, {"--gather", "pass"}}));
  EXPECT_TRUE(has_remark(import(zero).missing, "--devices"));
  EXPECT_NE(
      import_refusal(small_gpt + "--tensor-model-parallel-size 4", {.devices = 6, .vocabulary = {}})
          .find("not a multiple"),
      std::string::npos);
}

TEST(ImportMegatron, RecomputationAndPrecision) {
  const auto flag = [](const std::string& more, const char* name) {
    const ImportedFlags flags = flags_of(import(small_gpt + more));
    return flags.contains(name) ? flags.at(name) : "";
  };
  EXPECT_EQ(flag("", "--recompute"), "");
  EXPECT_EQ(flag("--recompute-granularity selective", "--recompute"), "selective");
  EXPECT_EQ(flag("--recompute-granularity selective --recompute-modules core_attn layernorm",
                 "--recompute"),
            "attention,norms");
  EXPECT_EQ(flag("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
                 "--recompute"),
            "full");
  EXPECT_EQ(flag("--recompute-granularity full --recompute-method block --recompute-num-layers 3",
                 "--recompute"),
            "full:3");
  EXPECT_NE(import_refusal(small_gpt + "--recompute-granularity full --recompute-method blocks")
                .find("--recompute-method: 'blocks'; known: uniform, block"),
            std::string::npos);
  EXPECT_TRUE(
      has_remark(import(small_gpt + "--recompute-granularity full --recompute-method uniform "
                                    "--recompute-num-layers 3")
                     .approximated,
                 "--recompute-num-layers 3"));
  const std::string modules = "--recompute-granularity selective --recompute-modules ";
  EXPECT_TRUE(has_remark(import(small_gpt + modules + "mhc").without_counterpart,
                         "--recompute-modules mhc"));
  const Imported some = import(small_gpt + modules + "mlp moe");
  EXPECT_EQ(flags_of(some).at("--recompute"), "mlp");
  EXPECT_TRUE(has_text(some.without_effect, "--recompute-modules moe, of no block"));
  EXPECT_EQ(flag("", "--precision"), "fp32");
  EXPECT_EQ(flag("--bf16", "--gradient-bytes"), "4");
  EXPECT_EQ(flag("--bf16 --grad-reduce-in-bf16", "--gradient-bytes"), "2");
  EXPECT_EQ(flag("--fp16", "--gradient-bytes"), "2");
  EXPECT_EQ(flag("--bf16 --fp8-format hybrid", "--precision"), "fp8");
  const std::string narrow = "--bf16 --use-precision-aware-optimizer --use-distributed-optimizer ";
  EXPECT_EQ(flag(narrow + "--main-grads-dtype bf16", "--gradient-bytes"), "2");
  EXPECT_EQ(flag(narrow, "--optimizer-bytes"), "10");  // a master has what bf16 lacks
  EXPECT_EQ(flag(narrow + "--exp-avg-dtype bf16", "--optimizer-bytes"), "8");
  EXPECT_EQ(flag(narrow + "--exp-avg-dtype bf16 --fp8-format hybrid", "--optimizer-bytes"), "10");
  EXPECT_EQ(flag(narrow + "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8 --main-params-dtype fp16",
                 "--optimizer-bytes"),
            "4");
  EXPECT_EQ(flag("--bf16 --exp-avg-dtype bf16", "--optimizer-bytes"), "");  // has no effect
  EXPECT_EQ(flag("--bf16 --optimizer sgd", "--optimizer-bytes"), "8");
  EXPECT_TRUE(
      has_remark(import(small_gpt + "--optimizer muon").without_counterpart, "--optimizer muon"));
}

TEST(ImportMegatron, WhatItOverlapsAndFuses) {
  const auto flags = [](const std::string& more) {
    ImportedFlags all = flags_of(import(small_gpt + "--tensor-model-parallel-size 2 " + more));
    std::erase_if(all, [](const auto& one) {
      return one.first != "--tensor-overlap" && one.first != "--fused-loss" &&
             one.first != "--separate-sums";
    });
    return all;
  };
  EXPECT_EQ(flags(""), (ImportedFlags{{"--tensor-overlap", "reductions"}}));
  EXPECT_EQ(flags("--no-async-tensor-model-parallel-allreduce"),
            (ImportedFlags{{"--tensor-overlap", "off"}}));
  EXPECT_EQ(flags("--sequence-parallel --tp-comm-overlap"),
            (ImportedFlags{{"--tensor-overlap", "on"}}));
  EXPECT_EQ(
      flags("--cross-entropy-loss-fusion --no-gradient-accumulation-fusion"),
      (ImportedFlags{
          {"--tensor-overlap", "reductions"}, {"--fused-loss", ""}, {"--separate-sums", ""}}));
  EXPECT_EQ(flags_of(import(small_gpt)).count("--tensor-overlap"), 0U);
}

TEST(ImportMegatron, WhatItRefusesIsRefused) {
  const auto refuse = [](const std::string& more, const std::string& part) {
    const std::string error = import_refusal(small_gpt + more, {.devices = 8, .vocabulary = {}});
    EXPECT_NE(error.find(part), std::string::npos) << more << error;
  };
  refuse("--pipeline-model-parallel-size 4 --num-layers 30",
         "--num-layers 28 or 32, or --pipeline-model-parallel-size 3 or 5");
  const std::string pipeline = "--pipeline-model-parallel-size 4 ";
  refuse(pipeline + "--num-virtual-stages-per-pipeline-rank 4", "--num-layers 16 or 32");
  const std::string chunks = pipeline + "--num-virtual-stages-per-pipeline-rank 3 ";
  refuse(chunks + "--global-batch-size 8", "nearest that work: 16");  // 2 of 2 sequences each
  refuse(chunks + "--global-batch-size 24", "nearest that work: 16 or 32");
  refuse(chunks + "--microbatch-group-size-per-virtual-pipeline-stage 2", "give 4");
  refuse("--num-virtual-stages-per-pipeline-rank 2", "takes at least 2");
  refuse("--global-batch-size 24", "nearest that work: 16 or 32");
  refuse("--tensor-model-parallel-size 2 --tp-comm-overlap", "--sequence-parallel");
  refuse("--overlap-param-gather --overlap-grad-reduce", "--use-distributed-optimizer");
  refuse(pipeline + "--use-torch-fsdp2", "refuses it with a pipeline");
  EXPECT_EQ(import_refusal(small_gpt + chunks + "--global-batch-size 32",
                           {.devices = 8, .vocabulary = {}}),
            "no error");
}

TEST(ImportMegatron, ArgumentsThatItRefusesTogether) {
  const auto refuse = [](const std::string& more, const std::string& part) {
    const std::string error = import_refusal(small_gpt + more, {.devices = 8, .vocabulary = {}});
    EXPECT_NE(error.find(part), std::string::npos) << more << error;
  };
  refuse("--bf16 --fp16", "refuses it with --fp16");
  refuse("--max-position-embeddings 256", "fewer than --seq-length 512");
  refuse("--num-layers-per-virtual-pipeline-stage 3 --num-virtual-stages-per-pipeline-rank 2",
         "refuses it with --num-layers-per-virtual-pipeline-stage");
  refuse("--recompute-granularity full", "takes uniform or block");
  refuse("--recompute-activations --recompute-method block", "full granularity alone");
  refuse("--bf16 --use-precision-aware-optimizer", "--use-distributed-optimizer alone");
  refuse("--use-distributed-optimizer --num-distributed-optimizer-instances 3",
         "3 do not divide 8 replicas");
  refuse("--sequence-parallel --tp-comm-overlap", "several tensor-parallel ranks");
}

TEST(Import, WhatIsNotModelledIsRefusedUnlessItIsIgnored) {
  const Imported imported =
      import(small_gpt + "--attention-output-gate --fp4-format e2m1 --no-rope-fusion");
  const auto refusal = [&](const std::vector<std::string>& ignored) {
    return input_error_of([&] { refuse_unmodelled(imported, "f", ignored); });
  };
  EXPECT_NE(refusal({}).find("to predict without: --ignore "
                             "attention-output-gate,fp4-format"),
            std::string::npos)
      << refusal({});
  EXPECT_NE(refusal({"fp4-format"}).find("--ignore fp4-format,attention-output-gate"),
            std::string::npos);
  EXPECT_EQ(refusal({"fp4-format", "attention-output-gate"}), "no error");
  EXPECT_NE(refusal({"rope"}).find("it has attention-output-gate, fp4-format"), std::string::npos);
}

TEST(ImportMegatron, WhatCountsMustBeKnown) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    const std::string error = import_refusal(text);
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_TRUE(error.starts_with("f:")) << error;
  };
  refuse("x --num-layers $LAYERS --hidden-size 8 --num-attention-heads 1",
         "f:1: --num-layers: $LAYERS has no value");
  refuse("x\ny $GPT_ARGS " + small_gpt, "f:2: $GPT_ARGS has no value here, and may hold arguments");
  refuse("x " + small_gpt + "--save $DIR $MORE", "$MORE has no value here, and may hold arguments");
  refuse("x " + small_gpt + "--bf16 $MORE", "$MORE has no value here, and may hold arguments");
  refuse("x " + small_gpt + "--lr \"$@\"", "$@ has no value here, and may hold arguments");
  refuse("x " + small_gpt + "--data-path 1 $A 2 $B ${MORE[@]}", "$MORE has no value here");
  refuse("--num-layers 2 --hidden-size 8", "--num-attention-heads");
  refuse("--num-layers two --hidden-size 8 --num-attention-heads 1", "'two' is not a whole number");
  refuse("--num-layers", "--hidden-size");
  refuse("--num-layers 0 --hidden-size 8 --num-attention-heads 1", "is not a whole number from 1");
  refuse("a " + small_gpt + "\nb " + small_gpt, "two commands");
  refuse("--num-layers 2 --hidden-size 10 --num-attention-heads 4 --seq-length 8 --vocab-size 9",
         "do not divide");
  // What changes nothing may stay open.
  EXPECT_TRUE(
      has_text(import(small_gpt + "--data-path $DATA").without_effect, "--data-path $DATA"));
  EXPECT_TRUE(
      has_remark(import(small_gpt + "--frobnicate 3").without_counterpart, "--frobnicate 3"));
}

// ---- torchtitan

TEST(ImportTorchtitan, ASample) {
  const Imported imported = import_sample("torchtitan_8b.toml", {.devices = 64, .vocabulary = {}});
  ASSERT_NE(known_model_like(*imported.model), nullptr);
  EXPECT_EQ(known_model_like(*imported.model)->name, "llama-3-8b");
  EXPECT_EQ(imported.software, "torchtitan-compile");
  EXPECT_EQ(imported.devices, 64);
  EXPECT_EQ(flags_of(imported), (ImportedFlags{{"--zero", "3"},
                                               {"--gather", "once"},
                                               {"--micro-batch-size", "2"},
                                               {"--microbatches", "8"},
                                               {"--sequence-length", "8192"},
                                               {"--schedule", "interleaved-pytorch"},
                                               {"--stages", "4"},
                                               {"--virtual-stages", "2"},
                                               {"--layout", "5,5,4,4,4,4,4,4"},
                                               {"--tensor-parallel", "2"},
                                               {"--sequence-parallel", ""},
                                               {"--tensor-overlap", "0.8"},
                                               {"--precision", "bf16"},
                                               {"--gradient-bytes", "4"},
                                               {"--recompute", "norms,activation,products"}}));
  EXPECT_TRUE(imported.without_counterpart.empty());
  EXPECT_TRUE(has_remark(imported.approximated, "parallelism.enable_async_tensor_parallel = true"));
  EXPECT_TRUE(has_text(imported.without_effect, "training.steps = 1000"));
}

TEST(ImportTorchtitan, WhatPyTorchRefusesIsRefused) {
  const std::string job =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
      "pipeline_parallel_degree = 4\n";
  EXPECT_NE(import_refusal(job + "[training]\nlocal_batch_size = 2\n")
                .find("2 microbatches for 4 pipeline ranks: PyTorch's 1F1B takes at least as many; "
                      "nearest that works: 4"),
            std::string::npos);
  EXPECT_EQ(import_refusal(job + "pipeline_parallel_schedule = \"Interleaved1F1B\"\n"
                                 "[training]\nlocal_batch_size = 2\n"),
            "no error");
}

TEST(ImportTorchtitan, LayersAreDealtOutAsThere) {
  // generate_llm_fqn_per_model_part: the first stages have one more; ends count as a block each.
  EXPECT_EQ(torchtitan_layout(6, 4), (std::vector<std::int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(torchtitan_layout(32, 4), (std::vector<std::int64_t>{9, 9, 8, 8}));
  EXPECT_EQ(torchtitan_layout(3, 2, 2, 2), (std::vector<std::int64_t>{3, 2}));
  EXPECT_NE(input_error_of([] { torchtitan_layout(2, 8); }).find("no such split"),
            std::string::npos);
  for (std::int64_t blocks = 2; blocks < 20; ++blocks) {
    for (std::int64_t stages = 1; stages <= blocks; ++stages) {
      std::int64_t sum = 0;
      const std::vector<std::int64_t> layers = torchtitan_layout(blocks, stages);
      for (const std::int64_t one : layers) sum += one;
      EXPECT_EQ(sum, blocks + 2);
    }
  }
}

// Every so many blocks: of a model of 6, without a pipeline.
TEST(ImportTorchtitan, RecomputesSomeBlocks) {
  const auto of = [](const std::string& option, const std::string& more = "") {
    return import("[model]\nflavor = \"debugmodel\"\n" + more +
                  "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"" +
                  option + "\"\n");
  };
  EXPECT_EQ(flags_of(of("2")).at("--recompute"), "full:3");
  EXPECT_EQ(flags_of(of("4")).at("--recompute"), "full:1");
  EXPECT_FALSE(flags_of(of("7")).contains("--recompute"));
  EXPECT_EQ(flags_of(of("op")).at("--recompute"), "norms,activation,products");
  EXPECT_EQ(flags_of(of("1", "[parallelism]\npipeline_parallel_degree = 2\n")).at("--recompute"),
            "full");
  const Imported staged = of("2", "[parallelism]\npipeline_parallel_degree = 2\n");
  EXPECT_FALSE(flags_of(staged).contains("--recompute"));
  EXPECT_TRUE(
      has_remark(staged.without_counterpart, "activation_checkpoint.selective_ac_option = 2"));
}

TEST(ImportTorchtitan, Parts) {
  const std::string pipeline =
      "[model]\nflavor = \"debugmodel\"\n[parallelism]\npipeline_parallel_degree = 2\n";
  const auto layout = [&](const std::string& parts) {
    return flags_of(import(pipeline + "module_fqns_per_model_part = " + parts)).at("--layout");
  };
  EXPECT_EQ(layout(R"([["tok_embeddings", "layers.0", "layers.1", "layers.2", "layers.3"],
      ["layers.4", "layers.5", "norm", "output"]])"),
            "5,3");
  const auto refuse = [&](const std::string& parts, const std::string& part) {
    const std::string error = import_refusal(pipeline + "module_fqns_per_model_part = " + parts);
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_TRUE(error.starts_with("f:5:")) << error;
  };
  refuse(R"([["layers.0"]])", "1 parts on 2 ranks");
  refuse(R"([["layers.1"], ["layers.0"]])", "where layers.0 follows");
  refuse(R"([["layers.0"], []])", "holds no layer");
  EXPECT_NE(import_refusal(pipeline + "pipeline_parallel_schedule = \"Spiral\"").find("Spiral"),
            std::string::npos);
}

TEST(ImportTorchtitan, ReplicasAndBatches) {
  const auto flags = [](const std::string& parallelism, const std::string& training,
                        std::optional<std::int64_t> devices) {
    return flags_of(import("[training]\n" + training + "[parallelism]\n" + parallelism,
                           {.devices = devices, .vocabulary = {}}));
  };
  const std::string hybrid = "data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n";
  ImportedFlags two = flags(hybrid, "local_batch_size = 2\nglobal_batch_size = 64\n", {});
  EXPECT_EQ(two.at("--zero"), "3");
  EXPECT_EQ(two.at("--shard-over"), "4");
  EXPECT_EQ(two.at("--gather"), "pass");
  EXPECT_EQ(two.at("--microbatches"), "4");  // 64 / (2 x 8)
  const Imported counted = import("[parallelism]\n" + hybrid);
  EXPECT_EQ(counted.devices, 8);
  // Passes of a pipeline are iterations that add up.
  two = flags("pipeline_parallel_degree = 2\ndata_parallel_shard_degree = 1\n",
              "local_batch_size = 8\nglobal_batch_size = 24\n", {});
  EXPECT_EQ(two.at("--microbatches"), "8");
  EXPECT_EQ(two.at("--accumulate"), "3");
  EXPECT_FALSE(two.contains("--zero"));
  EXPECT_TRUE(
      has_remark(import("[parallelism]\npipeline_parallel_degree = 2\n").missing, "--devices"));
  EXPECT_NE(import_refusal(
                "[training]\nlocal_batch_size = 3\nglobal_batch_size = 8\n[parallelism]\n" + hybrid)
                .find("not a multiple"),
            std::string::npos);
  EXPECT_NE(import_refusal("[parallelism]\n" + hybrid, {.devices = 12, .vocabulary = {}}).find("8"),
            std::string::npos);
}

TEST(ImportTorchtitan, BrokenTomlSaysWhere) {
  const std::string error = import_refusal("[training]\nseq_len = \n");
  EXPECT_TRUE(error.starts_with("f:2:")) << error;
  EXPECT_NE(import_refusal("[a]\n[$b]\n").find("f:2:2: "), std::string::npos);
  EXPECT_NE(import_refusal("[training]\nseq_len = \"long\"\n").find("f:2:"), std::string::npos);
  EXPECT_TRUE(has_remark(import("[parallelism]\nmagic = 3\n").without_counterpart,
                         "parallelism.magic = 3"));
  EXPECT_TRUE(
      has_remark(import("[model]\nname = \"flux\"\nflavor = \"dev\"\n").missing, "--model"));
  std::string nested = "[a]\nx = ";
  nested += std::string(2000, '[') + std::string(2000, ']');
  EXPECT_NE(import_refusal(nested), no_error);
}

TEST(ImportTorchtitan, FlavorsHaveTheirNames) {
  const TorchtitanName name = torchtitan_name(find_model("llama-3-70b"));
  EXPECT_EQ(name.name, "llama3");
  EXPECT_EQ(name.flavor, "70B");
  EXPECT_EQ(torchtitan_name(find_model("gpt2-small")).name, "");
  // Published: Qwen3-30B-A3B.
  const Model qwen = *import("[model]\nname=\"qwen3\"\nflavor=\"30B-A3B\"\n").model;
  EXPECT_EQ(qwen.parameters(), 30'532'122'624);
}

// ---- DeepSpeed

TEST(ImportDeepspeed, ASample) {
  const Imported imported = import_sample("deepspeed.json");
  EXPECT_EQ(imported.model, std::nullopt);
  EXPECT_EQ(flags_of(imported), (ImportedFlags{{"--schedule", "1f1b"},
                                               {"--precision", "bf16"},
                                               {"--gradient-bytes", "4"},
                                               {"--micro-batch-size", "2"},
                                               {"--microbatches", "16"},
                                               {"--data-parallel", "8"},
                                               {"--zero", "1"},
                                               {"--bucket-bytes", "800MB"},
                                               {"--overlap-gather", "off"}}));
  for (const char* flag : {"--model", "--stages", "--sequence-length"}) {
    EXPECT_TRUE(has_remark(imported.missing, flag)) << flag;
  }
  EXPECT_TRUE(imported.without_counterpart.empty());
  EXPECT_TRUE(has_text(imported.without_effect, "gradient_clipping = 1.0"));
}

TEST(ImportDeepspeed, WhatIsNotModelled) {
  const Imported imported =
      import(R"({"train_batch_size": 8, "bf16": {"enabled": true}, "magic": 7,)"
             R"( "optimizer": {"type": "OneBitAdam"},)"
             R"( "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},)"
             R"( "mics_shard_size": 4}, "pipeline": {"activation_checkpoint_interval": 2}})");
  for (const char* setting : {"zero_optimization.offload_optimizer.device = \"cpu\"", "magic = 7",
                              "optimizer.type = \"OneBitAdam\""}) {
    EXPECT_TRUE(has_remark(imported.without_counterpart, setting)) << setting;
  }
  EXPECT_EQ(flags_of(imported).at("--shard-over"), "4");
  EXPECT_EQ(flags_of(imported).at("--recompute"), "full");
  EXPECT_EQ(imported.approximated.size(), 1U);
}

TEST(ImportDeepspeed, WhatItRefusesIsRefused) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    const std::string error = import_refusal(text);
    EXPECT_NE(error.find(part), std::string::npos) << text << error;
  };
  refuse(R"({"train_batch_size": 8, "pipeline": {"stages": 4}, "zero_optimization": {"stage": 2}})",
         "refuses it with a pipeline");
  refuse(R"({"train_batch_size": 8, "fp16": {"enabled": true}, "bf16": {"enabled": true}})",
         "keep one");
  refuse(R"({"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2})", "not a multiple of 2");
}

TEST(ImportDeepspeed, BatchesFollowFromEachOther) {
  const auto flags = [](const std::string& text, std::optional<std::int64_t> devices = {}) {
    return flags_of(import("{" + text + "}", {.devices = devices, .vocabulary = {}}));
  };
  const std::string zero3 = R"("zero_optimization": {"stage": 3}, )";
  ImportedFlags known =
      flags(zero3 + R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 2)", 8);
  EXPECT_EQ(known.at("--microbatches"), "4");
  EXPECT_EQ(known.at("--stages"), "1");
  EXPECT_EQ(known.at("--gather"), "pass");
  known = flags(zero3 + R"("train_batch_size": 64)", 8);
  EXPECT_EQ(known.at("--micro-batch-size"), "8");
  EXPECT_EQ(known.at("--microbatches"), "1");
  const Imported open = import(
      R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
          "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}})");
  for (const char* flag : {"--micro-batch-size", "--microbatches", "--precision"}) {
    EXPECT_TRUE(has_remark(open.missing, flag)) << flag;
  }
  EXPECT_NE(import_refusal(R"({"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2,
                          "gradient_accumulation_steps": 1})")
                .find("not a multiple"),
            std::string::npos);
  EXPECT_NE(
      import_refusal(R"({"zero_optimization": {"stage": 4}})").find("zero_optimization.stage"),
      std::string::npos);
}

// The library takes such letters for blanks, or worse, where it is built as it comes.
TEST(Toml, LettersAreNoBlanks) {
  for (const std::string letter : {"\xc3\xa9", "\xd2\x8d", "\xe3\x80\x81", "\xef\xbb\xbe"}) {
    for (const std::string& text :
         {letter + " = 1", "a = " + letter, "a " + letter + " = 1", "a = 1 " + letter}) {
      EXPECT_NE(error_of([&] { parse_toml(text, "x.toml"); }).find("x.toml:1:"), std::string::npos)
          << text;
    }
    EXPECT_NO_THROW(parse_toml("a = '" + letter + "' # " + letter, "x.toml"));
  }
}

}  // namespace
}  // namespace pipesim
