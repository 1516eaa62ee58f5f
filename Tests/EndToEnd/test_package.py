"""The results of `make install` and `make deb`: a package that can be unpacked and run, units that systemd accepts; and
the files of Docker/."""

import hashlib
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import tls
from common import *

pytestmark = pytest.mark.rsocket

ROOT = Path(__file__).resolve().parents[2]


def run(*words, **how) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **how)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with both programs: $FOREBAYD and $FOREBAY, or else the release build, if it is up to date."""
    named = {name: os.environ.get(name.upper()) for name in ("forebayd", "forebay")}
    if any(named.values()):
        assert all(named.values()), "a package has both programs: set FOREBAYD and FOREBAY, or neither"
        folder = tmp_path_factory.mktemp("built")
        for name, path in named.items():
            (folder / name).symlink_to(Path(path).resolve(strict=True))
        return folder
    folder = ROOT / ".build" / "release"
    stamp = folder / "sources"
    assert stamp.is_file() and stamp.read_text() == run(ROOT / "Packaging/sources"), (
        f"{folder} was not built from these sources: run `make build`, or set FOREBAYD and FOREBAY")
    return folder


@pytest.fixture(scope="module")
def package(built, tmp_path_factory) -> Path:
    """Programs that need a Swift toolchain at run time cannot be packaged."""
    if "libswiftCore" in run("objdump", "-p", built / "forebayd"):
        pytest.skip(f"{os.environ['FOREBAYD']} loads Swift's libraries: packages need what `make build` builds")
    folder = tmp_path_factory.mktemp("package")
    return Path(run(ROOT / "Packaging/deb", env=dict(os.environ, BUILD=built, OUTPUT=folder)).strip())


@pytest.fixture(scope="module")
def unpacked(package, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "-x", package, folder)
    run("dpkg-deb", "-e", package, folder / "DEBIAN")
    return folder


def fields(package) -> dict[str, str]:
    return dict(re.findall(r"^(\S+): (.*)$", run("dpkg-deb", "-f", package), re.MULTILINE))


def test_lintian_has_nothing_to_say(package):
    """Rules for Debian's own packages are excepted."""
    told = run("lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags",
               "initial-upload-closes-no-bugs", package)
    assert told == ""


def test_the_same_programs_make_the_same_package(built, package, tmp_path):
    again = run(ROOT / "Packaging/deb", env=dict(os.environ, BUILD=built, OUTPUT=tmp_path, TZ="Asia/Tokyo"),
                umask=0o077).strip()
    assert hashlib.sha256(package.read_bytes()).digest() == hashlib.sha256(Path(again).read_bytes()).digest()


def test_the_programs_do_not_tell_where_they_were_built(built):
    """A build in another folder must give the same package."""
    for program in ("forebayd", "forebay"):
        assert str(ROOT).encode() not in (built / program).read_bytes(), program
        assert "build-id" not in run("readelf", "-SW", built / program), program


def test_dependencies_are_those_that_the_programs_load(package, unpacked):
    depends = fields(package)["Depends"]
    for program in ("forebayd", "forebay"):
        loaded = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", unpacked / "usr/bin" / program))
        assert not [name for name in loaded if "swift" in name.lower() or "Foundation" in name]
        for name in loaded:
            owner = run("dpkg-query", "--search", f"*/{name}").split(":")[0]
            assert re.search(rf"(^|, ){re.escape(owner)}( |,|$)", depends), (name, owner, depends)


