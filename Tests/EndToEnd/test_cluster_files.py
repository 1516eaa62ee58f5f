"""The files for running a cluster: Docker/cluster.yaml and Packaging/kubernetes. Neither Docker nor Kubernetes is
needed: the broker, nats-server and, if it is installed, haproxy check their own configurations, and all names, ports
and paths that the files have in common are compared."""

import http.client
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from admin import until
from executables import ROOT
from nats_server import SERVER

COMPOSE = yaml.safe_load((ROOT / "Docker/cluster.yaml").read_text())
SERVICES = COMPOSE["services"]
NODES = {name: one for name, one in SERVICES.items() if name.startswith("forebay")}
BALANCER = (ROOT / "Docker/cluster/haproxy.cfg").read_text()
KUBERNETES = [one for file in sorted((ROOT / "Packaging/kubernetes").glob("*.yaml"))
              for one in yaml.safe_load_all(file.read_text())]


def kind(name: str) -> dict[str, dict]:
    return {one["metadata"]["name"]: one for one in KUBERNETES if one["kind"] == name}


WORKLOADS = kind("Deployment") | kind("StatefulSet")


def image_variables() -> dict[str, str]:
    text = (ROOT / "Docker/Dockerfile").read_text()
    return dict(one.split("=") for one in re.search(r"^ENV (.*)$", text, re.MULTILINE)[1].split())


def listeners(options: dict[str, str]) -> dict[str, int]:
    """The ports of the nodes' listeners."""
    return {name: int(options[name].rpartition(":")[2]) for name in ("listen", "http", "admin")}


def options(node: dict) -> dict[str, str]:
    return dict(word.removeprefix("--").partition("=")[::2] for word in node["command"])


def status(port: int, path: str, host="localhost") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": host})
    answer = connection.getresponse().status
    connection.close()
    return answer


# Docker


def test_the_services_fit_together():
    assert set(SERVICES) == {"nats1", "nats2", "nats3", "forebay1", "forebay2", "haproxy"}
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source, _, *mode = volume.split(":")
            if source.startswith("."):
                assert (ROOT / "Docker" / source).is_file() and mode == ["ro"], source
            else:
                assert source in COMPOSE["volumes"] and source == name, "each server has its own"
    servers = {name: one for name, one in SERVICES.items() if name.startswith("nats")}
    assert {one["environment"]["SERVER_NAME"] for one in servers.values()} == set(servers)
    nats = (ROOT / "Docker/cluster/nats.conf").read_text()
    assert set(re.findall(r"nats://(\w+):6222", nats)) == set(servers) and 'listen: "0.0.0.0:6222"' in nats
    assert len({str(node) for node in NODES.values()}) == 1, "all nodes have the same settings"
    settings = options(NODES["forebay1"])
    assert settings["upstream"] == ",".join(f"nats://{name}:4222" for name in servers)
    assert 'listen: "0.0.0.0:4222"' in nats and int(settings["shared-replicas"]) <= len(servers)
    for port in SERVICES["haproxy"]["ports"]:
        assert port.startswith("127.0.0.1:"), "a port is open to other machines"


def test_the_broker_accepts_the_options_of_the_compose_file(start):
    code, _, errors = start.run("-t", *NODES["forebay1"]["command"])
    assert code == 0, errors


def test_the_balancer_finds_the_nodes():
    ports = listeners(options(NODES["forebay1"]))
    backends = dict(re.findall(r"^backend (\w+)\n((?:    .*\n)+)", BALANCER, re.MULTILINE))
    frontends = dict(re.findall(r"^frontend (\w+)\n((?:    .*\n)+)", BALANCER, re.MULTILINE))
    published = {int(inside): int(outside) for _, outside, inside in
                 (port.split(":") for port in SERVICES["haproxy"]["ports"])}
    for name, listener in (("rsocket", "listen"), ("http", "http")):
        servers = re.findall(r"server (\w+) (\w+):(\d+)\n", backends[name])
        assert {(one, host, int(port)) for one, host, port in servers} == {(it, it, ports[listener]) for it in NODES}
        bound = int(re.search(r"bind :(\d+)\n", frontends[name])[1])
        assert bound in published and f"default_backend {name}\n" in frontends[name]
    assert int(re.search(r"default-server check port (\d+)", BALANCER)[1]) == ports["admin"]
    if haproxy := shutil.which("haproxy", path=os.environ["PATH"] + ":/usr/sbin"):
        done = subprocess.run([haproxy, "-c", "-f", ROOT / "Docker/cluster/haproxy.cfg"], capture_output=True)
        assert done.returncode == 0, done


