"""A headless Chromium (Debian package chromium), driven by the DevTools protocol over a pair of pipes.

    with Browser(folder) as browser:
        page = browser.page(width=320, dark=True, scripts=False)
        page.open("http://127.0.0.1:8082/")
        assert page.evaluate("document.title") == "..."      # works although scripts are off
        page.press("Tab")
        page.screenshot(folder / "page.png")

Page.requests are the addresses that it asked for, Page.complaints what the browser found wrong: refused by the
content security policy, not found, an exception.
"""

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

LIMIT = 300
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "Escape": (27, "")}


class Browser:
    def __init__(self, folder: Path):
        self.folder = Path(folder) / "chromium"
        self.folder.mkdir(exist_ok=True)
        self._numbers = itertools.count(1)
        self._pages: dict = {}
        self._rest = b""

    def __enter__(self) -> "Browser":
        program = shutil.which("chromium")
        if not program:
            raise RuntimeError("there is no chromium: run scripts/setup")
        (theirs_in, self._out), (self._in, theirs_out) = (self._pipe(), self._pipe())
        # The browser reads from descriptor 3 and writes to 4; they die with us, as all that it started.
        words = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", program, "--headless=new",
                 "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "--no-first-run", "--disable-gpu",
                 "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
                 # there is no user namespace for it in a container, and root may not use the other kind
                 "--no-sandbox", "about:blank"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', *words], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, pass_fds=(theirs_in, theirs_out), start_new_session=True,
                env={**os.environ, "HOME": str(self.folder), "LANG": "C.UTF-8"})
        os.close(theirs_in)
        os.close(theirs_out)
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            os.killpg(self._process.pid, signal.SIGKILL)  # its own session: it and what it started
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    @staticmethod
    def _pipe() -> tuple:
        """Two descriptors out of the way of 3 and 4."""
        low = os.pipe()
        high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
        for end in low:
            os.close(end)
        return high

    def page(self, width: int = 1200, height: int = 900, dark: bool = False, scripts: bool = True) -> "Page":
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Network", "Log", "Runtime"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        page.call("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        page.call("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        return page

    def call(self, method: str, parameters: dict | None = None, session: str = "") -> dict:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            answer = self.receive(end)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
        raise TimeoutError(f"{method} was not answered within {LIMIT} s")

    def receive(self, end: float) -> dict:
        """The next message; events go to their page."""
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser has ended: " + (self.folder / "log").read_text()[-2000:])
            self._rest += piece
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        page = self._pages.get(message.get("sessionId"))
        if page and "method" in message:
            page.hear(message["method"], message["params"])
        return message


class Page:
    def __init__(self, browser: Browser, session: str):
        self._browser, self._session = browser, session
        self.requests: list = []
        self.complaints: list = []
        self._loaded = 0

    def call(self, method: str, parameters: dict | None = None) -> dict:
        return self._browser.call(method, parameters, self._session)

    def hear(self, event: str, parameters: dict):
        if event == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"]["text"])
        elif event == "Page.loadEventFired":
            self._loaded += 1

    def open(self, address: str):
        before = self._loaded
        failed = self.call("Page.navigate", {"url": address}).get("errorText")
        if failed:
            raise RuntimeError(f"{address}: {failed}")
        self.wait_load(before)

    def wait_load(self, before: int, seconds: float = LIMIT):
        end = time.monotonic() + seconds
        while self._loaded == before:
            self._browser.receive(end)

    @property
    def loads(self) -> int:
        return self._loaded

    def evaluate(self, expression: str):
        result = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self) -> str:
        return self.evaluate("document.body.innerText")

    def press(self, key: str):
        code, text = KEYS[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", {
                "type": kind, "key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code,
                **({"text": text} if text and kind == "keyDown" else {})})

    def screenshot(self, file: Path, whole: bool = True):
        shot = self.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole, **(
            {"clip": {**self.size(), "x": 0, "y": 0, "scale": 1}} if whole else {})})
        Path(file).write_bytes(base64.b64decode(shot["data"]))

    def size(self) -> dict:
        return self.evaluate("({width: document.documentElement.scrollWidth, "
                             "height: document.documentElement.scrollHeight})")
