"""Pictures and films of models and runs, as files: .gif by Pillow, .mp4 by ffmpeg, .html by viser."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.atomic_files import as_path, replacing
from catena.errors import ArgumentError, MissingPackageError, TrajectoryFileError
from catena.loops.assembly import assemble
from catena.model import Mechanism
from catena.simulation.trajectory import Trajectory
from catena.view import painter
from catena.view.film_page import page
from catena.view.framing import framing
from catena.view.painter import Arrow
from catena.view.posing import warn_open
from catena.view.scene import MASS, Scene
from catena.view.stage import SHOWN

if TYPE_CHECKING:
    from PIL.Image import Image

#: Pictures beyond which a film is refused.
MOST = 20_000

_FILMS = ("html", "gif", "mp4")
_AXES = ((214, 60, 60), (60, 160, 80), (60, 90, 200))


def frames(run: Trajectory, fps: float, speed: float) -> Trajectory:
    """Return a run at the times of the pictures of a film: `fps` of them for every `speed` seconds of the run, and its end."""
    start, end = float(run.t[0]), float(run.t[-1])
    count = int(np.floor((end - start) * fps / speed * (1.0 + 1e-12))) + 1
    if count > MOST:
        least = (end - start) * fps / MOST
        raise ArgumentError(f"a film of {end - start:g} s at speed {speed:g} has {count:,} pictures; give speed={least:.2g} or more")
    times = np.minimum(start + np.arange(count) * (speed / fps), end)
    return run.at(times if end - times[-1] < 1e-9 * max(abs(end), 1.0) else [*times, end])


def animate(
    run: Trajectory, path: str | os.PathLike[str], *, fps: float = 25.0, speed: float = 1.0, size: tuple[int, int] = (640, 480),
    show: str | Collection[str] = (),
) -> None:  # fmt: skip
    """Write a film of a run: .html, .gif or .mp4."""
    file = as_path(path, TrajectoryFileError)
    ending = file.suffix.lower().lstrip(".")
    if ending not in _FILMS:
        raise TrajectoryFileError(f"{file}: a film is written as .html, .gif or .mp4, not as '.{ending}'; change the ending")
    show = (show,) if isinstance(show, str) else tuple(show)
    _check(fps, speed, size, show)
    if ending == "mp4" and any(extent % 2 for extent in size):
        raise ArgumentError(f"animate: an .mp4 film has even sizes; {size[0]} x {size[1]} is odd, give even ones")
    if ending == "mp4":
        _ffmpeg(file)  # before the pictures are drawn
    chosen = frames(run, fps, speed)
    if ending == "html":
        content = page(chosen, fps, show)
        with replacing(file, TrajectoryFileError) as stream:
            stream.write(content.encode())
    else:
        save_film(file, ending, _pictures(chosen, size, show, fps), size, fps)


def _triads(scene: Scene, places: np.ndarray) -> list[Arrow]:
    """Return the axes of the bodies, and of the frames that the model names, with their names."""
    on = dict(zip((*scene.model.body_names, "ground"), places, strict=True))
    named = [(frame.name, on[frame.body] @ frame.at.matrix(), 0.1) for frame in scene.model.frames]
    found = []
    for name, place, part in (*(("", place, 0.2) for place in places[:-1]), *named):
        origin, ends = place[:3, 3], part * scene.size * place[:3, :3].T
        found += [Arrow(origin, origin + end, _AXES[i], pointed=False, name=name if i == 2 else "") for i, end in enumerate(ends)]
    return found


def draw(
    model: Mechanism, path: str | os.PathLike[str], q: Any = None, t: float = 0.0, size: tuple[int, int] = (640, 480), frames: bool = False
) -> None:
    """Write a picture of a model at q: .png."""
    file = as_path(path, TrajectoryFileError)
    if file.suffix.lower() != ".png":
        raise TrajectoryFileError(f"{file}: a picture of a model is written as .png, not as '{file.suffix}'; change the ending")
    content = png(model, q, t, size, frames)
    with replacing(file, TrajectoryFileError) as stream:
        stream.write(content)


def png(model: Mechanism, q: Any = None, t: float = 0.0, size: tuple[int, int] = (640, 480), frames: bool = False) -> bytes:
    """Return a picture of a model at q, or assembled where q is not given, as the content of a .png file."""
    _check(1.0, 1.0, size, ())
    scene = Scene(model)
    at = assemble(model, t=t) if q is None else model.checked("q", q, model.nq)
    if q is not None:
        warn_open(model, at, t)
    places = scene.places(t, at)
    box, overlay = scene.box(places), _triads(scene, places) if frames else ()
    content = io.BytesIO()
    painter.picture(scene, places, painter.camera(box), painter.floor(box), size, overlay=overlay).save(content, "PNG")
    return content.getvalue()


def strip(run: Trajectory, path: str | os.PathLike[str], size: tuple[int, int] = (320, 320)) -> None:
    """Write a picture of the samples of a run, side by side: .png."""
    from PIL import Image

    file = as_path(path, TrajectoryFileError)
    if file.suffix.lower() != ".png":
        raise TrajectoryFileError(f"{file}: pictures of a run are written as .png, not as '{file.suffix}'; change the ending")
    _check(1.0, 1.0, size, ())
    if len(run) * size[0] > 65_000:
        raise ArgumentError(f"draw: {len(run)} pictures of {size[0]} pixels are too wide for one; ask for fewer times")
    whole = Image.new("RGB", (len(run) * size[0], size[1]))
    for k, picture in enumerate(_pictures(run, size, ())):
        whole.paste(picture, (k * size[0], 0))
    with replacing(file, TrajectoryFileError) as stream:
        whole.save(stream, "PNG")


def _check(fps: float, speed: float, size: tuple[int, int], show: Collection[str]) -> None:
    for name, value in (("fps", fps), ("speed", speed)):
        if not (isinstance(value, (int, float)) and np.isfinite(value) and value > 0.0):
            raise ArgumentError(f"animate: {name} {value!r} is not above 0; give a number such as {25 if name == 'fps' else 1}")
    if not (len(size) == 2 and all(isinstance(extent, int) and 16 <= extent <= 4096 for extent in size)):
        raise ArgumentError(f"size {size!r} is not that of a picture; give (width, height) in pixels, each from 16 to 4096")
    for name in show:
        if name not in SHOWN:
            raise ArgumentError(f"animate: {name!r} cannot be shown; choose from {', '.join(SHOWN)}")


def _pictures(run: Trajectory, size: tuple[int, int], show: Collection[str], fps: float = 0.0) -> Iterator[Image]:
    """Yield the pictures of a run, so many of them a second; those of 0 stand by themselves."""
    scene = Scene(run.model)
    places = scene.places(run.t, run.q)
    framed = framing(scene, places, fps)
    view = painter.camera(framed.box, framed.rises)
    forces = scene.forces(run.t, run.q, run.v, run._input) if "forces" in show else np.zeros((len(run), 0, 2, 3))
    scale, colours = scene.force_scale(forces), scene.force_colours(forces.shape[1])
    for k in range(len(run)):
        overlay = [Arrow(at, at + scale * force, colour) for (at, force), colour in zip(forces[k], colours, strict=True) if force.any()]
        if "centres" in show:
            overlay += [Arrow(point, point, MASS) for point in scene.centres(places[k])]
        if "frames" in show:
            overlay += _triads(scene, places[k])
        text = f"{run.model.name}   {run.t[k]:.2f} s"
        yield painter.picture(scene, places[k], view.moved(framed.shifts[k]), framed.floor, size, text, overlay)


def save_film(path: Path, ending: str, frames: Iterable[Image], size: tuple[int, int], fps: float) -> None:
    """Write pictures as a film: .gif or .mp4."""
    if ending == "gif":
        from PIL import Image

        images, plain = iter(frames), Image.Dither.NONE
        first = next(images)
        own = np.array([painter.BACKGROUND, painter.GROUND, painter.GRID, painter.INK])  # which are the same in all pictures
        found = first.quantize(256 - len(own), method=Image.Quantize.MEDIANCUT, dither=plain).getpalette() or []
        shades = np.array(found, dtype=int).reshape(-1, 3)
        others = shades[np.abs(shades[:, None] - own).max(axis=2).min(axis=1) > 8]
        palette = Image.new("P", (1, 1))
        palette.putpalette(np.concatenate([own, others]).ravel().tolist())
        films = (image.quantize(palette=palette, dither=plain) for image in chain([first], images))
        with replacing(path, TrajectoryFileError) as stream:
            next(films).save(stream, "GIF", save_all=True, append_images=films, duration=round(1000.0 / fps), loop=0, optimize=False)
    else:
        with replacing(path, TrajectoryFileError) as stream:
            stream.write(_encoded(frames, size, fps, path))


def _encoded(frames: Iterable[Image], size: tuple[int, int], fps: float, path: Path) -> bytes:
    """Return pictures as an MP4 film, made by ffmpeg."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "film.mp4")
        raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", f"{fps:g}", "-i", "-"]
        film = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-y", str(file)]
        command = [_ffmpeg(path), "-loglevel", "error", *raw, *film]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None
            try:
                for image in frames:
                    process.stdin.write(image.tobytes())
            except BrokenPipeError:
                pass  # ffmpeg stopped; its message follows
            _, said = process.communicate()
        if process.returncode:
            raise TrajectoryFileError(f"{path}: ffmpeg failed: {said.decode(errors='replace').strip()}; write a .gif or .html file")
        return file.read_bytes()


def _ffmpeg(path: Path) -> str:
    """Return the program that makes MP4 films."""
    program = shutil.which("ffmpeg")
    if program is None and importlib.util.find_spec("imageio_ffmpeg") is not None:
        program = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    if program is None:
        raise MissingPackageError(f"{path}: ffmpeg, which makes .mp4 files, is not installed; install it, or write a .gif or .html file")
    return program
