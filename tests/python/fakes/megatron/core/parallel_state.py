"""All ranks are one pipeline."""

import torch.distributed as dist

chunks = None


def initialize_model_parallel(pipeline_model_parallel_size=1,
                              virtual_pipeline_model_parallel_size=None):
    global chunks
    chunks = virtual_pipeline_model_parallel_size


def destroy_model_parallel():
    pass


def get_pipeline_model_parallel_group(check_initialized=True):
    return dist.group.WORLD
