"""Films: pictures one after the other, as .gif by Pillow or as .mp4 by ffmpeg."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from catena.atomic_files import replacing
from catena.errors import MissingPackageError, TrajectoryFileError

if TYPE_CHECKING:
    from PIL.Image import Image


def save_film(path: Path, ending: str, frames: Iterable[Image], size: tuple[int, int], fps: float) -> None:
    if ending == "gif":
        from PIL import Image

        images, plain = iter(frames), Image.Dither.NONE
        first = next(images)
        palette = first.quantize(128, method=Image.Quantize.FASTOCTREE, dither=plain)
        with replacing(path, TrajectoryFileError) as stream:
            rest = (image.quantize(palette=palette, dither=plain) for image in images)
            palette.save(stream, "GIF", save_all=True, append_images=rest, duration=round(1000.0 / fps), loop=0, optimize=False)
    else:
        with replacing(path, TrajectoryFileError) as stream:
            stream.write(_encoded(frames, size, fps, path))


def _encoded(frames: Iterable[Image], size: tuple[int, int], fps: float, path: Path) -> bytes:
    """Return pictures as an MP4 film, made by ffmpeg."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "film.mp4")
        raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", f"{fps:g}", "-i", "-"]
        film = ["-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-y", str(file)]
        command = [ffmpeg(path), "-loglevel", "error", *raw, *film]
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


def ffmpeg(path: Path) -> str:
    """Return the program that makes MP4 films."""
    program = shutil.which("ffmpeg")
    if program is None and importlib.util.find_spec("imageio_ffmpeg") is not None:
        program = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    if program is None:
        raise MissingPackageError(f"{path}: ffmpeg, which makes .mp4 files, is not installed; install it, or write a .gif or .html file")
    return program
