"""Builds the fuzzers of Tests/Fuzz, runs each for some time on all cores, and reports the results.

    .ci/fuzz.py --seconds 60 [--still 20] [--target NAME] [--jobs 4] [--keep] [--scout]
    .ci/fuzz.py --runs 500

libFuzzer saves interesting inputs in .build/fuzz/corpus, from which the next run continues. With --keep, the smallest
subset with the same coverage replaces Tests/Fuzz/corpus. Failing inputs are saved in Tests/Fuzz/regressions, where the
tests run them from then on. With --still, a target's run ends when its coverage (edges) has not grown for the given
number of seconds; the last column marks targets whose coverage kept growing. The output of a target's fuzzer is in
.build/fuzz/TARGET.log. With --runs, each target runs the given number of inputs, the same every time. With
--scout, the fuzzers run without the address sanitizer, about four times as fast, and the runs with it start from the
inputs found.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "Tests/Fuzz"
SCRATCH = ROOT / ".build/fuzz"
CORPUS = SCRATCH / "corpus"
# No input takes this much time or memory, even on a busy machine.
LIMITS = ["-timeout=60", "-report_slow_units=60", "-rss_limit_mb=3000"]
# Scripts end after a number of steps; mutating the rest of an input would be useless.
SCRIPTS = {"engine", "http2", "http1"}
FIGURES = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+)")


def targets() -> list[str]:
    text = (FUZZ / "Targets/FuzzTarget.swift").read_text()
    return re.findall(r'FuzzTarget\(name: "([a-z0-9-]+)"', text)


def limits(target: str) -> list[str]:
    return [*LIMITS, f"-max_len={2048 if target in SCRIPTS else 4096}"]


def environment(target: str) -> dict[str, str]:
    options = "malloc_context_size=8:quarantine_size_mb=32:" + os.environ.get("ASAN_OPTIONS", "")
    return os.environ | {"FUZZ_TARGET": target, "SWIFT_BACKTRACE": "enable=no", "ASAN_OPTIONS": options}


def scratch(is_scout: bool) -> Path:
    return SCRATCH / "scout" if is_scout else SCRATCH


def program(is_scout: bool) -> str:
    return str(scratch(is_scout) / "release/fuzz")


def build(is_scout: bool) -> bool:
    """Builds optimized code, with the same runtime checks as the product. Targets can access internal declarations."""
    began = time.monotonic()
    command = [
        *("swift", "build", "-c", "release", "--product", "fuzz", "--scratch-path", str(scratch(is_scout))),
        # Not --sanitize twice: the compiler uses the last one, and their order varies between builds.
        *("-Xswiftc", "-sanitize=fuzzer" if is_scout else "-sanitize=fuzzer,address", "-Xswiftc", "-enable-testing"),
        # Checks for overlapping access.
        *("-Xswiftc", f"-enforce-exclusivity={'unchecked' if is_scout else 'checked'}"),
        *("--explicit-target-dependency-import-check", "error"),
    ]
    result = subprocess.run(command, cwd=ROOT, env=os.environ | {"FOREBAY_FUZZ": "1"}, capture_output=True, text=True)
    if result.returncode == 0:
        print(f"built the fuzzers in {time.monotonic() - began:.0f} s", flush=True)
        return True
    print(result.stdout[-20_000:], result.stderr[-20_000:])
    return False


class Run:
    """One target's run. Its output is read line by line to find out when coverage last grew."""

    def __init__(self, target: str, options: argparse.Namespace):
        self.target, self.seconds, self.runs, self.still = target, options.seconds, options.runs, options.still
        self.program = program(options.scout)
        self.executions = self.edges = self.features = 0
        self.processor = 0.0
        self.over = threading.Event()
        self.failure = ""
        self.found: list[Path] = []

    def follow(self) -> "Run":
        # The folder in which libFuzzer saves inputs and from which it continues; empty for repeatable runs.
        work = SCRATCH / "runs" if self.runs else CORPUS
        work, kept, regressions = (folder / self.target for folder in (work, FUZZ / "corpus", FUZZ / "regressions"))
        if self.runs:
            shutil.rmtree(work, ignore_errors=True)
        for folder in (work, kept, regressions):
            folder.mkdir(parents=True, exist_ok=True)
        before = set(regressions.iterdir())
        dictionary = FUZZ / "dictionaries" / f"{self.target}.dict"
        command = [self.program, f"-max_total_time={self.seconds}", f"-artifact_prefix={regressions}/"]
        command += limits(self.target)
        command += [f"-dict={dictionary}"] if dictionary.exists() else []
        command += ["-seed=1", f"-runs={self.runs}"] if self.runs else []
        self.began = self.grew = time.monotonic()
        process = subprocess.Popen(
            [*command, str(work), str(kept), str(regressions)],
            env=environment(self.target), cwd=SCRATCH, stderr=subprocess.PIPE, text=True, errors="replace")
        # The fuzzer ends by itself, unless an input makes it hang where its own alarm has no effect.
        alarm = threading.Timer(self.seconds + 300, process.kill)
        alarm.start()
        threading.Thread(target=self.watch, args=[process], daemon=True).start()
        with open(SCRATCH / f"{self.target}.log", "w", buffering=1) as log:
            lines = []
            for line in process.stderr:
                log.write(line)
                if not self.note(line):
                    lines.append(line)
        self.over.set()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        self.processor = usage.ru_utime + usage.ru_stime
        alarm.cancel()
        self.ended = time.monotonic()
        self.found = sorted(set(regressions.iterdir()) - before)
        if code != 0:
            self.failure = "".join(lines[-60:]) or f"exit code {code}"
        if not any(regressions.iterdir()):
            regressions.rmdir()
        return self

    def watch(self, process: subprocess.Popen) -> None:
        while self.still and not self.over.wait(1):
            if time.monotonic() - self.grew > self.still:
                # The fuzzer ends as if its time had elapsed.
                os.kill(process.pid, signal.SIGUSR1)
                return

    def note(self, line: str) -> bool:
        figures = FIGURES.match(line)
        if figures:
            executions, edges, features = map(int, figures.groups())
            if edges > self.edges:
                self.grew = time.monotonic()
            self.executions, self.edges, self.features = executions, edges, features
        return bool(figures)

    def row(self) -> str:
        still = self.ended - self.grew
        return (
            f"{self.target:16}{self.executions:12,}{self.ended - self.began:8.0f}{self.processor:8.0f}{self.edges:8,}"
            f"{self.features:9,}{still:8.0f}  {'FAILED' if self.failure else 'growing' if still < self.still else ''}"
        )


