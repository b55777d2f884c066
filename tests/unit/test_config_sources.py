"""Settings from all sources: precedence, origins, units, and what is said about everything that
is wrong.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lycosa.base.config.fields import Kind, fields, sections, value_of
from lycosa.base.config.sections import (
    Config,
    FetchSection,
    LimitSection,
    RefetchRule,
    ScopeRule,
    ScopeSection,
    UploadSection,
)
from lycosa.base.config.sources import (
    SETTING_OPTIONS,
    SettingsError,
    check_config,
    from_dict,
    load_settings,
    nearest,
    settings,
)
from lycosa.base.config.units import read_bytes, read_seconds, show_bytes, show_seconds
from lycosa.stages.fetch.dns import parse_pins
from lycosa.stages.fetch.guard import Guard
from lycosa.stages.fetch.headers import build_user_agent

ROOT = Path(__file__).parents[2]


def toml(folder: Path, text: str) -> Path:
    path = folder / "crawl.toml"
    path.write_text(text)
    return path


def problems(*args: object, **kwargs: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(*args, **kwargs)  # type: ignore[arg-type]
    assert all("\n" not in line for line in caught.value.problems)
    return list(caught.value.problems)


def file_problems(folder: Path, text: str) -> list[str]:
    return [line.removeprefix(f"{folder}/") for line in problems(toml(folder, text), {})]


# Precedence and origins


def test_without_sources_every_setting_is_at_its_default() -> None:
    settings = load_settings(None, {})
    assert settings.config == Config()
    assert {settings.origin(key) for key in fields()} == {"default"}


def test_each_source_overrides_the_one_before_and_is_named_as_origin(tmp_path: Path) -> None:
    file = toml(
        tmp_path,
        "[politeness]\ndelay_s = 1\njitter = 0.2\n[fetch]\ntotal_s = 1\nslots ="
        " 1\n[limits]\nmax_pages = 1\n",
    )
    env = {
        "LYCOSA_FETCH__TOTAL_S": "2",
        "LYCOSA_FETCH__SLOTS": "2",
        "LYCOSA_LIMITS__MAX_PAGES": "2",
    }
    settings = load_settings(
        file, env, ["fetch.slots=3", "limits.max_pages=3"], {"limits.max_pages": 4}
    )
    config = settings.config
    assert (
        config.politeness.jitter,
        config.fetch.total_s,
        config.fetch.slots,
        config.limits.max_pages,
    ) == (0.2, 2.0, 3, 4)
    assert settings.origin("politeness.jitter") == f"{file}:3"
    assert settings.origin("fetch.total_s") == "environment LYCOSA_FETCH__TOTAL_S"
    assert settings.origin("fetch.slots") == "--set"
    assert settings.origin("limits.max_pages") == "--max-pages"
    assert settings.origin("workers") == "default"


def test_documented_variables_of_commands_are_no_settings() -> None:
    """They may be exported for a shell in which crawls start too."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    text = "".join(page.read_text("utf-8") for page in pages)
    named = {each for each in re.findall(r"LYCOSA_[A-Z_]*[A-Z]", text) if "__" not in each}
    assert {"LYCOSA_POSTGRES_DSN", "LYCOSA_OPENSEARCH_PASSWORD"} <= named
    load_settings(None, dict.fromkeys(named, "x"))
    with pytest.raises(SettingsError, match="there is no setting 'nonsense'"):
        load_settings(None, {"LYCOSA_NONSENSE": "x"})


def test_the_last_of_several_set_options_wins() -> None:
    assert load_settings(None, {}, ["workers=2", "workers=3"]).config.workers == 3


