"""The durable store when the power fails, when writes fail, and when its process is killed. `disk.c` records every
write and sync of `store-exerciser`, or lets calls fail.

An image of the disk after a power failure has every synced write, and any part of the others: each is missing,
complete, or torn between sectors. From every image the store must open, without damage, with exactly what was
acknowledged before, and at most the commit that was in progress."""

import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from executables import executable

EXERCISER = Path(executable()).with_name("store-exerciser")
POINTS = 2000 if os.environ.get("FOREBAY_HEAVY") == "full" else 150
BYTES = str(64 << 20)
WRITE, SYNCED_WRITE, SYNC, SIZE, RENAME, SYNC_FOLDER, LINE = range(1, 8)
SECTOR = 512
# The digest of a store without topics.
EMPTY = str(0xCBF29CE484222325)
FRESH = "forebay.store.new"


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    library = tmp_path_factory.mktemp("disk") / "disk.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library,
               Path(__file__).with_name("disk.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return library


def exercise(*arguments, **variables) -> list[str]:
    done = subprocess.run([EXERCISER, *map(str, arguments)], env=os.environ | variables, capture_output=True, text=True,
                          timeout=80)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.split("\n")[:-1]


class Verifier:
    """A process that opens stores and reports the digest of their content and what is damaged."""

    def __enter__(self):
        self.process = subprocess.Popen([EXERCISER, "verify"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(timeout=10) == 0

    def verify(self, folder: Path) -> str:
        self.process.stdin.write(f"{folder}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip()


class Disk:
    """What is on the disk for certain, and what may be."""

    def __init__(self):
        self.files: dict[int, bytearray] = {}
        # Writes that no sync has completed: (file, offset, bytes).
        self.pending: list[tuple[int, int, bytes]] = []
        self.name: tuple[int, str] | None = None
        self.renamed: tuple[int, str] | None = None

    def apply(self, event):
        kind, file, offset, data = event
        if kind in (WRITE, SIZE):
            self.pending.append((file, offset, data))
        elif kind == SYNCED_WRITE:
            self.put(self.files.setdefault(file, bytearray()), offset, data)
        elif kind == SYNC:
            for _, place, piece in [one for one in self.pending if one[0] == file]:
                self.put(self.files.setdefault(file, bytearray()), place, piece)
            self.pending = [one for one in self.pending if one[0] != file]
        elif kind == RENAME:
            self.renamed = (file, data.decode())
        elif kind == SYNC_FOLDER and self.renamed:
            self.name = self.renamed

    @staticmethod
    def put(content: bytearray, offset: int, data: bytes):
        if len(content) < offset + len(data):
            content.extend(bytes(offset + len(data) - len(content)))
        content[offset:offset + len(data)] = data

    def image(self, folder: Path, chance: random.Random, current):
        """Writes a possible content of the disk, when `current` is in progress."""
        pending = list(self.pending)
        if current[0] in (WRITE, SYNCED_WRITE, SIZE):
            pending.append(current[1:])
        files = {file: bytearray(content) for file, content in self.files.items()}
        # All writes, none, each with a chance, or those before or after one of them.
        style = chance.choice(["all", "none", "each", "each", "torn", "torn", "first", "last"])
        cut = chance.randrange(len(pending) + 1)
        for index, (file, offset, data) in enumerate(pending):
            content = files.setdefault(file, bytearray())
            kept = {"all": True, "none": False, "first": index < cut, "last": index >= cut}.get(
                style, chance.random() < 0.5)
            if style == "torn" and data:
                for place in self.sectors(offset, len(data)):
                    if chance.random() < 0.7:
                        self.put(content, place[0], data[place[0] - offset:place[1] - offset])
            elif kept:
                self.put(content, offset, data)
        for file, content in files.items():
            name = FRESH
            if self.name and self.name[0] == file:
                name = self.name[1]
            elif self.renamed and self.renamed[0] == file and chance.random() < 0.5:
                name = self.renamed[1]
            with (folder / name).open("wb") as image:
                image.write(bytes(content).rstrip(b"\0"))
                image.truncate(len(content))

    @staticmethod
    def sectors(offset: int, size: int):
        place = offset
        while place < offset + size:
            end = min((place // SECTOR + 1) * SECTOR, offset + size)
            yield place, end
            place = end


def events(log: Path) -> list:
    content = log.read_bytes()
    found, place = [], 0
    while place < len(content):
        kind, file, offset, size, _ = struct.unpack_from("=5q", content, place)
        place += 40
        found.append((kind, file, offset, content[place:place + size]))
        place += size
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, 4))
def test_power_failure(library, tmp_path, seed):
    log = tmp_path / "log"
    commits = POINTS // 3
    exercise("run", tmp_path / "store", seed, commits, BYTES, LD_PRELOAD=str(library), DISK_LOG=str(log))
    recorded = events(log)
    chance = random.Random(seed)
    # The creation is short, so more of the points are there than it has of the events.
    points = {chance.randrange(60) for _ in range(POINTS // 30)}
    while len(points) < min(POINTS // 3, len(recorded)):
        points.add(chance.randrange(len(recorded)))
    disk, acknowledged, attempted, checked = Disk(), EMPTY, [], 0
    with Verifier() as verifier:
        for index, event in enumerate(recorded):
            if index in points:
                folder = tmp_path / f"image-{index}"
                folder.mkdir()
                disk.image(folder, chance, event)
                found = verifier.verify(folder)
                assert found in [acknowledged, *attempted], (seed, index, folder)
                for file in folder.iterdir():
                    file.unlink()
                checked += 1
            disk.apply(event)
            if event[0] == LINE:
                what, _, digest = event[3].decode().strip().partition(" ")
                if what == "ack":
                    acknowledged, attempted = digest, []
                elif what == "try":
                    attempted = [digest]
    print(f"seed {seed}: {checked} of {len(recorded)} points")
    assert checked == len(points)


def test_a_commit_that_was_in_progress_is_synced_before_it_is_read(library, tmp_path):
    """Otherwise, a commit whose process was killed during its sync could be delivered and then lost."""
    exercise("run", tmp_path / "store", 1, 20, BYTES)
    (tmp_path / "store/forebay.store-lock").unlink()
    exercise("run", tmp_path / "store", 1, 0, BYTES, LD_PRELOAD=str(library), DISK_LOG=str(tmp_path / "log"))
    kinds = [event[0] for event in events(tmp_path / "log")]
    assert SYNC in kinds[:kinds.index(LINE)]


@pytest.mark.parametrize("failure, fails, outcome, recovers", [
    ("pwrite 40 5", "Input/output error", "unknown", False),
    ("pwrite 40 0 1", "Input/output error", "unknown", False),  # a short write
    ("fdatasync 20 5 1", "Input/output error", "unknown", False),
    ("meta 20 5 1", "Input/output error", "unknown", False),
    ("meta 20 28 1", "No space left on device", "unknown", False),
    ("pwrite 40 28 3", "", "full", True),
    ("pwrite 40 122 3", "", "full", True),
    ("fdatasync 20 28 1", "", "full", True),
    ("fdatasync 20 12 1", "Cannot allocate memory", "", True),
    ("fallocate 1 95", "", "", True),  # a file system that cannot reserve space
])
def test_failed_writes(library, tmp_path, failure, fails, outcome, recovers):
    """A failed write or sync stops the store for good; a full disk does not. In both cases, what was acknowledged is
    there afterwards, and nothing else."""
    lines = exercise("run", tmp_path / "store", 5, 100, BYTES, LD_PRELOAD=str(library), DISK_FAIL=failure)
    failed = [line for line in lines if line.startswith("fail")]
    after = lines[lines.index(failed[0]):] if failed else lines
    assert bool(failed) == bool(outcome or fails)
    expected = {"unknown": "fail store: outcome unknown: " + fails, "full": "fail store: full",
                "": "fail store: " + fails}
    assert set(failed) <= {expected[outcome]}
    assert any(line.startswith("ack") for line in after) == recovers
    last = [line.split()[1] for line in lines if line.startswith("ack")][-1]
    with Verifier() as verifier:
        assert verifier.verify(tmp_path / "store") == last


def test_retention_runs_on_a_full_disk(library, tmp_path):
    """Trims, ends and deletions use space that was reserved before."""
    lines = exercise("run", tmp_path / "store", 5, 300, BYTES, 400_000, LD_PRELOAD=str(library),
                     DISK_FAIL="fallocate 2 28")
    assert any(line == "fail store: full" for line in lines)
    after = lines[lines.index("fail store: full"):]
    # The workload trims and deletes, so that messages are accepted again in pages that have become free.
    assert sum(line.startswith("ack") for line in after) > 50
    last = [line.split()[1] for line in lines if line.startswith("ack")][-1]
    with Verifier() as verifier:
        assert verifier.verify(tmp_path / "store") == last


def test_killed_processes_keep_what_they_acknowledged(tmp_path):
    chance = random.Random(9)
    with Verifier() as verifier:
        for attempt in range(20):
            folder = tmp_path / f"store-{attempt}"
            process = subprocess.Popen([EXERCISER, "run", folder, str(attempt), "100000", BYTES],
                                       stdout=subprocess.PIPE, text=True)
            lines = [process.stdout.readline().strip() for _ in range(chance.randrange(2, 80))]
            time.sleep(chance.random() / 100)
            process.kill()
            lines += process.stdout.read().split("\n")[:-1]
            process.wait()
            known = [EMPTY] + [line.split()[1] for line in lines if line[:3] in ("try", "ack")]
            assert verifier.verify(folder) in known[-2:], (attempt, lines[-3:])


def test_a_fault_outside_the_store_ends_the_process(tmp_path):
    done = subprocess.run([EXERCISER, "fault", tmp_path / "store"], capture_output=True, text=True, timeout=80,
                          env=os.environ | {"SWIFT_BACKTRACE": "enable=no"})
    assert (done.stdout, done.returncode) == ("open\n", -signal.SIGBUS)


@pytest.mark.parametrize("number", [signal.SIGBUS, signal.SIGSEGV])
def test_a_signal_from_outside_ends_the_process(tmp_path, number):
    process = subprocess.Popen([EXERCISER, "run", tmp_path / "store", "1", "100000", BYTES], stdout=subprocess.PIPE,
                               env=os.environ | {"SWIFT_BACKTRACE": "enable=no"})
    process.stdout.readline()
    process.send_signal(number)
    process.stdout.read()
    assert process.wait(timeout=10) == -number
