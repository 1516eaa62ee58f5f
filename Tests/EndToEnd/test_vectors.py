"""Protocol/vectors: a broker answers every exchange with the bytes shown, except those marked to vary, and the
conversations with the errors shown.

After an intended change of the broker's bytes, record them again, then review the difference:

    FOREBAYD=PATH python Tests/EndToEnd/test_vectors.py --record [PART OF A NAME]

This keeps all steps and their descriptions, and replaces the broker's bytes and marks. For a new exchange, write the
broker's steps with empty `bytes` and record it; the steps get the frames in the order of arrival.
"""

import itertools
import json
import re
import signal
import socket
import struct
import sys
import tempfile
from pathlib import Path

import pytest

import raw
from test_documents import anchors

PROTOCOL = Path(__file__).resolve().parents[2] / "Protocol"
EXCHANGES = PROTOCOL / "vectors/exchanges.json"
CONVERSATIONS = PROTOCOL / "vectors/conversations.json"
DEADLINE = 10.0  # Seconds that any expected event may take; reached only when a test fails.
KEEPALIVE, REQUEST_N, PAYLOAD, ERROR = 3, 8, 10, 11
NAMES = {1: "SETUP", KEEPALIVE: "KEEPALIVE", 4: "REQUEST_RESPONSE", 5: "REQUEST_FNF", 6: "REQUEST_STREAM",
         7: "REQUEST_CHANNEL", REQUEST_N: "REQUEST_N", 9: "CANCEL", PAYLOAD: "PAYLOAD", ERROR: "ERROR", 13: "RESUME",
         14: "RESUME_OK"}
FLAGS = {"M": 0x100, "F": 0x80, "C": 0x40, "N": 0x20}
ALIVE = bytes.fromhex("000011 00000000 0c80 0000000000000000") + b"end"
LONG_RUN = 1000  # The number of equal bytes at the end of a frame from which they are written as `repeat`.

# Fields that vary: what precedes them, how far they are from its end, their length and label.
FIELDS = [
    (b"application/vnd.forebay.message\0\0\x20", 0, 8, "epoch"),
    (b"application/vnd.forebay.message\0\0\x20", 16, 8, "timestamp"),
    (b"application/vnd.forebay.opening\0\0\x10", 0, 8, "epoch"),
]
TOPIC = b"\x1capplication/vnd.forebay.topic"  # The entry that follows the broker's in messages of a pattern.
MARKS = ("varies", "text_from", "json_from", "json_same")
# Members of JSON objects that are the same in every run.
SAME = {"name", "protocol", "state", "error", "first", "next", "retained", "retain", "published", "delivered",
        "dropped", "subscriptions", "publishers", "topic", "stream", "policy", "buffer", "requested", "outstanding",
        "waiting"}
# The word of an error and its colon. What a topic failed with is not the broker's to choose.
WORD = re.compile(rb"topic failed: .*|[a-z]+(?:-[a-z]+)*:", re.DOTALL)


class Shorter(Exception):
    """A value that the client repeats has fewer digits than in the file: record with a different value."""


def load() -> dict:
    return json.loads(EXCHANGES.read_text())


def save(file: dict, path: Path = EXCHANGES):
    """Writes one line for each step."""
    def line(value) -> str:
        return json.dumps(value, ensure_ascii=False)

    brokers = ",\n".join(f"  {line(name)}: {line(settings)}" for name, settings in file["brokers"].items())
    vectors = []
    for one in file["vectors"]:
        head = "".join(f"{line(key)}: {line(value)}, " for key, value in one.items() if key != "steps")
        steps = ",\n".join(f"  {line(step)}" for step in one["steps"])
        vectors.append(f'{{{head}"steps": [\n{steps}]}}')
    path.write_text(f'{{\n"about": {line(file["about"])},\n"brokers": {{\n{brokers}}},\n"vectors": [\n'
                    + ",\n".join(vectors) + "\n]}\n")


def content(step: dict) -> bytes:
    unit, count = step.get("repeat", ["", 0])
    return bytes.fromhex(step["bytes"]) + bytes.fromhex(unit) * count


