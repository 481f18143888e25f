"""What the README and the examples show works as shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import tipstaff
from tests.conftest import BINARY, PATIENCE, REPOSITORY, HostProcess, Server
from tipstaff import Client

EXAMPLES = REPOSITORY / "examples" / "python"
README = REPOSITORY / "python" / "README.md"


def run(server: Server, *command: str) -> tuple[int, list[str]]:
    """How a program ends, and the lines it prints."""
    environment = {**server.environment(), "PYTHONPATH": str(Path(tipstaff.__file__).parents[1])}
    ran = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert not ran.stderr
    return ran.returncode, ran.stdout.splitlines()


def test_the_programs_of_the_readme_print_what_they_should(server: Server) -> None:
    [agents, program] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    with HostProcess(server, agents):
        code, printed = run(server, "-c", program)
    assert code == 0
    assert printed == [
        "draft {'text': 'Hello, world!'}",
        "critic {'verdict': 'again'}",
        "draft {'text': 'Hello, world!!'}",
        "critic {'verdict': 'fine'}",
        "completed Hello, world!!",
    ]


def test_the_readme_lists_every_method() -> None:
    listed = set(re.findall(r"`(\w+)`", README.read_text().split("| method |")[1].split("\n\n")[0]))
    methods = {name for name in vars(Client) if not name.startswith("_")} - {"connect", "close"}
    assert listed - {"outputs", "metadata"} == methods


def test_both_clients_have_the_same_methods() -> None:
    def public(client: type) -> set[str]:
        return {name for name in vars(client) if not name.startswith("_")}

    assert public(Client) == public(tipstaff.AsyncClient)


def test_the_example_goes_back_until_the_headline_is_short(server: Server) -> None:
    with HostProcess(server, (EXAMPLES / "agents.py").read_text()):
        text = "It was a dark and stormy night, and nobody of good sense was out."
        code, printed = run(server, str(EXAMPLES / "client.py"), text)
    assert code == 0
    assert printed[-2:] == ["critic {'verdict': 'approved'}", "completed, gone back 1 times"]
    assert "execute {'headline': 'It Was A Dark And'}" in printed


def test_the_example_asks_where_there_is_nothing_to_do(server: Server) -> None:
    with HostProcess(server, (EXAMPLES / "agents.py").read_text()):
        code, printed = run(server, str(EXAMPLES / "client.py"), "")
    assert code == 1
    assert "perception asks: Of what text do you want a headline?" in printed


def test_what_init_writes_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(tipstaff.__file__).parents[1]), "HOME": str(tmp_path)}

    def command(*words: str) -> str:
        ran = subprocess.run([BINARY, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    [line] = re.findall(r"^  tipstaff (run headline\.yaml .*)$", command("init", "--python"), re.MULTILINE)
    printed = command(*(word.replace("python3", sys.executable) for word in shlex.split(line)))
    assert '"headline":"It was a dark"' in printed