def keep(target: str) -> None:
    """Keeps the smallest set of inputs that covers the same edges as all of them."""
    work, kept = CORPUS / target, FUZZ / "corpus" / target
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        command = [program(False), "-set_cover_merge=1", "-use_counters=0", *limits(target)]
        command += [folder, str(kept), str(work)]
        subprocess.run(command, env=environment(target), cwd=SCRATCH, check=True, capture_output=True)
        files = sorted(Path(folder).iterdir())
        for file in kept.iterdir():
            file.unlink()
        for file in files:
            # Named after its hash, as by libFuzzer; a prefix is sufficient.
            shutil.copy(file, kept / file.name[:12])
        size = sum(file.stat().st_size for file in kept.iterdir())
        print(f"{target}: {len(files)} inputs kept, {size:,} bytes", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60, help="time for each target")
    parser.add_argument("--still", type=int, default=0, help="end a run after so many seconds without progress")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many targets to run at a time")
    parser.add_argument("--runs", type=int, default=0, help="executions of each target, always the same ones")
    parser.add_argument("--target", action="append", default=[], help="run only this target; can be repeated")
    parser.add_argument("--keep", action="store_true", help="then update Tests/Fuzz/corpus with the inputs found")
    parser.add_argument("--scout", action="store_true", help="run without the address sanitizer, which is faster")
    parser.add_argument("--build", action="store_true", help="only build")
    options = parser.parse_args()
    names = [name for given in options.target for name in given.split(",") if name] or targets()
    unknown = set(names) - set(targets())
    if unknown:
        print(f"unknown target: {', '.join(sorted(unknown))}; the targets are {', '.join(targets())}")
        return 2
    if options.keep and options.scout:
        print("--keep requires the address sanitizer: remove --keep or --scout")
        return 2
    if not build(options.scout):
        return 1
    if options.build:
        return 0
    print(f"{'target':16}{'executions':>12}{'s':>8}{'CPU s':>8}{'cov':>8}{'ft':>9}{'still s':>8}")
    runs = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for run in as_completed([pool.submit(Run(name, options).follow) for name in names]):
            runs.append(run.result())
            print(runs[-1].row(), flush=True)
    for run in runs:
        if run.failure:
            print(f"\n{run.target} failed:\n{run.failure}")
        for file in run.found:
            file = file.relative_to(ROOT)
            print(
                f"saved as {file}. To run it again:\n"
                f"  FUZZ_TARGET={run.target} .build/fuzz/release/fuzz {file}\n"
                f"  make swift-test FILTER=FuzzTests")
    if options.keep:
        for name in names:
            keep(name)
    return 1 if any(run.failure for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
