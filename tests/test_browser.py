"""Pages in a real browser, headless Chromium: they load without errors, show the mechanism, and follow the hand."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import viser
from PIL import Image
from tests import chromium
from tests.chromium import problems, until

import catena as ct
from catena.examples import EXAMPLES
from catena.view.viewer import Viewer, literal

pytestmark = [pytest.mark.browser, chromium.needed]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium.started(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture
def viewer(browser: Any) -> Iterator[Callable[..., Viewer]]:
    started: list[Viewer] = []

    def start(*given: Any, **named: Any) -> Viewer:
        started.append(Viewer(*given, **named, port=0))
        return started[-1]

    yield start
    browser.get("about:blank")  # so that no page misses its server
    browser.get_log("browser")
    for one in started:
        one.stop()


def canvas(browser: Any) -> np.ndarray:
    """The picture on the canvas, (height, width, 3)."""
    from selenium.webdriver.common.by import By

    found = until(lambda: browser.find_elements(By.TAG_NAME, "canvas"), "a canvas")
    with Image.open(io.BytesIO(until(lambda: found[0].screenshot_as_png, "a picture of it"))) as image:
        return np.asarray(image.convert("RGB"), dtype=int)


def coloured(picture: np.ndarray) -> int:
    """Pixels of bodies: strong colours, which neither the floor nor the controls' text has, in the left half, where no controls are."""
    left = picture[:, : picture.shape[1] // 2]
    return int(np.count_nonzero(np.ptp(left, axis=2) > 60))


def slider(browser: Any, label: str) -> Any:
    """The handle of the slider with a label."""
    from selenium.webdriver.common.by import By

    path = f"//label[contains(., '{label}')]/following::*[@role='slider'][1]"
    return until(lambda: [e for e in browser.find_elements(By.XPATH, path) if e.is_displayed()], f"the slider {label}")[0]


def test_a_film_plays_offline(browser: Any, tmp_path: Path) -> None:
    m = EXAMPLES["four-bar"]()
    ct.simulate(m, m.assemble(crank=1.0), until=2.0).animate(tmp_path / "film.html", show=("forces",))
    browser.get((tmp_path / "film.html").as_uri())
    until(lambda: coloured(canvas(browser)) > 100, "the mechanism")
    first = canvas(browser)
    until(lambda: np.abs(canvas(browser) - first).max() > 60, "motion")
    assert browser.title == "four-bar"
    assert problems(browser) == []


def dropped(height: float) -> ct.Model:
    """A ball that falls onto the ground from a height, with a frame."""
    m = ct.Model("ball")
    m.add("ball", ct.sphere(0.2, mass=1.0), ct.Free(), at=(0, 0, height))
    m.add_contact("floor", "ball")
    m.add_frame("north", "ball", at=(0, 0, 0.2))
    return m


def test_switches_of_a_film_hold_when_it_begins_again_and_the_fall_is_followed(browser: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    m = dropped(3.0)
    ct.simulate(m, m.neutral(), until=1.0, step=5e-3).animate(tmp_path / "film.html", show="centres")
    browser.get((tmp_path / "film.html").as_uri())
    shown = """if (!window.__viserSceneTree) return {};
        return Object.fromEntries(Object.entries(__viserSceneTree.getState()).map(([name, node]) => [name, node.effectiveVisibility]))"""
    nodes = {"frames": "/bodies/ball/frame north/name", "centres of mass": "/bodies/ball/centre of mass", "forces": "/forces"}

    def chosen(**wanted: bool) -> bool:
        """Whether the page shows what is wanted; where the film begins, all is hidden for an instant."""
        now = browser.execute_script(shown)
        return now.get("/ground/floor") is True and all(now.get(nodes[name]) is on for name, on in wanted.items())

    until(lambda: chosen(**{"frames": False, "centres of mass": True, "forces": False}), "the film as it was asked for")
    buttons = {button.text: button for button in browser.find_elements(By.CSS_SELECTOR, "#shown button")}
    assert list(buttons) == list(nodes)
    for button in buttons.values():
        browser.execute_script("arguments[0].click()", button)
    wanted = {"frames": True, "centres of mass": False, "forces": True}
    assert {name: button.get_attribute("aria-pressed") == "true" for name, button in buttons.items()} == wanted
    until(lambda: chosen(**wanted), "what was chosen")
    falls = "return __viserMutable.nodePoseData['/ground'].position[2]"  # the ball stays, the ground comes
    until(lambda: browser.execute_script(falls) > -1.0, "the ground, near")
    until(lambda: browser.execute_script(falls) < -2.0, "the film to begin again")
    until(lambda: chosen(**wanted), "what was chosen, again")
    assert problems(browser) == []


def test_dragging_a_slider_moves_the_mechanism_and_keeps_its_loops_closed(browser: Any, viewer: Callable[..., Viewer]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    m = EXAMPLES["four-bar"]()
    page = viewer(m, m.assemble(crank=1.0))
    browser.get(page.url)
    until(lambda: coloured(canvas(browser)) > 100, "the mechanism")
    before, q = canvas(browser), page.q
    ActionChains(browser).click_and_hold(slider(browser, "crank")).move_by_offset(25, 0).release().perform()
    until(lambda: page.q[0] > q[0] + 0.2, "the crank")
    until(lambda: np.abs(canvas(browser) - before).max() > 60, "another picture")
    assert np.abs(page.q[1:] - q[1:]).max() > 0.02, "the other joints follow"
    assert ct.loop_error(m)(page.q).max() < 1e-10
    assert problems(browser) == []


def test_a_run_is_played_and_paused_and_the_mechanism_released(browser: Any, viewer: Callable[..., Viewer]) -> None:
    from selenium.webdriver.common.by import By

    m = EXAMPLES["double-pendulum"]()
    page = viewer(m, run=ct.simulate(m, m.neutral(), until=3.0))
    browser.get(page.url)

    def click(text: str) -> None:
        path = f"//button[contains(., '{text}')]"
        button = until(lambda: browser.find_elements(By.XPATH, path), f"the button {text}")[0]
        browser.execute_script("arguments[0].click()", button)  # it may be outside of the small window

    click("Play")
    until(lambda: page.t > 0.2, "the run")
    np.testing.assert_allclose(page.q, page._run.q[np.abs(page._run.t - page.t).argmin()], atol=0.5)
    click("Pause")
    time.sleep(0.3)
    stopped = page.t
    time.sleep(0.5)
    assert page.t == stopped
    click("Back to the start")
    until(lambda: np.array_equal(page.q, m.neutral()), "the start")
    click("Release")
    until(lambda: page.t > 0.1 and np.abs(page.q).max() > 0.01, "the fall")
    assert problems(browser) == []


def test_what_is_asked_for_is_shown(browser: Any, viewer: Callable[..., Viewer]) -> None:
    from selenium.webdriver.common.by import By

    page = viewer(EXAMPLES["arm"](), np.full(7, 0.3))
    browser.get(page.url)
    for name in ("frames", "centres of mass", "forces"):
        path, key = f"//label[contains(., '{name}')]/following::input[@type='checkbox'][1]", name.split()[0]
        box = until(lambda path=path: browser.find_elements(By.XPATH, path), name)[0]
        assert not any(node.visible for node in page.stage.extras[key])
        browser.execute_script("arguments[0].click()", box)
        until(lambda key=key: page.stage.extras[key] and all(node.visible for node in page.stage.extras[key]), name)
    until(lambda: page.stage.scale > 0.0, "arrows")
    red = np.array([1, -1, -1])
    until(lambda: np.count_nonzero((canvas(browser) @ red > 0) & (canvas(browser)[..., 0] > 100)) > 20, "red arrows")
    assert problems(browser) == []


MARKUP = (
    "<script>stolen=1</script><img src=x onerror='stolen=1'><iframe srcdoc='<script>parent.stolen=1</script>'></iframe>"
    "{window.stolen=1}**b** [l](javascript:stolen=1)"
)


def test_names_are_shown_as_they_stand(browser: Any, viewer: Callable[..., Viewer]) -> None:
    m = ct.Model(MARKUP)
    m.add(f"body {MARKUP}", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    m.add_frame(f"frame {MARKUP}", f"body {MARKUP}")
    page = viewer(m)
    page._switch("frames", SimpleNamespace(target=SimpleNamespace(value=True)))
    browser.get(page.url)
    text = "return document.body.innerText"
    until(lambda: MARKUP in browser.execute_script(text), "the name of the model")
    with page._lock:
        page.message.content = literal(f"an error of {MARKUP}")
    until(lambda: f"an error of {MARKUP}" in browser.execute_script(text), "the message")
    time.sleep(1.0)  # for what would run
    assert browser.execute_script("return window.stolen ?? null") is None
    assert browser.execute_script("return document.querySelectorAll('iframe, img[src=x]').length") == 0
    assert problems(browser) == []


def test_another_page_cannot_open_the_view(browser: Any, viewer: Callable[..., Viewer], tmp_path: Path) -> None:
    page = viewer(EXAMPLES["pendulum"]())
    (tmp_path / "index.html").write_text("<title>another</title>")
    with serving(tmp_path) as port:
        ask = """const done = arguments[arguments.length - 1], socket = new WebSocket(arguments[0], arguments[1]);
            socket.onmessage = () => done("read"); socket.onerror = () => done("refused"); socket.onclose = () => done("refused");"""
        served, opened = f"http://127.0.0.1:{port}", (tmp_path / "index.html").as_uri()
        for address, answer in ((page.url, "read"), (served, "refused"), (opened, "refused")):
            browser.get(address)
            url = page.url.replace("http", "ws")
            assert browser.execute_async_script(ask, url, f"viser-v{viser.__version__}") == answer
    browser.get_log("browser")  # the refusals


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve a folder, and yield the port."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
