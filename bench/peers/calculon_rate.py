"""How many executions a second Calculon evaluates on one core, and how many of them can be.

calculon_rate.py CHECKOUT SECONDS SEED

Executions of GPT-3 175B on 4,096 A100 80 GB, drawn evenly from all 10,956,160 that `calculon
llm-optimal-execution --fused_activation all` goes through for batches of up to 2,340 sequences, and
evaluated as it does it. Seconds are of processor time. Prints one JSON object.
"""

import itertools
import json
import logging
import math
import pathlib
import random
import sys
import time

PROCESSORS, MOST_SEQUENCES, DATATYPE = 4096, 2340, "float16"


def switch(may_be):
    return [True, False] if may_be else [False]


def groups(Llm, application, system):
    """Executions, as products: of each what is alike in it, and the values of what is not."""
    networks = range(system.num_networks)
    offload = switch(system.mem2.capacity > 0)
    tensors = Llm.get_all_tensor_parallelisms(PROCESSORS, application.hidden, application.attn_heads)
    for tensor in tensors:
        for stages in Llm.get_all_pipeline_parallelisms(PROCESSORS, tensor, application.num_blocks):
            replicas = Llm.get_data_parallelism(PROCESSORS, tensor, stages)
            batch = MOST_SEQUENCES // replicas * replicas
            if batch == 0:
                continue
            sizes = list(
                Llm.get_valid_microbatch_sizes(application.seq_size, tensor, replicas, batch, stages)
            )
            for chunks, recompute, exchange in itertools.product(
                Llm.get_valid_pipeline_interleavings(application.num_blocks, stages),
                ["full", "attn_only", "none"],
                ["ar", "p2p_rs_ag", "rs_ag"],
            ):
                alike = {
                    "num_procs": PROCESSORS,
                    "tensor_par": tensor,
                    "pipeline_par": stages,
                    "data_par": replicas,
                    "batch_size": batch,
                    "datatype": DATATYPE,
                    "attention_type": "multihead",
                    "activation_recompute": recompute,
                    "pipeline_interleaving": chunks,
                    "tensor_par_comm_type": exchange,
                    "training": True,
                }
                values = {
                    "fused_activation": [True, False],
                    "optimizer_sharding": switch(replicas > 1),
                    "seq_par_ag_redo": switch(Llm.can_redo_ag(exchange, recompute)),
                    "data_par_overlap": switch(replicas > 1),
                    "tensor_par_overlap": ["none", "ring", "pipe"] if tensor > 1 else ["none"],
                    "weight_offload": offload,
                    "activations_offload": [False] if recompute == "full" else offload,
                    "optimizer_offload": offload,
                    "microbatch_size": sizes,
                    "tensor_par_net": networks if tensor > 1 else [0],
                    "pipeline_par_net": networks if stages > 1 else [0],
                    "data_par_net": networks if replicas > 1 else [0],
                }
                yield alike, values


def main():
    checkout, seconds, seed = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    sys.path.insert(0, str(checkout))
    from calculon import System
    from calculon.io import read_json_file
    from calculon.llm import Llm

    application = Llm.Application(read_json_file(str(checkout / "models" / "gpt3-175B.json")))
    system = System(read_json_file(str(checkout / "systems" / "a100_80g.json")))
    products = list(groups(Llm, application, system))
    counts = [math.prod(len(some) for some in values.values()) for _, values in products]
    draw = random.Random(seed)
    evaluated = feasible = 0
    took = 0.0
    while took < seconds:
        for alike, values in draw.choices(products, counts, k=100):
            drawn = alike | {key: draw.choice(some) for key, some in values.items()}
            start = time.process_time()
            try:
                model = Llm(application, logging.Logger("sub"))
                model.compile(system, Llm.Execution.from_json(drawn))
                model.run(system)
                model.get_stats_json(False)
                feasible += 1
            except Llm.Error:
                pass
            took += time.process_time() - start
            evaluated += 1
    result = {"executions": sum(counts), "evaluated": evaluated, "feasible": feasible}
    print(json.dumps({**result, "seconds": took}))


main()
