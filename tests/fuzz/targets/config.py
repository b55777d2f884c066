"""Settings: every text is a tree of settings that comes back when it is written, or gets one
line for each thing that is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from fuzz.judging import scratch
from lycosa.base.config.fields import Kind, fields, value_of
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import PREFIX, Settings, SettingsError, from_dict, load_settings
from lycosa.base.config.sources import check_config as check_tree
from lycosa.base.config.units import read_bytes, read_seconds, show_bytes, show_seconds

_FILE = scratch() / "crawl.toml"
_DEFAULT = Config()
_MAX = 400  # characters of a line that the parser of settings may make of a short text

WORDS = (
    *(f"{key}=" for key in list(fields())[::4]),
    *(
        "[politeness]\n",
        "[fetch]\n",
        "[scope]\n",
        "[[x]]\n",
        '"""',
        "'''",
        "true",
        "1e999",
        "inf",
        "nan",
        "-1",
        "0x10",
        "1_000",
        "2h30m",
    ),
    *(
        "10GB",
        "512KiB",
        "auto",
        "['a', 'b']",
        "1979-05-27T07:32:00Z",
        "\\u0000",
        "# ",
        " = ",
        "LYCOSA_FETCH__SLOTS=2\n",
    ),
)


def check(data: bytes) -> None:
    """A file; each line as ``--set``; each line as a variable of the environment; each as a
    duration and as a size.
    """
    _FILE.write_bytes(data)
    text = data.decode("utf-8", "replace")
    lines = text.splitlines()[:50]
    pairs = [line.partition("=") for line in lines]
    from_file = _judged(lambda: load_settings(_FILE, {}), len(text))
    _judged(lambda: load_settings(None, {}, lines), len(text))
    _judged(
        lambda: load_settings(
            None,
            {
                f"{PREFIX}{name.strip().upper().replace('.', '__')}": value
                for name, _, value in pairs
            },
        ),
        len(text),
    )
    if from_file is not None:
        _comes_back(from_file)
    for line in lines:
        _units(line.partition("=")[2] or line)


def _judged(loads, length: int) -> Settings | None:
    try:
        settings = loads()
    except SettingsError as error:
        assert error.problems and all(
            line and "\n" not in line and len(line) < _MAX + 8 * length for line in error.problems
        )
        return None
    check_tree(settings.config)
    assert settings.origins.keys() <= fields().keys()
    for key, field in fields().items():
        value = value_of(settings.config, key)
        if key not in settings.origins:
            assert value == value_of(_DEFAULT, key), f"{key} changed and nobody said so"
        # what is shown of a list is for people: an entry may have a comma
        elif field.kind is not Kind.LIST:
            assert field.read(field.show(value)) == value, (
                f"{key}: {value!r} is written as {field.show(value)!r}"
            )
    return settings


def _comes_back(settings: Settings) -> None:
    saved = json.loads(msgspec.json.encode(settings.config))
    assert from_dict(saved) == settings.config
    assert load_settings(None, {}, base=settings.config).config == settings.config


def _units(text: str) -> None:
    for read, show in ((read_seconds, show_seconds), (read_bytes, show_bytes)):
        try:
            value = read(text)
        except ValueError as error:
            assert "\n" not in str(error)
            continue
        assert value < 0 or read(show(value)) == value, (
            f"{text!r} is {value!r}, which is written as {show(value)!r}"
        )


def samples() -> Iterator[bytes]:
    yield (
        b"[politeness]\ndelay_s = 2\njitter = 0.2 # more\n[fetch]\ntotal_s = '1m30s'\nslots = 20\n"
    )
    yield (
        b'workers = "auto"\nmemory_bytes = "4GB"\n[scope]\ninclude = ["/a/", "b{1,3}"]\nrule ='
        b' "site"\n'
    )
    yield b"politeness.delay_s=2s\nfetch.slots=3\nscope.exclude=a,b\nlimits.max_pages=20\ncookies=maybe\n"
    yield (
        b"[limits]\nmax_time_s = 1979-05-27\n[nothing]\n'quoted.key' = [1, 2]\n[fetch]\nslots ="
        b" 1.5\n"
    )
    yield b"x = '''\nmany\nlines\n'''\n[frontier]\npartitions = 0\nbands = -1\n"
    yield "\n".join(
        f"{key}={field.show(field.default)}" for key, field in fields().items()
    ).encode()
    for key, field in fields().items():
        section, dot, name = key.rpartition(".")
        shown = json.dumps(field.show(field.default))
        yield (f"[{section}]\n{name} = {shown}\n" if dot else f"{key} = {shown}\n").encode()
