"""Which topics have their own metrics, and how the alert rules evaluate them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from admin import Admin, until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.rsocket


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_busiest_topics_have_metrics_not_the_oldest(begin, threads):
    admin = Admin(begin("--admin", "127.0.0.1:0", "--threads", threads))
    peer = admin.broker.peer()
    for number in range(300):
        peer.fire(f"old.{number}", b"x")
    for name in ("young.one", "young.two"):
        peer.numbers(name, 1, 500)  # More messages than all event topics have together.

    def topics(most):
        told = admin.metrics(f"?topics={most}")
        name = "forebay_topic_published_total"
        return {sample.split('"')[1] for sample in told if sample.startswith(name)}, told["forebay_topics_omitted"]

    until(lambda: topics(1000)[1] == 0, "all topics are there")
    names, omitted = topics(2)
    assert names == {"young.one", "young.two"} and omitted >= 300


def test_topics_in_trouble_have_metrics_however_quiet(begin):
    admin = Admin(begin("--admin", "127.0.0.1:0"))
    peer, slow = admin.broker.peer(), admin.broker.peer()
    slow.subscribe("lossy?buffer=1", n=1)
    slow.subscribe("full?overflow=block&buffer=1", n=1)
    peer.joined("lossy", 1)
    peer.joined("full", 1)
    for topic in ("lossy", "full"):
        for _ in range(5):
            peer.fire(topic, b"x")
    lost = peer.until("full", lambda info: info["published"] + info["lost"] == 5)["lost"]
    peer.numbers("busy", 1, 100)
    told = until(lambda: (told := admin.metrics("?topics=1")).get(
        'forebay_behind_seconds{topic="lossy",policy="drop-oldest"}') and told, "one is behind for long enough")
    assert told['forebay_topic_published_total{topic="busy"}'] == 100
    # As many topics in trouble, besides the busiest, as were requested.
    assert told['forebay_topic_publishes_lost_total{topic="full",reason="room"}'] == lost > 0
    assert len([sample for sample in told if sample.startswith("forebay_behind_seconds")]) == 1
    told = admin.metrics("?topics=2")
    assert told['forebay_topic_dropped_total{topic="lossy",policy="drop-oldest"}'] == 3
    assert told['forebay_topic_publishes_dropped_total{topic="full"}'] == lost


# The rules


# Other metrics that a rule uses.
OTHERS = {
    "ForebayPublishesLost": ('forebay_publishes_refused_total{reason="memory"}', "0x20"),
    "ForebayMemoryShort": ("forebay_memory_limit_bytes", "100x20"),
    "ForebayStoreNearlyFull": ("forebay_store_limit_bytes", "100x20"),
    "ForebayStoreSlow": ('forebay_store_commit_seconds_bucket{le="+Inf"}', "0+60x20"),
}
ALERTS = {
    "ForebaySubscriberBehind": ('forebay_behind_seconds{topic="phones.7",policy="drop-oldest"}', "300x20"),
    "ForebayMessagesDropped": ('forebay_topic_dropped_total{topic="phones.7",policy="drop-oldest"}', "0+60x20"),
    "ForebayTopicFull": ('forebay_topic_publishes_lost_total{topic="phones.7",reason="room"}', "0+60x20"),
    "ForebayPublishersBlocked": ('forebay_topic_publishers_blocked{topic="phones.7"}', "1x20"),
    "ForebayPublishesLost": ('forebay_publishes_dropped_total{reason="memory"}', "0+60x20"),
    "ForebayReloadRefused": ('forebay_reloads_total{result="refused"}', "0x10 1x10"),
    # Memory is released as soon as it runs short.
    "ForebayMemoryShort": ("forebay_memory_bytes", "93 30x2 " * 7),
    "ForebayLogLost": ("forebay_log_lines_lost_total", "0+60x20"),
    "ForebayStoreFailed": ("forebay_store_failed", "1x20"),
    "ForebayStoreNearlyFull": ("forebay_store_bytes", "91x20"),
    "ForebayStoreErrors": ('forebay_store_errors_total{kind="full"}', "0+60x20"),
    "ForebayStoreUnreadable": ('forebay_store_errors_total{kind="unreadable"}', "0x10 1x10"),
    "ForebayStoreSlow": ('forebay_store_commit_seconds_bucket{le="0.5"}', "0+60x20"),
    "ForebayUpstreamUnreachable": ("forebay_upstream_disconnected_seconds", "0x5 0+60x15"),
    "ForebayUpstreamPublishesWaiting": ("forebay_upstream_publish_wait_seconds", "6x20"),
    "ForebayUpstreamMessagesLost": ("forebay_upstream_lost_messages_total", "0x10 1x10"),
}


def fires(tmp_path, alert: str, change=lambda rules: rules) -> bool:
    """Whether an alert fires after 15 minutes of its condition."""
    (tmp_path / "alerts.yaml").write_text(change((ROOT / "Docker/alerts.yaml").read_text()))
    series = [{"series": sample, "values": values}
              for sample, values in (one[alert] for one in (ALERTS, OTHERS) if alert in one)]
    (tmp_path / "tests.yaml").write_text(json.dumps({
        "rule_files": ["alerts.yaml"], "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [
            {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)', "eval_time": "15m",
             "exp_samples": [{"labels": "{}", "value": 1}]}]}]}))
    done = subprocess.run([shutil.which("promtool"), "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=60)
    if done.returncode == 0:
        return True
    assert "0E+00" in done.stdout + done.stderr, done.stdout + done.stderr
    return False


@pytest.mark.parametrize("alert", ALERTS)
def test_rules_fire(tmp_path, alert):
    assert fires(tmp_path, alert)


@pytest.mark.parametrize("alert", [one for one, (sample, _) in ALERTS.items() if "topic=" in sample])
def test_a_topic_can_be_excluded_from_a_rule(tmp_path, alert):
    assert not fires(tmp_path, alert, lambda rules: rules.replace('topic!~""', 'topic!~"jobs|phones[.].*"'))
    assert fires(tmp_path, alert, lambda rules: rules.replace('topic!~""', 'topic!~"jobs|phones"'))


@pytest.mark.parametrize("alert", ["ForebaySubscriberBehind", "ForebayMessagesDropped"])
def test_a_policy_can_be_excluded_from_a_rule(tmp_path, alert):
    def change(rules):
        rules = rules.replace('policy!~""', 'policy!~"drop-oldest"')
        return rules.replace('policy!~"latest"', 'policy!~"latest|drop-.*"')

    assert not fires(tmp_path, alert, change)
