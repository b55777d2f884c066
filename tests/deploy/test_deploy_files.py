"""The files of ``deploy/`` and the program agree: commands, options, settings, ports, paths, times.

Each file is also read by its own tool, where this machine has it.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from lycosa.base.config.cluster_file import ClusterFile, read_cluster_file
from lycosa.base.config.sections import Config
from lycosa.base.config.sources import load_settings
from lycosa.cli.main import cli
from lycosa.processes.cluster.cluster_session import NodeMemory
from lycosa.state.commit import LEASE_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "lycosa"
GUIDES = (ROOT / "docs" / "deployment.md", CHART / "README.md")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text("utf-8"))
ONE_CRAWL: dict[str, Any] = yaml.safe_load(
    (DEPLOY / "compose" / "one-crawl.yaml").read_text("utf-8")
)
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
HEALTH = "/run/lycosa/health.json"
KUBERNETES = ("1.25", "1.29", "1.33")


def helm_program() -> Path | None:
    """Where script/services put Helm, or ``None``."""
    cache = os.environ.get("SERVICES_CACHE") or (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lycosa-services"
    )
    found = Path(cache) / "helm-v3.22.0"
    return found if found.exists() else None


needs_helm = pytest.mark.skipif(
    helm_program() is None, reason="there is no Helm: `script/services helm` builds it"
)
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine"
)


# -- every command


def _compose_commands() -> Iterator[tuple[str, list[str]]]:
    for name, service in (*COMPOSE["services"].items(), *ONE_CRAWL["services"].items()):
        if service["image"] == "lycosa" and "entrypoint" not in service:
            yield f"compose {name}", service["command"]


def _chart_commands() -> Iterator[tuple[str, list[str]]]:
    for path in sorted((CHART / "templates").glob("*.yaml")):
        text = re.sub(r"\{\{[^}]*\}\}", "7070", path.read_text("utf-8"))
        for block in re.findall(r"(?m)^ +args:\n((?: +- .*\n)+)", text):
            yield f"chart {path.name}", yaml.safe_load(block)
    helpers = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    for found in re.findall(r"command: \[lycosa, (.*)\]", helpers):
        yield "chart probe", found.split(", ")


def _image_commands() -> Iterator[tuple[str, list[str]]]:
    for found in re.findall(r"(?m)^ *CMD (\[.*\])$", DOCKERFILE):
        yield "image", [each for each in json.loads(found) if each != "lycosa"]


def _unit_commands() -> Iterator[tuple[str, list[str]]]:
    for path in UNITS:
        for found in re.findall(r"(?m)^Exec\w+=\S+/lycosa (.*)$", path.read_text("utf-8")):
            yield path.name, shlex.split(found)


def _told_commands() -> Iterator[tuple[str, list[str]]]:
    """Commands that a text tells to give: in code blocks, also behind ``docker`` or ``kubectl``."""
    for path in (*GUIDES, CHART / "templates" / "NOTES.txt"):
        text = path.read_text("utf-8")
        blocks = re.findall(r"(?s)```sh\n(.*?)```", text) if path in GUIDES else [text]
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            found = re.search(r"(?:^\s*|-- |--rm lycosa |/bin/|exec [\w-]+ )lycosa (.*)", line)
            if found is None:
                found = re.search(r"compose run --rm init (.*)", line)
            if found is not None:
                words = shlex.split(re.sub(r"\s(#|<|>|\|).*", "", found[1]))
                yield f"{path.name}: {line.strip()}", words


COMMANDS = [
    *_compose_commands(),
    *_chart_commands(),
    *_image_commands(),
    *_unit_commands(),
    *_told_commands(),
]


def parse(words: Sequence[str]) -> None:
    """Parse a command line as the program does, without running it. Raises ``UsageError``."""
    command: click.Command = cli
    context = click.Context(cli, info_name="lycosa")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"no command {rest[0]!r} in {words}"
        command, rest = found, rest[1:]
    is_asked = rest and rest[0] in ("--help", "--version")
    command.make_context("lycosa", rest, resilient_parsing=bool(is_asked))


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=lambda each: str(each)[:60])
def test_every_command_exists_with_its_options(where: str, words: list[str]) -> None:
    parse(words)


def test_every_file_has_commands() -> None:
    found = " ".join(where for where, _ in COMMANDS)
    for each in (
        "compose node-2",
        "compose crawl",
        "nodes.yaml",
        "probe",
        "image",
        *(u.name for u in UNITS),
    ):
        assert each in found
    assert found.count("deployment.md") > 10


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        parse(["node", "--cluster", "cluster.toml", "--directory", "x"])


# -- settings and cluster.toml


def _cluster_file(text: str, folder: Path) -> ClusterFile:
    """Read the text as cluster.toml; the secret files that it names exist."""
    text = text.replace("/var/lib/lycosa/secret/token", "token")
    for name in ("token", "tls.crt", "tls.key", "ca.crt"):
        (folder / name).write_text("0123456789abcdef")
    (folder / "cluster.toml").write_text(text)
    return read_cluster_file(folder / "cluster.toml")


def test_the_cluster_of_the_compose_file_is_the_one_of_its_services(tmp_path: Path) -> None:
    services = COMPOSE["services"]
    given = _cluster_file((DEPLOY / "compose" / "cluster.toml").read_text("utf-8"), tmp_path)
    assert all(address.partition(":")[0] in services for address in given.kafka.addresses)
    (coordinator,) = given.coordinators
    host, _, port = coordinator.partition(":")
    assert host in services
    assert f"0.0.0.0:{port}" in services[host]["command"]
    nodes = [name for name, each in services.items() if each.get("command", [""])[0] == "node"]
    assert len(nodes) <= given.nodes
    listeners = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert listeners == f"PLAINTEXT://{given.kafka.addresses[0]}"
    bucket = given.objects.removeprefix("s3://").partition("/")[0]
    assert services["bucket"]["command"][-1] == f"/data/{bucket}"
    endpoint = COMPOSE["x-objects"]["AWS_ENDPOINT_URL_S3"]
    assert endpoint.startswith("http://objects:")
    assert f":{endpoint.rpartition(':')[2]}" in services["objects"]["command"]


@pytest.mark.parametrize("source", ["compose", "chart"])
def test_settings_of_the_crawl_exist(source: str, tmp_path: Path) -> None:
    text = (
        (DEPLOY / "compose" / "crawl.toml").read_text("utf-8")
        if source == "compose"
        else VALUES["settings"]
    )
    (tmp_path / "crawl.toml").write_text(text)
    assert load_settings(tmp_path / "crawl.toml", {}).config.scope.rule.value == "site"


def test_settings_that_the_guide_names_exist() -> None:
    known = {each["key"] for each in json.loads(_lycosa_json("config"))}
    sections = {name.partition(".")[0] for name in known}
    text = "".join(path.read_text("utf-8") for path in GUIDES)
    named = re.findall(r"`([a-z]+)\.([a-z_]+)(?:=[^`]*)?`", text)
    wrong = {f"{a}.{b}" for a, b in named if a in sections} - known
    assert not wrong


def _lycosa_json(*words: str) -> str:
    code = "import sys; from lycosa.cli import main; sys.exit(main())"
    run = [sys.executable, "-P", "-c", code, *words, "--json"]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout


# -- numbers and paths


def test_there_is_time_for_the_end_of_a_node() -> None:
    """What is in flight, a commit that waits for a whole lease, and the upload of its part."""
    config = Config()
    needed = config.fetch.total_s + LEASE_S + 30.0
    units = [
        (DEPLOY / "systemd" / f"lycosa-{name}.service").read_text("utf-8")
        for name in ("node", "crawl")
    ]
    times = [
        *(int(re.findall(r"(?m)^TimeoutStopSec=(\d+)$", unit)[0]) for unit in units),
        VALUES["nodes"]["terminationGracePeriodSeconds"],
        60 * int(COMPOSE["services"]["node-1"]["stop_grace_period"].removesuffix("m")),
    ]
    assert min(times) >= needed
    assert len(set(times)) == 1
    for unit in units:
        assert "KillMode=mixed" in unit, "SIGTERM is for the parent alone, which stops its workers"


def test_the_units_have_the_same_restrictions() -> None:
    """Those of a unit, without what is about its own program."""
    found = [
        set(
            re.findall(
                r"(?m)^(?:\w*Protect|Restrict(?!art)|Private|System|No|Cap|Lock)\w+=.*$", text
            )
        )
        for text in (path.read_text("utf-8") for path in UNITS)
    ]
    assert all(len(each) > 15 and each == found[0] for each in found)


def test_health_is_written_where_probes_look() -> None:
    assert COMPOSE["x-health"]["test"] == ["CMD", "lycosa", "health", HEALTH]
    for name, service in COMPOSE["services"].items():
        has_file = "--health" in service.get("command", [])
        assert has_file == (service.get("healthcheck") == COMPOSE["x-health"]), name
    for where, words in COMMANDS:
        if words[0] in ("serve", "node") and not where.endswith("sh"):
            if "--health" not in words:
                assert "deployment.md" in where
            elif not where.endswith(".service"):
                assert words[words.index("--health") + 1] == HEALTH
    for path in UNITS:
        text = path.read_text("utf-8")
        (folder,) = re.findall(r"--health /run/([\w-]+)/health.json", text)
        assert f"RuntimeDirectory={folder}\n" in text


def test_one_user_in_image_compose_file_and_chart() -> None:
    (uid,) = set(re.findall(r"(?m)^USER (\d+):\1$", DOCKERFILE))
    for stage in re.split(r"(?m)^FROM ", DOCKERFILE)[1:]:
        name = stage.split()[2]
        assert name in ("build", "plain") or f"\nUSER {uid}:{uid}\n" in stage, name
    assert f"--uid {uid} " in DOCKERFILE
    assert f"--gid {uid} " in DOCKERFILE
    assert f"uid={uid},gid={uid}" in (DEPLOY / "compose" / "compose.yaml").read_text("utf-8")
    pod = VALUES["podSecurityContext"]
    assert {pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"]} == {int(uid)}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["appVersion"] == version


def test_what_programs_write_is_on_volumes_that_belong_to_them() -> None:
    """The root file system is read-only; a new volume gets the owner of the image's folder."""
    made = re.findall(r"install -d -o lycosa -g lycosa ([\s\S]*?)\n(?:COPY| +&&)", DOCKERFILE)
    folders = " ".join(made).replace("\\", "").split()
    home = re.findall(r"HOME=(\S+)", DOCKERFILE)[0]
    for name, service in COMPOSE["services"].items():
        if service["image"] != "lycosa":
            continue
        assert service["read_only"]
        mounts = [each.split(":") for each in service.get("volumes", [])]
        volumes = {each[1] for each in mounts if each[0] in COMPOSE["volumes"]}
        assert volumes <= set(folders), f"{name}: {volumes - set(folders)} would be root's"
        words = service["command"]
        written = {words[i + 1] for i, word in enumerate(words) if word in ("--work", "--cache")}
        if name == "coordinator":
            written.add(f"{home}/.cache")  # of commands that read the crawl, run there
        assert written <= volumes, name


