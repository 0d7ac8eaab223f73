"""A headless Chromium, controlled over two pipes by the DevTools protocol; needs no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE = 20.0


class Browser:
    """A browser, to be used as a context manager."""

    def __init__(self, profile: Path) -> None:
        to_child, self._out = os.pipe()
        self._in, from_child = os.pipe()
        import fcntl  # which Windows lacks

        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_child, from_child)]
        # the browser reads from descriptor 3 and writes to 4
        arrange = (
            f"import os, sys; os.dup2({ends[0]}, 3); os.dup2({ends[1]}, 4);"
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        self._process = subprocess.Popen(
            [
                sys.executable, "-I", "-S", "-c", arrange,
                CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=ends,
        )  # fmt: skip
        for end in (to_child, from_child, *ends):
            os.close(end)
        self._buffer, self._number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self._process.wait(_PATIENCE)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method, session=None, **params):
        """Send one command and wait for its answer; events that arrive before it are stored."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event, session):
        """Wait until an event has arrived."""
        while not any(
            e.get("method") == event and e.get("sessionId") == session for e in self.events
        ):
            self.events.append(self._receive())

    def _receive(self):
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("the browser does not answer")
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, *, width=1200, height=900, dark=False, phone=False):
        """A new page that shows a file."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=phone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait_for("Page.loadEventFired", session)
        return page


class Page:
    """An open page."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session

    def call(self, method, **params):
        return self._browser.call(method, self._session, **params)

    def run(self, script):
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def point_at(self, selector):
        """Scroll an element into view and move the mouse to its centre."""
        x, y = self.run(
            f"(async () => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "for (const _ of [1, 2]) await new Promise(requestAnimationFrame);"
            "const r = e.getBoundingClientRect();"
            "return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector):
        x, y = self.point_at(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, text=""):
        code = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "Escape": 27}[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path, *, whole=True):
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(answer["data"]))

    def events(self, method):
        """The events of one kind so far."""
        self.run("0")  # after its answer, all events sent before it have arrived
        return [
            event["params"]
            for event in self._browser.events
            if event.get("method") == method and event.get("sessionId") == self._session
        ]

    def complaints(self):
        """Errors and warnings from the console, from scripts and from the security policy."""
        said = [
            e["args"] for e in self.events("Runtime.consoleAPICalled")
            if e["type"] in ("error", "warning", "assert")
        ]  # fmt: skip
        thrown = [e["exceptionDetails"]["text"] for e in self.events("Runtime.exceptionThrown")]
        logged = [e["entry"]["text"] for e in self.events("Log.entryAdded")]
        return said + thrown + logged

    def requests(self):
        """Addresses that were requested, except those that are part of the page."""
        asked = [e["request"]["url"] for e in self.events("Network.requestWillBeSent")]
        return [address for address in asked if not address.startswith("data:")]
