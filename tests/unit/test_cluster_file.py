"""``cluster.toml``: what is read, what is refused, and that no secret is ever said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lycosa.base.config.cluster_file import ClusterFile, TlsSection, read_cluster_file
from lycosa.base.config.sources import SettingsError

LEAST = 'name = "news"\n[kafka]\naddresses = ["10.0.0.1:9092"]\n'


def read(folder: Path, text: str) -> ClusterFile:
    path = folder / "cluster.toml"
    path.write_text(text)
    path.chmod(0o600)
    return read_cluster_file(path)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(SettingsError) as error:
        read(folder, text)
    place = re.escape(str(folder / "cluster.toml")) + r"(:\d+)?: "
    return [re.sub(place, "", each) for each in error.value.problems]


def test_a_name_and_addresses_are_enough(tmp_path: Path) -> None:
    given = read(tmp_path, LEAST)
    assert (given.name, given.shards, given.objects, given.token_file) == ("news", 16, "", None)
    assert given.kafka.addresses == ("10.0.0.1:9092",)
    assert (given.kafka.replication, given.kafka.min_insync, given.kafka.security) == (3, 2, {})
    assert given.warnings() == []


def test_everything_that_the_file_may_say_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "token").chmod(0o600)
    given = read(
        tmp_path,
        'name = "news"\nshards = 64\ntoken_file = "token"\n'
        '[kafka]\naddresses = ["a:1", "[::1]:2"]\nreplication = 1\n'
        '[kafka.security]\n"sasl.username" = "lycosa"\n'
        '[objects]\nurl = "s3://bucket/news"\n'
        '[coordinator]\naddresses = ["10.0.0.1:7070", "10.0.0.2:7070"]\n'
        '[tls]\ncertificate = "token"\nkey = "token"\nauthority = "token"\n',
    )
    assert (given.shards, given.objects, given.nodes) == (64, "s3://bucket/news", 4)
    assert given.coordinators == ("10.0.0.1:7070", "10.0.0.2:7070")
    token = tmp_path / "token"
    assert given.tls == TlsSection(token, token, token)
    assert given.token_file == tmp_path / "token"
    assert (given.kafka.addresses, given.kafka.min_insync) == (("a:1", "[::1]:2"), 1)
    assert given.kafka.security == {"sasl.username": "lycosa"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[kafka]\naddresses = ['a:1']", "name: needed"),
        ('name = "News"\n[kafka]\naddresses = ["a:1"]', "name: 'News' is not a name; write"),
        ('name = "news"', "kafka.addresses: needed"),
        ('name = "news"\nkafka = 3', "kafka: a section is needed"),
        (
            LEAST + "[coordinator]",
            "coordinator: a section is needed, [coordinator], with addresses",
        ),
        (LEAST + '[coordinator]\naddresses = ["a"]', "coordinator.addresses: 'a' is not HOST:PORT"),
        (LEAST + '[tls]\nkey = "missing"', "tls.certificate: needed"),
        (LEAST + '[tls]\ncertificate = "missing"', "tls.certificate: "),
        (LEAST + '[tls]\ncertificate = ""\nkey = ""\nauthority = ""', "tls.key: needed"),
        ("nodes = 0\n" + LEAST, "nodes: 0 is out of bounds, write 1 to 1024: Maximum number"),
        ('name = "news"\n[kafka]\naddresses = ["a"]', "kafka.addresses: 'a' is not HOST:PORT"),
        ('name = "news"\n[kafka]\naddresses = ["a:99999"]', "is not HOST:PORT"),
        (f"shards = 0\n{LEAST}", "shards: 0 is out of bounds, write 1 to 1024"),
        (f"shards = true\n{LEAST}", "shards: true is not a whole number"),
        (f"shard = 4\n{LEAST}", "shard: no such key; did you mean shards?"),
        (f"{LEAST}adresses = []", "kafka.adresses: no such key; did you mean addresses?"),
        (f"{LEAST}min_insync = 4", "kafka.min_insync: greater than kafka.replication"),
        (f'{LEAST}security = {{ "linger.ms" = "3" }}', "linger.ms is not a security setting"),
        (f'{LEAST}security = {{ "ssl.x" = 3 }}', "the value of ssl.x is not a text"),
        (f'{LEAST}[kafka.security]\nsasl.username = "x"', 'write "sasl.username" in quotes'),
        (f'{LEAST}[objects]\nurl = "ftp://x"', "objects.url: 'ftp://x' is not the URL of a store"),
        (f'{LEAST}[objects]\nurl = "s3://k:s@b/x"', "objects.url: credentials do not belong"),
        (f'token_file = "absent"\n{LEAST}', "cannot be read, or is empty"),
        (f"{LEAST}[kafak]\nx = 1", "kafak: no such key; did you mean kafka?"),
        (f"{LEAST}[nodes]\nx = 1", "nodes: a whole number is needed, not a section"),
        (
            f'{LEAST}security = {{ "linger.ms" = "3", "ssl.x" = 3 }}',
            "ssl., enable.ssl., enable.sasl.; the value of ssl.x is not a text",
        ),
        ("name = ", "not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, problem: str) -> None:
    assert any(problem in each for each in problems(tmp_path, text)), problems(tmp_path, text)


def test_all_problems_are_told_at_once_and_no_secret_is(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        'name = "N"\nshards = 0\n[kafka]\naddresses = []\n'
        'security = { "sasl.password" = "hush", "linger.ms" = "hush" }\n'
        '[objects]\nurl = "s3://hush:hush@bucket"\n',
    )
    assert len(found) == 5
    assert "hush" not in "".join(found)


@pytest.mark.parametrize(
    "text",
    [
        LEAST + '[objects]\nurl = ["s3://k:hush@b"]',
        LEAST + '[redis]\naddresses = ["redis://:hush@a:1", 3]',
        LEAST + '[redis]\naddresses = "redis://:hush@a:1"',
        LEAST + 'security = "hush"',
        LEAST + 'security = { "sasl.password" = ["hush"] }',
        LEAST + '[redis]\naddresses = ["a:1"]\npasword = "hush"',
    ],
)
def test_a_secret_of_the_wrong_form_or_place_is_not_said(tmp_path: Path, text: str) -> None:
    [found] = problems(tmp_path, text)
    assert "hush" not in found


def test_mistakes_have_the_line_of_their_key(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, f"shards = 0\n{LEAST}replication = 99\n")
    assert [each.split(": ")[0] for each in error.value.problems] == [
        f"{tmp_path / 'cluster.toml'}:1",
        f"{tmp_path / 'cluster.toml'}:5",
    ]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_cluster_file(tmp_path / "absent.toml")


def test_settings_do_not_show_their_values(tmp_path: Path) -> None:
    given = read(tmp_path, f'{LEAST}security = {{ "sasl.password" = "hush" }}')
    assert "hush" not in repr(given) and "sasl.password" in repr(given)


def test_a_file_with_a_secret_that_others_can_read_is_warned_about(tmp_path: Path) -> None:
    given = read(tmp_path, f'{LEAST}security = {{ "sasl.password" = "hush" }}')
    given.path.chmod(0o644)
    assert given.warnings() == [
        f"{given.path} can be read by other users of this machine: chmod 600 {given.path}"
    ]


def test_the_section_of_redis_is_read_and_its_password_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    (tmp_path / "secret").chmod(0o644)
    given = read(
        tmp_path,
        LEAST + '[redis]\naddresses = ["a:1", "b:2"]\ndatabase = 3\nusername = "lycosa"\n'
        'password_file = "secret"\ntls = true\nauthority = "secret"\n',
    )
    assert given.redis is not None
    assert given.redis.addresses == ("a:1", "b:2")
    assert given.redis.password() == "hunter2"
    assert "hunter2" not in repr(given)
    assert [str(tmp_path / "secret") in each for each in given.warnings()] == [True]
    plain = read(tmp_path, LEAST + '[redis]\naddresses = ["a:1"]\n').redis
    assert plain is not None and plain.password() == ""
    monkeypatch.setenv("LYCOSA_REDIS_PASSWORD", "from the environment")
    assert plain.password() == "from the environment"


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("", "redis: a section is needed, [redis], with addresses"),
        ("database = 1", "redis.addresses: needed"),
        ('addresses = ["redis://:secret@a:1"]', "redis.addresses: "),
        ('addresses = ["a:1"]\nurl = "x"', "redis.url: no such key"),
        ('addresses = ["a:1"]\npassword = "secret"', "redis.password: no such key"),
        ('addresses = ["a:1"]\ndatabase = -1', "redis.database: -1 is out of bounds"),
        ('addresses = ["a:1"]\npassword_file = "none"', "redis.password_file: "),
        ('addresses = ["a:1"]\nauthority = "cluster.toml"', "redis.authority: without tls"),
    ],
)
def test_what_is_wrong_with_redis_is_named(tmp_path: Path, section: str, problem: str) -> None:
    [found] = problems(tmp_path, f"{LEAST}[redis]\n{section}\n")
    assert found.startswith(problem)
    assert "secret" not in found.replace("password", "")
