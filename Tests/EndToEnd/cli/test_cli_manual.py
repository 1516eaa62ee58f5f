"""Manual pages and completions, checked with man and with the shells themselves."""

import os
import re
import subprocess
import textwrap

import pytest

from commands import *


@pytest.fixture
def scheme():
    """One protocol is enough."""
    return "rsocket"


OPTION = re.compile(r"--[a-z][a-z-]+")


def man(page: bytes, width=100) -> str:
    """A page as man renders it, without any warning."""
    done = subprocess.run(["man", "--warnings", "-l", "-"], input=page, capture_output=True, timeout=60,
                          env=dict(os.environ, MANWIDTH=str(width), LC_ALL="C.UTF-8", MANPAGER="cat", TERM="dumb",
                                   GROFF_NO_SGR="1", MANROFFOPT="-c"))
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()
    return re.sub(".\b", "", done.stdout.decode())


def helps(forebay) -> dict[str, str]:
    """The output of -h by command; "" is the program's own."""
    program = forebay.ok("-h").decode()
    listed = program.split("\nOptions")[0]
    commands = re.findall(r"^  ((?:(?:topic|close|context) )?[a-z]+)(?: |$)", listed, re.MULTILINE)
    assert {"sub", "pub", "topic info", "bench"} <= set(commands)
    return {"": program} | {name: forebay.ok(*name.split(), "-h").decode() for name in commands}


