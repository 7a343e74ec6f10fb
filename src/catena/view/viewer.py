"""The live view: a page in the browser that shows a mechanism, with sliders for its joints, and plays its runs."""

from __future__ import annotations

import sys
import threading
import time
import webbrowser
from functools import partial
from typing import Any

import numpy as np

from catena.errors import ArgumentError, CatenaError, printable
from catena.locks import lock
from catena.loops.assembly import project_velocity
from catena.model import Mechanism
from catena.simulation.simulate import simulate
from catena.simulation.trajectory import Trajectory
from catena.view.animation import frames
from catena.view.framing import framing
from catena.view.painter import rounded
from catena.view.posing import Handle, Posing
from catena.view.scene import Scene
from catena.view.stage import LABELS, SHOWN, Stage, new_server, stop

#: Pictures per second, and the speeds that can be chosen.
RATE = 30.0
SPEEDS = ("0.1×", "0.25×", "0.5×", "1×", "2×", "4×")

#: Seconds after which sliders that rest are fitted to what can be reached from there.
REST = 0.5

#: Seconds that are simulated where the mechanism is released from rest.
SPAN = 5.0


class Viewer:
    """A page at `url` that shows a mechanism. It is served until `stop` is called or the program ends.

    Sliders move the joints: the loops stay closed, and dependent coordinates follow. A run can be played, and the mechanism be released
    from rest where it is.
    """

    def __init__(self, model: Mechanism, q: Any = None, run: Trajectory | None = None, port: int = 8080, host: str = "127.0.0.1") -> None:
        self._lock = lock()
        self.scene = Scene(model)
        self.posing = Posing(model, q if run is None else run.q[0], 0.0 if run is None else float(run.t[0]), self.scene.size)
        self._run: Trajectory | None = None
        self._run_state: tuple[np.ndarray, np.ndarray] | None = None  # velocity and joint forces, where a run is shown
        self._t = self.posing.t
        self._moved_at: float | None = None  # the last time that a slider was moved, until all are fitted to what can be reached
        self._playing = threading.Event()
        self._ended = threading.Event()
        film = None if run is None else frames(run, RATE, 1.0)
        times, positions = ([self._t], self.posing.q[None]) if film is None else (film.t, film.q)
        framed = framing(self.scene, self.scene.places(np.array(times), positions), RATE)
        self._shifts, self._shift = framed.shifts, framed.shifts[0]  # of the camera, over the run and now
        self.server = new_server(host, port, f"catena: {model.name}")
        self.stage = Stage(self.server, self.scene, framed, away=1.3)  # what is shown may move
        self.server.on_client_connect(self._step_back)
        self._add_controls(model)
        if film is not None:
            self._take(film)
        self._show()
        threading.Thread(target=self._play, daemon=True).start()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.server.get_host()}:{self.server.get_port()}"

    @property
    def q(self) -> np.ndarray:
        """The position that is shown."""
        return self.posing.q.copy()

    @property
    def t(self) -> float:
        """The time that is shown [s]."""
        return self._t

    def open(self) -> None:
        """Open the page in the browser."""
        webbrowser.open(self.url)

    def wait(self) -> None:
        """Wait until Ctrl-C ends the page."""
        try:
            while not self._ended.wait(0.5):
                pass
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """End the page."""
        self._ended.set()
        with self._lock:  # nothing is shown any more
            stop(self.server)

    # --- the controls

    def _step_back(self, client: Any) -> None:
        """Move the camera of a narrow page back, so that it has all in view, and down, for the controls are below."""
        view, first = client.camera, self.server.initial_camera
        if view.aspect < 1.0:
            away = (np.array(first.position) - first.look_at) / view.aspect
            middle = np.array(first.look_at) - (0.0, 0.0, 0.5 * float(np.linalg.norm(away)) * np.tan(0.5 * first.fov))
            view.position = middle + away
            view.look_at = middle  # last, for it goes along with the position

    def _add_controls(self, model: Mechanism) -> None:
        gui = self.server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, control_width="large")
        gui.main_panel.dock_right()
        freedom = self.posing.freedom
        gui.add_markdown(f"**{literal(model.name)}**: {freedom} {'degree' if freedom == 1 else 'degrees'} of freedom")
        self.message = gui.add_markdown("")
        with gui.add_folder("Run", visible=False) as self.folder:
            self.play = gui.add_button("Play")
            self.clock = gui.add_slider("time [s]", 0.0, 1.0, 1e-3, 0.0)
            self.speed = gui.add_dropdown("speed", SPEEDS, initial_value="1×")
            self.repeat = gui.add_checkbox("repeat", True)
        self.play.on_click(lambda _: self._pause() if self._playing.is_set() else self._start())
        self.clock.on_update(self._seek)
        self.sliders: dict[str, Any] = {}
        for title, independent in (("Joints", True), ("Dependent joints", False)):
            chosen = [handle for handle in self.posing.handles if handle.independent is independent]
            if chosen:
                with gui.add_folder(title, expand_by_default=independent):
                    for handle in chosen:
                        self._add_slider(handle)
        self.release = gui.add_button(f"Release for {SPAN:g} s", hint="Simulate from rest at this position")
        self.release.on_click(lambda _: self._simulate())
        self.reset = gui.add_button("Back to the start")
        start = (self.posing.q.copy(), self.posing.t, self._shift)
        self.reset.on_click(lambda _: self._place(*start))
        with gui.add_folder("Show"):
            for name in SHOWN:
                box = gui.add_checkbox(LABELS[name], False)
                box.on_update(partial(self._switch, name))

    def _add_slider(self, handle: Handle) -> None:
        label = f"{handle.name} [{handle.unit}]" if handle.unit else handle.name
        low, high, step = _scale(handle)
        slider = self.server.gui.add_slider(label, low, high, step, self._within(handle))
        slider.on_update(partial(self._move, handle.name))
        self.sliders[handle.name] = (handle, slider)

    def _fit_sliders(self) -> None:
        """Give sliders the ranges of what coordinates reach from here; the one that the user holds keeps its own."""
        self._moved_at = None
        for handle in self.posing.reached():
            known, slider = self.sliders.get(handle.name, (handle, None))
            change = max(abs(handle.lower - known.lower), abs(handle.upper - known.upper))
            if slider is not None and change > 0.02 * (known.upper - known.lower):
                slider.min, slider.max, slider.step = _scale(handle)
                slider.value = self._within(handle)
                self.sliders[handle.name] = (handle, slider)

    def _within(self, handle: Handle) -> float:
        low, high, _ = _scale(handle)
        return float(np.clip(self.posing.value(handle.name), low, high))

    def _move(self, name: str, event: Any) -> None:
        if event.client is None:
            return  # set from here, not by the user
        with self._lock:
            self._pause()
            whole = self.posing.move(name, float(event.target.value))
            self.message.content = "" if whole else f"*{literal(name)}* cannot go there: loops would open, or a joint pass its stop"
            self._run_state, self._moved_at = None, time.monotonic()
            self._show(leave=name if whole else None)

    def _switch(self, name: str, event: Any) -> None:
        with self._lock:
            self.stage.set_visible(name, event.target.value)
            self._show()

    # --- what is shown

    def _show(self, leave: str | None = None) -> None:
        """Show the position; all sliders follow but the one that the user moves."""
        rest, forces = np.zeros(self.scene.model.nv), None
        if self.stage.shown["forces"]:
            try:
                forces = self.scene.forces(self._t, self.posing.q, *(self._run_state or (rest, rest)))
            except CatenaError as error:  # of a singular position, for instance; the rest is shown
                self.message.content = literal(f"not all is shown: {error}")
        self.stage.show(self._t, self.posing.q, forces, self._shift)
        if not self._playing.is_set():
            for name, (handle, slider) in self.sliders.items():
                if name != leave:
                    slider.value = self._within(handle)

    def _place(self, q: np.ndarray, t: float, shift: np.ndarray) -> None:
        with self._lock:
            self._pause()
            self._run_state, self._t, self._shift = None, t, shift
            self.posing.place(q, t)
            self._moved_at = time.monotonic()
            self.message.content = ""
            self._show()

    def _simulate(self) -> None:
        with self._lock:
            self._pause()
            self.message.content = "simulating …"
            m, q, t = self.scene.model, self.posing.q, self._t
            try:
                v = project_velocity(m, q, t=self.posing.when) if m.has_loops else None
                run = simulate(m, q, v, start=t, until=t + SPAN, show_progress=False)
            except CatenaError as error:
                run = getattr(error, "trajectory", None)
                self.message.content = literal(str(error))
                if not isinstance(run, Trajectory) or len(run) < 2:
                    return
            else:
                self.message.content = ""
            self._take(frames(run, RATE, 1.0))
            self._start()

    # --- the run

    def _take(self, run: Trajectory) -> None:
        """Take a run to be played."""
        framed = framing(self.scene, self.scene.places(run.t, run.q), RATE)
        self._run, self._shifts = run, framed.shifts - framed.shifts[0] + self._shift  # it begins where it is on the page
        self.stage.set_framing(framed)
        self.clock.min, self.clock.max = float(run.t[0]), max(float(run.t[-1]), float(run.t[0]) + 1e-6)
        self.folder.visible = True
        self._turn(float(run.t[0]))

    def _turn(self, t: float) -> None:
        """Show the run at a time."""
        run = self._run
        if run is None:
            return
        self._t = float(np.clip(t, run.t[0], run.t[-1]))
        k = int(np.abs(run.t - self._t).argmin())
        self._run_state, self._shift = (run.v[k], run._input[k]), self._shifts[k]
        self.posing.place(run.q[k], self._t)
        self._show()

    def _seek(self, event: Any) -> None:
        if event.client is not None:
            with self._lock:
                self._pause()
                self._turn(float(self.clock.value))

    def _start(self) -> None:
        if self._run is not None and self._t >= self._run.t[-1]:
            self._t = float(self._run.t[0])
        self._playing.set()
        self.play.label = "Pause"

    def _pause(self) -> None:
        self._playing.clear()
        self._moved_at = time.monotonic()
        self.play.label = "Play"

    def _play(self) -> None:
        """Play the run while it is wanted, in a thread of its own."""
        last = time.monotonic()
        while not self._ended.is_set():
            if not self._playing.wait(0.2):
                with self._lock:
                    if self._moved_at is not None and time.monotonic() - self._moved_at > REST and not self._playing.is_set():
                        self._fit_sliders()
                last = time.monotonic()
                continue
            now = time.monotonic()
            with self._lock:
                run = self._run
                if run is None or self._ended.is_set():
                    self._playing.clear()
                    continue
                t = self._t + (now - last) * float(self.speed.value.rstrip("×"))
                if t >= run.t[-1]:
                    if self.repeat.value:
                        t = float(run.t[0])
                    else:
                        self._pause()
                self._turn(t)
                self.clock.value = float(np.clip(self._t, self.clock.min, self.clock.max))
            last = now
            time.sleep(max(0.0, 1.0 / RATE - (time.monotonic() - now)))