def test_numbers_that_have_a_name_are_given_by_it_or_as_before(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('workers = "Auto"\nmemory_bytes = "4GB"\n')
    assert load_settings(file, {}).config == Config(workers=0, memory_bytes=4_000_000_000)
    assert load_settings(None, {}, ["workers=0", "memory_bytes=auto"]).config == Config(workers=0)
    assert fields()["workers"].show(0) == "auto" and fields()["workers"].show(2) == "2"
    with pytest.raises(SettingsError, match="'all' is not a whole number"):
        load_settings(None, {}, ["workers=all"])


def test_options_that_were_not_given_change_nothing() -> None:
    settings = load_settings(None, {}, [], {"politeness.delay_s": None, "scope.include": ()})
    assert settings.config == Config()
    assert settings.origin("politeness.delay_s") == "default"


def test_saved_settings_take_the_place_of_defaults() -> None:
    saved = load_settings(None, {}, ["workers=4", "fetch.slots=9"]).config
    settings = load_settings(None, {}, ["workers=2"], base=saved)
    assert (settings.config.workers, settings.config.fetch.slots) == (2, 9)
    assert settings.origin("fetch.slots") == "saved with the crawl"
    assert settings.origin("workers") == "--set"


def test_settings_of_the_top_level_are_set_like_others(tmp_path: Path) -> None:
    assert load_settings(toml(tmp_path, "workers = 2\n"), {"LYCOSA_SEED": "7"}).config == Config(
        workers=2, seed=7
    )


def test_variables_of_others_and_of_the_test_suite_are_not_ours() -> None:
    assert load_settings(None, {"HOME": "/", "LYCOSA_TEST_HOOKS": "1"}).config == Config()


def test_the_origin_of_an_unknown_key_is_an_error() -> None:
    with pytest.raises(KeyError):
        load_settings(None, {}).origin("no.such")


@pytest.mark.parametrize(
    "text",
    ["politeness.delay_s = 3", "politeness = {delay_s = 3}", '["politeness"]\n"delay_s" = 3'],
)
def test_every_way_to_write_a_key_in_toml_is_understood(tmp_path: Path, text: str) -> None:
    settings = load_settings(toml(tmp_path, f"# a comment\n{text}\n"), {})
    assert settings.config.politeness.delay_s == 3
    assert re.fullmatch(r".*crawl\.toml:[23]", settings.origin("politeness.delay_s"))


def test_lines_are_right_behind_text_of_several_lines(tmp_path: Path) -> None:
    file = toml(tmp_path, '[agent]\ncontact = """\nproduct = "x"\n"""\nproduct = "y"\n')
    assert load_settings(file, {}).origin("agent.product") == f"{file}:5"


# Types and units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1w", 604800),
        ("1h30m", 5400),
        (" 2 h ", 7200),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds
    assert load_settings(
        None,
        {},
        [f"politeness.max_backoff_s={text}"] if seconds >= 1 else [f"politeness.delay_s={text}"],
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512KiB", 524288),
        ("10GB", 10**10),
        ("100MB", 10**8),
        ("1.5MB", 1_500_000),
        ("10gb", 10**10),
        ("3k", 3000),
        ("7B", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "2x", "h", "1h2", "--1", "1e999", "nan", "inf", "1,5s"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_seconds(text)


@pytest.mark.parametrize("text", ["", "GB", "1XB", "10IB", "1KI", "-1", "1.5", "1e3", "0x10"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_bytes(text)


@given(st.floats(0, 1e10) | st.integers(0, 10**9).map(float))
def test_a_duration_survives_being_shown(seconds: float) -> None:
    if seconds > 1e-4 or seconds == 0:
        assert read_seconds(show_seconds(seconds)) == seconds


@given(st.integers(0, 1 << 62))
def test_a_size_survives_being_shown(size: int) -> None:
    assert read_bytes(show_bytes(size)) == size


def test_rates_in_bytes_take_sizes() -> None:
    assert (
        load_settings(None, {}, ["fetch.min_bytes_per_s=1KB"]).config.fetch.min_bytes_per_s == 1000
    )


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("true", True),
        ("YES", True),
        ("on", True),
        ("1", True),
        ("false", False),
        ("no", False),
        ("0", False),
    ],
)
def test_flags(text: str, flag: bool) -> None:
    assert load_settings(None, {}, [f"fetch.http2={text}"]).config.fetch.http2 is flag


def test_choices_are_given_by_value() -> None:
    config = load_settings(None, {"LYCOSA_REFETCH__RULE": "off"}, ["scope.rule=Site"]).config
    assert (config.scope.rule, config.refetch.rule) == (ScopeRule.SITE, RefetchRule.OFF)


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a,b", ("a", "b")),
        ("a, b,", ("a", "b")),
        ("", ()),
        ("a{1,2},(b,c)", ("a{1,2}", "(b,c)")),
        ('["a,b", "c"]', ("a,b", "c")),
        ("[a-z]+,[0-9,]", ("[a-z]+", "[0-9,]")),
    ],
)
def test_lists_are_written_with_commas_or_as_toml(text: str, entries: tuple[str, ...]) -> None:
    assert load_settings(None, {}, [f"scope.include={text}"]).config.scope.include == entries


def test_a_file_gives_lists_numbers_and_units(tmp_path: Path) -> None:
    text = '[scope]\nexclude = ["a", "b"]\n[politeness]\ndelay_s = "2m"\n[fetch]\nslots = 5.0\n'
    text += '[store]\nsegment_bytes = "1GB"\nsegment_age_s = 60\n'
    config = load_settings(toml(tmp_path, text), {}).config
    assert config.scope.exclude == ("a", "b")
    assert (
        config.politeness.delay_s,
        config.store.segment_bytes,
        config.store.segment_age_s,
        config.fetch.slots,
    ) == (120, 10**9, 60, 5)


# What is wrong


def test_everything_wrong_is_told_at_once(tmp_path: Path) -> None:
    file = toml(tmp_path, "[politeness]\ndelay_s = 'fast'\njitter = 4\n[fetch]\nhttp2 = 'maybe'\n")
    assert (
        len(problems(file, {"LYCOSA_WORKERS": "x"}, ["nonsense"], {"limits.max_time_s": "2x"})) == 6
    )


def test_a_type_error_in_a_file_names_file_line_and_key(tmp_path: Path) -> None:
    found = file_problems(tmp_path, "[fetch]\n\nslots = 'many'\n")
    assert found == ["crawl.toml:3: fetch.slots: 'many' is not a whole number"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("slots = true", "true is not a whole number"),
        ("slots = 1.5", "1.5 is not a whole number"),
        ("slots = []", r"\[\] is not a whole number"),
        ("total_s = false", "false is not a duration"),
        ("total_s = inf", "inf is not a duration"),
        ("accept = 1", "1 is not a text"),
        ("http2 = 1", "1 is neither true nor false"),
        ("allow_addresses = [1]", r"\[1\] is not a list of texts"),
        ("allow_addresses = ['x']", "'x' is not an address range"),
        ("slots = {a = 1}", "a table is not a whole number"),
        ("body_bytes = 1979-05-27", "is not a size"),
    ],
)
def test_types_are_checked(tmp_path: Path, line: str, complaint: str) -> None:
    (found,) = file_problems(tmp_path, f"[fetch]\n{line}\n")
    assert re.match(rf"crawl\.toml:2: fetch\.\w+: .*{complaint}", found), found


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("politness.delay_s", "politeness.delay_s"),
        ("politeness.delay", "politeness.delay_s"),
        ("delay", "politeness.delay_s"),
        ("max_pages", "limits.max_pages"),
        ("worker", "workers"),
        ("fetch.slot", "fetch.slots"),
        ("scope.includes", "scope.include"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(key: str, meant: str) -> None:
    assert nearest(key) == meant
    assert problems(None, {}, [f"{key}=1"]) == [
        f"--set {key}=1: there is no setting {key!r}; did you mean {meant}?"
    ]


def test_a_key_like_no_other_is_answered_with_where_to_look() -> None:
    assert "`lycosa config` lists all" in problems(None, {}, ["qqqqqq=1"])[0]


def test_a_misspelt_section_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    (found,) = file_problems(tmp_path, "workers = 1\n[politness]\ndelay_s = 1\n")
    assert (
        found
        == "crawl.toml:3: there is no setting 'politness.delay_s'; did you mean politeness.delay_s?"
    )
    assert file_problems(tmp_path, "[polit]\n")[0].startswith(
        "crawl.toml:1: there is no setting 'polit'"
    )


def test_a_section_is_not_a_setting() -> None:
    assert "frontier is a section" in problems(None, {"LYCOSA_FRONTIER": "2"})[0]


def test_robots_obedience_is_not_a_setting() -> None:
    assert not [key for key in fields() if "obey" in key or "ignore" in key]
    assert problems(None, {}, ["robots.obey=false"])


def test_a_value_out_of_bounds_is_told_with_bound_and_meaning() -> None:
    (found,) = problems(None, {}, ["robots.max_age_s=2d"])
    assert found.startswith(
        "--set robots.max_age_s=2d: robots.max_age_s: 2d is out of bounds, write 1m to 1d: How"
        " long a robots.txt is used"
    )


@pytest.mark.parametrize(
    "pair",
    [
        "fetch.connect_s=0",
        "seen.bloom_error=0.5",
        "workers=-1",
        "fetch.slots=0",
        "politeness.jitter=1.01",
    ],
)
def test_bounds_hold(pair: str) -> None:
    assert "out of bounds" in problems(None, {}, [pair])[0]


def test_broken_toml_is_told_with_its_line(tmp_path: Path) -> None:
    assert file_problems(tmp_path, "workers = 1\n[fetch\n")[0].startswith(
        "crawl.toml:2: not TOML: "
    )
    assert file_problems(tmp_path, "workers = 1\nseed = ")[0].startswith("crawl.toml:2: not TOML: ")
    assert file_problems(tmp_path, "workers = 1\nworkers = 2\n")[0].startswith(
        "crawl.toml:2: not TOML: "
    )


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path / "none.toml", {}) == [
        f"{tmp_path}/none.toml cannot be read: No such file or directory"
    ]
    assert "cannot be read: Is a directory" in problems(tmp_path, {})[0]
    (tmp_path / "latin").write_bytes(b"workers = 1\n# \xe9\n")
    assert problems(tmp_path / "latin", {}) == [
        f"{tmp_path}/latin:2: not UTF-8, which TOML requires"
    ]


