"""The commands of README and the documents, page by page, in the order in which readers give them.

A page is one shell session in an empty folder, over the sites of ``document_sites``. A block that
is not run has a reason, in the document or in ``tests/data/blocks.toml``. Exit code 3 (stopped by a
limit) is a success, and so is 7 (broken links) of ``lycosa check links``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documented import ROOT, Block, blocks, missing, pages, reasons, settings_of
from kafka_broker import lacks_kafka
from s3_server import s3_program

SITES = ROOT / "tests" / "document_sites.py"
_START = r"""
set -e
lycosa() {
  local code=0
  command lycosa "$@" || code=$?
  case "$code $1 $2" in 3\ *|"7 check links") ;; *) return $code ;; esac
}
script/services() { "$ROOT/script/services" "$@"; }
script/crawl() { lycosa crawl "$@"; }
quietly() { "$@" >>quiet.txt 2>&1 || { cat quiet.txt; false; }; }
tomorrow() { touch "$TOMORROW"; }
bucket() {
  mkdir -p "$HOME/s3/$1"
  export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1
  export AWS_ENDPOINT_URL=http://127.0.0.1:7171 AWS_ALLOW_HTTP=true
  ROOT_ACCESS_KEY=key ROOT_SECRET_KEY=secret "$S3_PROGRAM" --port 127.0.0.1:7171 --quiet posix "$HOME/s3" &
  for i in $(seq 100); do curl -s $AWS_ENDPOINT_URL >"$HOME/s3.txt" && return; sleep 0.1; done; false
}
served() { for i in $(seq 100); do grep -q "http://" "$1" && return; sleep 0.2; done; cat "$1"; false; }
"""
"""What a session has before its first block."""
# Ended by the program that serves the sites, with the session.
_BACKGROUND = "{{\n{script}\n}} >{output} 2>&1 &\nserved {output}\n"


def run_by_test(page: Path) -> list[Block]:
    return [each for each in blocks(page) if not each.reason]


def _pages() -> list[object]:
    return [
        pytest.param(
            page, marks=[pytest.mark.long] if settings_of(page).get("long") else [],
            id=page.relative_to(ROOT).as_posix(),
        )
        for page in pages()
        if run_by_test(page)
    ]  # fmt: skip


def session(page: Path, output: Path) -> str:
    """The script of a page. Each block's output is a file of its number."""
    lines = [_START]
    before = settings_of(page).get("before", [])
    assert isinstance(before, list)
    for number, block in enumerate([None, *run_by_test(page)]):
        hidden = before if block is None else block.before
        lines += [f"{{ {each}\n}} >>{output}/hidden 2>&1" for each in hidden]
        if block is None:
            continue
        file = output / str(number)
        lines.append(f"echo {block.page}:{block.line} >{output}/at")
        if block.is_background:
            lines.append(_BACKGROUND.format(script=block.script, output=file))
        else:
            lines.append(f"{{ {block.script}\n}} >{file} 2>&1")
    return "\n".join(lines)


def _isolated() -> list[str]:
    """A network of its own: no document reaches another one, and ports are free."""
    for command in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]):
        if (
            shutil.which("unshare")
            and not subprocess.run([*command, "true"], capture_output=True, check=False).returncode
        ):
            return command
    return []


@pytest.mark.parametrize("page", _pages())
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    needs = settings_of(page).get("needs")
    if needs == "s3" and s3_program() is None:
        pytest.skip("needs a local S3 server: script/services s3")
    if needs == "kafka" and (lacks := lacks_kafka()):
        pytest.skip(f"Kafka cannot be started, missing: {lacks} (script/services kafka)")
    output = tmp_path / "output"
    output.mkdir()
    script = tmp_path / "session.sh"
    script.write_text(session(page, output))
    done = subprocess.run(
        ["timeout", "240", *_isolated(), sys.executable, str(SITES), str(tmp_path), str(script)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(done.stderr)
    printed = {path.name: path.read_text() for path in sorted(output.iterdir())}
    assert not done.returncode, f"{printed}\n{done.stderr}"
    for number, block in enumerate(run_by_test(page), 1):
        lacking = missing(block.printed, printed[str(number)])
        assert not lacking, (
            f"{block.page}:{block.line}: {lacking}\nprinted:\n{printed[str(number)]}"
        )


def test_reasons_are_of_blocks_that_exist() -> None:
    for name, rows in reasons().items():
        first = [each.lines[0] for each in blocks(ROOT / name)]
        unused = [key for key in rows if not any(each.startswith(key) for each in first)]
        assert unused == [], name
    for page in pages():
        for block in blocks(page):
            assert len(block.reason.split()) != 1, (
                f"{block.page}:{block.line}: a reason is a phrase"
            )