def test_every_file_is_roots_and_old(package):
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = archive.getmembers()
    assert {(one.uid, one.gid) for one in members} == {(0, 0)} and len({one.mtime for one in members}) == 1
    modes = {one.name: oct(one.mode) for one in members}
    assert modes.pop("./etc/forebay/forebayd.yaml") == "0o640" and set(modes.values()) == {"0o755", "0o644"}
    names = {one.name for one in members}
    for name in ("usr/bin/forebayd", "usr/bin/forebay", "lib/systemd/system/forebayd.service",
                 "lib/systemd/system/forebayd.socket", "lib/systemd/system/forebayd-http.socket",
                 "lib/systemd/system/forebayd-admin.socket", "usr/share/man/man1/forebay.1.gz",
                 "usr/share/bash-completion/completions/forebay", "usr/share/zsh/vendor-completions/_forebay",
                 "usr/share/fish/vendor_completions.d/forebay.fish", "usr/share/man/man8/forebayd.8.gz",
                 "usr/share/man/man5/forebayd.yaml.5.gz", "usr/share/bash-completion/completions/forebayd",
                 "etc/forebay/forebayd.yaml", "usr/share/doc/forebay/copyright",
                 "usr/share/doc/forebay/Docs/configuration.md", "usr/share/doc/forebay/Docs/images/page.png",
                 "usr/share/forebay/grafana-dashboard.json", "usr/share/forebay/alerts.yaml"):
        assert "./" + name in names, name


def test_the_unpacked_programs_run(unpacked, start, topic, monkeypatch):
    monkeypatch.setenv("FOREBAYD", str(unpacked / "usr/bin/forebayd"))
    broker = start()
    url = "rsocket://%s:%d" % broker.address
    client = unpacked / "usr/bin/forebay"
    run(client, "pub", topic, "hello", "--url", url)
    assert run(client, "sub", topic, "--replay", "1", "--count", "1", "--url", url) == "hello\n"
    assert Path(f"/proc/{broker.pid}/exe").resolve() == unpacked / "usr/bin/forebayd"
    broker.stop()


def test_the_configuration_is_in_order_and_is_kept(unpacked, tmp_path):
    """dpkg asks before it overwrites a modified file."""
    assert (unpacked / "DEBIAN/conffiles").read_text() == "/etc/forebay/forebayd.yaml\n"
    run(unpacked / "usr/bin/forebayd", "-t", "-c", unpacked / "etc/forebay/forebayd.yaml", "--store", tmp_path / "s")


def test_the_store_is_where_the_broker_may_write(unpacked):
    settings = yaml.safe_load((unpacked / "etc/forebay/forebayd.yaml").read_text())
    assert settings == {"store": "/var/lib/forebay"}
    unit = (unpacked / "lib/systemd/system/forebayd.service").read_text()
    assert re.findall(r"^StateDirectory\w*=.*$", unit, re.MULTILINE) == [
        "StateDirectory=forebay", "StateDirectoryMode=0700"]
    image = (ROOT / "Docker/Dockerfile").read_text()
    owner = re.search(r"^USER (\d+):(\d+)$", image, re.MULTILINE)
    assert f"install -d -m 700 -o {owner[1]} -g {owner[2]} {settings['store']} " in image
    assert re.search(rf"^VOLUME {settings['store']}$", image, re.MULTILINE)
    compose = yaml.safe_load((ROOT / "Docker/compose.yaml").read_text())
    assert f"forebay:{settings['store']}" in compose["services"]["forebay"]["volumes"]