def test_a_set_option_without_a_value_is_told() -> None:
    assert problems(None, {}, ["workers"]) == [
        "--set workers: write KEY=VALUE, for instance politeness.delay_s=2s"
    ]


@pytest.mark.parametrize(
    ("pair", "complaint"),
    [
        ("scope.include=(", "is not a regular expression"),
        ("dns.pins=example.org", "is not NAME=ADDRESS"),
        ("dns.pins=example.org=localhost", "is not NAME=ADDRESS"),
        ("fetch.allow_addresses=10.0.0.0/99", "is not an address range"),
        ("agent.product=my crawler", "does not match"),
        ("scope.rule=hosts", "'hosts' is none of host, site, prefix, any"),
    ],
)
def test_values_with_a_form_are_checked(pair: str, complaint: str) -> None:
    assert complaint in problems(None, {}, [pair])[0]


@pytest.mark.parametrize("pin", ["*.example.org=127.0.0.1", "example.org=::1", "example.org=[::1]"])
def test_pins_are_names_with_addresses(pin: str) -> None:
    assert load_settings(None, {}, [f"dns.pins={pin}"]).config.dns.pins == (pin,)


def test_settings_that_contradict_each_other_are_told() -> None:
    assert problems(None, {}, ["dns.max_ttl_s=30"]) == [
        "--set: dns.min_ttl_s: 1m is more than dns.max_ttl_s (30s)"
    ]


