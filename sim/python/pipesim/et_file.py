"""Files of Chakra's messages, in the part of protobuf's encoding that they use.

A file has a GlobalMetadata, then Nodes, each after its length. Their fields are those of
schema/protobuf/et_def.proto in mlcommons/chakra (commit 21585d8, MIT licence).
"""

from pipesim.errors import PipesimError

COMP, SEND, RECV, COLL = 4, 5, 6, 7  # enum NodeType
ALL_REDUCE = 0                       # enum CollectiveCommType
# The field of AttributeProto that has the value: an int32, int64, bool or string. These are the
# types that the feeder of Chakra reads; ASTRA-sim's takes any number.
FIELDS = {"comm_src": 7, "comm_dst": 7, "comm_tag": 7, "comm_size": 9, "comm_type": 9, "ns": 9,
          "bytes": 9, "ranks": 9, "nodes": 9, "is_cpu_op": 27, "pg_name": 29, "schema": 29}


def write(path, ranks, nodes):
    """Writes the file of one of as many ranks. Nodes are (name, NodeType, numbers of nodes it
    needs, start and duration in microseconds, attributes), the last a dict with keys of FIELDS."""
    header = {"schema": "mlcommons/chakra 21585d8", "ranks": ranks, "nodes": len(nodes)}
    messages = [_field(1, b"0.0.4") + _attributes(2, header)]
    for at, (name, kind, needs, start, duration, attributes) in enumerate(nodes):
        needs = b"".join(map(_varint, sorted(needs)))
        values = {1: at, 2: name.encode(), 3: kind, 5: needs, 6: start, 7: duration}
        messages.append(b"".join(_field(number, value) for number, value in values.items() if value)
                        + _attributes(10, attributes))
    with open(path, "wb") as file:
        file.write(b"".join(_varint(len(m)) + m for m in messages))


def read(path):
    """Of each message of a file a dict, the header first: its attributes, and its name if it is a
    node. Raises PipesimError with the file and byte if it is no such file, or breaks off."""
    with open(path, "rb") as file:
        data = file.read()
    found, start = [], 0
    try:
        for start, end in _messages(data):
            node = {"name": ""}
            for number, value in _fields(data, start, end):
                if number == (10 if found else 2):
                    (_, name), (kind, value) = _fields(data, *value)
                    node[data[slice(*name)].decode()] = (
                        data[slice(*value)].decode() if kind == 29 else value)
                elif number == 2:
                    node["name"] = data[slice(*value)].decode()
            found.append(node)
    except PipesimError as error:
        raise PipesimError(f"{path}: {error}") from None
    except (TypeError, ValueError):
        raise PipesimError(f"{path}: byte {start}: no message of Chakra") from None
    return found


def _varint(number):
    """A number, not negative, seven bits a byte from the lowest on."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def _field(number, value):
    """A field that is a number or bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _attributes(number, values):
    return b"".join(_field(number, _field(1, name.encode()) + _field(
        FIELDS[name], value.encode() if isinstance(value, str) else value))
        for name, value in values.items())


def _number_at(data, at, end):
    """The number at a byte, and the byte after it."""
    number = 0
    for shift in range(0, 70, 7):
        if at == end:
            raise PipesimError(f"byte {at}: the file breaks off, or is no protobuf")
        number, at = number | (data[at] & 127) << shift, at + 1
        if data[at - 1] < 128:
            return number, at
    raise PipesimError(f"byte {at}: no protobuf")


def _fields(data, at, end):
    """Pairs of a field's number and its value: a number, or where bytes are, (first, end)."""
    while at < end:
        start, (key, at) = at, _number_at(data, at, end)
        value, at = _number_at(data, at, end)
        if key & 7 == 2:
            value, at = (at, at + value), at + value
        if key & 7 not in (0, 2) or key < 8 or at > end:
            raise PipesimError(f"byte {start}: no field of a number or of bytes")
        yield key >> 3, value


def _messages(data):
    """Where each message is, (first, end), in a file that has its length before each."""
    at = 0
    while at < len(data) or not data:
        size, start = _number_at(data, at, len(data))
        at = start + size
        if at > len(data):
            raise PipesimError(f"byte {start}: the file breaks off {at - len(data)} bytes early")
        yield start, at
