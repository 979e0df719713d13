#include "sim/import/megatron_remarks.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "sim/import/imported.h"

namespace pipesim {
namespace {

using MegatronReason = std::pair<std::string_view, std::string_view>;

// Unless their value is 1, 0 or none, the defaults.
constexpr MegatronReason unmodelled[] = {
    {"--decoder-num-layers", "there is one list of blocks here"},
    {"--encoder-num-layers", "there is one list of blocks here"},
    {"--hybrid-layer-pattern", "all blocks are attention and MLP here"},
    {"--hybrid-override-pattern", "all blocks are attention and MLP here"},
    {"--heterogeneous-layers-config-path", "all blocks are alike here"},
    {"--optimizer-cpu-offload", "states stay on the device here"},
    {"--optimizer-offload-fraction", "states stay on the device here"},
    {"--cpu-offloading-num-layers", "activations stay on the device here"},
    {"--fine-grained-activation-offloading", "activations stay on the device here"},
    {"--standalone-embedding-stage", "give --layout, with the embedding on a stage alone"},
    {"--fp4-format", "there is no fp4 here"},
    {"--fp4-param-gather", "there is no fp4 here"},
    {"--model-parallel-size", "too old; give --tensor-model-parallel-size"},
    {"--batch-size", "too old; give --micro-batch-size"},
    {"--checkpoint-activations", "too old; give --recompute-granularity full"},
    {"--untie-embeddings", "not known here"},
    {"--yaml-cfg", "the file that it names is not read; give its arguments"},
    {"--spec", "layers of another definition are taken for Megatron-LM's own"},
    {"--attention-output-gate", "not modelled"},
    {"--moe-latent-size", "experts read all of a token here"},
    {"--hybrid-context-parallel", "each sequence is shared by as many ranks here"},
    {"--experimental-attention-variant", "not modelled"},
    {"--layer-wise-optimizer", "not modelled"},
};
constexpr MegatronReason modelled_nearly[] = {
    {"--moe-shared-expert-overlap", "shared experts run after the others' exchanges here"},
    {"--mtp-use-repeated-layer", "each depth has weights of its own here"},
    {"--no-rope-freq", "all blocks have the positions of the others here"},
    {"--qk-l2-norm", "norms without parameters are not counted"},
    {"--rampup-batch-size", "the batch is what it grows to here"},
    {"--distribute-saved-activations", "a block's input is kept whole here"},
    {"--fp8-param-gather", "weights are gathered in their own precision here"},
    {"--ddp-num-buckets", "give --bucket-bytes"},
    {"--overlap-param-gather-with-optimizer-step", "gathers start after the step here"},
    {"--no-align-param-gather", "each rank gathers when it needs to here"},
    {"--no-overlap-p2p-communication", "give --p2p fifo, for messages that hold ranks up"},
    {"--delay-wgrad-compute", "give a schedule that splits backwards, such as zb-h1"},
    {"--batch-p2p-communication", "give --p2p blocking or fifo, for messages that hold ranks up"},
    {"--no-masked-softmax-fusion", "such kernels are fused here"},
    {"--no-bias-gelu-fusion", "such kernels are fused here"},
    {"--no-bias-swiglu-fusion", "such kernels are fused here"},
    {"--no-bias-dropout-fusion", "such kernels are fused here"},
    {"--no-rope-fusion", "such kernels are fused here"},
    {"--no-persist-layer-norm", "norms are one kernel here"},
};

// Arguments for data, checkpoints and logs, initialization and learning rates, launching, and
// alternative kernels for the same work.
constexpr std::string_view harmless_arguments =
    "--adam- --adlr- --apply- --app- --async- --attention-softmax- --auto- --bias- "
    "--calc- --calculate- --check- --ckpt- --clip- --config- --cp-comm --create- --cross-entropy- "
    "--cuda-graph --data-cache --data-args --data-path --dataloader- --dataset- "
    "--ddp-average --ddp-pad --decoupled- --deterministic --disable- --dist-ckpt "
    "--distributed- --empty-unused --enable-experimental --enable-ft --enable-gloo "
    "--enable-msc --end- --eod- --eval- --exit- --external-cuda --finetune --fp16-lm "
    "--fp8-amax --fp8-interval --fp8-margin --fp8-recipe --fp32- --ft- --full-validation "
    "--hysteresis --inference- --init- --initial-loss --inprocess- --iteration --keep- "
    "--layernorm- --lazy- --load --local-rank --log- --logging- --loss-scale --lr --make-vocab "
    "--manual-gc --master --max-tokens --max_restarts --merge-file --mid-level --min-loss "
    "--min-lr --mock-data --moe-aux --moe-enable-deepep --moe-grouped-gemm "
    "--moe-expert-capacity --moe-ffn --moe-flex --moe-input-jitter --moe-layer-freq "
    "--moe-pad-expert --moe-permute --moe-per-layer --moe-router- --moe-shared-expert- "
    "--moe-token- --mtp-detach --mtp-loss "
    "--moe-z-loss --monitor --muon- --no-check --no-create-attention --no-data-sharding "
    "--no-load --no-mmap --no-one-logger --no-python --no-query --no-save --no-scatter "
    "--no-weight --node-rank --node_rank --non-persistent --norm-epsilon --num-dataset "
    "--num-workers --nvtx- --one-logger --original-max --overlap-cpu --override- "
    "--override_ --per-split --pin- --positional --profile --query-in --rank --rdzv "
    "--record- --redirects --rerun- --reset- --result- --retro- --rope- --rotary- "
    "--sample-rate --save --seed --sft --sgd- --short-seq --skip- --split --standalone "
    "--start- --step-batch --straggler --tee --tensorboard --te-rng --test-data "
    "--tiktoken- --timing- --tokenizer- --train- --trust- --tp-comm-bootstrap "
    "--use-checkpoint --use-cpu-init --use-dist-ckpt --use-fused --use-legacy --use-mcore "
    "--use-mp-args --use-nccl-ub --use-one-sent --use-persistent --use-pytorch-profiler "
    "--use-rope-scaling --use-sharp --use-tokenizer --use-tp-pp-dp --valid-data "
    "--vocab-extra --vocab-file --vocab-size --wandb --warmup --weight-decay --window-attn --yarn- "
    "--log_dir --nproc --nnodes --role --module --head-lr --grad-reduce "
    "--gradient-accumulation --moe-router --ckpt --exclude --fim- --num-query";

}  // namespace

MegatronRemark megatron_remark(const Arguments::Argument& argument) {
  const std::string value = argument.values.empty() ? "" : argument.values.front().text;
  const bool is_off = value == "0" || value == "1" || value == "None";
  const auto reason = [&](std::span<const MegatronReason> reasons) {
    const auto found = std::ranges::find(reasons, argument.name, &MegatronReason::first);
    return found == reasons.end() ? std::string_view() : found->second;
  };
  const std::string_view lack = reason(unmodelled);
  const std::string_view how = reason(modelled_nearly);
  if (!lack.empty() || !how.empty()) {
    return {std::string(is_off ? "" : lack.empty() ? how : lack), lack.empty()};
  }
  const bool is_harmless = starts_with_any(argument.name, harmless_arguments);
  return {is_harmless ? "" : "not known here", false};
}

}  // namespace pipesim
