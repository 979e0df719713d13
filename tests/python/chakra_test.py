"""Chakra's files: what was written is read back, is what the real schema says, and plays back.

CHAKRA_SCHEMA, if set, names schema/protobuf/et_def.proto of mlcommons/chakra, for which protobuf and
grpcio-tools must be installed.
"""

import collections
import gzip
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

import pipesim
from pipesim import PipesimError, chakra, et_file

PIPESIM = pipesim.program.path()
FREE = [
    "--schedule gpipe --stages 3 --microbatches 5",
    "--schedule 1f1b --stages 4 --microbatches 8 --forward 1234567ns --backward 3ms",
    "--schedule interleaved --stages 4 --virtual-stages 2 --microbatches 8",
    "--schedule zb-h1 --stages 4 --microbatches 8",
    "--schedule dualpipe --stages 4 --microbatches 8",
]
MODEL = ("--schedule 1f1b --stages 4 --microbatches 8 --model gpt3-175b --cluster dgx-a100"
         " --tensor-parallel 8 --data-parallel 4")
ALL = FREE + [MODEL, MODEL + " --zero 3", FREE[1] + " --p2p-bytes 5MB --p2p-latency 10us"]


@pytest.fixture(name="folder")
def a_folder():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)


def predict(flags, path):
    subprocess.run([PIPESIM, *flags.split(), "--trace", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    return json.loads(path.read_text())


def written(folder, flags):
    trace = predict(flags, folder / "t.json")
    chakra.write(folder / "t.json", folder / "t")
    return trace, [et_file.read(f"{folder / 't'}.{rank}.et")[1:] for rank in
                   range(len(chakra.read(folder / "t")))]


@pytest.mark.parametrize("flags", ALL)
def test_reads_back_what_was_written(folder, flags):
    trace = predict(flags, folder / "t.json")
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    chakra.write(folder / "t.json", folder / "t")
    program = chakra.read(folder / "t")
    assert len(program) == 1 + max(e["args"]["rank"] for e in events)
    for rank, own in enumerate(program):
        want = [e for e in events if e["args"]["rank"] == rank]
        alone = sorted((e for e in want if e["cat"] != "p2p"), key=lambda e: e["ts"])
        assert [a.name for a in own if "_F" not in a.kind[4:] and "_B" not in a.kind[4:]
                or a.kind == "OVERLAP_F_B"] == [e["name"] for e in alone]
        assert collections.Counter(
            (a.name, a.ns, a.bytes) for a in own) == collections.Counter(
                (e["name"], round(e["dur"] * 1000),
                 e["args"]["bytes"] if e["cat"] == "p2p" else 0) for e in want)


def test_reads_a_trace_that_is_packed_or_parsed(folder):
    trace = predict(FREE[0], folder / "t.json")
    (folder / "t.json.gz").write_bytes(gzip.compress((folder / "t.json").read_bytes()))
    results = []
    for source in (folder / "t.json", str(folder / "t.json.gz"), trace):
        names = chakra.write(source, folder / "x")
        assert names == [f"{folder / 'x'}.{rank}.et" for rank in range(3)]
        results.append([pathlib.Path(name).read_bytes() for name in names])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("flags", FREE[:4])
def test_a_program_that_was_read_takes_as_long(folder, flags):
    trace = predict(flags, folder / "t.json")
    chakra.write(trace, folder / "t")
    program = chakra.read(folder / "t")
    (folder / "s.csv").write_text(chakra.schedule(program))
    (folder / "c.json").write_text(json.dumps(chakra.costs(program)))
    again = predict(f"--schedule {folder / 's.csv'} --costs {folder / 'c.json'}",
                    folder / "again.json")
    makespan = trace["metadata"]["pipesim"]["makespan_ns"]
    assert again["metadata"]["pipesim"]["makespan_ns"] == makespan
    spans = [[(e["name"], e["ts"], e["dur"]) for e in t["traceEvents"]
              if e["ph"] == "X" and e["cat"] == "compute" and e["dur"] > 0]
             for t in (trace, again)]
    assert sorted(spans[0]) == sorted(spans[1])


def played(ranks, deps):
    """When each node ends if it starts once all it needs has ended, a RECV also its SEND."""
    sends = {n["comm_tag"]: (r, i) for r, own in enumerate(ranks) for i, n in enumerate(own)
             if "SEND" in n["name"]}
    ends = {}
    waiting = [(r, i) for r, own in enumerate(ranks) for i in range(len(own))]
    while waiting:
        later = []
        for r, i in waiting:
            node = ranks[r][i]
            needs = [(r, d) for d in deps[r][i]]
            if "RECV" in node["name"]:
                needs.append(sends[node["comm_tag"]])
            if all(need in ends for need in needs):
                time = 0 if "RECV" in node["name"] else node["ns"]
                ends[r, i] = max((ends[need] for need in needs), default=0) + time
            else:
                later.append((r, i))
        assert len(later) < len(waiting), "a cycle"
        waiting = later
    return max(ends.values())


@pytest.mark.parametrize("flags", FREE + [ALL[-1]])
def test_dependencies_give_the_makespan(folder, flags, monkeypatch):
    deps = []
    encode = et_file.write
    monkeypatch.setattr(et_file, "write", lambda path, ranks, nodes: (
        deps.append([node[2] for node in nodes]), encode(path, ranks, nodes)))
    trace, ranks = written(folder, flags)
    assert played(ranks, deps) == trace["metadata"]["pipesim"]["makespan_ns"]


@pytest.mark.parametrize("flags", ALL)
def test_has_what_simulators_ask_for(folder, flags):
    _, ranks = written(folder, flags)
    ends = collections.defaultdict(list)
    for rank, own in enumerate(ranks):
        for node in own:
            assert node["is_cpu_op"] in (0, 1)
            if "comm_tag" in node:
                me = node["comm_src" if "SEND" in node["name"] else "comm_dst"]
                assert me == rank and node["comm_size"] >= 1 and not node["is_cpu_op"]
                ends[node["comm_src"], node["comm_dst"], node["comm_tag"]].append(node["comm_size"])
    assert all(len(sizes) == 2 and sizes[0] == sizes[1] for sizes in ends.values())


def test_collectives_meet_in_groups(folder):
    _, ranks = written(folder, MODEL)
    groups = json.loads((folder / "t.groups.json").read_text())
    of = {kind: [n["pg_name"] for own in ranks for n in own if kind in n["name"]]
          for kind in ("TIED", "NORM")}
    assert [len(set(names)) for names in of.values()] == [1, 1]
    assert groups == {of["TIED"][0]: [0, 3], of["NORM"][0]: [0, 1, 2, 3]}
    assert [[n["comm_type"] for n in own if "pg_name" in n] for own in ranks] == [[0, 0], [0], [0],
                                                                                  [0, 0]]


def test_exchanges_with_replicas_run_beside(folder):
    _, ranks = written(folder, MODEL + " --zero 3")
    beside = {n["name"][1:] for own in ranks for n in own if n["is_cpu_op"]}
    assert beside == {"UNSHARD", "REDUCE_GRAD"}


@pytest.mark.peer
def test_is_the_real_schema(folder):
    schema = os.environ.get("CHAKRA_SCHEMA")
    if not schema:
        pytest.skip("CHAKRA_SCHEMA does not name et_def.proto")
    protoc = pytest.importorskip("grpc_tools.protoc")
    schema = pathlib.Path(schema)
    assert protoc.main(["", f"-I{schema.parent}", f"--python_out={folder}", str(schema)]) == 0
    sys.path.insert(0, str(folder))
    pb2 = importlib.import_module("et_def_pb2")
    varint = importlib.import_module("google.protobuf.internal.decoder")._DecodeVarint32
    for number, flags in enumerate(ALL):
        (folder / str(number)).mkdir()
        _, ranks = written(folder / str(number), flags)
        before = chakra.read(folder / str(number) / "t")
        for rank, own in enumerate(ranks):
            path = folder / str(number) / f"t.{rank}.et"
            data, at, messages = path.read_bytes(), 0, []
            while at < len(data):
                size, at = varint(data, at)
                messages.append(pb2.Node() if messages else pb2.GlobalMetadata())
                messages[-1].ParseFromString(data[at:at + size])
                # The library writes the same bytes: nothing was unknown to it, or not canonical.
                assert messages[-1].SerializeToString(deterministic=True) == data[at:at + size]
                at += size
            assert messages[0].version and len(messages) == 1 + len(own)
            for at, (node, mine) in enumerate(zip(messages[1:], own)):
                assert (node.id, node.name) == (at, mine["name"])
                assert node.duration_micros == round(mine["ns"] / 1000)
                assert all(dep < at for dep in node.data_deps)
                values = {a.name: getattr(a, a.WhichOneof("value")) for a in node.attr}
                assert values == {k: v for k, v in mine.items() if k != "name"}
                fields = {a.name: a.WhichOneof("value") for a in node.attr}
                types = {"is_cpu_op": "bool_val", "comm_src": "int32_val", "comm_dst": "int32_val",
                         "comm_tag": "int32_val", "pg_name": "string_val"}
                assert fields == {k: types.get(k, "int64_val") for k in fields}
                kind = pb2.NodeType.Name(node.type)
                assert ("SEND" in kind, "RECV" in kind) == ("SEND" in node.name,
                                                            "RECV" in node.name)
        assert chakra.read(folder / str(number) / "t") == before


def raises(text, call, *args):
    with pytest.raises(PipesimError) as caught:
        call(*args)
    assert text in str(caught.value), caught.value


def test_wrong_files_are_refused(folder):
    prefix, small = folder / "t", "--schedule gpipe --stages 3 --microbatches 2"
    chakra.write(predict(small, folder / "t.json"), prefix)
    path = folder / "t.1.et"
    whole = path.read_bytes()
    for length in range(len(whole)):  # wherever it breaks off
        path.write_bytes(whole[:length])
        raises("t.1.et: ", chakra.read, prefix)
    for bad in (b"", b"\n", b"not protobuf at all\n" * 9, b"\xff" * 99, b"\0" * 9, b'{"a":1}'):
        path.write_bytes(bad)
        raises("t.1.et: ", chakra.read, prefix)
    for at in range(len(whole)):  # a changed byte is read, or refused in the one way
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:])
        try:
            chakra.read(prefix)
        except PipesimError as error:
            assert "t." in str(error)
    path.unlink()
    raises("t.1.et: missing, of 3 ranks", chakra.read, prefix)
    path.write_bytes(whole)
    (folder / "t.2.et").unlink()
    raises("t.2.et: missing, of 3 ranks", chakra.read, prefix)
    raises("nothing.0.et: missing", chakra.read, folder / "nothing")
    raises("x.0.et: missing", chakra.read, folder / "no" / "folder" / "x")
    chakra.write(predict(small.replace("2", "1"), folder / "u.json"), folder / "u")
    chakra.write(predict(FREE[1], folder / "u.json"), prefix)  # has more ranks
    chakra.write(folder / "t.json", prefix)
    assert len(chakra.read(prefix)) == 3
    (folder / "t.3.et").replace(folder / "t.2.et")
    raises("t.2.et: of 4 ranks instead of 3", chakra.read, prefix)
    (folder / "u.2.et").replace(folder / "t.2.et")
    raises("has no other end", chakra.read, prefix)


def test_wrong_traces_are_refused(folder):
    trace = predict(FREE[0], folder / "t.json")
    path = folder / "bad.json"
    for text in ("", "[]", "{}", '{"traceEvents": []}', "nonsense", '{"metadata": 7}'):
        path.write_text(text)
        raises("bad.json: ", chakra.write, path, folder / "x")
    path.write_bytes(gzip.compress((folder / "t.json").read_bytes())[:99])
    raises("bad.json: ", chakra.write, path, folder / "x")
    raises("none.json: ", chakra.write, folder / "none.json", folder / "x")
    raises("trace: no iteration 7", chakra.write, trace, folder / "x", 7)
    lost = dict(trace, traceEvents=[e for e in trace["traceEvents"] if e["name"] != "0SEND_F1"])
    raises("1RECV_F1 has no other end", chakra.write, lost, folder / "x")
    lost = dict(trace, traceEvents=[e for e in trace["traceEvents"] if e["name"] != "1F1"])
    raises("transfers of no action", chakra.write, lost, folder / "x")
    assert not list(folder.glob("x*"))
