"""Vendoring with the real ansible-galaxy: every kind of source, what fails and what then stays, kills and cancels."""

from __future__ import annotations

import os
import signal
import socket
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trio

from exocomp.actors.vendor import Vendor
from exocomp.config import Layout, Settings
from exocomp.errors import Conflict, ExocompError, WrongUsage
from exocomp.protocol.commands import VendorContent, Vendored
from exocomp.protocol.events import ContentVendored
from exocomp.vendoring import tree
from tests import vendored_content as content
from tests.attempts import alive, pid_in, until

POINTS = ("vendor.installed", "vendor.sealed", "vendor.placed", "vendor.aimed", "vendor.pointed")
CRASHING = """
import sys, trio
from pathlib import Path
from exocomp.actors.vendor import Vendor
from exocomp.config import Layout, Settings
from exocomp.protocol.commands import VendorContent

vendor = Vendor(Layout(Path(sys.argv[1])), Settings(), lambda event: None)
trio.run(vendor.carry_out, VendorContent(requirements=sys.argv[2]))
"""


class Bench:
    """A data dir, a requirements file and a daemon's environment without a Galaxy."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = Layout(root / "data")
        self.layout.root.mkdir(mode=0o700)
        self.file = root / "requirements.yml"
        self.events: list[ContentVendored] = []

    def vendor(self, **more: Any) -> Vendor:
        return Vendor(self.layout, more.pop("settings", Settings()), self.events.append, **more)

    async def carry_out(self, text: str, **more: Any) -> Vendored:
        self.file.write_text(text)
        return await self.vendor(**more).carry_out(VendorContent(requirements=str(self.file)))

    async def refused(self, text: str, **more: Any) -> ExocompError:
        """The refusal of a text, after which everything is as it was."""
        before = self.state()
        with pytest.raises(ExocompError) as refusal:
            await self.carry_out(text, **more)
        assert self.state() == before
        assert refusal.value.hint
        return refusal.value

    def state(self) -> Any:
        shelf = self.layout.vendor
        paths = sorted(path.relative_to(shelf) for path in shelf.rglob("*")) if shelf.exists() else []
        return paths, tree.current(shelf), len(self.events)

    @property
    def current(self) -> Path:
        found = tree.current(self.layout.vendor)
        assert found is not None
        return found.path


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name in [name for name in os.environ if name.startswith("ANSIBLE_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANSIBLE_GALAXY_SERVER", closed())
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("archive")
    return content.build(content.collection(where), where / "built")


def closed() -> str:
    """A Galaxy URL that nobody answers at."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}/api/"


def told(vendored: Vendored) -> list[tuple[str, str, str, str]]:
    return [(entry.kind, entry.name, entry.version, entry.source) for entry in vendored.entries]


async def test_an_archive_beside_the_file_is_vendored_without_any_galaxy(bench: Bench, archive: Path) -> None:
    (bench.root / archive.name).write_bytes(archive.read_bytes())
    vendored = await bench.carry_out(f"collections: [./{archive.name}]")
    assert told(vendored) == [("collection", "acme.tools", "1.2.3", str(bench.root / archive.name))]
    assert Path(vendored.directory) == bench.current
    module = bench.current / "collections/ansible_collections/acme/tools/plugins/modules/hello.py"
    assert "tools 1.2.3" in module.read_text()
    (event,) = bench.events
    found = tree.current(bench.layout.vendor)
    assert found is not None
    assert (event.entries, event.digest) == (("acme.tools 1.2.3",), found.digest)
    assert (await bench.carry_out(f"collections: [./{archive.name}]")).entries == vendored.entries
    assert bench.events[1].digest == event.digest


async def test_directories_are_vendored_with_the_dependencies_that_the_file_names(bench: Bench) -> None:
    content.collection(bench.root, "base", "1.0.0")
    content.collection(bench.root, "top", "2.0.0", dependencies={"acme.base": ">=1"})
    vendored = await bench.carry_out("collections: [acme-top-source, acme-base-source]")
    assert [entry.name for entry in vendored.entries] == ["acme.base", "acme.top"]


async def test_a_git_repository_is_vendored_at_the_version_named(bench: Bench) -> None:
    source = content.repository(content.collection(bench.root, "tools", "1.0.0"), "old")
    content.collection(bench.root, "tools", "2.0.0")
    content.git(source, "commit", "-qam", "new")
    url = f"file://{source}"
    vendored = await bench.carry_out(f"collections: ['git+{url},old']")
    assert told(vendored) == [("collection", "acme.tools", "1.0.0", url)]
    vendored = await bench.carry_out("collections: [{source: ./acme-tools-source, type: git}]")
    assert told(vendored) == [("collection", "acme.tools", "2.0.0", url)]


