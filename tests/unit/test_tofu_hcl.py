"""What is read out of a module's text before an engine runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exocomp.drivers.tofu import hcl

BACKENDS = {
    "none": ("", None, None),
    "local": ('terraform {\n  backend "local" {\n    path = "foo.state"\n  }\n}\n', "local", "foo.state"),
    "local without path": ('terraform {\n backend "local" {}\n}\n', "local", None),
    "one line": ('terraform { backend "s3" {} }', "s3", None),
    "unquoted label": ('terraform {\n backend s3 {\n bucket = "b"\n }\n}', "s3", None),
    "cloud": ('terraform {\n  cloud {\n    organization = "o"\n    workspaces { name = "y" }\n  }\n}', "cloud", None),
    "commented out": ('# terraform { backend "s3" {} }\n/* terraform {\n backend "s3" {} } */ // x', None, None),
    "in a string": ('locals {\n  a = "terraform { backend \\"s3\\" {} }"\n}', None, None),
    "in a heredoc": ('locals {\n  a = <<-EOT\n    terraform {\n    backend "s3" {}\n    }\n    EOT\n}\n', None, None),
    "after a nested template": (
        'locals { a = "${join("}", ["{", "${"x"}"])}" }\nterraform { backend "gcs" {} }',
        "gcs",
        None,
    ),
    "after other settings": (
        'terraform {\n required_version = ">= 1.0"\n required_providers {\n  a = { source = "x/y" }\n }\n'
        ' backend "http" {\n  address = "http://x"\n }\n}',
        "http",
        None,
    ),
    "path by expression": ('terraform {\n backend "local" {\n path = "${path.root}/x"\n }\n}', "local", ""),
    "block of another kind": ('resource "a" "backend" {\n backend "s3" {}\n}', None, None),
    "byte order mark, CRLF": ('\ufeffterraform {\r\n  backend "s3" {\r\n  }\r\n}\r\n', "s3", None),
    "unclosed": ('terraform {\n backend "s3" {\n', "s3", None),
    "unclosed string": ('locals { a = "x', None, None),
}


@pytest.mark.parametrize("name", BACKENDS)
def test_the_backend_is_found(name: str, tmp_path: Path) -> None:
    text, backend, path = BACKENDS[name]
    (tmp_path / "main.tf").write_text(text, newline="")
    found = hcl.read_module(tmp_path)
    assert (found.backend, found.path) == (backend, path)


def test_an_override_file_wins(tmp_path: Path) -> None:
    (tmp_path / "a_override.tf").write_text('terraform {\n backend "local" {\n path = "o"\n }\n}')
    (tmp_path / "main.tf").write_text('terraform { backend "s3" {} }')
    (tmp_path / "override.tf.json").write_text('{"terraform": [{"backend": {"local": {"path": "p"}}}]}')
    found = hcl.read_module(tmp_path)
    assert (found.backend, found.path) == ("local", "p")


def test_a_tofu_file_replaces_its_namesake_for_tofu_only(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text('variable "a" {}\n')
    (tmp_path / "main.tofu").write_text('variable "b" {}\n')
    (tmp_path / "more.tf").write_text('variable "c" {}\n')
    (tmp_path / ".hidden.tf").write_text('variable "d" {}\n')
    (tmp_path / "editor.tf~").write_text('variable "e" {}\n')
    assert set(hcl.read_module(tmp_path, "terraform").variables) == {"a", "c"}
    assert set(hcl.read_module(tmp_path, "tofu").variables) == {"b", "c"}
    assert set(hcl.read_module(tmp_path).variables) == {"a", "b", "c"}


def test_how_a_variable_takes_the_value_of_a_flag(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text(
        'variable "plain" {}\n'
        'variable "text" { type = string }\n'
        'variable "count" {\n  type = number\n  validation {\n    condition = var.count > 1\n'
        '    error_message = "x"\n  }\n}\n'
        'variable "many" {\n  type = list(object({ a = string, b = optional(map(number), { x = 1 }) }))\n}\n'
        'variable "any" { type = any }\n'
        'variable "token" {\n  type      = string\n  ephemeral = true\n}\n'
        "variable bare {}\n"
    )
    (tmp_path / "more.tf.json").write_text(
        json.dumps({"variable": [{"j": {"type": "string"}}, {"k": {"type": "list(string)", "ephemeral": True}}]})
    )
    found = hcl.read_module(tmp_path).variables
    assert {name for name, v in found.items() if v.literal} == {"plain", "text", "count", "token", "bare", "j"}
    assert {name for name, v in found.items() if not v.literal} == {"many", "any", "k"}
    assert {name for name, v in found.items() if v.ephemeral} == {"token", "k"}


def test_local_modules_are_followed_to_the_end(tmp_path: Path) -> None:
    for name, source in {"root": "../a", "a": "./nested", "a/nested": "../../b", "b": "../root"}.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "main.tf").write_text(
            f'module "x" {{\n  source = "{source}"\n}}\nmodule "y" {{\n source = "registry.example/x/y/z"\n}}\n'
        )
    found = hcl.local_modules(tmp_path / "root")
    assert found == [tmp_path / "root", tmp_path / "a", tmp_path / "a" / "nested", tmp_path / "b"]


def test_json_modules_count_too(tmp_path: Path) -> None:
    (tmp_path / "main.tf.json").write_text('{"module": {"m": {"source": "./m"}}, "terraform": {"cloud": {}}}')
    found = hcl.read_module(tmp_path)
    assert found.sources == ("./m",)
    assert found.backend == "cloud"


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", "null", '{"variable": 3, "terraform": [null], "module": {"x": []}}']
)
def test_odd_json_is_passed_over(text: str, tmp_path: Path) -> None:
    (tmp_path / "main.tf.json").write_text(text)
    assert hcl.read_module(tmp_path) == hcl.Module()
