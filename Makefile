.PHONY: setup check test unit e2e fix

setup:
	@.ci/setup

check: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

test: setup
	.venv/bin/pytest

unit: setup
	.venv/bin/pytest -m "not lab" --ignore tests/e2e --ignore tests/crash

e2e: setup
	.venv/bin/pytest tests/e2e tests/crash

fix: setup
	.venv/bin/ruff check --fix
	.venv/bin/ruff format
