"""A client of the admin listener. The client uses TLS if the listener does."""

import time

import requests

import tls
from common import DEADLINE


def until(condition, what, timeout=DEADLINE):
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.05)
    return value


class Admin:
    def __init__(self, broker):
        self.broker, (scheme, authority) = broker, tls.trust(broker.admin)
        self.url = "%s://%s:%d/" % (scheme, *broker.admin)
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = authority

    def __call__(self, path, method="GET", **options):
        return self.session.request(method, self.url + path, timeout=DEADLINE, **options)

    def json(self, path, **options):
        answer = self(path, **options)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        return answer.json()

    def post(self, path, **headers):
        return self(path, "POST", headers={"content-type": "application/json", **headers})

    def metrics(self, query="") -> dict[str, float]:
        """Metrics by sample."""
        text = self("metrics" + query).text
        return {sample: float(value) for sample, value in
                (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}

    def problem(self, answer, status, kind):
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert body["type"] == "/problems/" + kind and body["status"] == status and body["detail"]
        return body["detail"]