def kind(frame: bytes) -> int:
    """The type of a frame that begins with its length prefix."""
    return frame[7] >> 2


def of_topic(frame: bytes) -> str:
    """For labels: the topic that a message of a pattern names."""
    if TOPIC not in frame:
        return ""
    at = frame.index(TOPIC) + len(TOPIC) + 3
    return " of " + frame[at : at + int.from_bytes(frame[at - 3 : at], "big")].decode()


def marks(frame: bytes) -> dict:
    """What varies in a frame of the broker, as in the file."""
    found = {}
    varies = [[frame.index(before) + len(before) + skip, length, label + of_topic(frame)]
              for before, skip, length, label in FIELDS if before in frame]
    if kind(frame) == REQUEST_N:
        varies.append([9, 4, "grant"])
    if varies:
        found["varies"] = varies
    if kind(frame) == ERROR:
        word = WORD.match(frame, 13)
        assert word, f"an error without a word: {frame[13:]}"
        if word.end() < len(frame):
            found["text_from"] = word.end()
    elif frame[9:10] == b"{":
        told = json.loads(frame[9:])
        same = {"name", "state"} if told.get("name", "").startswith("$SYS.") else SAME
        found["json_from"] = 9
        found["json_same"] = sorted(same & told.keys())
    return found


def described(frame: bytes) -> dict:
    """The fields of a step for a frame of the broker."""
    end = len(frame.rstrip(frame[-1:]))
    short = len(frame) - end < LONG_RUN
    fields = {"bytes": frame.hex()} if short else {
        "bytes": frame[:end].hex(), "repeat": [frame[-1:].hex(), len(frame) - end]}
    return fields | marks(frame)


