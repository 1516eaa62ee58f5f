"""`forebay context`: named brokers, saved in the user's configuration folder."""

import json


def test_a_saved_broker_is_spoken_to(forebay, tmp_path):
    url = forebay.environment.pop("FOREBAY_URL")
    forebay.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    assert forebay.ok("context", "list").startswith(b"There are no contexts")
    assert forebay.ok("context", "add", "lab", "--url", url) == b"lab is saved, and is now the default\n"
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
    assert done.returncode == 2 and b"Passwords are not saved" in done.stderr and b"secret" not in done.stderr
    assert not list(tmp_path.rglob("*.json"))


def test_what_no_command_could_use_is_not_saved(forebay, tmp_path):
    forebay.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    for words in (["what://x"], ["rsocket://a,http://b"], ["rsocket://a", "--ca", "/etc/hostname"],
                  ["rsockets://a", "--ca", "/nowhere.pem"], ["rsocket://a", "--password-file", "/nowhere"]):
        done = forebay.run("context", "add", "lab", "--url", *words)
        assert done.returncode == 2 and done.stderr.startswith(b"forebay: "), done
    assert not list(tmp_path.rglob("*.json"))


def test_one_is_replaced_and_said_to_be(forebay, tmp_path):
    del forebay.environment["FOREBAY_URL"]
    forebay.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    forebay.ok("context", "add", "lab", "--url", "rsocket://a")
    told = forebay.ok("context", "add", "lab", "--url", "rsockets://b", "--insecure", "--user", "ann")
    assert told == b"lab is replaced\n"
    table = forebay.ok("context", "list").decode().splitlines()
    assert table[0].split() == ["NAME", "USED", "URL", "USER", "OPTIONS"]
    assert table[1].split() == ["lab", "yes", "rsockets://b", "ann", "--insecure"]
    row = json.loads(forebay.ok("context", "list", "--json"))
    assert row == {"name": "lab", "used": True, "url": "rsockets://b", "insecure": "", "user": "ann"}
    assert forebay.ok("context", "remove", "lab") == b"lab is removed; there is no default now\n"


def test_a_file_that_is_no_context_is_in_nobodys_way(forebay, tmp_path):
    url = forebay.environment.pop("FOREBAY_URL")
    forebay.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    forebay.ok("context", "add", "lab", "--url", url)
    (tmp_path / "forebay/contexts/broken.json").write_text("nonsense")
    done = forebay.run("context", "list", "--json")
    assert done.returncode == 0 and [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["lab"]
    assert b"broken.json" in done.stderr
    assert forebay.run("context", "use", "broken").returncode == 2
    assert forebay.ok("context", "remove", "broken") == b"broken is removed\n"
    forebay.ok("ping", "--count", "1")


def test_a_variable_that_comes_first_is_told(forebay, tmp_path):
    forebay.environment["XDG_CONFIG_HOME"] = str(tmp_path)
    forebay.ok("context", "add", "lab", "--url", forebay.url)
    done = forebay.run("context", "use", "lab")
    assert done.returncode == 0 and b"FOREBAY_URL is set and overrides every context." in done.stderr
