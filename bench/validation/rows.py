"""Published measurements, as rows that pipesim can predict.

The figures stand in data/, with their source, units and caveats, and with what each
is used for: that was decided before anything was fitted.
"""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path

from program import InputError, Json

DATA = Path(__file__).resolve().parent / "data"


class Quantity(Enum):
    ITERATION = "iteration"  # from the first forward to the end of the optimizer's step
    LAYER_FORWARD = "forward"  # of one block, one microbatch
    LAYER_BACKWARD = "backward"  # with what is computed again


class Use(Enum):
    FITTED = "fitted"  # constants may be fitted on it
    HOST_FLOOR = "host_floor"  # of a simulator; only the host's floor was read off it
    UNSEEN = "unseen"  # never looked at when fitting
    CONTRADICTS = "contradicts_neighbours"  # see Row.reason; never fitted
    DID_NOT_RUN = "did_not_run"  # out of memory, or crashed
    LAYOUT = "layout"  # of published_layouts.json; its time is not compared


class Part(Enum):
    """What rows are compared apart by, since their errors differ."""

    DENSE = "dense"
    CONTEXT = "context parallelism"
    EXPERTS = "experts"  # with context parallelism or without


class Source(Enum):
    KORTHIKANTI = "korthikanti"  # table 5
    KORTHIKANTI_LAYERS = "korthikanti layers"  # table 4
    SC21 = "sc21"
    VTRAIN_MULTI_NODE = "vtrain multi-node"
    VTRAIN_SINGLE_NODE = "vtrain single-node"  # output of another simulator, not measured
    SIMUMAX_B200 = "simumax b200"
    NANOTRON = "nanotron h100"
    NEMO = "nemo h100"
    MLPERF = "mlperf v3.0 h100"
    MEGATRON_CORE = "megatron-core h100"
    TORCHTITAN = "torchtitan h100"
    BIGSCIENCE = "bigscience a100"
    SC21_ZERO3 = "sc21 zero-3"
    LLAMA_3 = "llama 3"  # layouts alone
    DGXC = "dgxc h100"
    DGXC_GB200 = "dgxc gb200"
    LLM_FOUNDRY = "llm foundry"
    INTERNLM = "internlm a100"
    ATORCH = "atorch a100"
    TORCHTITAN_A100 = "torchtitan a100"
    NEMO_LONG = "nemo long sequences"
    MEGATRON_MOE = "megatron moe"
    ONE_GPU = "one gpu"  # of one_gpu.json, which one_gpu.py predicts


# The software that each ran, where it is not the device's usual one, and no row says.
SOFTWARE = {
    Source.NANOTRON: "nanotron",
    Source.NEMO: "nemo",
    Source.MLPERF: "nemo-2023",
    Source.MEGATRON_CORE: "megatron-core",
    Source.BIGSCIENCE: "deepspeed",
    Source.SC21_ZERO3: "deepspeed",
    Source.DGXC: "nemo",
    Source.DGXC_GB200: "nemo",
    Source.LLM_FOUNDRY: "llm-foundry",
    Source.INTERNLM: "internevo",
    Source.TORCHTITAN_A100: "torchtitan",
    Source.NEMO_LONG: "nemo",
    Source.MEGATRON_MOE: "megatron-core",
}
FILES = {
    Source.NEMO: "nemo_h100_fp8.json",
    Source.MLPERF: "mlperf_v30_h100.json",
    Source.MEGATRON_CORE: "megatron_core_h100.json",
    Source.TORCHTITAN: "torchtitan_h100.json",
    Source.BIGSCIENCE: "bigscience_a100.json",
    Source.SC21_ZERO3: "sc21_zero3.json",
    Source.DGXC: "dgxc_h100.json",
    Source.DGXC_GB200: "dgxc_gb200.json",
    Source.LLM_FOUNDRY: "llm_foundry.json",
    Source.INTERNLM: "internlm_a100.json",
    Source.ATORCH: "atorch_a100.json",
    Source.TORCHTITAN_A100: "torchtitan_a100.json",
    Source.NEMO_LONG: "nemo_long_sequence.json",
    Source.MEGATRON_MOE: "megatron_moe.json",
}

