"""A Python that has the program with its core dependencies, and nothing else: as after ``pip install``
without any extra.

It is a virtual environment of links to what the present one has, so it costs nothing to make, and
every process that it starts has the same packages.
"""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lycosa

_SOURCE = Path(lycosa.__file__).parents[1]


def core_distributions() -> dict[str, Distribution]:
    """What the program needs without any extra, itself too, by canonical name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement("lycosa")]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        extras = needed.extras or {""}
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # its marker is for another system
        for text in found[name].requires or ():
            each = Requirement(text)
            if each.marker is None or any(each.marker.evaluate({"extra": x}) for x in extras):
                waiting.append(each)
    return found


def make_plain_python(folder: Path) -> Path:
    """The interpreter of a new virtual environment in the folder."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages, program = folder / "lib" / version / "site-packages", folder / "bin" / "python"
    packages.mkdir(parents=True)
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).resolve())
    home = Path(sys.executable).resolve().parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    for each in core_distributions().values():
        for name in {Path(str(file)).parts[0] for file in each.files or ()} - {"..", "__pycache__"}:
            if name.endswith(".pth"):
                continue  # that of the checkout names its source, see below
            place = Path(str(each.locate_file(name)))
            if not (packages / name).exists():
                (packages / name).symlink_to(place, target_is_directory=place.is_dir())
    (packages / "source.pth").write_text(f"{_SOURCE}\n")
    return program
