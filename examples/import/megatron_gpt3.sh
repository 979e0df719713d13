#!/bin/bash
# Trains GPT-3 175B on 8 nodes.
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NODES=${NODES:-8}
TP=8
BATCH=$((GPUS_PER_NODE * NODES / TP * 8))  # 64
SAVED=$1

LAUNCH_ARGS=(
  --nproc_per_node $GPUS_PER_NODE
  --nnodes $NODES
  --master_addr localhost
)

MODEL_ARGS="
  --num-layers 96 --hidden-size 12288 \
  --num-attention-heads 96
  --seq-length 2048
  --max-position-embeddings 2048
  --tokenizer-type GPT2BPETokenizer
"

SPLIT_ARGS=(
  --tensor-model-parallel-size "$TP"
  --pipeline-model-parallel-size 8
  --num-layers-per-virtual-pipeline-stage 4   # 3 chunks a rank
  --sequence-parallel
  --use-distributed-optimizer
)
SPLIT_ARGS+=(--recompute-activations)

torchrun "${LAUNCH_ARGS[@]}" pretrain_gpt.py $MODEL_ARGS "${SPLIT_ARGS[@]}" \
  --micro-batch-size 1 --global-batch-size ${BATCH} \
  --bf16 --transformer-impl local \
  --lr 6.0e-5 --train-iters 500000 --save "$SAVED" \
  --expert-model-parallel-size 1 --no-rope-fusion