# Keys of a pipesim-model that few models have.
RARE_MODEL_KEYS = (
    "head_size",
    "qk_norm",
    "latent",
    "experts",
    "experts_per_token",
    "expert_size",
    "shared_size",
    "expert_groups",
    "groups_per_token",
    "kinds",
    "prediction_depths",
)


@dataclass(frozen=True)
class Model:
    """A decoder, by the keys of a pipesim-model."""

    name: str
    architecture: str
    blocks: int
    hidden_size: int
    heads: int
    kv_heads: int
    mlp_size: int
    vocabulary_size: int
    max_sequence_length: int
    tied_head: bool
    dropout: float
    rare: str = "{}"  # as JSON, so that models can be compared: of RARE_MODEL_KEYS

    @property
    def experts(self) -> int:
        return json.loads(self.rare).get("experts", 1)

    @property
    def file(self) -> Json:
        """A pipesim-model."""
        keys = {"format": "pipesim-model", "version": 1, **asdict(self)}
        rare = json.loads(keys.pop("rare"))
        if "latent" in rare:
            del keys["kv_heads"]
        return keys | rare


@dataclass(frozen=True)
class Training:
    """How a model is trained, as in sim/cost/estimate/training.h."""

    sequence_length: int
    micro_batch_size: int = 1
    tensor_parallel: int = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    pipeline_parallel: int = 1
    data_parallel: int = 1
    attention: str = "unfused"
    zero: int = 0
    gradient_bytes: int = 2
    precision: str = "bf16"
    asynchronous_reduction: bool | None = None  # as the software has it
    software_factor: float | None = None
    bucket_bytes: str | None = None
    overlap_gather: str | None = None
    exchange_overlap: float | None = None
    fused_loss: bool = False
    shard_over: int | None = None
    context_parallel: int = 1
    context_parallel_type: str | None = None
    expert_parallel: int = 1
    expert_tensor_parallel: int | None = None
    expert_dispatch: str | None = None

    @property
    def devices(self) -> int:
        replicas = self.data_parallel * self.context_parallel
        return self.pipeline_parallel * self.tensor_parallel * replicas


@dataclass(frozen=True)
class Row:
    source: Source
    name: str
    quantity: Quantity
    model: Model
    cluster: str
    training: Training
    virtual_stages: int  # chunks a rank
    microbatches: int
    published_s: float
    published_mfu: float | None
    published_peak_bytes: float | None  # of the fullest rank
    # What another simulator predicts of them.
    peer_s: float | None
    peer_peak_bytes: float | None
    use: Use
    reason: str  # why it contradicts its neighbours
    software: str | None  # a preset, or a file
    nodes: int | None = None  # where the source says so
    layout: str | None = None  # layers of each chunk, as `--layout` has them

    @property
    def part(self) -> Part:
        if self.model.experts > 1:
            return Part.EXPERTS
        return Part.CONTEXT if self.training.context_parallel > 1 else Part.DENSE

    @property
    def set_name(self) -> str:
        """Of rows of its source and part."""
        name = self.source.value
        return name if self.part is Part.DENSE else f"{name}, {self.part.value}"

    @property
    def is_sound(self) -> bool:
        """Whether it ran, as its neighbours let expect."""
        return self.use not in (Use.CONTRADICTS, Use.DID_NOT_RUN)

    @property
    def peer_error(self) -> float:
        """Where another simulator predicts the time."""
        assert self.peer_s is not None
        return self.peer_s / self.published_s - 1

    @property
    def peer_peak_error(self) -> float:
        """Where it predicts the peak of memory."""
        assert self.peer_peak_bytes is not None and self.published_peak_bytes is not None
        return self.peer_peak_bytes / self.published_peak_bytes - 1


@dataclass(frozen=True)
class LeftOut:
    """A published row that is not predicted."""

    source: Source
    name: str
    reason: str


@dataclass(frozen=True)
class Product:
    """A matrix product, `rows` x `inner` by `inner` x `columns`, on one card."""

    rows: int
    inner: int
    columns: int
    accumulates: bool  # onto fp32
    efficiency: float  # the share of the peak that it reached
    fitted: bool

    @property
    def name(self) -> str:
        suffix = ", accumulating" if self.accumulates else ""
        return f"{self.rows} x {self.inner} x {self.columns}{suffix}"


