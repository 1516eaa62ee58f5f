"""What the admin listener shows an operator during a problem: which clients are held back, and that the broker is not
blamed for causes outside it."""

import json
import signal

import pytest

import access
from admin import Admin, until
from common import *

pytestmark = pytest.mark.rsocket
TOKENS = {"feed": {"publish": [">"]}, "ops": {"control": [">", "$SYS.>"]}}


class Operated:
    def __init__(self, start, folder, **settings):
        users = [{"name": name, "token": access.token_hash(name), **permissions}
                 for name, permissions in TOKENS.items()]
        self.settings, self.folder = settings | {"users": users}, folder
        self.broker = start("-c", str(access.write(folder, self.settings)), "--admin", "127.0.0.1:0")
        self.admin = Admin(self.broker)
        self.admin.session.headers["authorization"] = "Bearer ops"

    def peer(self, user: str):
        return access.rsocket(self.broker, access.bearer(user))

    def stats(self) -> dict:
        return self.admin.json("api/v1/stats")

    def reload(self, **settings):
        access.write(self.folder, self.settings | settings)
        self.broker.process.send_signal(signal.SIGHUP)

    def logged(self, message: str) -> list[dict]:
        lines = [json.loads(line) for line in list(self.broker.log)]
        return [line for line in lines if line["message"] == message]


@pytest.fixture
def operated(start, tmp_path):
    made = []

    def one(**settings):
        made.append(Operated(start, tmp_path, **settings))
        return made[-1]

    yield one
    for this in made:
        this.broker.stop()


def test_who_is_refused_has_not_broken_the_protocol(operated):
    this = operated()
    for _ in range(3):
        with pytest.raises(access.Rejected):
            this.peer("nobody")
    stats = until(lambda: (seen := this.stats())["logins_refused"] == 3 and seen, "they are counted")
    assert stats["protocol_errors"] == 0 and stats["denied"] == 0
    feed = this.peer("feed")
    this.reload(users=[one for one in this.settings["users"] if one["name"] != "feed"])
    assert feed.frame(0).code == 0x101, "the connection of a removed user was not ended"
    assert this.stats()["protocol_errors"] == 0
    feed.close()


def test_who_is_held_back_by_its_rate_is_named(operated, topic):
    this = operated(**{"publish-rate": 5})
    feed, other = this.peer("feed"), this.peer("ops")
    for _ in range(40):  # Eight seconds' worth.
        feed.channel(topic, b"1")

    def row(peer) -> dict:
        rows = this.admin.json("api/v1/connections")["items"]
        return next(row for row in rows if row["peer"] == peer.peer)

    until(lambda: row(feed).get("waits_for") == "publish-rate", "it waits")
    assert row(feed)["publishes_to"] == [topic] and "waits_for" not in row(other)
    (told,) = this.logged("publishing slowed")
    assert (told["level"], told["limit"], told["user"]) == ("info", "publish-rate", "feed")
    for one in (feed, other):
        one.close()


def test_a_reload_that_was_refused_is_seen_until_one_is_not(operated):
    this = operated()
    assert this.stats()["reload_refused"] is False
    this.reload(retian=5)
    until(lambda: this.stats()["reload_refused"], "it is seen")
    this.reload()
    until(lambda: not this.stats()["reload_refused"], "it is over")
    assert len(this.logged("reload refused")) == 1 and this.stats()["log_lines_lost"] == 0
