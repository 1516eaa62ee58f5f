"""A real Prometheus that scrapes one broker, with the alert rules of Docker/."""

import json
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[2]


class Prometheus:
    """`options` are further settings of the job; `folder` is where it keeps its data."""

    def __init__(self, address, folder, **options):
        program = shutil.which("prometheus")
        assert program, "There is no prometheus: run `make deps`, or install Debian's package of that name."
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "250ms", "evaluation_interval": "250ms"},
            "rule_files": [str(ROOT / "Docker/alerts.yaml")],
            "scrape_configs": [{"job_name": "forebay", "params": {"subscriptions": ["1"]}, **options,
                                "static_configs": [{"targets": ["%s:%d" % address]}]}]}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api/v1/query"
        self.session = requests.Session()
        self.session.trust_env = False
        self.process = subprocess.Popen(
            [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def ask(self, query) -> list[float] | None:
        try:
            answer = self.session.get(self.url, params={"query": query}, timeout=5)
            return [float(one["value"][1]) for one in answer.json()["data"]["result"]]
        except requests.RequestException:
            return None

    def until(self, query, value):
        end = time.monotonic() + 60
        while self.ask(query) != [value]:
            assert time.monotonic() < end and self.process.poll() is None, (query, self.ask(query))
            time.sleep(0.1)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