def test_the_page_has_every_option_and_example(forebay):
    page = man(forebay.ok("manual"))
    for heading in ("NAME", "SYNOPSIS", "COMMANDS", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert re.search(f"^{heading}$", page, re.MULTILINE)
    for command, text in helps(forebay).items():
        part = page
        if command:
            start = page.index(f"\n   forebay {command}\n")
            part = re.split(r"\n(?:   \S|[A-Z])", page[start + 1:])[0] + page[page.index("OPTIONS OF EVERY"):]
        for option in OPTION.findall(text.split("\nOptions")[1].split("\nExamples")[0]):
            assert option in part, (command, option)
        for line in re.findall(r"^  (.*?)(?:  +# .*)?$", text.split("\nExamples\n")[1], re.MULTILINE):
            assert " ".join(line.split()) in " ".join(part.split()), (command, line)


def forebayd(*words) -> bytes:
    program = os.environ.get("FOREBAYD") or Path(executable()).with_name("forebayd")
    done = subprocess.run([program, *words], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_brokers_page_has_every_option():
    page, told = man(forebayd("--manual", "program")), forebayd("-h").decode()
    for heading in ("SYNOPSIS", "OPTIONS", "SIGNALS", "ENVIRONMENT", "FILES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert re.search(f"^{heading}$", page, re.MULTILINE)
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", told, re.MULTILINE))
    assert {"--listen", "--log-level", "--config", "--print-config"} <= options
    assert options == set(re.findall(r"^       (?:-\w, )?(--[a-z-]+)", page, re.MULTILINE))


def test_the_page_of_the_file_has_every_key():
    page, sample = man(forebayd("--manual", "file")), (ROOT / "Packaging/forebayd.yaml").read_text()
    keys = set(re.findall(r"^#([a-z-]+):", sample, re.MULTILINE))
    assert {"listen", "log-level", "topics", "retain"} <= keys
    assert keys == set(re.findall(r"^       ([a-z-]+): ", page, re.MULTILINE)) | {"listen"}


def test_values_keep_their_spelling():
    for page in (man(forebayd("--manual", "file")), man(forebayd("--manual", "program"))):
        for words in ("debug, info, warn or error", "off, optional or required", "text or json"):
            assert words in " ".join(page.split()), words


def test_the_examples_of_the_file_start(start, tmp_path):
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "key.pem"], cwd=tmp_path, check=True)
    subprocess.run(["openssl", "pkey", "-in", "key.pem", "-pubout", "-out", "login.pem"], cwd=tmp_path, check=True)
    page = man(forebayd("--manual", "file"), width=120)
    examples = page[page.index("\nEXAMPLES\n"):page.index("\nSEE ALSO\n")]
    blocks = re.findall(r"(?:^ {8,}\S.*\n)+", examples, re.MULTILINE)
    keys = {line.split(":")[0].strip() for block in blocks for line in block.splitlines()}
    assert len(blocks) == 4 and {"listen", "topics", "users", "jwt"} <= keys, blocks
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(textwrap.dedent(block))
        forebayd("-t", "-c", str(file))
        start("-c", str(file)).stop()


# Completions. Each shell is asked what it would offer.

BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
handler=$(complete -p "$1"); handler=${handler#complete -F }
${handler% *} "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered_by_bash(program, script, *words, environment) -> list[str]:
    """The words are split as bash splits the line."""
    done = subprocess.run(["bash", "-u", "-c", BASH, "bash", script, program, *words], capture_output=True, timeout=60,
                          env=environment, text=True)
    # compopt works only on a real line.
    assert done.stderr.replace("compopt: not currently executing completion function", "").count("\n") <= 1
    return done.stdout.split()


def offered_by_fish(program, script, *words, environment) -> list[str]:
    line = " ".join([program, *words]).replace(" = ", "=")
    done = subprocess.run(["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line],
                          capture_output=True, timeout=60, env=environment, text=True)
    assert done.stderr == "", done.stderr
    found = [answer.split("\t")[0] for answer in done.stdout.splitlines()]
    return [answer.split("=")[-1] for answer in found]


ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; TERM=dumb; unsetopt beep; $4
zstyle ':completion:*' list-grouped false
zstyle ':completion:*:default' list-prompt ''
null() { compadd() { local -a all; builtin compadd -O all \"\$@\"; print -rn -- \"\${(j: :)all} \" >> $2;
  builtin compadd \"\$@\" }; _main_complete; print END >> $2 }
zle -C null complete-word null; bindkey '^T' null"
zpty -w z "print READY"
zpty -r z answer '*READY*READY*'
zpty -w -n z "$3"$'\x14'
for i in {1..300}; do [[ -f $2 && $(<$2) == *END* ]] && break; sleep 0.1; done
zpty -d z
"""


ZSH_LOADS = "fpath=({0} $fpath); autoload -Uz compinit; compinit -u -D"


def offered_by_zsh(program, script, *words, environment, load=ZSH_LOADS) -> list[str]:
    folder = Path(script).parent / "functions"
    folder.mkdir(exist_ok=True)
    (folder / f"_{program}").write_text(Path(script).read_text())
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    line = " ".join([program, *words]).replace(" = ", "=")
    subprocess.run(["zsh", "-f", "-c", ZSH, "zsh", str(folder), str(answer), line, load.format(folder, program)],
                   timeout=60, env=environment, capture_output=True)
    found = answer.read_text().split()
    assert found[-1] == "END"
    return [word.rstrip("=") for word in found[:-1]]


def offered_by_sourced_zsh(*words, environment) -> list[str]:
    """The offers, first without compinit and then with it. Each time, the broker is asked over a separate
    connection."""
    loads = "source {0}/_{1}", "autoload -Uz compinit; compinit -u -D; source {0}/_{1}"
    one, other = (offered_by_zsh(*words, environment=environment, load=load) for load in loads)
    return [word for word in one if word in other]


OFFERED = {"bash": offered_by_bash, "fish": offered_by_fish, "zsh": offered_by_zsh,
           "zsh, sourced": offered_by_sourced_zsh}


@pytest.fixture(params=OFFERED)
def offered(request, forebay, tmp_path):
    """What a shell offers for the last word."""
    shell = request.param.split(",")[0]
    script, brokers = tmp_path / "script", tmp_path / "brokers"
    script.write_bytes(forebay.ok("completion", shell))
    brokers.write_bytes(forebayd("--completion", shell))
    environment = dict(os.environ, FOREBAY_URL=forebay.url, HOME=str(tmp_path), TERM="dumb", LC_ALL="C.UTF-8",
                       PATH=f"{Path(executable()).parent}:{os.environ['PATH']}")

    def ask(*words, program="forebay", **variables) -> set[str]:
        file = str(script if program == "forebay" else brokers)
        return set(OFFERED[request.param](program, file, *words, environment=environment | variables))

    return ask


def test_completion(forebay, offered, topic):
    forebay.ok("pub", topic, "x")
    assert {"sub", "pub", "topic", "topics", "subs", "conns", "ping", "bench", "completion"} <= offered("")
    assert offered("top") >= {"topic", "topics"} and "sub" not in offered("top")
    assert offered("topic", "") >= {"info", "complete", "fail", "delete"}
    assert "sub" not in offered("topic", "")
    assert offered("sub", "x", "--over") == {"--overflow"}
    assert {"--replay", "--request", "--json"} <= offered("sub", "--")
    assert "--replay" not in offered("pub", "--") and "--stdin" in offered("pub", "--")
    assert "--message" in offered("topic", "fail", "--") and "--message" not in offered("topic", "info", "--")
    assert offered("sub", "--overflow", "dr") == {"drop-oldest", "drop-newest"}
    assert offered("sub", "--overflow", "=", "dr") == {"drop-oldest", "drop-newest"}
    assert offered("--url", "sub", "topic", "f") >= {"fail"}
    assert offered("completion", "") >= {"bash", "zsh", "fish"}


def test_the_broker_is_completed(offered, tmp_path):
    assert offered("--log-l", program="forebayd") == {"--log-level"}
    assert offered("--log-level", "w", program="forebayd") == {"warn"}
    assert offered("--log-format", "=", "j", program="forebayd") == {"json"}
    assert offered("--manual", "", program="forebayd") == {"program", "file"}
    assert offered("store", "", program="forebayd") == {"info", "check", "dump", "copy"}
    assert offered("--log-level", "warn", "st", program="forebayd") == {"store"}
    assert "--from" in offered("store", "dump", "--f", program="forebayd")
    assert offered("store", "dump", "--format", "j", program="forebayd") == {"json"}
    (tmp_path / "one.yaml").touch()
    found = offered("-c", str(tmp_path / "on"), program="forebayd")
    assert any(word.endswith("one.yaml") for word in found), found


def test_topics_are_completed(forebay, offered, topic):
    forebay.ok("pub", topic, "x")
    assert topic in offered("sub", topic[:5])
    assert topic in offered("topic", "info", topic[:5])
    assert topic not in offered("pub", topic, topic[:5])


def test_ids_and_contexts_are_completed(forebay, offered, topic, tmp_path):
    forebay.subscriber(topic)
    row = forebay.rows("subs", topic=topic)[0]
    assert str(row["id"]) in offered("close", "subscription", "")
    assert row["connection"] in offered("close", "connection", "")
    saved = {"XDG_CONFIG_HOME": str(tmp_path / "saved")}
    forebay.environment |= saved
    forebay.ok("context", "add", "lab-1", "--url", "rsocket://a")
    assert offered("context", "use", "la", **saved) == {"lab-1"} == offered("context", "remove", "la", **saved)
    assert offered("ping", "--context", "la", **saved) == {"lab-1"}
    assert "lab-1" not in offered("context", "add", "la", **saved)


def test_without_a_broker_no_topics_are_offered(forebay, offered, topic):
    forebay.ok("pub", topic, "x")
    assert topic in offered("sub", topic[:5])
    assert topic not in offered("sub", topic[:5], FOREBAY_URL="rsocket://127.0.0.1:1")


def test_an_unknown_shell_is_told_which_there_are(forebay):
    done = forebay.run("completion", "tcsh")
    assert done.returncode == 2 and b"bash, zsh and fish" in done.stderr
