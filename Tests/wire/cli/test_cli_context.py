"""`forebay context`: brokers with a name, in a folder of the person's."""

import json


def test_a_saved_broker_is_spoken_to(forebay, tmp_path):
    url = forebay.environment.pop("FOREBAY_URL")
    forebay.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    assert forebay.ok("context", "list").startswith(b"There are no contexts")
    assert forebay.ok("context", "add", "lab", "--url", url) == b"lab is saved, and used from now on\n"
    assert forebay.ok("context", "add", "other", "--url", "rsocket://127.0.0.1:1") == b"other is saved\n"
    assert forebay.ok("ping", "--count", "1")
    rows = [json.loads(line) for line in forebay.ok("context", "list", "--json").splitlines()]
    assert [(row["name"], row["used"], row["url"]) for row in rows] == [
        ("lab", True, url), ("other", False, "rsocket://127.0.0.1:1")]
    forebay.ok("context", "use", "other")
    assert forebay.run("ping", "--count", "1").returncode == 3
    assert forebay.ok("ping", "--count", "1", "--context", "lab") and forebay.ok("ping", "--count", "1", "--url", url)
    forebay.ok("context", "remove", "other")
    assert b"There is no context 'other'" in forebay.run("context", "use", "other").stderr
    assert (tmp_path / "forebay/contexts/lab.json").stat().st_mode & 0o077 == 0


def test_a_password_is_not_saved(forebay, tmp_path):
    forebay.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    done = forebay.run("context", "add", "lab", "--url", "rsocket://ann:secret@127.0.0.1:7690")
    assert done.returncode == 2 and b"No password is saved" in done.stderr and b"secret" not in done.stderr
    assert not list(tmp_path.rglob("*.json"))