def test_nodes_have_memory_for_all_shards_when_one_is_missing(tmp_path: Path) -> None:
    cluster, nodes = VALUES["cluster"], VALUES["nodes"]
    limit = int(nodes["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    memory = NodeMemory(Config(), cluster["shards"], cluster["nodes"], limit)
    scaling = nodes["autoscaling"]
    assert memory.most * scaling["minReplicas"] >= cluster["shards"]
    assert memory.most * (scaling["maxReplicas"] - 1) >= cluster["shards"]
    assert scaling["maxReplicas"] <= cluster["nodes"]
    given = _cluster_file((DEPLOY / "compose" / "cluster.toml").read_text("utf-8"), tmp_path)
    limit = int(COMPOSE["services"]["node-1"]["mem_limit"].removesuffix("g")) << 30
    assert NodeMemory(Config(), given.shards, given.nodes, limit).most >= given.shards


def test_what_the_image_copies_reaches_the_builder_and_is_enough(tmp_path: Path) -> None:
    """The steps of the build, in a folder that has only these files; the index is not used."""
    kept = re.findall(r"(?m)^!(.+)$", (ROOT / ".dockerignore").read_text("utf-8"))
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", DOCKERFILE)
    names = [name for line in copied for name in line.split()]
    assert sorted(names) == sorted(kept)
    for name in names:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
        else:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    environment = tmp_path / "opt"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    build = "from hatchling.build import build_wheel; print(build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    site = next((environment / "lib").glob("python3*")) / "site-packages"
    shutil.unpack_archive(tmp_path / done.stdout.split()[-1], site, "zip")
    told = subprocess.run(
        [environment / "bin" / "python", "-P", "-c", "import lycosa; print(lycosa.__file__)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout.startswith(str(environment))


def test_the_image_has_the_extras_of_a_cluster() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lock = (ROOT / "requirements" / "image.txt").read_text("utf-8")
    assert "://" not in lock
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cluster"], *extras["objects"], *extras["postgres"]]
    for requirement in wanted:
        name = re.split(r"[\[><=;~ ]", requirement)[0].lower()
        pattern = re.sub("[-_.]+", "[-_.]+", name)
        assert re.search(rf"(?mi)^{pattern}(\[\w+\])?==", lock), name
    run = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", (ROOT / "requirements/run.txt").read_text()))
    image = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", lock))
    assert run.items() <= image.items(), "script/lock makes them from each other"


def test_no_file_names_a_registry() -> None:
    """Images have their public short names, and packages come from where pip is set up."""
    for path in (path for path in DEPLOY.rglob("*") if path.is_file()):
        text = path.read_text("utf-8")
        assert not re.search(r"https?://(?!objects:|example\.org/)", text), path
        assert not re.search(r"--(extra-)?index-url|--trusted-host", text), path


# -- each file by its own tool


@pytest.mark.parametrize("file", ["compose.yaml", "one-crawl.yaml"])
def test_a_compose_file_has_the_form_of_the_specification(file: str) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, DEPLOY / "compose" / file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_understands_the_units(unit: Path, tmp_path: Path) -> None:
    program = tmp_path / "lycosa"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / unit.name
    text = unit.read_text("utf-8")
    copy.write_text(text.replace("/opt/lycosa/bin/lycosa", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def _rendered(*options: str, release: str = "news") -> subprocess.CompletedProcess[str]:
    program = helm_program()
    assert program is not None
    command = [str(program), "template", release, str(CHART), "--kube-version=1.30.0", *options]
    return subprocess.run(command, capture_output=True, text=True)


IMAGE = "registry.example.org/lycosa"
TOKEN = ("--set", f"token.existingSecret=t,image.repository={IMAGE}")
ALL = (
    *TOKEN,
    "--set=tls.existingSecret=t,kafkaAuthority.existingSecret=k,objects.existingSecret=o",
    "--set=registry.enabled=true,registry.existingSecret=r,nodes.storage.storageClassName=fast",
    "--set=objects.environment.AWS_REGION=us-east-1,imagePullSecrets[0].name=p",
    '--set=cluster.kafka.security.sasl\\.password=a"b',
    "--set=nodes.nodeSelector.disk=fast,nodes.tolerations[0].operator=Exists",
    "--set=coordinator.nodeSelector.disk=slow,registry.tolerations[0].operator=Exists",
    "--set=secrets.existingSecret=logins,serviceAccountName=crawler",
)
OPENSHIFT = (
    *TOKEN,
    "--set=podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null",
    "--set=podSecurityContext.fsGroup=null,nodes.storage.retention.whenDeleted=Retain",
)
INGRESS = (
    *TOKEN,
    "--set=api.enabled=true,api.tokens.existingSecret=a,api.ingress.enabled=true",
    "--set=api.ingress.host=crawl.example.org,api.ingress.tlsSecret=c,api.ingress.className=nginx",
)
FEW = (*TOKEN, "--set=nodes.autoscaling.enabled=false,networkPolicy.enabled=false")


@needs_helm
@pytest.mark.parametrize(
    "options", [ALL, FEW, INGRESS, OPENSHIFT], ids=["all", "few", "ingress", "openshift"]
)
def test_the_chart_makes_objects_of_kubernetes(options: tuple[str, ...], tmp_path: Path) -> None:
    lint = [str(helm_program()), "lint", "--strict", str(CHART), *options]
    done = subprocess.run(lint, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    made = _rendered(*options)
    assert made.returncode == 0, made.stderr
    (tmp_path / "made.yaml").write_text(made.stdout)
    for version in KUBERNETES:
        code = "from kubernetes_validate.__main__ import main; import sys; sys.exit(main())"
        check = [sys.executable, "-c", code, "-k", version, "--strict"]
        done = subprocess.run([*check, tmp_path / "made.yaml"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.parametrize("options", [ALL, FEW], ids=["all", "few"])
def test_the_chart_writes_a_cluster_file_that_finds_its_coordinator(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    made = _objects(_rendered(*options).stdout)
    text = made["Secret news-lycosa-cluster"]["stringData"]["cluster.toml"]
    given = _cluster_file(text, tmp_path)
    assert given.name == "news"
    (coordinator,) = given.coordinators
    host, _, port = coordinator.partition(":")
    service = made[f"Service {host}"]["spec"]
    assert service["ports"][0]["port"] == int(port)
    assert service["publishNotReadyAddresses"]
    pod = made[f"Deployment {host}"]["spec"]["template"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert made[f"Deployment {host}"]["spec"]["strategy"] == {"type": "Recreate"}
    (container,) = pod["spec"]["containers"]
    assert f"0.0.0.0:{port}" in container["args"]
    nodes = made["StatefulSet news-lycosa-node"]["spec"]
    labels = nodes["template"]["metadata"]["labels"]
    budget = made["PodDisruptionBudget news-lycosa-node"]["spec"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert ("replicas" in nodes) == (options is FEW), "the autoscaler sets it"
    if options is ALL:
        assert given.kafka.security == {"sasl.password": 'a"b'}
        assert given.tls is not None


API = (
    *INGRESS,
    "--set=api.serviceMonitor.enabled=true,api.serviceMonitor.token.existingSecret=p",
    "--set=api.serviceMonitor.labels.release=prometheus",
)


def _objects(text: str) -> dict[str, Any]:
    made = (each for each in yaml.safe_load_all(text) if each)
    return {f"{each['kind']} {each['metadata']['name']}": each for each in made}


@needs_helm
def test_ingress_and_monitor_lead_to_the_port_of_the_interface() -> None:
    made = _objects(_rendered(*API).stdout)
    service = made["Service news-lycosa-coordinator"]
    ports = {each["name"] for each in service["spec"]["ports"]}
    rule = made["Ingress news-lycosa-api"]["spec"]["rules"][0]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "news-lycosa-coordinator", "port": {"name": "api"}}
    monitor = made["ServiceMonitor news-lycosa"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    chosen = [
        name
        for name, each in made.items()
        if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
    ]
    assert chosen == ["Service news-lycosa-coordinator"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in ports and endpoint["path"] == "/metrics"
    assert endpoint["authorization"]["credentials"] == {"name": "p", "key": "token"}
    pod = made["Deployment news-lycosa-coordinator"]["spec"]["template"]
    assert pod["metadata"]["annotations"].keys() == {"checksum/cluster"}, "scraped twice"
    pod = _objects(_rendered(*INGRESS).stdout)["Deployment news-lycosa-coordinator"]
    annotations = pod["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(VALUES["api"]["port"])


@needs_helm
def test_every_pod_has_what_is_for_all_of_them() -> None:
    made = _objects(_rendered(*ALL).stdout)
    pods = {name: each["spec"]["template"] for name, each in made.items() if "Job" in name}
    pods |= {name: each["spec"]["template"] for name, each in made.items() if "containers" in str(each) and name not in pods}  # fmt: skip
    assert len(pods) == 4
    for name, pod in pods.items():
        (container,) = pod["spec"]["containers"]
        mounted = {each["mountPath"] for each in container["volumeMounts"]}
        assert {"/etc/lycosa", "/etc/lycosa-secrets"} <= mounted, name
        assert pod["spec"]["serviceAccountName"] == "crawler"
        assert container["resources"]["limits"]["memory"], name
        # A changed cluster.toml restarts what has read the old one.
        assert "Job" in name or "checksum/cluster" in pod["metadata"]["annotations"], name
    placed = {name: pod["spec"].get("nodeSelector") for name, pod in pods.items()}
    assert placed["StatefulSet news-lycosa-node"] == {"disk": "fast"}
    assert placed["Deployment news-lycosa-registry"] is None
    del placed["StatefulSet news-lycosa-node"], placed["Deployment news-lycosa-registry"]
    assert list(placed.values()) == [{"disk": "slow"}] * 2, "coordinator and job"


@needs_helm
def test_a_changed_image_or_setting_has_a_job_of_its_own() -> None:
    """A Job cannot be changed; tools that render the chart have the same revision each time."""
    jobs = {
        name
        for options in ((), (), ("--set=image.tag=9.9.9",), ("--set=settings=x",))
        for name in _objects(_rendered(*TOKEN, *options).stdout)
        if name.startswith("Job ")
    }
    assert len(jobs) == 3


@needs_helm
def test_the_values_of_the_first_installation_make_a_crawl(tmp_path: Path) -> None:
    text = (CHART / "README.md").read_text("utf-8")
    (values,) = re.findall(r"(?s)```yaml\n(.*?)```", text)
    (tmp_path / "my-values.yaml").write_text(re.sub(r"(?m)^   ", "", values))
    made = _objects(_rendered("--values", str(tmp_path / "my-values.yaml")).stdout)
    for name in re.findall(r"(\w+/news-[\w-]+)", text):
        kind, _, rest = name.partition("/")
        kinds = {"deploy": "Deployment", "deployment": "Deployment", "statefulset": "StatefulSet"}
        assert f"{kinds[kind]} {rest}" in made
    (tmp_path / "crawl.toml").write_text(
        made["ConfigMap news-lycosa-settings"]["data"]["crawl.toml"]
    )
    assert load_settings(tmp_path / "crawl.toml", {}).config.agent.contact
    given = _cluster_file(
        made["Secret news-lycosa-cluster"]["stringData"]["cluster.toml"], tmp_path
    )
    assert given.objects == "s3://bucket/news"


def test_the_schema_of_the_values_is_that_of_their_file() -> None:
    script = runpy.run_path(str(CHART.parent / "schema.py"))
    assert (CHART / "values.schema.json").read_text("utf-8") == script["schema_text"](), (
        "write it again: python deploy/helm/schema.py"
    )


@needs_helm
def test_two_releases_in_a_namespace_share_no_name() -> None:
    long = "a-release-whose-name-is-so-long-that-it-must-be-cut"
    releases = ["news", "news-lycosa", "lycosa", f"{long}-1", f"{long}-2"]
    names: set[str] = set()
    crawls: set[str] = set()
    for release in releases:
        made = _objects(_rendered(*API, release=release).stdout)
        assert not names & made.keys(), release
        names |= made.keys()
        assert all(len(name.partition(" ")[2]) <= 52 for name in made)
        (cluster,) = (each for name, each in made.items() if name.endswith("-cluster"))
        crawls |= set(re.findall(r'(?m)^name = "(.*)"$', cluster["stringData"]["cluster.toml"]))
    assert crawls == set(releases), "topics begin with the name of the crawl"


@needs_helm
def test_an_image_may_be_named_by_its_digest() -> None:
    digest = "sha256:" + "0" * 64
    made = _rendered(*TOKEN, f"--set=image.digest={digest}").stdout
    assert set(re.findall(r'image: "(.*)"', made)) == {f"{IMAGE}@{digest}"}


@needs_helm
def test_the_chart_refuses_what_cannot_work() -> None:
    plain = _rendered(*API, "--set=api.ingress.tlsSecret=").stderr
    assert "tokens would be sent without encryption" in plain
    assert "need api.enabled" in _rendered(*API, "--set=api.enabled=false").stderr
    assert "token.existingSecret or tls.existingSecret is needed" in _rendered().stderr
    nowhere = _rendered("--set=token.existingSecret=t").stderr
    assert "image.repository is needed: where you have put the image" in nowhere
    misspelled = _rendered(*TOKEN, "--set=node.replicas=3,cluster.shards=many").stderr
    assert "'node'" in misspelled or "node is not allowed" in misspelled
    assert "shards" in misspelled and "integer" in misspelled
    many = _rendered(*TOKEN, "--set=nodes.autoscaling.maxReplicas=9").stderr
    assert "9 nodes, but cluster.nodes is 4" in many


@needs_helm
def test_kubernetes_validate_notices_a_wrong_field(tmp_path: Path) -> None:
    made = _rendered(*TOKEN).stdout.replace("minReadySeconds", "minimumReadySeconds")
    (tmp_path / "made.yaml").write_text(made)
    code = "from kubernetes_validate.__main__ import main; import sys; sys.exit(main())"
    check = [sys.executable, "-c", code, "-k", "1.33", "--strict"]
    done = subprocess.run([*check, tmp_path / "made.yaml"], capture_output=True, text=True)
    assert done.returncode != 0
