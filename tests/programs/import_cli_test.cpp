// `pipesim import` and `pipesim plan --export`, as a user calls them.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "sim/cost/model.h"
#include "tests/files.h"
#include "tests/model_calls.h"
#include "traces/base/files.h"
#include "traces/base/text.h"

namespace pipesim {
namespace {

using namespace testing;

std::string import_sample(const std::string& name) {
  return source_file("examples/import/" + name);
}

// Without the program's name, and what quotes values have.
std::string command_of(const Json& json) {
  std::string command = json["command"];
  EXPECT_TRUE(command.starts_with("pipesim ")) << command;
  std::erase(command, '\'');
  return command.substr(8);
}

TEST(ImportCommand, PrintedCommandsRun) {
  const std::string question = " --cluster dgx-a100";
  const Json megatron = json_of("import " + import_sample("megatron_gpt3.sh") + question);
  EXPECT_EQ(megatron["format"], "pipesim-import");
  EXPECT_EQ(megatron["missing"], Json::array());
  // As someone would write it down.
  EXPECT_EQ(json_of(command_of(megatron))["makespan_ns"],
            json_of("--model gpt3-175b --cluster dgx-a100 --devices 64 --schedule interleaved "
                    "--stages 8 --virtual-stages 3 --tensor-parallel 8 --sequence-parallel "
                    "--global-batch 64 --recompute selective --gradient-bytes 4")["makespan_ns"]);
  const Json torchtitan =
      json_of("import " + import_sample("torchtitan_8b.toml") + " --cluster dgx-h100 --devices 64");
  EXPECT_GT(json_of(command_of(torchtitan))["tokens_per_second"], 0);
  const Json deepspeed =
      json_of("import " + import_sample("deepspeed.json") + question + " --model gpt2-xl");
  ASSERT_EQ(deepspeed["missing"].size(), 2);
  EXPECT_EQ(deepspeed["missing"][0]["flag"], "--stages");
  EXPECT_GT(json_of(command_of(deepspeed) + " --stages 4")["tokens_per_second"], 0);
}

TEST(ImportCommand, ReportsHaveTheSameCommand) {
  for (const char* name : {"megatron_gpt3.sh", "torchtitan_8b.toml"}) {
    const std::string line = "import " + import_sample(name) + " --cluster dgx-h100 --devices 64";
    const std::string report = output_of(line);
    const std::vector<std::string> commands = advised_commands(report);
    ASSERT_EQ(commands.size(), 1U) << report;
    EXPECT_EQ(unwrapped(commands[0]), command_of(json_of(line)));
    for (const std::string& one : lines_of(report)) EXPECT_LE(one.size(), 80U) << one;
  }
  const std::string report = output_of("import " + import_sample("megatron_gpt3.sh"));
  EXPECT_NE(report.find("To add:\n  --cluster:"), std::string::npos) << report;
  EXPECT_NE(report.find("Approximated:\n  --no-rope-fusion: such kernels"), std::string::npos);
  EXPECT_NE(report.find("No effect here:\n  --use-distributed-optimizer, of one replica"),
            std::string::npos);
  // The program that torchrun starts is no value of its last argument.
  EXPECT_NE(report.find("\n  --master_addr localhost\n"), std::string::npos) << report;
}

// A published script of Mixtral 8x7B: each of 8 ranks has one expert of a block.
TEST(ImportCommand, ExpertsFitWhereTheyAreSpread) {
  const TemporaryFolder folder;
  write_file(folder / "run.sh",
             "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 32 "
             "--hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
             "--group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm "
             "--disable-bias-linear --position-embedding-type rope --rotary-base 1000000 "
             "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 "
             "--seq-length 4096 --max-position-embeddings 32768 --num-experts 8 "
             "--moe-router-topk 2 --moe-token-dispatcher-type alltoall "
             "--expert-model-parallel-size 8 --pipeline-model-parallel-size 4 "
             "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
             "--micro-batch-size 1 --global-batch-size 256 --vocab-size 32000 "
             "--tokenizer-type NullTokenizer --bf16");
  const std::string line = "import " + (folder / "run.sh") + " --cluster dgx-h100";
  const Json imported = json_of(line);
  EXPECT_EQ(imported["without_counterpart"], Json::array());
  EXPECT_EQ(imported["approximated"], Json::array());
  const std::string command = command_of(imported);
  EXPECT_TRUE(command.starts_with("--model mixtral-8x7b ")) << command;
  EXPECT_NE(command.find("--expert-parallel 8 "), std::string::npos) << command;
  const Json predicted = json_of(command);
  EXPECT_EQ(predicted["training"]["data_parallel"], 8);
  EXPECT_LT(predicted["peak_memory_bytes"], 80'000'000'000);
}

TEST(ImportCommand, WritesModelsThatHaveNoName) {
  const TemporaryFolder folder;
  write_file(folder / "args.txt",
             "--num-layers 4 --hidden-size 256 --num-attention-heads 8 --kv-channels 64\n"
             "--seq-length 128 --vocab-size 1000 --swiglu --normalization RMSNorm\n"
             "--disable-bias-linear --position-embedding-type rope --hidden-dropout 0\n"
             "--attention-dropout 0 --micro-batch-size 2 --global-batch-size 16 --bf16\n"
             "--pipeline-model-parallel-size 2\n"
             "--pipeline-model-parallel-layout 'Et|t*3L'\n");
  const std::string line = "import " + (folder / "args.txt") + " --cluster dgx-a100 --devices 4";
  const std::string printed = output_of(line);
  EXPECT_NE(printed.find("--model model.json"), std::string::npos) << printed;
  EXPECT_NE(printed.find("\"format\": \"pipesim-model\""), std::string::npos);
  const std::string file = folder / "own model.json";
  std::vector<std::string> call = words(line + " --json --write-model");
  call.push_back(file);
  const Outcome outcome = pipesim(call);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(find_model(file).head_size(), 64);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(parse_model(json["model"].dump(), "printed"), find_model(file));
  EXPECT_NE(json["command"].get<std::string>().find("--model '" + file + "'"), std::string::npos);
  std::filesystem::rename(file, folder / "m.json");
  const std::string command = replaced(command_of(json), file, folder / "m.json");
  const Json predicted = json_of(command);
  EXPECT_EQ(predicted["microbatches"], 4);
  EXPECT_EQ(predicted["stages"], 2);
}

TEST(ImportCommand, RefusesInOneSentence) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& text, const std::string& more,
                          const std::string& part) {
    write_file(folder / "f", text);
    expect_refused("import " + (folder / "f") + more, 2, part);
  };
  expect_refused("import", 2, "FILE is missing");
  expect_refused("import nowhere.toml", 2, "nowhere.toml");
  refuse("hello", "", "none of the formats");
  refuse("--num-layers $N --hidden-size 8 --num-attention-heads 1", "", "$N has no value");
  refuse("[training]\nseq_len = x", "", "f:2:");
  refuse("{\"train_batch_size\": ", "", "f:1:");
  refuse("{\"train_batch_size\": 8}", " --write-model " + (folder / "m.json"),
         "describes no model");
  EXPECT_FALSE(std::filesystem::exists(folder / "m.json"));
}

// ---- There and back

TEST(ExportedPlan, IsTheSameTrainingInMegatron) {
  const TemporaryFolder folder;
  const std::string file = folder / "args.sh";
  // Its 50,257 words are filled up to what four ranks share evenly, and the model is another then.
  const std::string question =
      "plan --model gpt2-large --cluster dgx-a100 --devices 32 --global-batch 64 "
      "--gradient-bytes 4 --only schedule=1f1b,interleaved "
      "--only recompute=none,selective,full,norms ";
  for (const char* more :
       {"--only zero=0,1 --only overlap-gather=off", "--fix stages=4 --fix zero=0",
        "--fix stages=8 --only zero=0,1", "--fix stages=4 --fix schedule=interleaved --fix zero=1",
        "--fix tensor-parallel=4 --fix sequence-parallel=on --fix zero=0 --fix recompute=full",
        "--fix stages=2 --fix recompute=norms --fix bucket-bytes=25MB --fix zero=1",
        "--fix shard-over=node --fix zero=1 --fix bucket-bytes=100MB --fix stages=1",
        "--fix zero=1 --fix overlap-gather=on --fix bucket-bytes=25MB --fix stages=2",
        "--fix stages=2 --fix zero=0 --attention fused"}) {
    const std::string line = question + more;
    const Json best = json_of(line)["best"];
    if (best.is_null()) {
      ADD_FAILURE() << line << ": nothing fits";
      continue;
    }
    write_file(file, output_of(line + " --export megatron"));
    const Json imported =
        json_of("import " + file + " --cluster dgx-a100 --devices 32 --write-model " +
                (folder / "filled_up.json"));
    EXPECT_EQ(imported["without_counterpart"], Json::array()) << line;
    EXPECT_EQ(imported["without_effect"], Json::array()) << line;
    const Json predicted = json_of(command_of(imported));
    EXPECT_EQ(predicted["makespan_ns"], best["iteration_ns"]) << line << "\n" << imported;
    EXPECT_EQ(predicted["peak_memory_bytes"], best["peak_memory_bytes"]) << line;
  }
}

// Each option that decides what a prediction assumes, from a script to flags, to an exported
// script, and to flags again.
TEST(ExportedPlan, HasEveryOptionOfAScript) {
  const TemporaryFolder folder;
  const std::string base =
      "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 16 --hidden-size 2048 "
      "--ffn-hidden-size 8192 --num-attention-heads 32 --swiglu --normalization RMSNorm "
      "--disable-bias-linear --position-embedding-type rope "
      "--untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 "
      "--seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 "
      "--tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 32 "
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 ";
  const std::string bf16 = "--bf16 ";
  const std::string sharded = bf16 + "--use-distributed-optimizer ";
  const std::string early = sharded + "--overlap-grad-reduce ";
  std::map<std::string, std::string> seen;  // by prediction: options change it
  for (const std::string& options :
       {bf16,
        bf16 + "--sequence-parallel",
        bf16 + "--sequence-parallel --tp-comm-overlap",
        bf16 + "--no-async-tensor-model-parallel-allreduce",
        bf16 + "--cross-entropy-loss-fusion",
        bf16 + "--no-gradient-accumulation-fusion",
        bf16 + "--grad-reduce-in-bf16",
        std::string("--fp16"),
        bf16 + "--fp8-format hybrid",
        bf16 + "--attention-backend unfused",
        bf16 + "--recompute-activations",
        bf16 + "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        bf16 + "--recompute-granularity full --recompute-method block --recompute-num-layers 2",
        bf16 + "--recompute-granularity selective --recompute-modules core_attn layernorm",
        bf16 + "--overlap-grad-reduce",
        bf16 + "--overlap-grad-reduce --ddp-bucket-size 5000000",
        sharded,
        early,
        early + "--overlap-param-gather",
        early + "--nnodes 8 --num-distributed-optimizer-instances 2",
        sharded + "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16",
        sharded + "--use-megatron-fsdp",
        bf16 + "--num-layers-per-virtual-pipeline-stage 2"}) {
    write_file(folder / "run.sh", base + options);
    const std::string flags = " --cluster dgx-h100 --write-model " + (folder / "model.json");
    const Json first = json_of("import " + (folder / "run.sh") + flags);
    EXPECT_EQ(first["without_counterpart"], Json::array()) << options;
    const Json asked = json_of(command_of(first));
    // A plan of this layout alone, whose layers memory leaves as they are.
    std::string line = "plan --objective memory --export megatron " + command_of(first);
    for (const char* usual : {"--sequence-parallel off", "--recompute none", "--zero 0",
                              "--shard-over all", "--overlap-gather off"}) {
      const std::string_view flag = split(usual, ' ').front();
      if (line.find(flag) == std::string::npos) line += std::string(" ") + usual;
    }
    write_file(folder / "exported.sh", output_of(line));
    const Json second = json_of("import " + (folder / "exported.sh") + " --devices " +
                                asked["training"]["devices"].dump() + flags);
    EXPECT_EQ(second["without_counterpart"], Json::array()) << options;
    const Json again = json_of(command_of(second));
    EXPECT_EQ(asked["makespan_ns"], again["makespan_ns"]) << options << "\n" << second;
    EXPECT_EQ(asked["peak_memory_bytes"], again["peak_memory_bytes"]) << options;
    const std::string outcome = asked["makespan_ns"].dump() + asked["peak_memory_bytes"].dump() +
                                asked["training"]["precision"].dump();
    EXPECT_TRUE(seen.emplace(outcome, options).second)
        << options << " is predicted as " << seen[outcome];
  }
}

// A model's script, exported and read again, is the same model: of blocks of all kinds.
TEST(ExportedPlan, HasTheModelOfAScript) {
  const TemporaryFolder folder;
  const std::string base =
      "--num-layers 6 --hidden-size 256 --num-attention-heads 8 --seq-length 128 "
      "--vocab-size 1024 --tokenizer-type NullTokenizer --micro-batch-size 1 "
      "--global-batch-size 16 --pipeline-model-parallel-size 2 --bf16 --hidden-dropout 0 "
      "--attention-dropout 0 ";
  const std::string gated = base + "--swiglu --position-embedding-type rope ";
  const std::string llama = gated + "--normalization RMSNorm --disable-bias-linear ";
  const std::string experts = llama + "--num-experts 8 --moe-ffn-hidden-size 96 ";
  for (const std::string& script :
       {base, base + "--normalization RMSNorm", base + "--position-embedding-type none",
        base + "--qk-layernorm --normalization RMSNorm --add-qkv-bias --disable-bias-linear",
        base + "--quick-geglu --untie-embeddings-and-output-weights", gated,
        llama + "--group-query-attention --num-query-groups 2 --kv-channels 64",
        llama + "--window-size 31,0 --window-attn-skip-freq 2 --softmax-type learnable",
        llama + "--mtp-num-layers 1 --rotary-base 500000",
        llama + "--multi-latent-attention --q-lora-rank 96 --qk-layernorm",
        experts + "--moe-router-topk 1 --moe-layer-freq 2",
        experts + "--moe-layer-freq '[0]*2+[1]*4' --moe-router-num-groups 4 "
                  "--moe-router-group-topk 2 --mtp-num-layers 1",
        experts + "--moe-shared-expert-intermediate-size 192 --moe-shared-expert-gate"}) {
    write_file(folder / "run.sh", script);
    const std::string file = folder / "model.json";
    const std::string flags = " --cluster dgx-h100 --devices 4 --write-model " + file;
    const Json first = json_of("import " + (folder / "run.sh") + flags);
    const Model model = find_model(file);
    std::string line = "plan --objective memory --export megatron " + command_of(first);
    for (const char* usual : {"--sequence-parallel off", "--recompute none", "--zero 0",
                              "--shard-over all", "--overlap-gather off", "--tensor-parallel 1"}) {
      line += std::string(" ") + usual;
    }
    write_file(folder / "exported.sh", output_of(line));
    const Json second = json_of("import " + (folder / "exported.sh") + flags);
    EXPECT_EQ(find_model(file), model) << script << second;
    EXPECT_EQ(second["without_counterpart"], Json::array()) << script;
    EXPECT_EQ(second["without_effect"], Json::array()) << script;
  }
}

TEST(ExportedPlan, IsTheSameTrainingInTorchtitan) {
  const TemporaryFolder folder;
  const std::string question =
      "plan --model llama-3-8b --cluster dgx-h100 --devices 64 --global-batch 128 "
      "--software torchtitan --gradient-bytes 4 --only recompute=none,full ";
  for (const char* more :
       {"--fix zero=3 --fix gather=pass --fix stages=1 --fix tensor-parallel=1",
        "--fix zero=3 --only gather=pass,once --fix stages=4 --fix schedule=1f1b "
        "--fix tensor-parallel=1",
        "--fix zero=3 --fix gather=once --fix stages=4 --fix schedule=zb-v "
        "--fix tensor-parallel=2 --fix sequence-parallel=on --fix shard-over=node",
        "--fix zero=3 --fix gather=once --fix stages=4 --fix schedule=zb-h1 "
        "--fix tensor-parallel=2 --fix sequence-parallel=on",
        "--fix zero=0 --fix bucket-bytes=100MB --fix stages=8 --fix schedule=interleaved-zb "
        "--fix tensor-parallel=4 --fix sequence-parallel=on"}) {
    const std::string line = question + more;
    const Json best = json_of(line)["best"];
    if (best.is_null()) {
      ADD_FAILURE() << line << ": nothing fits";
      continue;
    }
    output_of(line + " --export torchtitan --output " + (folder / "out"));
    const Json imported =
        json_of("import " + (folder / "out/torchtitan.toml") + " --cluster dgx-h100 --devices 64");
    EXPECT_EQ(imported["without_counterpart"], Json::array()) << line;
    std::string command = command_of(imported);
    if (const std::size_t at = command.find("schedule.csv"); at != std::string::npos) {
      command.insert(at, folder / "out/");
    }
    const Json predicted = json_of(command);
    EXPECT_EQ(predicted["makespan_ns"], best["iteration_ns"]) << line << "\n" << imported;
    EXPECT_EQ(predicted["peak_memory_bytes"], best["peak_memory_bytes"]) << line;
  }
}

TEST(ExportedPlan, WhatTheyCantDoIsRefused) {
  const TemporaryFolder folder;
  const std::string question =
      "plan --model gpt2-large --cluster dgx-a100 --devices 32 --global-batch 64 ";
  expect_refused(question + "--fix stages=4 --fix schedule=zb-h1 --export megatron", 2,
                 "Megatron-LM has no schedule zb-h1; it has 1f1b, interleaved");
  expect_refused(question +
                     "--export torchtitan --fix schedule=1f1b --fix zero=0 "
                     "--fix bucket-bytes=100MB --fix recompute=none",
                 2, "no flavor");
  expect_refused(question + "--export nemo", 2, "known, nearest first: ");
  expect_refused(question + "--output x", 2, "--export");
  expect_refused(question + "--export megatron --json", 2, "replaces the report");
  const std::string llama =
      "plan --model llama-3-8b --cluster dgx-h100 --devices 64 --global-batch 128 ";
  const std::string zb =
      "--fix stages=4 --fix schedule=zb-h1 --fix recompute=none --fix zero=3 "
      "--fix gather=once --fix tensor-parallel=1 ";
  expect_refused(llama + zb + "--export torchtitan", 2, "--output FOLDER");
  expect_refused(llama + "--fix zero=1 --export torchtitan", 2,
                 "it has --zero 0 --bucket-bytes 100MB, --zero 3");
  expect_refused(llama + "--fix recompute=norms --export torchtitan", 2, "it has none, full");
  write_file(folder / "taken", "");
  expect_refused(llama + zb + "--export torchtitan --output " + (folder / "taken"), 2, "taken");
  const Outcome none = call(question + "--memory-cap 1MB --export megatron");
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("fits into"), std::string::npos);
}

}  // namespace
}  // namespace pipesim