def read_json(path: Path) -> Json:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path}: is no JSON: {error}") from error


def cell(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read_csv(path: Path) -> list[Json]:
    """One object a row, by the names of the first line."""
    try:
        with path.open(newline="") as file:
            first, *lines = csv.reader(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    for line in lines:
        if len(line) != len(first):
            raise InputError(
                f"{path}: a row has {len(line)} cells, the first line {len(first)}; give it as many"
            )
    return [dict(zip(first, map(cell, line))) for line in lines]


def pick(row: Json, kind: type) -> Json:
    """What a row says of the fields of a dataclass."""
    return {field.name: row[field.name] for field in fields(kind) if field.name in row}


def model_of(row: Json) -> Model:
    hidden = row["hidden_size"]
    defaults = {
        "architecture": "gpt",
        "kv_heads": row["heads"],
        "mlp_size": 4 * hidden,
        "max_sequence_length": row["sequence_length"],
        "dropout": row.get("dropout_ppm", 100_000) / 1e6,  # what these programs train with
    }
    name = row.get("model", f"h {hidden}, {row['blocks']} blocks")
    rare = json.dumps({key: row[key] for key in RARE_MODEL_KEYS if key in row})
    return Model(**defaults | pick(row, Model) | {"name": name, "rare": rare})


def in_units(row: Json, key: str, unit: float) -> float | None:
    return row[key] / unit if key in row else None


def name_of(row: Json) -> str:
    if "name" in row:
        return row["name"]
    return (
        f"row {row['row']}: h {row['hidden_size']}, {row['blocks']} blocks, "
        f"t {row['tensor_parallel']}, p {row['pipeline_parallel']}, "
        f"d {row['data_parallel']}, b {row['micro_batch_size']}"
    )


def cluster_of(name: str) -> str:
    """A preset, or the file of a cluster that only these rows are of."""
    file = DATA / "clusters" / f"{name}.json"
    return str(file) if file.exists() else name


def row_of(source: Source, row: Json, name: str, quantity: Quantity, seconds: float) -> Row:
    training = Training(**pick(row, Training))
    at_once = training.micro_batch_size * training.data_parallel
    batch = row.get("global_batch", at_once)
    if batch % at_once != 0:
        raise InputError(f"{DATA}: {name}: a batch of {batch} is no multiple of {at_once}; mend it")
    peak_gib = row["peak_gb"] / 1.024**3 if row.get("peak_gb") else row.get("peak_gib")
    gib = 1024**3
    return Row(
        source=source,
        name=name,
        quantity=quantity,
        model=model_of(row),
        cluster=cluster_of(row["cluster"]),
        training=training,
        virtual_stages=row.get("virtual_stages", 1),
        microbatches=batch // at_once,
        published_s=seconds,
        published_mfu=in_units(row, "mfu_percent", 100),
        published_peak_bytes=None if peak_gib is None else peak_gib * gib,
        peer_s=in_units(row, "peer_milliseconds", 1e3),
        peer_peak_bytes=in_units(row, "peer_peak_gib", 1 / gib),
        use=Use(row["use"]),
        reason=row.get("reason", ""),
        software=row.get("software", SOFTWARE.get(source)),
        nodes=row.get("nodes"),
        layout=row.get("layout"),
    )


def iteration_of(source: Source, row: Json) -> Row:
    seconds = row["milliseconds"] / 1e3 if "milliseconds" in row else row["seconds"] or 0
    return row_of(source, row, name_of(row), Quantity.ITERATION, seconds)


def nanotron_row(row: Json) -> Row:
    name = (
        f"{row['model'].removeprefix('nanotron-')}, nodes {row['nodes']}, "
        f"t {row['tensor_parallel']}, p {row['pipeline_parallel']}, d {row['data_parallel']}, "
        f"b {row['micro_batch_size']}, ZeRO {row['zero']}"
    )
    # A replica by itself has nothing to split.
    zero = row["zero"] if row["data_parallel"] > 1 else 0
    split = {"sequence_parallel": row["tensor_parallel"] > 1, "name": name, "zero": zero}
    return iteration_of(Source.NANOTRON, {**row, **split})


def read_layers(file: Json) -> list[Row]:
    """Table 4: a forward and a backward each."""
    rows = []
    for layer in file["layers"]:
        row = {**file["settings"], **file["layer_settings"], **layer}
        for quantity in (Quantity.LAYER_FORWARD, Quantity.LAYER_BACKWARD):
            name = f"{layer['name']}, {quantity.value}"
            seconds = layer[f"{quantity.value}_ms"] / 1e3
            rows.append(row_of(Source.KORTHIKANTI_LAYERS, row, name, quantity, seconds))
    return rows


def read_files(folder: Path) -> list[Row]:
    korthikanti = read_json(folder / "korthikanti_2022.json")
    rows = read_layers(korthikanti)
    sc21 = read_json(folder / "megatron_sc21.json")
    for source, file in ((Source.KORTHIKANTI, korthikanti), (Source.SC21, sc21)):
        rows += [iteration_of(source, {**file["settings"], **row}) for row in file["iterations"]]
    vtrain = read_json(folder / "vtrain_2023.json")
    for source in (Source.VTRAIN_MULTI_NODE, Source.VTRAIN_SINGLE_NODE):
        table = vtrain["multi_node" if source is Source.VTRAIN_MULTI_NODE else "single_node"]
        for row in read_csv(folder / table["file"]):
            rows.append(iteration_of(source, {**table["settings"], **row}))
    for source, name in FILES.items():
        file = read_json(folder / name)
        for row in file["iterations"]:
            shape = file["models"][row["model"]] if "models" in file else {}
            rows.append(iteration_of(source, {**file["settings"], **shape, **row}))
    nanotron = read_json(folder / "nanotron_h100.json")
    for row in read_csv(folder / nanotron["file"]):
        shape = nanotron["shapes"][row["model"]]
        rows.append(nanotron_row({**nanotron["settings"], **row, **shape}))
    simumax = read_json(folder / "simumax_b200.json")
    for row in simumax["iterations"]:
        shape = simumax["models"][row["model"]]
        rows.append(iteration_of(Source.SIMUMAX_B200, {**simumax["settings"], **shape, **row}))
    return rows


def read_rows(folder: Path = DATA) -> list[Row]:
    """All of them, in the files' order."""
    try:
        return read_files(folder)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder}: a row lacks a key, or has none that is known: {error}"
        ) from error


