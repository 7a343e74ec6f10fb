"""A real browser for tests: headless Chromium without a network.

It needs chromium and chromedriver. Tests with the mark `needed` are skipped without them, unless CATENA_BROWSER is set, as the project's
checks do.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

#: Seconds within which something must happen; software rendering on a busy machine is slow.
PATIENCE = 60.0

needed = pytest.mark.skipif(
    not os.environ.get("CATENA_BROWSER") and not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="chromium and chromedriver are not installed",
)


@contextmanager
def started(folder: Path) -> Iterator[Any]:
    """Chromium, with its files in a folder; every host name but this machine's is unknown."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    flags = ["headless", "no-sandbox", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update"]
    flags += ["disable-sync", "use-angle=swiftshader", "enable-unsafe-swiftshader", "window-size=700,480"]
    flags += [f"user-data-dir={folder}", "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    for flag in flags:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    yield driver
    driver.quit()


def until(true: Callable[[], Any], what: str) -> Any:
    """Return what a function returns once it is true; a page that draws may keep the browser waiting."""
    from selenium.common.exceptions import TimeoutException

    end, found = time.monotonic() + PATIENCE, None
    while not found:
        assert time.monotonic() < end, f"waited in vain for {what}"
        with suppress(TimeoutException):
            found = true()
        time.sleep(0.0 if found else 0.1)
    return found


def problems(browser: Any) -> list[str]:
    """Return the errors on the console since the last call."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
