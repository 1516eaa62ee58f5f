"""NATS servers for the tests, the broker's own client of them, and JWTs for both."""

import base64
import contextlib
import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import nkeys

from executables import executable

SERVER = Path(sys.executable).with_name("nats-server")
EXERCISER = Path(executable()).with_name("nats-exerciser")


class Server:
    """A server on a free port, with JetStream, and more configuration if given."""

    def __init__(self, folder: Path, configuration: str = "", jetstream: bool = True):
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        store = f'jetstream {{ store_dir: "{folder}/store" }}' if jetstream else ""
        self.folder = folder
        self.settings = f'log_file: "{self.log}"\nports_file_dir: "{folder}"\n{store}\n{configuration}\n'
        self.start(-1)

    def start(self, port: int) -> None:
        file = self.folder / "server.conf"
        file.write_text(f'listen: "127.0.0.1:{port}"\n{self.settings}')
        for old in self.folder.glob("*.ports"):
            old.unlink()
        self.process = subprocess.Popen([SERVER, "-c", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 20
        while not (ports := list(self.folder.glob("*.ports"))) or not ports[0].read_text().endswith("}"):
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        listed = json.loads(ports[0].read_text())
        self.port = int(listed["nats"][0].rpartition(":")[2])
        self.cluster = listed.get("cluster", [""])[0].rpartition("/")[2]
        self.monitoring = listed.get("monitoring", [""])[0]

    def restart(self) -> None:
        """Starts a server that was stopped again, on the same port and with what it has stored."""
        self.start(self.port)

    def url(self, user: str = "", scheme: str = "nats", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{user + '@' if user else ''}{host}:{self.port}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Exerciser:
    """Our connection, in a process that takes commands and prints events: see Tests/Support/NATSExerciser."""

    def __init__(self, url: str, *options: str):
        self.process = subprocess.Popen(
            [EXERCISER, url, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(ValueError):
            for line in self.process.stdout:
                self.lines.put(line.rstrip("\n"))
        self.lines.put("end")

    def next(self, timeout: float = 20) -> str:
        return self.lines.get(timeout=timeout)

    def until(self, word: str) -> list[str]:
        """The words of the next event of this kind; others are skipped."""
        seen = []
        while (words := self.next().split(" "))[0] != word:
            seen.append(words)
            assert words[0] != "end", seen
        return words

    def command(self, *words: object) -> None:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def flush(self) -> None:
        """Returns when the server has processed all commands."""
        self.command("flush")
        number = int(self.until("flush")[1])
        while int(self.until("flushed")[1]) < number:
            pass

    def message(self) -> tuple[str, str, str, dict[str, list[str]] | str, bytes]:
        """Subject, subscription, reply, headers, payload of the next message."""
        _, subject, number, reply, headers, payload = self.until("message")
        return subject, number, reply, block(headers), unhex(payload)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def unhex(text: str) -> bytes:
    return b"" if text == "." else bytes.fromhex(text)


def block(text: str) -> dict[str, list[str]]:
    """Headers by name; under the empty name, what follows the version."""
    if text == "-":
        return {}
    lines = unhex(text).decode().split("\r\n")
    assert lines[0].startswith("NATS/1.0") and lines[-2:] == ["", ""], lines
    found = {"": [lines[0].removeprefix("NATS/1.0").strip()]}
    for line in lines[1:-2]:
        name, _, value = line.partition(":")
        found.setdefault(name, []).append(value.strip())
    return found


# Keys and JWTs


def key(prefix: int) -> nkeys.KeyPair:
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(issuer: nkeys.KeyPair, subject: nkeys.KeyPair, kind: str, **members) -> str:
    """A JWT of version 2."""
    claims = {"iat": int(time.time()), "iss": issuer.public_key.decode(), "name": kind,
              "sub": subject.public_key.decode(), "nats": {"type": kind, "version": 2, **members}}
    claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    header = {"typ": "JWT", "alg": "ed25519-nkey"}
    signed = ".".join(unpadded(json.dumps(part).encode()) for part in (header, claims))
    return f"{signed}.{unpadded(issuer.sign(signed.encode()))}"


def credentials(jwt: str, seed: str) -> str:
    return (f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n")
