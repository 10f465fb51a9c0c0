"""A headless Chromium driven over the DevTools pipe (file descriptors 3 and 4): no package, no port."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One tab. ``run`` evaluates JavaScript in it and returns the value."""

    def __init__(self, url: str, width: int = 1100, height: int = 900) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        read_mine, write_its = os.pipe()
        read_its, write_mine = os.pipe()

        def wire() -> None:
            a, b = os.dup(read_its), os.dup(write_its)  # out of the way of 3 and 4
            os.dup2(a, 3)
            os.dup2(b, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        flags += [f"--user-data-dir={self._profile.name}", f"--window-size={width},{height}", "--remote-debugging-pipe"]
        assert CHROMIUM is not None
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            [CHROMIUM, *flags], preexec_fn=wire, close_fds=False, stdin=quiet, stdout=quiet, stderr=quiet
        )
        os.close(read_its)
        os.close(write_its)
        self._in, self._out = os.fdopen(read_mine, "rb", 0), os.fdopen(write_mine, "wb", 0)
        self._numbers, self._left, self._session = itertools.count(1), b"", ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._left:
                part = self._in.read(1 << 16)
                if not part:
                    raise RuntimeError("Chromium has gone away")
                self._left += part
            text, _, self._left = self._left.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def run(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.run(f"!!({script})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{script} did not come true; the page says: {self.run('document.body.innerText')}")
            time.sleep(0.05)

    def drop(self, selector: str, name: str, kind: str, data: bytes) -> None:
        """Drop a file on an element, as a hand would: dragover, then drop, with the file in the transfer."""
        content = base64.b64encode(data).decode()
        self.run(
            f"""(() => {{
              const bytes = Uint8Array.from(atob("{content}"), c => c.charCodeAt(0));
              const transfer = new DataTransfer();
              transfer.items.add(new File([bytes], "{name}", {{type: "{kind}"}}));
              const zone = document.querySelector("{selector}");
              for (const what of ["dragenter", "dragover", "drop"])
                zone.dispatchEvent(new DragEvent(what, {{dataTransfer: transfer, bubbles: true, cancelable: true}}));
            }})()"""
        )

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._in.close()
        self._out.close()
        self._profile.cleanup()
