"""A broker process: started as a user would start it, watched through its log, and stopped by SIGTERM."""

import json
import os
import queue
import re
import signal
import subprocess
import threading
from pathlib import Path

import tls
from client import Peer
from common import Observer
from executables import executable

# With $FOREBAY_TLS every broker and every client uses TLS, unless a test overrides it.
TLS = bool(os.environ.get("FOREBAY_TLS"))

CRASH = re.compile(r"Fatal error|Crash|\*\*\* Signal|Sanitizer|Precondition failed|Segmentation", re.IGNORECASE)


class Broker:
    """A forebayd process. `options` are added to those that every test needs, and `variables` to the process's
    environment. It has two threads, unless a test or $FOREBAY_THREADS says otherwise. RSocket clients connect to
    `address` and HTTP clients to `http`: host and port, or None for a listener that `options` turn off. `admin` is None
    unless the options turn it on."""

    executable = staticmethod(executable)
    begun: list[subprocess.Popen] = []

    def __init__(self, *options: str, threads: int = 0, variables: dict[str, str] | None = None, launcher=()):
        threads = threads or int(os.environ.get("FOREBAY_THREADS", 2))
        standard = {"--listen": "127.0.0.1:0", "--http": "127.0.0.1:0", "--admin": "off",
                    "--log-format": "json", "--threads": str(threads)}
        command = [*launcher, executable(), *options]
        for option, value in standard.items():
            if option not in options:
                command += [option, value]
        if TLS and not any(option.startswith("--tls-") for option in options):
            command += tls.server().options
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        environment |= {"SWIFT_BACKTRACE": "enable=no", **(variables or {})}
        self.process = self.spawn(command, environment)
        self.begun.append(self.process)
        self.pid = self.process.pid
        self.log, self._lines = [], queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        values = dict(zip(command, command[1:]))
        listeners = {"rsocket": "--listen", "http": "--http", "admin": "--admin"}
        addresses = self._listening({name for name, option in listeners.items() if values[option] != "off"})
        self.address, self.http = addresses.get("rsocket"), addresses.get("http")
        self.admin = addresses.get("admin")

    def spawn(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen:
        return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())
            self._lines.put(self.log[-1])
        self._lines.put(None)

    def _listening(self, protocols: set[str]) -> dict[str, tuple[str, int]]:
        """Waits until the broker listens for all of `protocols`, and returns the addresses by protocol."""
        addresses = {}
        while addresses.keys() != protocols:
            line = self._lines.get(timeout=15)
            assert line is not None, "the broker ended before it listened:\n" + "\n".join(self.log)
            record = json.loads(line)
            if record.get("message") == "listening":
                host, port = record["address"].rsplit(":", 1)
                addresses.setdefault(record["protocol"], (host, int(port)))
                # The port may have been used by another broker.
                (tls.secured.add if record.get("tls") == "on" else tls.secured.discard)(int(port))
        return addresses

    @staticmethod
    def refusal(*options: str, launcher=(), **how) -> tuple[int, str]:
        """The exit code of a broker that does not start, and the last line of its output."""
        how = {"env": dict(os.environ, SWIFT_BACKTRACE="enable=no")} | how
        done = subprocess.run([*launcher, executable(), *options], capture_output=True, timeout=30, text=True, **how)
        return done.returncode, done.stderr.splitlines()[-1]

    @staticmethod
    def run(*options: str, **variables: str) -> tuple[int, str, str]:
        """The exit code and output of a forebayd command that starts no broker, with only these environment
        variables."""
        done = subprocess.run([executable(), *options], capture_output=True, timeout=60, text=True,
                              env={"SWIFT_BACKTRACE": "enable=no", **variables})
        return done.returncode, done.stdout, done.stderr

    @property
    def http_port(self) -> int:
        return self.http[1]

    def peer(self, transport: str = "rsocket", **options) -> Observer:
        if transport == "rsocket":
            return Peer(self.address, **options)
        if transport == "rsocket-py":
            import library

            return library.Peer(self.address, **options)
        import grpc_client  # Imported only here, because it generates its stubs from the .proto.

        return grpc_client.Peer(self.http, **options)

    def status(self, field: str) -> int:
        """A field of /proc/PID/status in bytes: VmRSS, or VmHWM (its peak). The field is 0 under the address sanitizer,
        which delays frees: memory does not seem to grow."""
        if "ASAN_OPTIONS" in os.environ:
            return 0
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)[1]) << 10

    def stop(self):
        """Stops the broker and checks the result: exit code 0, and a log of JSON lines without a crash."""
        alive = self.process.poll() is None
        if alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = f"killed: still running 15 s after SIGTERM ({self.process.wait()})"
        self._reader.join(5)
        listeners = (self.address, self.http, self.admin)
        tls.secured.difference_update(address[1] for address in listeners if address)
        tail = "\n".join(self.log[-30:])
        assert alive, f"the broker was gone before it was stopped, with exit code {code}:\n{tail}"
        assert code == 0, f"exit code {code}:\n{tail}"
        assert not CRASH.search("\n".join(self.log)), tail
        for line in self.log:
            json.loads(line)
