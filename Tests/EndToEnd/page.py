"""A headless Chromium whose keyboard and mouse the test controls, over a pair of pipes with the DevTools protocol.
Tests query a page for what a user sees, or what a screen reader announces.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time

from common import DEADLINE

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "Home": 36, "End": 35, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
        "ArrowDown": 40, " ": 32}


class Gone(Exception):
    """The page is being replaced by another page."""


def high(descriptor: int) -> int:
    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64)
    os.close(descriptor)
    return copy


class Page:
    def __init__(self, url: str, width=1440, height=1100, dark=False, trusts=None):
        """With `trusts`, that one certificate is trusted, whatever its issuer."""
        self._directory = tempfile.mkdtemp(prefix="forebay-page-")
        program = shutil.which("chromium")
        assert program, "There is no chromium: run `make deps`, or install Debian's package of that name."
        theirs, self._out = os.pipe()
        self._in, ours = os.pipe()
        # The browser reads commands from descriptor 3 and replies on 4: ours are moved out of the way.
        theirs, ours = high(theirs), high(ours)
        shell = f'exec "$0" "$@" 3<&{theirs} 4>&{ours} {theirs}<&- {ours}>&-'
        command = ["bash", "-c", shell, program, "--headless=new",
                   "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-background-networking", "--disable-component-update",
                   "--disable-default-apps", "--mute-audio", "--hide-scrollbars", "--no-proxy-server",
                   f"--user-data-dir={self._directory}", f"--window-size={width},{height}", "about:blank"]
        if trusts:
            command.insert(-1, f"--ignore-certificate-errors-spki-list={trusts.fingerprint()}")
        self._process = subprocess.Popen(command, pass_fds=(theirs, ours), stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs)
        os.close(ours)
        self._rest, self._number, self._session, self.complaints = b"", 0, None, []
        targets = self._call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Runtime.enable")
        self._call("Log.enable")
        self._call("Page.enable")
        self.resize(width, height)
        self.scheme("dark" if dark else "light")
        self._call("Page.navigate", url=url)

    # What is on the page

    def value(self, expression: str):
        """Evaluates JavaScript."""
        while True:
            try:
                result = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
                break
            except Gone:  # The result is gone together with the page that was loaded until now.
                pass
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def before_scripts(self, source: str):
        """Adds a script that runs before the page's own, from the next load on."""
        self._call("Page.addScriptToEvaluateOnNewDocument", source=source)

    def reload(self):
        self._call("Page.reload")

    def text(self, selector: str) -> str:
        """The text shown; "" if there is none."""
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def rows(self, table: str) -> list[list[str]]:
        """The texts of a table's cells."""
        return self.value(f"[...document.querySelectorAll('#{table} tbody tr')]"
                          ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))")

    def until(self, condition, what: str, timeout=DEADLINE):
        """Waits until `condition`, an expression or a function, is true of the page. Returns its value."""
        end = time.monotonic() + timeout
        while True:
            value = condition() if callable(condition) else self.value(condition)
            if value:
                return value
            assert time.monotonic() < end, f"{what}; the page shows:\n{self.text('body')[:4000]}\n{self.complaints}"
            time.sleep(0.05)

    def focused(self) -> str:
        """The id of the focused element, or else its text."""
        return self.value("document.activeElement.id || document.activeElement.innerText")

    def screenshot(self, path: str):
        image = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=False)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))

    # User input

    def resize(self, width: int, height: int):
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                   mobile=False)

    def scheme(self, name: str):
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def click(self, selector: str):
        """Clicks with the mouse, again if the page has moved the element away meanwhile."""
        one = f"document.querySelector({json.dumps(selector)})"

        def attempt() -> bool:
            box = self.until(
                f"(() => {{ const e = {one}; if (!e || e.disabled) return null;"
                "e.scrollIntoView({ block: 'center', behavior: 'instant' }); const r = e.getBoundingClientRect();"
                "window.isMissed = true; e.addEventListener('click', () => { window.isMissed = false },"
                "{ capture: true, once: true });"
                "return r.width && [r.x + r.width / 2, r.y + r.height / 2] })()",
                f"{selector} is not there to be clicked")
            for kind in ("mousePressed", "mouseReleased"):
                self._call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
            # On a page that the click has loaded, there is no such variable.
            return not self.value("window.isMissed")

        self.until(attempt, f"{selector} cannot be clicked")

    def press(self, key: str, shift=False):
        code = KEYS.get(key)
        extra = {"windowsVirtualKeyCode": code} if code else {}
        # The text that a key types, if any.
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=key, text=text,
                   modifiers=8 if shift else 0, **extra)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=8 if shift else 0, **extra)

    def type(self, text: str):
        for one in text:
            self.press(one)

    def fill(self, selector: str, text: str):
        """Clicks into a field and replaces its content."""
        self.click(selector)
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        self._call("Input.insertText", text=text)

    # The pipes

    def _call(self, method: str, **parameters):
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._number:
                error = message.get("error")
                if error and "navigated or closed" in error["message"]:
                    raise Gone
                assert not error, f"{method}: {error}"
                return message["result"]
            self._note(message)

    def _next(self) -> dict:
        while b"\0" not in self._rest:
            data = os.read(self._in, 1 << 20)
            assert data, "the browser is gone"
            self._rest += data
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message: dict):
        """Notes what the page reported only to the console."""
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))

    def close(self):
        try:
            self._call("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self._directory, ignore_errors=True)
