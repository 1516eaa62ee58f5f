"""Users of the admin page: signing in and out, and what a user is allowed to do there; with and without TLS."""

import json
import os
import signal

import pytest

import access
import tls
from admin import until
from page import Page
from test_admin_page import slow

pytestmark = pytest.mark.rsocket


@pytest.fixture(scope="module", params=["clear", "TLS"])
def broker(request, start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    path = access.write(folder, {"users": [
        {"name": "operator", "password": access.password_hash(start.executable(), "right, Käse"), "publish": [">"],
         "subscribe": [">"], "control": [">", "$SYS.>"]},
        {"name": "watcher", "password": access.password_hash(start.executable(), "watching"),
         "control": ["$SYS.stats"], "subscribe": ["orders.>"]},
        {"name": "clerk", "token": access.token_hash("clerk's"), "publish": ["orders.>"], "subscribe": ["orders.>"]},
    ]})
    this = start("-c", str(path), "--admin", "127.0.0.1:0", *(tls.server().options if request.param == "TLS" else ()))
    yield this
    this.process.kill()
    this.process.wait()


@pytest.fixture
def page(broker, request):
    scheme, authority = tls.trust(broker.admin)
    # By the certificate's name, as well as by the address.
    this = Page("%s://localhost:%d/" % (scheme, broker.admin[1]), trusts=tls.server() if scheme == "https" else None)
    this.until(lambda: this.text("#health") == "sign in to see more", "who has not signed in is asked to")
    yield this
    refusals = [one for one in this.complaints if "401" not in one and "403" not in one and "429" not in one]
    this.close()
    assert refusals == []


def test_whoever_is_in_the_address_signs_in_all_the_same(broker):
    """A browser does not fetch relative URLs of an address that contains credentials."""
    scheme, _ = tls.trust(broker.admin)
    trusts = tls.server() if scheme == "https" else None
    one = Page("%s://clerk:none@localhost:%d/" % (scheme, broker.admin[1]), trusts=trusts)
    one.until(lambda: one.text("#health") == "sign in to see more", "the page asks")
    one.close()


def dialog(page):
    page.click("#sign-in")
    page.until("document.querySelector('#ask').open", "the page asks who one is")


def fill(page, user: str, password: str):
    page.fill("#ask-fields label:nth-child(1) input", user)
    page.fill("#ask-fields label:nth-child(2) input", password)


def sign_in(page, user: str, password: str):
    dialog(page)
    fill(page, user, password)
    page.click("#ask button[value=in]")
    page.until("!document.querySelector('#ask').open", "the broker knows who it is")
    page.until(lambda: page.text("#sign-in") == "Signed in", "the page says so")


def shot(page, name: str):
    """Takes screenshots for review, in the folder $FOREBAY_SHOTS."""
    if folder := os.environ.get("FOREBAY_SHOTS"):
        page.screenshot(f"{folder}/{name}.png")


def test_a_wrong_password_is_told_and_a_right_one_works(broker, page):
    # What everybody may see.
    assert page.rows("subscriptions") == [] and page.text("#version") == ""
    dialog(page)
    fill(page, "operator", "wrong")
    page.press("Enter")
    page.until(lambda: "The credentials are wrong" in page.text("#ask-words"), "a wrong password is told")
    assert page.text("#sign-in") == "Sign in"
    assert page.value("document.querySelector('#ask-fields input[type=password]').value") == ""
    shot(page, f"wrong-{broker.admin[1] in tls.secured}")
    page.fill("#ask-fields label:nth-child(2) input", "right, Käse")
    page.press("Enter")
    page.until(lambda: page.text("#health") == "healthy", "the broker is shown")
    assert page.text("#sign-in") == "Signed in" and page.text("#version") != ""
    page.until("!document.querySelector('#tail').disabled", "one can tail")
    shot(page, f"signed-in-{broker.admin[1] in tls.secured}")
    # After signing out, nothing stays on the page.
    dialog(page)
    page.click("#ask button[value=out]")
    page.until(lambda: page.text("#health") == "sign in to see more", "one is signed out")
    assert page.text("#sign-in") == "Sign in" and page.rows("subscriptions") == [] and page.text("#version") == ""


def test_leaving_the_dialog_changes_nothing(page):
    for leave in (lambda: page.press("Escape"), lambda: page.click("#ask button[value='']")):
        dialog(page)
        fill(page, "operator", "right, Käse")
        leave()
        page.until("!document.querySelector('#ask').open", "it is left")
        assert page.text("#sign-in") == "Sign in"
    assert page.text("#health") == "sign in to see more"


def test_who_may_only_look_is_told_what_is_refused(broker, page):
    sign_in(page, "watcher", "watching")
    page.until(lambda: page.text("#health") == "healthy", "figures may be seen")
    page.fill("#topic", "orders.eu")
    page.click("#publish button")
    page.until(lambda: "may not publish to 'orders.eu'" in page.text("#published"), "publishing is refused")
    page.fill("#topic", "wages")
    page.click("#tail")
    page.until(lambda: "may not subscribe to 'wages'" in page.text("#messages"), "tailing is refused")
    page.until(lambda: page.text("#tail") == "Tail", "it has ended")
    page.fill("#topic", "orders.eu")
    page.click("#tail")
    page.until(lambda: [row[1:2] for row in page.rows("subscriptions")] == [["orders.eu"]], "its subscription is shown")
    assert "watcher at 127.0.0.1:" in page.rows("subscriptions")[0][2]
    page.click("#subscriptions tbody tr:first-child button")
    page.click("#ask button[value=subscription]")
    page.until(lambda: "may not control" in page.text("#ask-words"), "cutting off is refused")
    shot(page, f"refused-{broker.admin[1] in tls.secured}")
    page.click("#ask button")
    page.until("!document.querySelector('#ask').open", "it is left")
    page.click("#tail")


def test_the_valve_works_under_a_users_permissions(broker, page):
    """Only with the token of a user who may not see figures."""
    sign_in(page, "", "clerk's")
    page.until(lambda: "User 'clerk' may not control $SYS.stats" in page.text("#health"), "what is refused is told")
    page.until("!document.querySelector('#tail').disabled", "one can publish and tail nevertheless")
    page.fill("#topic", "wages")
    page.click("#publish button")
    page.until(lambda: "may not publish to 'wages'" in page.text("#published"), "another's topic is refused")
    topic = f"orders.{broker.admin[1]}"
    page.fill("#topic", topic)
    page.value("document.querySelector('#valve').focus()")
    page.press("Home")
    page.click("#tail")
    page.until(lambda: page.text("#flow") == "0 received, credit 1", "it is subscribed")
    for number in range(1, 5):
        page.fill("#message", f"number {number}")
        page.click("#publish button")
        page.until(lambda: page.text("#published") == f"published as {number}", "it is published")
    page.until(lambda: page.text("#flow") == "1 received, credit 0", "one is delivered")
    page.click("#grant-1")
    page.until(lambda: page.text("#flow") == "2 received, credit 0", "one more is")
    page.value("document.querySelector('#valve').focus()")
    page.press("End")
    page.until(lambda: page.text("#flow").startswith("4 received"), "and with the valve open the rest")
    page.until(lambda: page.text("#messages").split()[-3:] == ["4", "number", "4"], "the last one is shown last")
    shot(page, f"tailing-{broker.admin[1] in tls.secured}")
    # The tail must not continue for another user.
    sign_in(page, "operator", "right, Käse")
    page.until(lambda: page.text("#tail") == "Tail", "it has ended")
    page.until(lambda: page.text("#health") == "healthy" and not slow(page), "the broker is shown")


@pytest.fixture
def changing(begin, tmp_path):
    """A separate broker, its page, and a function that replaces the users in its file."""

    def put(token):
        return access.write(tmp_path, {"users": [
            {"name": "a", "token": access.token_hash(token), "control": [">", "$SYS.>"]}]})

    broker = begin("-c", str(put("a's")), "--tls-except", "admin", "--admin", "127.0.0.1:0")
    page = Page("http://%s:%d/" % broker.admin)
    page.until(lambda: page.text("#health") == "sign in to see more", "who has not signed in is asked to")
    yield broker, page, put
    page.close()


def test_who_is_no_more_is_told_so_and_asks_no_longer(changing):
    broker, page, put = changing
    sign_in(page, "", "a's")
    page.until(lambda: page.text("#health") == "healthy", "the broker is shown")
    put("another")
    broker.process.send_signal(signal.SIGHUP)
    until(lambda: any(json.loads(line)["message"] == "reloaded" for line in list(broker.log)), "it is reloaded")
    page.until(lambda: "The credentials are wrong" in page.text("#health"), "it is told")
    assert page.text("#sign-in") == "Sign in"
    # The page has guessed once, and does not continue without credentials.
    refused = "performance.getEntriesByType('resource').filter((one) => one.responseStatus === 401).length"
    before = page.value(refused)
    page.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.value(refused) == before <= 2
    sign_in(page, "", "another")
    page.until(lambda: page.text("#health") == "healthy", "the broker is shown again")


def test_guessing_is_slowed_and_told(changing):
    page = changing[1]
    dialog(page)
    # The page itself does not guess: each attempt here is one login.
    for _ in range(12):
        fill(page, "", "wrong")
        page.press("Enter")
        page.until("document.querySelector('#ask-fields input[type=password]').value === ''", "it is refused")
        if "Too many logins failed" in page.text("#ask-words"):
            break
    else:
        pytest.fail("guessing is not limited")