# The tree itself


def test_every_setting_is_described() -> None:
    described = fields().values()
    assert all(field.meaning.endswith(".") and field.type_text for field in described)
    assert all(sections().values())


def test_every_default_may_be_written_as_it_is_shown() -> None:
    for key, field in fields().items():
        if field.kind is not Kind.LIST:
            assert field.read(field.show(field.default)) == field.default, key


def test_every_option_belongs_to_a_setting() -> None:
    assert set(SETTING_OPTIONS) <= set(fields())


def test_a_tree_survives_being_saved() -> None:
    config = load_settings(
        None, {}, ["scope.rule=site", "scope.include=a,b", "politeness.delay_s=1.5"]
    ).config
    saved = msgspec.json.decode(msgspec.json.encode(config))
    assert from_dict(saved) == config
    assert all(value_of(from_dict(saved), key) == value_of(config, key) for key in fields())


def test_a_saved_pattern_that_is_not_supported_is_refused_until_it_is_replaced() -> None:
    """Earlier versions accepted every pattern of Python's ``re``."""
    saved = replace(Config(), scope=ScopeSection(exclude=("/a(?!b)",)))
    with pytest.raises(SettingsError, match=r"saved with the crawl: scope.exclude: '/a\(\?!b\)'"):
        load_settings(None, {}, [], base=saved)
    given = load_settings(None, {}, ["scope.exclude=/c"], base=saved).config
    assert given.scope.exclude == ("/c",)