def test_the_balancer_may_ask_a_node_whether_it_is_ready(start, nats):
    path, host = re.search(r"http-check send meth GET uri (\S+) .*hdr Host (\S+)\n", BALANCER).groups()
    words = [word for word in NODES["forebay1"]["command"] if not re.match("--(listen|http|admin|upstream)=", word)]
    broker = start(*" ".join(words).replace("=", " ").split(), "--admin", "127.0.0.1:0", "--upstream", nats.url())
    until(lambda: status(broker.admin[1], path, host) == 200, "it is connected to NATS")
    broker.stop()


# NATS


@pytest.fixture(params=["docker", "kubernetes"])
def nats_file(request, tmp_path) -> Path:
    text = ((ROOT / "Docker/cluster/nats.conf").read_text() if request.param == "docker"
            else kind("ConfigMap")["nats"]["data"]["nats.conf"])
    file = tmp_path / "nats.conf"
    file.write_text(text)
    return file


def test_the_servers_accept_their_configuration(nats_file, tmp_path):
    """And answer the probes; without the other servers, which have no addresses here."""
    environment = os.environ | {"SERVER_NAME": "nats1", "POD_NAME": "nats-0", "NATS_PASSWORD": "change-me"}
    done = subprocess.run([SERVER, "-t", "-c", nats_file], env=environment, capture_output=True)
    assert done.returncode == 0, done
    text = nats_file.read_text()
    assert "sync_interval: always" in text
    text = re.sub(r"cluster \{.*?\}\n", "", text, count=1, flags=re.DOTALL)
    changes = {'"0.0.0.0:4222"': '"127.0.0.1:-1"', '"0.0.0.0:8222"': '"127.0.0.1:-1"',
               "store_dir: /data": f'store_dir: "{tmp_path}/data"', "/run/nats/nats.pid": f'"{tmp_path}/pid"'}
    for old, new in changes.items():
        text = text.replace(old, new)
    nats_file.write_text(text + f'\nports_file_dir: "{tmp_path}"\n')
    process = subprocess.Popen([SERVER, "-c", nats_file], env=environment, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 20
        while not (ports := list(tmp_path.glob("*.ports"))) or not ports[0].read_text().endswith("}"):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        port = int(re.search(r'"monitoring": ?\[\s*"http://127.0.0.1:(\d+)', ports[0].read_text())[1])
        probes = [" ".join(SERVICES["nats1"]["healthcheck"]["test"])]
        container = WORKLOADS["nats"]["spec"]["template"]["spec"]["containers"][0]
        probes += [container[one]["httpGet"]["path"] for one in ("startupProbe", "readinessProbe", "livenessProbe")]
        for probe in probes:
            path = re.search(r"/healthz\S*$", probe)[0]
            assert status(port, path) == 200, path
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


# Kubernetes


def nodes_configuration(tmp_path) -> tuple[Path, dict[str, str]]:
    """The file and the environment of a node."""
    file = tmp_path / "forebayd.yaml"
    file.write_text(kind("ConfigMap")["forebay"]["data"]["forebayd.yaml"])
    (variable,) = WORKLOADS["forebay"]["spec"]["template"]["spec"]["containers"][0]["env"]
    key = variable["valueFrom"]["secretKeyRef"]
    return file, {variable["name"]: kind("Secret")[key["name"]]["stringData"][key["key"]]}


def test_the_broker_accepts_the_configuration_of_kubernetes(start, tmp_path):
    file, variables = nodes_configuration(tmp_path)
    code, _, errors = start.run("-t", "-c", str(file), **image_variables(), **variables)
    assert code == 0 and "FOREBAY_" not in errors, errors


def test_a_node_answers_the_probes_of_kubernetes(start, nats, tmp_path):
    file, variables = nodes_configuration(tmp_path)
    container = WORKLOADS["forebay"]["spec"]["template"]["spec"]["containers"][0]
    broker = start("-c", str(file), "--admin", "127.0.0.1:0", variables={name: nats.url() for name in variables})
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "admin"
        # The kubelet asks by the address of the pod.
        path = container[probe]["httpGet"]["path"]
        until(lambda: status(broker.admin[1], path, "10.1.2.3:7692") == 200, f"{probe} succeeds")
    # And clients by the name of the service.
    for host in (f"{name}:7691" for name in kind("Service") if name == "forebay"):
        assert status(broker.http[1], "/v1/topics/x/messages?request=1&replay=all&from=1&epoch=1", host) != 421
    broker.stop()
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    image = listeners({name.removeprefix("FOREBAY_").lower(): value for name, value in image_variables().items()})
    assert ports == {"rsocket": image["listen"], "http": image["http"], "admin": image["admin"]}
    annotations = WORKLOADS["forebay"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["admin"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_objects_fit_together(name):
    workload = WORKLOADS[name]["spec"]
    pod = workload["template"]["spec"]
    labels = workload["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    selectors = [workload["selector"]["matchLabels"], kind("Service")[name]["spec"]["selector"],
                 kind("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"],
                 *(one["labelSelector"]["matchLabels"] for one in pod["topologySpreadConstraints"])]
    assert all(selector == labels for selector in selectors), selectors
    ports = {one["name"] for one in container["ports"]}
    for port in kind("Service")[name]["spec"]["ports"]:
        assert port["targetPort"] in ports
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if probe in container:
            assert container[probe]["httpGet"]["port"] in ports
    for variable in container["env"]:
        if key := variable["valueFrom"].get("secretKeyRef"):
            assert key["key"] in kind("Secret")[key["name"]]["stringData"], variable
    volumes = {one["name"]: one for one in pod["volumes"]}
    volumes |= {one["metadata"]["name"]: one for one in workload.get("volumeClaimTemplates", [])}
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    for volume in volumes.values():
        if reference := volume.get("configMap"):
            assert reference["name"] in kind("ConfigMap")
            (mount,) = (one["mountPath"] for one in container["volumeMounts"] if one["name"] == volume["name"])
            (file,) = kind("ConfigMap")[reference["name"]]["data"]
            assert container["args"] == ["-c", f"{mount}/{file}"]
    assert container["securityContext"]["readOnlyRootFilesystem"] and pod["securityContext"]["runAsNonRoot"]
    assert kind("PodDisruptionBudget")[name]["spec"]["maxUnavailable"] == 1 < workload["replicas"]


def test_a_pod_may_take_as_long_as_its_program_needs():
    def seconds(pattern: str, text: str) -> int:
        return int(re.search(rf"{pattern}: (\d+)s$", text, re.MULTILINE)[1])

    pods = {name: one["spec"]["template"]["spec"] for name, one in WORKLOADS.items()}
    node = pods["forebay"]
    (pause,) = node["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1:]
    drain = seconds("drain-time", kind("ConfigMap")["forebay"]["data"]["forebayd.yaml"])
    # A close takes up to two seconds after the drain.
    assert int(pause) + drain + 2 < node["terminationGracePeriodSeconds"]
    text = kind("ConfigMap")["nats"]["data"]["nats.conf"]
    lame = seconds("lame_duck_grace_period", text) + seconds("lame_duck_duration", text)
    assert lame < pods["nats"]["terminationGracePeriodSeconds"]
    assert lame < int(SERVICES["nats1"]["stop_grace_period"].removesuffix("s"))


def test_all_use_the_same_password_and_servers():
    secret = kind("Secret")["forebay-upstream"]["stringData"]
    servers = [f"nats-{index}.nats" for index in range(WORKLOADS["nats"]["spec"]["replicas"])]
    assert secret["url"] == ",".join(f"nats://forebay:{secret['password']}@{server}:4222" for server in servers)
    text = kind("ConfigMap")["nats"]["data"]["nats.conf"]
    assert re.findall(r"nats://([\w.-]+):6222", text) == servers and "user: forebay\n" in text
    settings = yaml.safe_load(kind("ConfigMap")["forebay"]["data"]["forebayd.yaml"])
    assert settings["shared-replicas"] <= len(servers)
    assert settings["shared"] == [options(NODES["forebay1"])["shared"]], "the examples agree"
