"""Values in the files of presets, written in place, so that all else stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from program import REPOSITORY, InputError, Json, value_of, write_whole
from rows import read_json

HARDWARE = REPOSITORY / "sim" / "cost" / "hardware"


def file_of(kind: str, name: str) -> Path:
    return HARDWARE / kind / f"{name}.json"


def with_value(path: Path, text: str, keys: Sequence[str], value: object) -> str:
    """The text with this value in the entry that the keys lead to, beside its source."""
    at = 0
    for key in keys:
        found = re.compile(rf'"{re.escape(key)}":\s*\{{').search(text, at)
        if found is None:
            raise InputError(f"{path}: has no '{'.'.join(keys)}' with a source; add it")
        at = found.end()
    at = text.index('"value": ', at) + len('"value": ')
    _, end = json.JSONDecoder().raw_decode(text, at)
    return text[:at] + json.dumps(value) + text[end:]


def put(path: Path, folder: Sequence[str], values: Json) -> None:
    text = path.read_text()
    for key, value in values.items():
        text = with_value(path, text, (*folder, key), value)
    write_whole(path, text)


def put_values(software: str, device: str, values: Json, matmul: Json) -> None:
    """Of a software on a device, where it has values for that alone or for all, and of the
    device's matrix products."""
    path = file_of("software", software)
    is_apart = device in read_json(path).get("devices", {})
    put(path, ("devices", device) if is_apart else ("values",), values)
    put(file_of("devices", device), ("matmul",), matmul)


def carried(entries: Json, device: str, of_devices: Json) -> Iterable[tuple[str, object]]:
    """What entries that are carried over should say: from another device of the same software,
    or from another software on this device."""
    for key, entry in entries.items():
        found = re.fullmatch(r"carried over from (\S+)", str(entry.get("source")))
        if found is None:
            continue
        origin = found[1]
        if origin in of_devices:
            source = of_devices[origin]
        elif file_of("software", origin).exists():
            file = read_json(file_of("software", origin))
            source = file.get("devices", {}).get(device, file.get("values", {}))
        else:
            continue
        if key in source:
            yield key, value_of(source[key])


def carry_over() -> None:
    """Brings what is carried over up to date in all software presets."""
    for path in sorted((HARDWARE / "software").glob("*.json")):
        for name in read_json(path).get("devices", {}):
            of_devices = read_json(path)["devices"]
            others = {key: value for key, value in of_devices.items() if key != name}
            put(path, ("devices", name), dict(carried(of_devices[name], name, others)))
        file = read_json(path)
        put(path, ("values",), dict(carried(file.get("values", {}), "", file.get("devices", {}))))
