"""Models by config.json: pipesim counts the parameters that transformers makes, to the last one.

Models are made on PyTorch's meta device, so that none takes memory. What pipesim counts is the
weights of one rank, after all layers' operators, in 2 bytes each.
"""

import json

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
transformers = pytest.importorskip("transformers", minversion="5.24", reason="needs transformers")
pytestmark = pytest.mark.peer

SMALL = dict(
    hidden_size=64, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=96, vocab_size=100, max_position_embeddings=32, pad_token_id=None,
)
NO_KV = {**SMALL, "num_key_value_heads": None}
OLD = dict(n_embd=64, n_layer=3, n_head=4, n_positions=32, vocab_size=100)
HEADS = dict(head_dim=24)
BIASED = dict(attention_bias=True)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2)
ROUTED = dict(
    n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=2,
    n_group=2, topk_group=1, first_k_dense_replace=2, num_nextn_predict_layers=0,
)
LATENT = dict(
    kv_lora_rank=16, q_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12,
)
SPARSE = ["dense", "sparse"] * 3

# Types with shapes unlike their defaults.
CASES = [
    ("llama", {**SMALL, **BIASED, "mlp_bias": True}),
    ("llama", {**SMALL, **HEADS, "tie_word_embeddings": True}),
    ("mistral", {**SMALL, "sliding_window": 8}),
    ("ministral", {**SMALL, "head_dim": 16}),
    ("ministral3", SMALL),
    ("qwen2", {**SMALL, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 3}),
    ("qwen3", {**SMALL, **BIASED}),
    ("gemma", {**SMALL, **BIASED}),
    ("gemma2", {**SMALL, **HEADS}),
    ("gemma3_text", SMALL),
    ("gemma3_text", {}),
    ("vaultgemma", SMALL),
    ("phi3", SMALL),
    ("olmo", {**SMALL, **BIASED}),
    ("olmo2", SMALL),
    ("olmo3", SMALL),
    ("granite", {**SMALL, **BIASED, "mlp_bias": True}),
    ("granite_swa", SMALL),
    ("cwm", SMALL),
    ("glm", SMALL),
    ("glm4", SMALL),
    ("cohere", {**SMALL, **BIASED, "use_qk_norm": True}),
    ("cohere2", SMALL),
    ("starcoder2", SMALL),
    ("starcoder2", {**SMALL, "use_bias": False}),
    ("stablelm", {**SMALL, "use_qkv_bias": True, "use_parallel_residual": True}),
    ("stablelm", {**SMALL, "qk_layernorm": True}),
    ("smollm3", {**SMALL, **BIASED, "mlp_bias": True}),
    ("seed_oss", {**SMALL, "attention_out_bias": True, "mlp_bias": True}),
    ("nemotron", {**SMALL, **BIASED, "mlp_bias": True}),
    ("helium", {**SMALL, "head_dim": 16, **BIASED, "mlp_bias": True}),
    ("arcee", {**SMALL, **BIASED, "mlp_bias": True}),
    ("internlm3", {**SMALL, **BIASED, "mlp_bias": True}),
    ("hunyuan_v1_dense", {**SMALL, **HEADS, **BIASED}),
    ("ernie4_5", {**SMALL, "use_bias": True}),
    ("exaone", SMALL),
    ("exaone4", SMALL),
    ("nanochat", {**SMALL, **BIASED}),
    ("jais2", SMALL),
    ("bitnet", {**SMALL, **BIASED}),
    ("persimmon", NO_KV),
    ("gpt2", OLD),
    ("gpt2", {**OLD, "n_inner": 40, "tie_word_embeddings": False}),
    ("gpt_bigcode", OLD),
    ("gpt_bigcode", {**OLD, "multi_query": False}),
    ("gptj", OLD),
    ("codegen", OLD),
    ("gpt_neox", NO_KV),
    ("gpt_neox", {**NO_KV, "attention_bias": False, "use_parallel_residual": False}),
    ("phi", SMALL),
    ("phi", {**SMALL, "qk_layernorm": True}),
    ("opt", {**NO_KV, "ffn_dim": 80, "word_embed_proj_dim": 64}),
    ("opt", {**NO_KV, "ffn_dim": 80, "word_embed_proj_dim": 64, "enable_bias": False,
             "layer_norm_elementwise_affine": False}),
    ("bloom", dict(hidden_size=64, n_layer=3, n_head=4, vocab_size=100)),
    ("mpt", dict(d_model=64, n_heads=4, n_layers=3, max_seq_len=32, vocab_size=100)),
    ("falcon", NO_KV),
    ("falcon", {**NO_KV, "multi_query": False, "alibi": True, "bias": True,
                "parallel_attn": False}),
    ("falcon", {**NO_KV, "new_decoder_architecture": True, "num_kv_heads": 2}),
    ("falcon", {**NO_KV, "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}),
    ("mixtral", {**SMALL, **EXPERTS}),
    ("qwen2_moe", {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                   "shared_expert_intermediate_size": 40, "decoder_sparse_step": 2}),
    ("qwen2_moe", {**SMALL, "num_experts": 4, "moe_intermediate_size": 24, "qkv_bias": False,
                   "mlp_only_layers": [0, 4]}),
    ("qwen3_moe", {**SMALL, **HEADS, **EXPERTS, "moe_intermediate_size": 24,
                   "decoder_sparse_step": 3}),
    ("olmoe", {**SMALL, "num_experts": 4, "num_experts_per_tok": 2}),
    ("flex_olmo", {**SMALL, "num_experts": 4, "num_experts_per_tok": 2}),
    ("phimoe", {**SMALL, **EXPERTS, **BIASED, "lm_head_bias": True}),
    ("dbrx", dict(d_model=64, n_heads=4, n_layers=3, max_seq_len=32, vocab_size=100,
                  attn_config=dict(kv_n_heads=2, rope_theta=10000.0),
                  ffn_config=dict(ffn_hidden_size=24, moe_num_experts=4, moe_top_k=2,
                                  hidden_size=64))),
    ("granitemoe", {**SMALL, **EXPERTS}),
    ("granitemoeshared", {**SMALL, **EXPERTS, "shared_intermediate_size": 40}),
    ("granitemoe_swa", {**SMALL, **EXPERTS, "shared_intermediate_size": 40}),
    ("ernie4_5_moe", {**SMALL, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24,
                      "moe_layer_start_index": 1, "moe_layer_end_index": 4}),
    ("ernie4_5_moe", {**SMALL, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 24,
                      "moe_layer_start_index": 0, "moe_layer_end_index": -1,
                      "moe_layer_interval": 2, "moe_num_shared_experts": 0}),
    ("glm4_moe", {**SMALL, **HEADS, **ROUTED, **BIASED, "use_qk_norm": True}),
    ("sarvam_moe", {**SMALL, **HEADS, **ROUTED}),
    ("solar_open", {**SMALL, **HEADS, **BIASED, "n_routed_experts": 4, "num_experts_per_tok": 2,
                    "moe_intermediate_size": 24, "n_shared_experts": 2}),
    ("dots1", {**SMALL, **HEADS, **ROUTED, **BIASED}),
    ("gpt_oss", {**SMALL, **HEADS, **EXPERTS}),
    ("llama4_text", {**SMALL, **HEADS, **EXPERTS, "interleave_moe_layer_step": 2,
                     "intermediate_size_mlp": 80, "attention_chunk_size": 8}),
    ("llama4_text", {**SMALL, **EXPERTS, **BIASED, "moe_layers": [1, 2, 5]}),
    ("minimax_m2", {**SMALL, **HEADS, **EXPERTS}),
    ("hunyuan_v1_moe", {**SMALL, **HEADS, "num_experts": 4, "moe_topk": 2}),
    ("afmoe", {**SMALL, **HEADS, "num_experts": 4, "num_experts_per_tok": 2,
               "moe_intermediate_size": 24, "num_dense_layers": 2}),
    ("cohere2_moe", {**SMALL, "head_dim": 16, "num_experts": 4, "num_shared_experts": 2, **BIASED}),
    ("cohere2_moe", {**SMALL, "num_experts": 4, "first_k_dense_replace": 2,
                     "prefix_dense_intermediate_size": 40, "head_dim": 16}),
    ("exaone_moe", {**SMALL, "num_experts": 4, "num_experts_per_tok": 2,
                    "moe_intermediate_size": 24, "first_k_dense_replace": 2,
                    "num_shared_experts": 2}),
    ("hy_v3", {**SMALL, **HEADS, "num_experts": 4, "num_experts_per_tok": 2,
               "moe_intermediate_size": 24, "mlp_layer_types": SPARSE}),
    ("mellum", {**SMALL, **HEADS, **EXPERTS, **BIASED, "moe_intermediate_size": 24,
                "mlp_layer_types": SPARSE}),
    ("deepseek_v2", {**SMALL, **LATENT, **ROUTED}),
    ("deepseek_v2", {**SMALL, **LATENT, **ROUTED, "q_lora_rank": None,
                     "n_group": None, "topk_group": None, "first_k_dense_replace": 5}),
    ("deepseek_v3", {**SMALL, **LATENT, **ROUTED}),
    ("glm4_moe_lite", {**SMALL, **LATENT, **ROUTED, "mlp_layer_types": SPARSE}),
    ("sarvam_mla", {**SMALL, **LATENT, **ROUTED, "q_lora_rank": None}),
    ("youtu", {**SMALL, **LATENT}),
    ("minicpm3", {**SMALL, **LATENT}),
]

# Published sizes, and the preset of each.
MLA = dict(
    kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, q_lora_rank=1536,
)
PUBLISHED = {
    "deepseek-v2-lite": ("deepseek_v2", dict(
        MLA, vocab_size=102400, hidden_size=2048, intermediate_size=10944, q_lora_rank=None,
        moe_intermediate_size=1408, num_hidden_layers=27, num_attention_heads=16,
        num_key_value_heads=16, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
        first_k_dense_replace=1)),
    "deepseek-v2": ("deepseek_v2", dict(
        MLA, vocab_size=102400, hidden_size=5120, intermediate_size=12288,
        moe_intermediate_size=1536, num_hidden_layers=60, num_attention_heads=128,
        num_key_value_heads=128, n_routed_experts=160, n_shared_experts=2, num_experts_per_tok=6,
        first_k_dense_replace=1, n_group=8, topk_group=3, topk_method="group_limited_greedy")),
    "deepseek-v3": ("deepseek_v3", {}),
    "kimi-k2": ("deepseek_v3", dict(
        MLA, vocab_size=163840, num_attention_heads=64, num_key_value_heads=64,
        n_routed_experts=384, first_k_dense_replace=1, n_group=1, topk_group=1,
        num_nextn_predict_layers=0)),
    "qwen1.5-moe-a2.7b": ("qwen2_moe", {}),
    "qwen2-57b-a14b": ("qwen2_moe", dict(
        hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
        num_key_value_heads=4, moe_intermediate_size=2560, shared_expert_intermediate_size=20480,
        num_experts=64, num_experts_per_tok=8)),
    "qwen3-0.6b": ("qwen3", dict(
        hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        intermediate_size=3072, tie_word_embeddings=True)),
    "qwen3-14b": ("qwen3", dict(
        hidden_size=5120, num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=8,
        intermediate_size=17408)),
    "qwen3-30b-a3b": ("qwen3_moe", dict(num_hidden_layers=48, head_dim=128)),
    "qwen3-235b-a22b": ("qwen3_moe", dict(
        hidden_size=4096, num_hidden_layers=94, num_attention_heads=64, num_key_value_heads=4,
        head_dim=128, moe_intermediate_size=1536)),
    "mixtral-8x7b": ("mixtral", {}),
    "mixtral-8x22b": ("mixtral", dict(
        hidden_size=6144, intermediate_size=16384, num_hidden_layers=56, num_attention_heads=48)),
    "gpt-oss-20b": ("gpt_oss", dict(num_hidden_layers=24, num_local_experts=32)),
    "gpt-oss-120b": ("gpt_oss", {}),
    "llama-4-scout": ("llama4_text", {}),
    "llama-4-maverick": ("llama4_text", dict(num_local_experts=128, interleave_moe_layer_step=2)),
    "glm-4.5": ("glm4_moe", dict(
        hidden_size=5120, intermediate_size=12288, num_hidden_layers=92, head_dim=128,
        attention_bias=True, use_qk_norm=True, moe_intermediate_size=1536, n_routed_experts=160,
        first_k_dense_replace=3)),
    "glm-4.5-air": ("glm4_moe", dict(head_dim=128, attention_bias=True)),
    "gemma-2-2b": ("gemma2", {}),
    "gemma-2-27b": ("gemma2", dict(
        hidden_size=4608, intermediate_size=36864, num_hidden_layers=46, num_attention_heads=32,
        num_key_value_heads=16, head_dim=128)),
    "gemma-3-1b": ("gemma3_text", dict(
        vocab_size=262144, hidden_size=1152, intermediate_size=6912, num_attention_heads=4,
        num_key_value_heads=1, sliding_window=512)),
    "gemma-3-27b": ("gemma3_text", dict(
        hidden_size=5376, intermediate_size=21504, num_hidden_layers=62, num_attention_heads=32,
        num_key_value_heads=16, head_dim=128, sliding_window=1024)),
    "phi-3-mini": ("phi3", {}),
    "phi-4": ("phi3", dict(
        vocab_size=100352, hidden_size=5120, intermediate_size=17920, num_hidden_layers=40,
        num_attention_heads=40, num_key_value_heads=10)),
    "olmo-2-32b": ("olmo2", dict(
        vocab_size=100352, hidden_size=5120, intermediate_size=27648, num_hidden_layers=64,
        num_attention_heads=40, num_key_value_heads=8)),
    "olmoe-1b-7b": ("olmoe", dict(intermediate_size=1024)),
    "falcon-7b": ("falcon", {}),
    "falcon-180b": ("falcon", dict(
        hidden_size=14848, num_hidden_layers=80, num_attention_heads=232, num_kv_heads=8,
        new_decoder_architecture=True)),
    "opt-66b": ("opt", dict(
        hidden_size=9216, num_hidden_layers=64, ffn_dim=36864, num_attention_heads=72,
        word_embed_proj_dim=9216)),
    "bloom-176b": ("bloom", dict(hidden_size=14336, n_layer=70, n_head=112)),
    "gpt-j-6b": ("gptj", {}),
    "mistral-7b-v0.1": ("mistral", {}),
    "granite-3-8b": ("granite", dict(
        vocab_size=49155, num_hidden_layers=40, num_key_value_heads=8, intermediate_size=12800,
        tie_word_embeddings=True)),
    "smollm3-3b": ("smollm3", {}),
    "seed-oss-36b": ("seed_oss", dict(hidden_size=5120)),
    "glm-4-9b": ("glm", {}),
}


def made(kind, sizes):
    """A configuration, and how many parameters a model of it has."""
    config = transformers.AutoConfig.for_model(kind, **sizes)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return config, sum(one.numel() for one in model.parameters())


def layers_of(config, use_diff=True):
    """The file, without predictions, which transformers leaves out."""
    keys = json.loads(config.to_json_string(use_diff=use_diff))
    if "num_nextn_predict_layers" in keys:
        keys["num_nextn_predict_layers"] = 0
    return json.dumps(keys)


def counted(command_line, model):
    answer = json.loads(command_line(
        "--model", model, "--cluster", "dgx-a100", "--schedule", "1f1b", "--stages", 1,
        "--microbatches", 1, "--sequence-length", 16, "--json",
    ))
    weights = answer["ranks"][0]["memory_bytes"]["weights"]
    assert weights % 2 == 0
    return weights // 2


@pytest.mark.parametrize("kind, sizes", CASES, ids=[f"{i}-{one[0]}" for i, one in enumerate(CASES)])
def test_small_models_have_the_same_parameters(command_line, tmp_path, kind, sizes):
    config, parameters = made(kind, sizes)
    path = tmp_path / "config.json"
    path.write_text(layers_of(config))
    assert counted(command_line, path) == parameters
    # The same with every key that transformers knows.
    path.write_text(layers_of(config, use_diff=False))
    assert counted(command_line, path) == parameters


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_the_same_parameters(command_line, tmp_path, name):
    config, parameters = made(*PUBLISHED[name])
    path = tmp_path / "config.json"
    path.write_text(layers_of(config))
    assert counted(command_line, path) == parameters
    preset = json.loads(command_line("models", name))
    preset.pop("prediction_depths", None)
    path.write_text(json.dumps(preset))
    assert counted(command_line, path) == parameters


def test_only_the_activation_of_apertus_is_not_counted(command_line, tmp_path):
    config, parameters = made("apertus", {**SMALL, **BIASED})
    path = tmp_path / "config.json"
    path.write_text(layers_of(config))
    assert counted(command_line, path) == parameters - 2 * SMALL["num_hidden_layers"]