class Line:
    """A connection on which the broker's frames are read."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, DEADLINE)

    def frame(self) -> bytes:
        """The next frame, with its length."""
        head = self._read(3)
        return head + self._read(int.from_bytes(head, "big"))

    def ended(self):
        assert self.socket.recv(1) == b"", "bytes after the last ones"

    def _read(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            more = self.socket.recv(count - len(got))
            assert more, f"the connection ended after {got.hex()}"
            got += more
        return bytes(got)


class Player:
    """Plays one exchange against a broker. With `records` it replaces the broker's bytes instead of comparing them."""

    def __init__(self, broker, exchange: dict, records=False):
        self.broker, self.steps, self.records = broker, exchange["steps"], records
        self.lines: dict[int, Line] = {}
        self.values: dict[str, int | str] = {}

    def play(self):
        try:
            for sender, steps in itertools.groupby(self.steps, key=lambda step: step["from"]):
                {"client": self.send, "broker": self.expect, "operator": self.signal}[sender](list(steps))
            for line in self.lines.values():  # Nothing else came, and the connection still works.
                line.socket.sendall(ALIVE)
                answer = line.frame()
                assert kind(answer) == KEEPALIVE and answer[17:] == b"end", answer
        finally:
            for line in self.lines.values():
                line.socket.close()

    def line(self, step: dict) -> Line:
        number = step.get("connection", 1)
        if number not in self.lines:
            self.lines[number] = Line(self.broker.address)
        return self.lines[number]

    def send(self, steps: list[dict]):
        for step in steps:
            data = bytearray(content(step))
            for at, length, label in step.get("takes", []):
                value = str(self.values[label]).encode()
                if len(value) < length and self.records:
                    raise Shorter  # The file would not show how the client usually writes the value.
                assert len(value) <= length, f"{label} is longer than in the file: {value}"
                data[at : at + length] = value.rjust(length, b"0")
            if self.records and "takes" in step:
                step["bytes"] = data.hex()
            line = self.line(step)
            if not step.get("lost"):
                line.socket.sendall(data)
            self.close(step)

    def signal(self, _):
        self.broker.process.send_signal(signal.SIGTERM)

    def close(self, step: dict):
        """Ends the step's connection if the step says so."""
        if step.get("closes"):
            line = self.lines.pop(step.get("connection", 1))
            if step["from"] == "broker":
                line.ended()
            line.socket.close()

    def expect(self, steps: list[dict]):
        """Takes as many frames from each connection as the steps show for it. Only those of one stream have an
        order."""
        came = [(step.get("connection", 1), self.line(step).frame()) for step in steps]
        for step in steps:
            shown, number = content(step), step.get("connection", 1)
            match = next((one for one in came if one[0] == number and (not shown or one[1][3:7] == shown[3:7])), None)
            assert match, f"not on the stream of {step['is']!r}: {[frame.hex() for _, frame in came]}"
            came.remove(match)
            self.note(match[1])
            if self.records:
                rest = {key: step[key] for key in ("is", "connection", "lost", "closes") if key in step}
                step.clear()
                step.update({"from": "broker"} | described(match[1]) | rest)
            else:
                self.compare(step, shown, match[1])
        for step in steps:
            self.close(step)

    def note(self, frame: bytes):
        """Notes values that the client may repeat later, and checks those that vary."""
        told = marks(frame)
        for at, length, label in told.get("varies", []):
            value = int.from_bytes(frame[at : at + length], "big")
            assert value > 0, f"{label} is 0"
            if label.startswith("epoch"):
                assert self.values.setdefault(label, value) == value, f"the {label} changed"
            elif label.startswith("timestamp"):
                assert self.values.get(label, 0) <= value, f"the {label} decreased"
                self.values[label] = value
        if "json_from" in told:
            self.values.update({key: value for key, value in json.loads(frame[9:]).items() if key == "id"})

    def compare(self, step: dict, shown: bytes, came: bytes):
        assert marks(came) == {key: step[key] for key in MARKS if key in step}
        end = step.get("text_from", step.get("json_from", len(shown)))
        free = set(range(3)) if end < len(shown) else set()  # The length of the frame varies with its text.
        for at, length, _ in step.get("varies", []):
            free.update(range(at, at + length))
        assert end < len(shown) or len(came) == len(shown), (step["is"], came.hex())
        wrong = [at for at in range(end) if at not in free and came[at] != shown[at]]
        assert not wrong, f"{step['is']}: {came.hex()} is not {shown.hex()} at {wrong}"
        if "json_from" in step:
            told, expected = json.loads(came[end:]), json.loads(shown[end:])
            assert told.keys() >= expected.keys()
            same = step["json_same"]
            assert {key: told[key] for key in same} == {key: expected[key] for key in same}


def begin(start, settings: dict, folder: Path):
    """Starts a broker with these settings, by the fixture `start`."""
    path = folder / "forebayd.yaml"
    path.write_text(json.dumps(settings))
    return start("-c", str(path), threads=settings["threads"])


def by_name(settings: dict, start, folders):
    """Yields a function that returns the running broker with the settings of a name. Stops the brokers afterwards."""
    running = {}

    def named(name: str):
        if name not in running:
            running[name] = begin(start, settings[name], folders.mktemp(name))
        return running[name]

    yield named
    for one in running.values():
        one.stop()


FILE = load() if EXCHANGES.exists() else {"vectors": [], "brokers": {}}


@pytest.fixture(scope="module")
def brokers(start, tmp_path_factory):
    yield from by_name(FILE["brokers"], start, tmp_path_factory)


@pytest.mark.parametrize("exchange", FILE["vectors"], ids=lambda exchange: exchange["name"])
def test_a_broker_takes_part_in_every_exchange(exchange, brokers, start, tmp_path, request):
    again = getattr(request.node, "execution_count", 1) > 1  # A rerun: its topics are no longer new.
    if not exchange.get("alone") and not again:
        return Player(brokers(exchange["broker"]), exchange).play()
    own = begin(start, FILE["brokers"][exchange["broker"]], tmp_path)
    try:
        Player(own, exchange).play()
    finally:
        own.process.kill()


def test_names_and_rules():
    names = [exchange["name"] for exchange in FILE["vectors"]]
    assert len(set(names)) == len(names)
    for exchange in FILE["vectors"]:
        document, _, place = exchange["rule"].partition("#")
        assert place in anchors(PROTOCOL / document), exchange["rule"]


