"""A requirements file read strictly, the tree on disk, and what ansible-galaxy is given."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from exocomp import staging
from exocomp.errors import ExocompError, WrongUsage
from exocomp.vendoring import galaxy, reasons, requirements, tree
from exocomp.vendoring.lock import Lock, Locked
from exocomp.vendoring.requirements import Requirements, Wanted


def read(directory: Path, text: str) -> Requirements:
    file = directory / "requirements.yml"
    file.write_text(text)
    return requirements.read(file)


def test_both_forms_of_the_file_are_read(tmp_path: Path) -> None:
    old = read(tmp_path, "- geerlingguy.docker,1.0\n- {src: geerlingguy.nginx, name: web}\n")
    assert [(role.name, role.source, role.version, role.type) for role in old.roles] == [
        ("geerlingguy.docker", "geerlingguy.docker", "1.0", "galaxy"),
        ("web", "geerlingguy.nginx", "", "galaxy"),
    ]
    new = read(tmp_path, "collections: [ansible.posix, {name: acme.tools, version: '>=1,<2'}]\nroles: [acme.role]\n")
    assert [(each.name, each.version) for each in new.collections] == [
        ("ansible.posix", ""),
        ("acme.tools", ">=1,<2"),
    ]
    assert new.roles[0] == Wanted(kind="role", type="galaxy", name="acme.role", source="acme.role")


@pytest.mark.parametrize("text", ["", "# nothing\n", "collections: []\nroles: []\n", "collections:\n"])
def test_a_file_that_asks_for_nothing_is_valid(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == Requirements()


@pytest.mark.parametrize(
    ("entry", "kind", "source", "version"),
    [
        ("git+https://git.example.test/acme/tools.git,v1", "git", "https://git.example.test/acme/tools.git", "v1"),
        ("git@git.example.test:acme/tools.git", "git", "git@git.example.test:acme/tools.git", ""),
        ("{source: 'https://git.example.test/t#/below', type: git}", "git", "https://git.example.test/t#/below", ""),
        ("https://example.test/acme-tools-1.0.0.tar.gz", "url", "https://example.test/acme-tools-1.0.0.tar.gz", ""),
        ("./acme.tar.gz", "file", "{here}/acme.tar.gz", ""),
        ("{name: acme.tools, source: acme.tar.gz, type: file}", "file", "{here}/acme.tar.gz", ""),
        ("source", "dir", "{here}/source", ""),
        ("{source: ./source, type: git, version: main}", "git", "file://{here}/source", "main"),
    ],
)
def test_a_collections_source_tells_its_type(
    tmp_path: Path, entry: str, kind: str, source: str, version: str
) -> None:
    (tmp_path / "acme.tar.gz").touch()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "galaxy.yml").touch()
    found = read(tmp_path, f"collections:\n- {entry}\n").collections[0]
    assert (found.type, found.source, found.version) == (kind, source.format(here=tmp_path), version)


@pytest.mark.parametrize(
    ("entry", "kind", "name"),
    [
        ("{src: 'https://github.com/acme/ansible-web', version: v1}", "git", "ansible-web"),
        ("{src: 'https://git.example.test/web.git'}", "git", "web"),
        ("{src: 'https://example.test/web.tar.gz'}", "url", "web"),
        ("{src: ./web.tar.gz, name: site}", "file", "site"),
        ("{src: 'git@git.example.test:acme/web.git', scm: git}", "git", "web"),
    ],
)
def test_a_roles_source_tells_its_type_and_name(tmp_path: Path, entry: str, kind: str, name: str) -> None:
    (tmp_path / "web.tar.gz").touch()
    found = read(tmp_path, f"- {entry}\n").roles[0]
    assert (found.type, found.name) == (kind, name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not YAML at line"),
        ("!!python/object/apply:os.system [touch /tmp/x]", "is not YAML"),
        ("text", "holds text"),
        ("collection: []", "unknown key 'collection'"),
        ("collections: {name: a.b}", "collections in"),
        ("collections: [acme]", "entry 1 of collections in"),
        ("collections: [{version: '1'}]", "neither a name nor a source"),
        ("collections: [{name: a.b, versoin: '1'}]", "unknown key 'versoin'"),
        ("collections: [{name: a.b, version: 1.10}]", "version is a number (1.1), not text"),
        ("collections: [{name: a.b, type: subdirs}]", "type 'subdirs' is not known"),
        ("collections: [{name: a.b, source: '-x', type: git}]", "source '-x' is not usable"),
        ("collections: [{name: a.b, source: 'ext::sh -c x', type: git}]", "is no git URL"),
        ("collections: [{name: a.b, source: 'https://x/y', type: git, version: '--upload-pack=x'}]", "is not usable"),
        ("collections: [{source: ./nothing.tar.gz, type: file}]", "is not a file"),
        ("collections: [{source: 'ftp://x/y', type: url}]", "is no URL of an archive"),
        ("collections: [{name: a.b, source: 'no server'}]", "is no Galaxy server"),
        ("collections: [a.b, c.d, a.b]", "entries 1 and 3 of collections in"),
        ("collections: [{name: a.b, signatures: {x: y}}]", "signatures is no list of texts"),
        ("- include: more.yml", "entry 1 of roles in"),
        ("- {src: a.b, scm: hg}", "scm 'hg' is not known"),
        ("- {src: 'https://x/r.git', name: ../r}", "name '../r' is no role's name"),
        ("- {version: '1'}", "neither a src nor a name"),
        ("- {src: here}", "is a directory"),
        ("- [a]", "entry 1 of roles"),
    ],
)
def test_what_does_not_fit_is_refused_by_entry_and_field(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(WrongUsage) as refusal:
        read(tmp_path, text)
    assert said in refusal.value.what
    assert str(tmp_path / "requirements.yml") in refusal.value.what
    assert refusal.value.hint


def test_an_include_is_named_as_what_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="`include` is not followed"):
        read(tmp_path, "- include: more.yml\n")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="No such file"):
        requirements.read(tmp_path / "nothing.yml")


def test_the_environment_is_an_allow_list_and_nothing_is_kept_outside_of_the_work_directory() -> None:
    daemons = {
        "HOME": "/root",
        "SECRET": "x",
        "https_proxy": "http://proxy:1",
        "ANSIBLE_GALAXY_SERVER_HUB_TOKEN": "t",
        "ANSIBLE_GALAXY_CACHE_DIR": "/root/cache",
        "ANSIBLE_CONFIG": "/root/ansible.cfg",
        "PATH": "/usr/bin",
    }
    env = galaxy.environment(daemons, Path("/w"), Path("/t/collections"))
    assert "SECRET" not in env
    assert (env["https_proxy"], env["ANSIBLE_GALAXY_SERVER_HUB_TOKEN"]) == ("http://proxy:1", "t")
    outside = {name: value for name, value in env.items() if "/" in value and not value.startswith(("/w", "/t"))}
    assert outside.keys() == {"https_proxy", "PATH"}


def test_of_an_ansible_cfg_only_the_galaxy_servers_count() -> None:
    text = "[defaults]\ncallback_plugins=x\n[galaxy]\nserver_list=hub\ncache_dir=/x\n[galaxy_server.hub]\nurl=https://h/\n"
    config = galaxy.files(Requirements(), text)["ansible.cfg"]
    assert "callback" not in config
    assert "cache_dir" not in config
    assert "[galaxy_server.hub]\nurl = https://h/" in config


def test_credentials_in_urls_are_never_told() -> None:
    error = reasons.explain("collections", "[ERROR]: can't get https://me:secret@example.test/x", 1)
    assert "secret" not in error.what
    assert "example.test" in error.what


def test_a_failure_without_words_still_says_what_failed() -> None:
    assert "ended with code 7 while it installed roles: it said nothing" in reasons.explain("roles", "", 7).what


def published(shelf: Path, content: str, replaced: str | None = None) -> tree.Vendored:
    making = tree.Staging(shelf)
    (making.tree / "roles" / "r").write_text(content)
    entry = Locked(kind="role", name="r", version="", source="x", digest=content)
    found = making.publish(Lock(entries=(entry,), requirements="/r.yml", replaced=replaced))
    making.close()
    return found


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "vendor"


def test_nothing_is_current_before_anything_was_vendored(shelf: Path) -> None:
    tree.sweep(shelf, ())
    assert tree.current(shelf) is None


def test_a_published_tree_is_current_read_only_and_its_owners_alone(shelf: Path) -> None:
    making = tree.Staging(shelf)
    program = making.tree / "roles" / "run"
    program.write_text("x")
    program.chmod(0o755)
    (making.tree / "roles" / "text").write_text("x")
    made = making.publish(Lock(entries=(), requirements="/r.yml"))
    making.close()
    assert tree.current(shelf) == made
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in made.path.rglob("*")}
    assert modes == {"collections": 0o500, "roles": 0o500, "run": 0o500, "text": 0o400, "lock.json": 0o400}
    assert {path.name for path in shelf.iterdir()} == {made.path.name, tree.CURRENT}


def test_the_tree_before_stays_and_older_ones_go_unless_an_attempt_uses_them(shelf: Path) -> None:
    first = published(shelf, "1")
    second = published(shelf, "2", first.path.name)
    third = published(shelf, "3", second.path.name)
    tree.sweep(shelf, {first.path.name})
    assert first.path.exists()
    tree.sweep(shelf, ())
    assert [made.path.exists() for made in (first, second, third)] == [False, True, True]
    assert tree.current(shelf) == third


def test_leftovers_are_swept_but_not_those_that_somebody_still_fills(shelf: Path) -> None:
    crashed, living = tree.Staging(shelf), tree.Staging(shelf)
    os.close(crashed.fd)
    (shelf / ".current-vnd_x").symlink_to("vnd_x")
    tree.sweep(shelf, ())
    assert {path.name for path in shelf.iterdir()} == {living.tree.name, living.work.name}
    living.close()
    assert list(shelf.iterdir()) == []


def test_a_pointer_to_somewhere_else_or_a_damaged_lock_is_refused(shelf: Path) -> None:
    made = published(shelf, "1")
    os.chmod(made.path / "lock.json", 0o600)
    (made.path / "lock.json").write_text("{}")
    with pytest.raises(ExocompError, match="is damaged"):
        tree.current(shelf)
    (shelf / tree.CURRENT).unlink()
    (shelf / tree.CURRENT).symlink_to("../keys")
    with pytest.raises(ExocompError, match="does not point to a vendored tree"):
        tree.current(shelf)


def test_the_digest_tells_content_and_executable_bit_and_no_times(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "below").mkdir(parents=True)
    (root / "below" / "file").write_text("x")
    first = tree.digest(root)
    os.utime(root / "below" / "file", (1, 1))
    assert tree.digest(root) == first
    (root / "below" / "file").chmod(0o755)
    second = tree.digest(root)
    (root / "below" / "file").write_text("y")
    assert len({first, second, tree.digest(root)}) == 3


def test_the_locks_digest_is_that_of_its_content_wherever_it_came_from(shelf: Path) -> None:
    first, same, other = published(shelf, "1"), published(shelf, "1"), published(shelf, "2")
    assert first.digest == same.digest != other.digest
    for made in (first, same, other):
        staging.discard(made.path)