async def test_a_url_is_vendored(bench: Bench, archive: Path) -> None:
    class Server(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(archive.parent))

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            vendored = await bench.carry_out(f"collections: ['{base}/{archive.name}']")
            refusal = await bench.refused(f"collections: ['{base}/nothing.tar.gz']")
        finally:
            server.shutdown()
            thread.join()
    assert told(vendored) == [("collection", "acme.tools", "1.2.3", f"{base}/{archive.name}")]
    assert refusal.what == f"can't download {base}/nothing.tar.gz: HTTP Error 404: File not found"


async def test_roles_are_vendored_from_git_and_from_an_archive_without_a_date(bench: Bench) -> None:
    source = content.repository(content.role(bench.root), "v1")
    content.git(source, "archive", "--prefix", "greeter/", "-o", str(bench.root / "greeter.tar.gz"), "v1")
    text = "- {src: ./greeter, scm: git, version: v1}\n- {src: greeter.tar.gz, name: other}\n"
    vendored = await bench.carry_out(text)
    assert told(vendored) == [
        ("role", "greeter", "v1", f"file://{source}"),
        ("role", "other", "", str(bench.root / "greeter.tar.gz")),
    ]
    assert vendored.entries[0].digest == vendored.entries[1].digest


async def test_a_galaxy_server_serves_collections_and_names_itself_as_the_source(
    bench: Bench, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with content.galaxy(archive) as url:
        monkeypatch.setenv("ANSIBLE_GALAXY_SERVER", url)
        vendored = await bench.carry_out("collections: [acme.tools]")
        assert told(vendored) == [("collection", "acme.tools", "1.2.3", url)]
        missing = await bench.refused("collections: [acme.nothing]")
        assert missing.what == "there is no collection acme.nothing on the Galaxy server"
        version = await bench.refused("collections: [{name: acme.tools, version: '>=9'}]")
        assert version.what == "there is no version >=9 of the collection acme.tools on the Galaxy server"
        assert (await bench.refused("- acme.role")).what == "Galaxy has no role acme.role"
        by_cfg = "[defaults]\ncollections_path = /nowhere\n[galaxy]\nserver_list = hub\n"
        (bench.root / "ansible.cfg").write_text(f"{by_cfg}[galaxy_server.hub]\nurl = {url}\n")
        monkeypatch.delenv("ANSIBLE_GALAXY_SERVER")
        assert told(await bench.carry_out("collections: [acme.tools]")) == told(vendored)


async def test_what_has_another_checksum_than_galaxy_names_is_refused(
    bench: Bench, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with content.galaxy(archive, sha256="0" * 64) as url:
        monkeypatch.setenv("ANSIBLE_GALAXY_SERVER", url)
        refusal = await bench.refused("collections: [acme.tools]")
    assert "acme-tools-1.2.3.tar.gz does not have the checksum" in refusal.what


@pytest.mark.parametrize("text", ["collections: [acme.tools]", "- acme.role"])
async def test_an_unreachable_galaxy_is_named_and_nothing_changed(bench: Bench, archive: Path, text: str) -> None:
    await bench.carry_out(f"collections: [{archive}]")
    refusal = await bench.refused(text)
    server = os.environ["ANSIBLE_GALAXY_SERVER"]
    assert refusal.what == f"the Galaxy server {server} can't be reached: Connection refused"
    assert "type: file" in refusal.hint


async def test_a_broken_archive_and_a_wrong_name_or_version_are_refused(bench: Bench, archive: Path) -> None:
    (bench.root / "bad.tar.gz").write_text("x")
    (bench.root / "repo").mkdir()
    content.repository(content.role(bench.root), "v1")
    for text, said in (
        ("collections: [./bad.tar.gz]", "bad.tar.gz is not a tar archive"),
        ("- {src: ./bad.tar.gz, name: r}", "the source of the role r is not a tar archive"),
        (f"collections: [{{name: acme.other, source: {archive}, type: file}}]", "is acme.tools"),
        (f"collections: [{{source: {archive}, type: file, version: '9'}}]", "does not fit what is asked for"),
        ("collections: [{source: ./repo, type: git}]", "does not appear to be a git repository"),
        ("- {src: ./repo, scm: git}", "does not appear to be a git repository"),
        ("- {src: ./greeter, scm: git, version: v9}", "the role greeter has no version v9"),
        ("collections: [{source: ./greeter, type: git, version: v9}]", "has no version v9"),
    ):
        assert said in (await bench.refused(text)).what


async def test_a_missing_git_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    content.repository(content.role(bench.root))
    monkeypatch.setenv("PATH", "/nowhere")
    for text in ("- {src: ./greeter, scm: git}", "collections: [{source: ./greeter, type: git}]"):
        assert (await bench.refused(text)).what.startswith("git is not installed")


async def test_without_a_file_what_the_seeded_runbooks_need_is_nothing_and_nothing_changes(
    bench: Bench, archive: Path
) -> None:
    await bench.carry_out(f"collections: [{archive}]")
    before = bench.state()
    assert await bench.vendor().carry_out(VendorContent()) == Vendored(entries=(), directory="")
    assert bench.state() == before


async def test_an_empty_file_takes_everything_away(bench: Bench, archive: Path) -> None:
    await bench.carry_out(f"collections: [{archive}]")
    vendored = await bench.carry_out("collections: []")
    assert vendored.entries == ()
    assert list((bench.current / "collections").iterdir()) == []


async def test_a_malformed_file_starts_nothing(bench: Bench) -> None:
    assert isinstance(await bench.refused("collections: {}x"), WrongUsage)
    assert not bench.layout.vendor.exists()


async def test_a_tree_in_use_outlives_two_newer_ones(bench: Bench, archive: Path) -> None:
    await bench.carry_out(f"collections: [{archive}]")
    used = bench.current
    for _ in range(2):
        await bench.carry_out(f"collections: [{archive}]", in_use=lambda: [used.name])
    assert used.is_dir()
    await bench.carry_out(f"collections: [{archive}]")
    assert not used.exists()


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_leaves_the_old_tree_or_the_new_one_and_the_next_vendoring_sweeps(
    bench: Bench, archive: Path, point: str
) -> None:
    await bench.carry_out(f"collections: [{archive}]")
    old = tree.current(bench.layout.vendor)
    bench.file.write_text("collections: []")
    killed = await trio.run_process(
        [sys.executable, "-c", CRASHING, str(bench.layout.root), str(bench.file)],
        env={**os.environ, "EXOCOMP_CRASH_AT": point},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    found = tree.current(bench.layout.vendor)
    assert (found != old) == (point == "vendor.pointed")
    await bench.carry_out("collections: []")
    left = {path.name for path in bench.layout.vendor.iterdir()}
    assert old is not None
    before = old if found == old else found
    assert before is not None
    assert left == {tree.CURRENT, bench.current.name, before.path.name}


def slow(root: Path) -> tuple[Settings, Path]:
    """An ansible that starts another process and then hangs; the file will hold that one's pid."""
    pid = root / "pid"
    for name, script in (("ansible-playbook", ""), ("ansible-galaxy", f"sleep 600 & echo $! > {pid}; wait")):
        (root / name).write_text(f"#!/bin/sh\n{script}\n")
        (root / name).chmod(0o755)
    return Settings(ansible_playbook=str(root / "ansible-playbook")), pid


async def test_a_second_vendoring_is_refused_while_one_is_under_way_and_a_cancel_ends_all_of_it(bench: Bench) -> None:
    settings, file = slow(bench.root)
    vendor = bench.vendor(settings=settings)
    bench.file.write_text("collections: [acme.tools]")
    command = VendorContent(requirements=str(bench.file))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(vendor.carry_out, command)
        pid = await trio.to_thread.run_sync(pid_in, file)
        with pytest.raises(Conflict, match="is under way"):
            await vendor.carry_out(command)
        nursery.cancel_scope.cancel()
    await trio.to_thread.run_sync(until, lambda: not alive(pid))
    assert list(bench.layout.vendor.iterdir()) == []
    assert await bench.vendor().carry_out(VendorContent())


async def test_what_takes_too_long_is_ended_and_nothing_changed(bench: Bench) -> None:
    settings, file = slow(bench.root)
    bench.layout.vendor.mkdir()
    refusal = await bench.refused("collections: [acme.tools]", settings=settings, deadline_s=0.5)
    assert "took longer than 0.5 s" in refusal.what
    pid = pid_in(file)
    await trio.to_thread.run_sync(until, lambda: not alive(pid))


async def test_an_ansible_without_a_galaxy_beside_it_is_named(bench: Bench) -> None:
    lonely = bench.root / "ansible-playbook"
    lonely.write_text("#!/bin/sh\n")
    lonely.chmod(0o755)
    refusal = await bench.refused("collections: [a.b]", settings=Settings(ansible_playbook=str(lonely)))
    assert refusal.what == f"there is no ansible-galaxy beside {lonely}"