def test_systemd_takes_the_units(unpacked, tmp_path):
    """systemd's security analysis finds little. The programs that the units name are elsewhere here."""
    units = []
    for unit in (unpacked / "lib/systemd/system").iterdir():
        units.append(tmp_path / unit.name)
        units[-1].write_text(unit.read_text().replace("/usr/bin/forebayd", f"{unpacked}/usr/bin/forebayd"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    assert done.returncode == 0 and not [line for line in done.stderr.splitlines() if "forebay" in line], done.stderr
    exposure = run("systemd-analyze", "security", "--offline=true", tmp_path / "forebayd.service")
    assert float(re.search(r"Overall exposure level.*: ([0-9.]+)", exposure)[1]) < 2


def test_the_watchdog_and_the_end_have_time(unpacked):
    unit = (unpacked / "lib/systemd/system/forebayd.service").read_text()
    seconds = {name: int(re.search(rf"^{name}=(\d+)$", unit, re.MULTILINE)[1])
               for name in ("WatchdogSec", "TimeoutStopSec")}
    assert seconds["TimeoutStopSec"] > 10 + 2 and seconds["WatchdogSec"] >= 10
    assert "Type=notify\n" in unit
    assert "ExecStart=/usr/bin/forebayd --config /etc/forebay/forebayd.yaml\n" in unit


# The scripts that dpkg runs, with stubs for the commands they call.

@pytest.fixture
def scripts(unpacked, tmp_path):
    """Runs a script and returns the commands that it ran."""
    notes, folder = tmp_path / "notes", tmp_path / "bin"
    folder.mkdir()
    for name in ("adduser", "chgrp", "deb-systemd-helper", "deb-systemd-invoke", "systemctl", "getent"):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{notes}\n[ {name} != getent ]\n')
        (folder / name).chmod(0o755)
    # The owner and the mode of the configuration.
    (folder / "stat").write_text('#!/bin/sh\necho "$OWNED"\n')
    (folder / "stat").chmod(0o755)

    def script(name, *words, owned="root:root:640") -> list[str]:
        notes.write_text("")
        run("sh", "-e", unpacked / "DEBIAN" / name, *words, env={"PATH": f"{folder}:/usr/bin:/bin", "OWNED": owned})
        return notes.read_text().splitlines()

    return script


def test_installing_makes_a_user_and_enables_the_service(scripts):
    ran = scripts("postinst", "configure", "")
    assert any(line.startswith("adduser --system --group") and line.endswith(" forebay") for line in ran)
    assert "deb-systemd-helper enable forebayd.service" in ran
    assert not any(line.startswith("adduser") for line in scripts("postinst", "abort-upgrade", "0.0.9"))


def test_the_configuration_is_for_the_brokers_group(scripts):
    """The group is set unless an administrator has overridden it. The group must exist first."""
    change = "chgrp forebay /etc/forebay/forebayd.yaml"
    ran = scripts("postinst", "configure", "")
    assert [line for line in ran if line.startswith(("adduser", "chgrp"))][1:] == [change]
    for owned in ("root:forebay:640", "root:root:644", "root:admin:640", "forebay:forebay:600", ""):
        assert change not in scripts("postinst", "configure", "0.1", owned=owned), owned


def test_removing_and_purging(scripts):
    for words in (["remove"], ["upgrade", "0.2"]):
        assert not any("purge" in line for line in scripts("prerm", *words) + scripts("postrm", *words))
    assert isinstance(scripts("postrm", "purge"), list)


# make run

def test_what_is_built_is_run_as_it_is(built):
    done = run("make", "-C", ROOT, "--no-print-directory", "run", "ARGS=-V")
    assert done.endswith("forebayd 0.1.0\n") and "Compiling" not in done and "Linking" not in done


# make install

def test_make_install_has_the_same_files_elsewhere(built, tmp_path):
    run("make", "-C", ROOT, "--no-print-directory", "install", "PREFIX=/opt/forebay", "SYSCONFDIR=/opt/etc",
        f"DESTDIR={tmp_path}", env=dict(os.environ, BUILD=built))
    unit = (tmp_path / "opt/forebay/lib/systemd/system/forebayd.service").read_text()
    assert "ExecStart=/opt/forebay/bin/forebayd --config /opt/etc/forebay/forebayd.yaml\n" in unit
    assert "@" not in unit.replace("@system-service", "").replace(
        "@privileged @resources", "")
    assert not [path for path in tmp_path.iterdir() if path.name != "opt"]
    sample = (ROOT / "Packaging/forebayd.yaml").read_text()
    assert (tmp_path / "opt/etc/forebay/forebayd.yaml").read_text() == sample
    for path in ("bin/forebayd", "bin/forebay", "share/man/man1/forebay.1", "share/zsh/site-functions/_forebay"):
        assert (tmp_path / "opt/forebay" / path).is_file(), path


def test_make_install_keeps_the_configuration_from_others(built, tmp_path):
    """The file is given to the broker's group if that exists; otherwise a message is printed."""
    notes, folder = tmp_path / "notes", tmp_path / "bin"
    folder.mkdir()
    for there in (True, False):
        (folder / "getent").write_text(f"#!/bin/sh\n{'true' if there else 'false'}\n")
        (folder / "chgrp").write_text(f'#!/bin/sh\necho "$*" >>{notes}\n')
        for program in folder.iterdir():
            program.chmod(0o755)
        root = tmp_path / f"root-{there}"
        done = subprocess.run([ROOT / "Packaging/install"], capture_output=True, text=True, umask=0, env=dict(
            os.environ, BUILD=built, PREFIX=f"{root}/usr", SYSCONFDIR=f"{root}/etc", DESTDIR="",
            PATH=f"{folder}:{os.environ['PATH']}"))
        assert done.returncode == 0, done
        file = root / "etc/forebay/forebayd.yaml"
        assert file.stat().st_mode & 0o777 == 0o640
        if os.geteuid() == 0:
            assert notes.read_text() == f"forebay {tmp_path}/root-True/etc/forebay/forebayd.yaml\n"
            assert (f"chgrp forebay {file}" in done.stderr) is not there


def test_make_install_leaves_a_configuration_as_it_is(built, tmp_path):
    file = tmp_path / "etc/forebay/forebayd.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("retain: 7\n")
    run(ROOT / "Packaging/install", env=dict(os.environ, BUILD=built, DESTDIR=tmp_path, PREFIX="/usr"))
    assert file.read_text() == "retain: 7\n"


# Those parts of Docker/ that can be checked without an engine; Docker/rehearse goes further.

def test_hadolint_has_nothing_to_say():
    assert run(Path(sys.executable).with_name("hadolint"), ROOT / "Docker/Dockerfile") == ""


def test_the_image_is_built_with_what_the_broker_needs():
    """Every library needed for the build is installed, and every path that is copied or run exists."""
    text = (ROOT / "Docker/Dockerfile").read_text()
    for package in re.findall(r"\blib\S+-dev\b", (ROOT / ".ci/deps").read_text()):
        assert re.search(rf"\b{re.escape(package)}\b", text), package
    for path in re.findall(r"\b(?:Packaging|Docker|Sources)/\w+", text):
        assert (ROOT / path).exists(), path
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    # The inputs of the package are copied too.
    needed = {"Packaging", "Sources", "Tests", "Protocol", "Docs", "Package.swift", "README.md", "Makefile"}
    assert not needed & set(ignored)
    user = re.search(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    assert user and int(user[1]) > 0 and int(user[2]) > 0
    # The image's user, and any other that the image may run as, can read the package's files that are restricted to a
    # group.
    assert re.search(r"apt-get install .*\.deb \\\n *&& chmod 644 /etc/forebay/forebayd.yaml ", text)


def test_the_health_check_tells_a_broker_from_none(built, start, tmp_path):
    """The broker may listen anywhere; one that requires a password counts as healthy too."""
    text = (ROOT / "Docker/Dockerfile").read_text()
    (command,) = json.loads(re.search(r"^HEALTHCHECK .*\\\n +CMD (.*)$", text, re.MULTILINE)[1])
    assert re.search(rf"^COPY --from=build /src/Packaging/healthcheck {command}$", text, re.MULTILINE)
    check, how = ROOT / "Packaging/healthcheck", dict(capture_output=True, timeout=60, env={
        "PATH": f"{built}:/usr/bin:/bin", "SWIFT_BACKTRACE": "enable=no"})
    guarded = tmp_path / "guarded.yaml"
    guarded.write_text(f"users:\n  - {{name: a, token: 'sha256:{'ab' * 32}'}}\n")
    for options in ((), ("-c", str(guarded)), ("--listen", "off"), ("--listen", "127.3.2.1:0", "--http", "off"),
                    ("--listen", "[::1]:0", "--http", "off"), ("--listen", "0.0.0.0:0", "--allow-anonymous"),
                    tls.server().options):
        broker = start(*options)
        done = subprocess.run([check, str(broker.pid)], **how)
        assert done.returncode == 0, (options, done)
        # With several listeners, each counts.
        assert subprocess.run([check], **how).returncode == 0
        broker.stop()
        assert subprocess.run([check, str(broker.pid)], **how).returncode == 1


def test_the_ports_of_the_image_can_be_reached(start):
    """This requires users: the broker does not start if everybody could connect."""
    text = (ROOT / "Docker/Dockerfile").read_text()
    exposed = re.search(r"^EXPOSE (.*)$", text, re.MULTILINE)[1].split()
    variables = dict(one.split("=") for one in re.search(r"^ENV (.*)$", text, re.MULTILINE)[1].split())
    assert list(variables.values()) == [f"0.0.0.0:{port}" for port in exposed]
    code, words = start.refusal(env=dict(variables, SWIFT_BACKTRACE="enable=no"))
    assert code == 2 and "FOREBAY_ALLOW_ANONYMOUS=true" in words


def test_the_compose_file_fits_what_lies_beside_it():
    folder = ROOT / "Docker"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    services = compose["services"]
    assert services.keys() == {"forebay", "prometheus", "grafana"}
    for name, service in services.items():
        for port in service["ports"]:
            assert str(port).startswith("127.0.0.1:"), "a port is open to other machines"
        for volume in service.get("volumes", []):
            source, target, *mode = volume.split(":")
            if source.startswith("."):
                assert (folder / source).is_file() and mode == ["ro"], source
            else:
                assert source in compose["volumes"], source
    broker = services["forebay"]
    assert (folder / broker["build"]["context"] / broker["build"]["dockerfile"]).is_file()
    assert broker["read_only"] and broker["cap_drop"] == ["ALL"]


def test_prometheus_and_grafana_find_each_other():
    folder = ROOT / "Docker"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    prometheus = yaml.safe_load((folder / "prometheus.yml").read_text())
    target = prometheus["scrape_configs"][0]["static_configs"][0]["targets"][0]
    host, port = target.split(":")
    assert f"--admin=0.0.0.0:{port}" in compose[host]["command"]
    mounted = dict(volume.split(":")[:2] for service in compose.values() for volume in service.get("volumes", []))
    for rules in prometheus["rule_files"]:
        assert mounted[f"./{rules}"] == f"/etc/prometheus/{rules}"
    source = yaml.safe_load((folder / "grafana/datasources.yaml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090" and "127.0.0.1:9090:9090" in compose["prometheus"]["ports"]
    provider = yaml.safe_load((folder / "grafana/dashboards.yaml").read_text())["providers"][0]
    assert mounted["./grafana-dashboard.json"].startswith(provider["options"]["path"] + "/")
    dashboard = json.loads((folder / "grafana-dashboard.json").read_text())
    assert any(one["type"] == "datasource" and one["query"] == source["type"]
               for one in dashboard["templating"]["list"])


def test_prometheus_takes_its_configuration():
    """The rules are where they are mounted. promtool checks both files."""
    run(shutil.which("promtool"), "check", "config", ROOT / "Docker/prometheus.yml")


def test_prometheus_is_let_in_by_the_name_it_asks_by(start):
    """The broker as the compose file starts it, but with the test's ports and address."""
    folder = ROOT / "Docker"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    jobs = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    target = jobs[0]["static_configs"][0]["targets"][0]
    words = " ".join(compose["forebay"]["command"]).replace("=", " ")
    broker = start(*re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", words).split())
    port = broker.admin[1]
    for host, code in ((target, 200), ("elsewhere:7692", 421)):
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        asked.request("GET", "/metrics", headers={"Host": host})
        answer = asked.getresponse()
        assert (answer.status, b"forebay_build_info" in answer.read()) == (code, code == 200), host
        asked.close()
    broker.stop()