def test_saved_settings_of_another_version_are_told() -> None:
    with pytest.raises(SettingsError, match="saved settings cannot be read"):
        from_dict({"no_such": {}})


@pytest.mark.parametrize(
    "key",
    [
        "robots.obey",
        "ignore_robots",
        "ROBOTSTXT_OBEY",
        "obey-robots",
        "robots.enabled",
        "robotstxt",
    ],
)
def test_who_looks_for_the_switch_of_robots_is_told_that_there_is_none(key: str) -> None:
    assert problems(None, {}, [f"{key}=false"])[0].endswith(
        "obedience to robots.txt cannot be switched off"
    )


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("politness", "section politeness?"),
        ("polite.foo", "politeness."),
        ("robots.retry", "robots.retry_s?"),
    ],
)
def test_sections_are_suggested_too(key: str, said: str) -> None:
    assert said in problems(None, {}, [f"{key}=1"])[0]


BAD = [
    *(
        ("agent.contact", contact)
        for contact in ("f\xfcr@example.org", "a@b\r\nX: y", "a\tb", "me (at) example.org", "a\\b")
    ),
    *(
        ("fetch.allow_addresses", (entry,))
        for entry in ("10.0.0.1/8", "nonsense", "10.0.0.0/99", "", "fd00::1/8")
    ),
    *(("dns.pins", (pin,)) for pin in ("a", "a=b", "=1.2.3.4", "a=1.2.3.4,b", "a=", ".=1.2.3.4")),
    *(("dns.servers", (server,)) for server in ("ns.example.org", "1.2.3.4:0", "1.2.3.4:x", "")),
    *(("fetch.accept", accept) for accept in ("\u20ac", "a\nb")),
]
GOOD = [
    *(
        ("agent.contact", contact)
        for contact in ("", "https://example.org/bot", " you@example.org ", "anybody")
    ),
    *(
        ("fetch.allow_addresses", (entry,))
        for entry in ("10.0.0.0/8", " 192.0.2.7", "fd00::/8", "::1")
    ),
    *(
        ("dns.pins", (pin,))
        for pin in ("a=1.2.3.4", "*=127.0.0.1", "a=1.2.3.4, ::1", "a=[::1]", " a = 1.2.3.4 ")
    ),
    *(("dns.servers", (server,)) for server in ("127.0.0.1", "127.0.0.1:5353", "::1")),
]


def _use(key: str, value: Any) -> None:
    """Gives the value to who uses it in a crawl. Raises ``ValueError``."""
    if key == "agent.contact":
        build_user_agent("lycosa", "1", value)
    elif key == "fetch.allow_addresses":
        Guard(value)
    elif key == "dns.pins":
        parse_pins(value)


@pytest.mark.parametrize(("key", "value"), BAD)
def test_what_a_crawl_could_not_start_with_is_no_setting(key: str, value: Any) -> None:
    with pytest.raises(SettingsError):
        settings({key: value})
    section, _, name = key.partition(".")
    tree = Config()
    with pytest.raises(SettingsError, match=key):
        check_config(replace(tree, **{section: replace(getattr(tree, section), **{name: value})}))
    if key in ("agent.contact", "fetch.allow_addresses") or value in (
        ("a",),
        ("a=b",),
        ("=1.2.3.4",),
        ("a=",),
    ):
        with pytest.raises(ValueError):
            _use(key, value)