def literal(text: str) -> str:
    """Return text as Markdown that shows it as it stands: no formats, no elements of HTML, no code, one line.

    >>> literal("<b>{x}")
    '&#60;b&#62;&#123;x&#125;'
    """
    return "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in " ".join(text.split()))


def _scale(handle: Handle) -> tuple[float, float, float]:
    """Return the ends of a slider and its step: a power of ten times 1, 2 or 5, of which the ends are multiples."""
    step = rounded((handle.upper - handle.lower) / 500.0)
    low, high = np.ceil(handle.lower / step - 1e-9) * step, np.floor(handle.upper / step + 1e-9) * step
    return float(low), float(high), step


def view(shown: Mechanism | Trajectory, q: Any = None, port: int = 8080, browser: bool = True, wait: bool | None = None) -> Viewer:
    """Return a page in the browser that shows a model or a run; outside of interactive sessions, wait until it is ended by Ctrl-C."""
    if not isinstance(port, int) or not 0 <= port < 65536:
        raise ArgumentError(f"view: port {port!r} is not a port; give a number from 0 to 65535")
    viewer = Viewer(shown.model, run=shown, port=port) if isinstance(shown, Trajectory) else Viewer(shown, q, port=port)
    print(f"{printable(viewer.scene.model.name)} is shown at {viewer.url}", flush=True)
    if browser:
        viewer.open()
    if wait if wait is not None else not hasattr(sys, "ps1"):
        viewer.wait()
    return viewer