@pytest.mark.parametrize("exchange", FILE["vectors"], ids=lambda exchange: exchange["name"])
def test_descriptions_name_the_frames(exchange):
    """Each step is one frame, described by its type, and by its flags if it is a PAYLOAD."""
    for step in exchange["steps"]:
        frame = content(step) if step["from"] != "operator" else b""
        if not frame:
            assert step["from"] != "broker"
            continue
        assert int.from_bytes(frame[:3], "big") == len(frame) - 3
        name, _, rest = step["is"].partition(" ")
        assert name.strip(",:") == NAMES.get(kind(frame), "type"), step["is"]
        if kind(frame) == PAYLOAD:
            shown = re.match(r"(?:[MFNC](?:, | and |\b))+", rest)[0]
            flags = int.from_bytes(frame[7:9], "big")
            assert set(re.findall("[A-Z]", shown)) == {flag for flag, bit in FLAGS.items() if flags & bit}, step["is"]


MESSAGE = re.compile(r"PAYLOAD, M and N: (\w+) of ([\w.-]+), sequence (\d+)(?:, dropped before: (\d+))?")


def test_messages_of_patterns_are_those_described():
    """Encoded again from their descriptions and from the figures that vary."""
    found = 0
    for step in (step for exchange in FILE["vectors"] for step in exchange["steps"] if step["from"] == "broker"):
        if not (told := MESSAGE.fullmatch(step["is"])):
            continue
        frame = content(step)
        (epoch, _, one), (time, _, other) = step["varies"]
        assert (one, other) == (f"epoch of {told[2]}", f"timestamp of {told[2]}")
        figures = frame[epoch : epoch + 8] + struct.pack(">Q", int(told[3])) + frame[time : time + 8]
        own = raw.entry(raw.MESSAGE_MIME, figures + struct.pack(">Q", int(told[4] or 0)))
        metadata = own + raw.entry(b"application/vnd.forebay.topic", told[2].encode())
        stream = int.from_bytes(frame[3:7], "big")
        assert frame == raw.payload(stream, told[1].encode(), metadata), step["is"]
        found += 1
    assert found > 20


def is_ended_by_a_broker(conversation: dict) -> bool:
    """False if a broker would refuse it earlier, because its requests have no route, or recognizes HTTP or TLS."""
    return (conversation["expect"][-1].startswith("fatal") and "limits" not in conversation
            and not any(line.startswith("request") for line in conversation["expect"])
            and conversation["steps"][0]["client"].startswith("00"))


FATAL = [one for one in json.loads(CONVERSATIONS.read_text())["vectors"] if is_ended_by_a_broker(one)]


@pytest.mark.parametrize("conversation", FATAL, ids=lambda conversation: conversation["name"])
def test_a_broker_ends_conversations_as_shown(conversation, brokers):
    line = Line(brokers("plain").address)
    line.socket.sendall(b"".join(bytes.fromhex(step["client"]) for step in conversation["steps"]))
    answer = bytes.fromhex(conversation["answers"][-1])
    while (frame := line.frame())[3:7] != bytes(4) or kind(frame) != ERROR:
        pass
    assert frame[3 : 3 + len(answer)] == answer
    line.ended()
    line.socket.close()


def record(part: str):
    from brokers import Broker
    file = load()
    for exchange in file["vectors"]:
        while part in exchange["name"]:
            with tempfile.TemporaryDirectory() as folder:
                broker = begin(Broker, file["brokers"][exchange["broker"]], Path(folder))
                try:
                    Player(broker, exchange, records=True).play()
                    break
                except Shorter:
                    pass
                except Exception as error:
                    print(f"{exchange['name']}: {error!r}", file=sys.stderr)
                    break
                finally:
                    broker.process.kill()
    save(file)


if __name__ == "__main__":
    assert sys.argv[1:2] == ["--record"], __doc__
    record(" ".join(sys.argv[2:]))