def read_one_gpu_steps(folder: Path = DATA) -> list[Row]:
    """PyTorch's eager steps on one GPU."""
    rows = []
    for row in read_json(folder / "one_gpu.json")["pytorch_steps"]:
        if row["compile"]:
            continue
        keys = {
            "architecture": row["model"],
            "model": f"{row['model']} of {row['layers']} x {row['hidden']}",
            "blocks": row["layers"],
            "hidden_size": row["hidden"],
            "mlp_size": row["ffn"],
            "vocabulary_size": row["vocab"],
            "sequence_length": row["seq"],
            "micro_batch_size": row["micro_batch"],
            "global_batch": row["micro_batch"] * row["microbatches"],
            "tied_head": False,
            "dropout_ppm": 0,
            "cluster": "dgx-h100",
            "attention": "fused",
            "software": "pytorch",
            "use": "unseen",
        }
        name = f"{keys['model']}, s {row['seq']}, b {row['micro_batch']}"
        seconds = row["median_ms"] / 1e3
        rows.append(row_of(Source.ONE_GPU, {**row, **keys}, name, Quantity.ITERATION, seconds))
    return rows


def read_left_out(folder: Path = DATA) -> list[LeftOut]:
    """What sets of FILES list as not modelled."""
    return [
        LeftOut(source, row["name"], row["reason"])
        for source, name in FILES.items()
        for row in read_json(folder / name).get("not_modelled", [])
    ]


def read_products(folder: Path = DATA) -> tuple[str, list[Product]]:
    """The device's name, and its products in the table's order."""
    file = read_json(folder / "simumax_a100_pcie.json")
    products = [
        Product(
            rows=row["rows"],
            inner=row["inner"],
            columns=row["columns"],
            accumulates=row["accumulates"] == "true",
            efficiency=row["efficiency"],
            fitted=Use(row["use"]) is Use.FITTED,
        )
        for row in read_csv(folder / file["file"])
    ]
    return file["device"], products