@pytest.mark.parametrize(("key", "value"), GOOD)
def test_what_is_a_setting_can_be_used(key: str, value: Any) -> None:
    assert settings({key: value})
    _use(key, value)


def test_a_range_with_host_bits_is_answered_with_what_was_meant() -> None:
    (found,) = problems(None, {}, flags={"fetch.allow_addresses": ("10.1.2.3/8",)})
    assert found.endswith("write 10.0.0.0/8 for the whole range or 10.1.2.3 for one address")


def test_saved_settings_that_cannot_be_used_are_told_unless_they_are_given_anew() -> None:
    saved = replace(Config(), fetch=replace(Config().fetch, allow_addresses=("10.1.2.3/8",)))
    with pytest.raises(SettingsError, match=r"saved with the crawl: fetch\.allow_addresses"):
        load_settings(None, {}, base=saved)
    assert load_settings(
        None, {}, flags={"fetch.allow_addresses": ("10.0.0.0/8",)}, base=saved
    ).config.fetch.allow_addresses == ("10.0.0.0/8",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("politeness.delay_s=-2s", "is negative"),
        ("limits.max_bytes=-1MB", "is negative"),
        ("fetch.http2=treu", "write true or"),
    ],
)
def test_wrong_values_are_answered_with_what_is_wrong(text: str, said: str) -> None:
    assert said in problems(None, {}, [text])[0]


def test_a_program_gives_settings_by_key_as_the_command_line_does() -> None:
    made = settings(
        {
            "limits.max_pages": 20,
            "politeness.delay_s": "2s",
            "scope.rule": "any",
            "scope.exclude": ["a"],
        }
    )
    assert (
        made.limits.max_pages,
        made.politeness.delay_s,
        made.scope.rule.value,
        made.scope.exclude,
    ) == (20, 2.0, "any", ("a",))
    with pytest.raises(
        SettingsError, match=r"(?s)limits.max_page'; did you mean.*workers: 'x' is not"
    ):
        settings({"limits.max_page": 1, "workers": "x"})


@pytest.mark.parametrize(
    "changes",
    [
        {"limits": 3},
        {"workers": "2"},
        {"workers": -1},
        {"workers": True},
        {"limits": LimitSection(max_pages="x")},
    ],  # type: ignore[arg-type]
)
def test_a_tree_of_wrong_types_is_told(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        check_config(replace(Config(), **changes))


def test_a_list_where_a_tuple_belongs_is_told_so() -> None:
    with pytest.raises(
        SettingsError, match=r"fetch.allow_addresses: \['10.0.0.0/8'\] is not a tuple of texts"
    ):
        check_config(Config(fetch=FetchSection(allow_addresses=["10.0.0.0/8"])))  # type: ignore[arg-type]


def test_the_defaults_pass_their_own_check() -> None:
    check_config(Config())


def test_removal_needs_an_upload() -> None:
    wrong = Config(upload=UploadSection(remove=True))
    with pytest.raises(SettingsError, match="there is no store to upload to"):
        load_settings(None, {}, ["upload.remove=true"])
    with pytest.raises(SettingsError, match="there is no store to upload to"):
        check_config(wrong)
    # an earlier version saved it; the upload that is asked for now does not remove
    url = ["upload.url=s3://bucket/x"]
    assert not load_settings(None, {}, base=wrong).config.upload.remove
    assert not load_settings(None, {}, url, base=wrong).config.upload.remove
    both = load_settings(None, {}, [*url, "upload.remove=true"]).config
    assert load_settings(None, {}, base=both).config.upload.remove
    # without its store the removal is not kept either
    ended = load_settings(None, {}, ["upload.url="], base=both)
    assert (ended.config.upload.remove, ended.origin("upload.remove")) == (False, "default")
