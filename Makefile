# Every target sets up what it needs: Python 3.11 or newer with venv and pip is all that must be there.
# All paths are relative, so that the folder may have any name.

PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

BIN       := .venv/bin
INSTALLED := .venv/installed-pyproject.toml
MODEL     := tiny-llama@v1.0.0
IMAGE     := dist/tiny-llama-v1.0.0
IN_IMAGE  := bake/entrypoint bake/record.py bake/digest.py bake/errors.py

# STEP COMMAND…: say what runs, run it, and say which step it was that failed.
STEP = @step() { printf '\n==> %s\n' "$$*"; "$$@" || { code=$$?; \
	printf '\nmake $@: FAILED (exit %s): %s\n' "$$code" "$$*" >&2; exit $$code; }; }; step

# SHOW COMMAND…: print a command as one would type it, then its output.
SHOW = @show() { printf '\n$$ %s\n' "$$*"; "$$@"; }; show

.PHONY: help demo test check format bench bench-docker bench-registry clean setup
.DEFAULT_GOAL := help

help: ## Show what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

demo: setup ## Build an image of the repository's small model, verify it, show it
	$(SHOW) $(BIN)/bake build $(MODEL) --to oci
	$(SHOW) $(BIN)/bake verify oci:$(IMAGE) --level full
	$(SHOW) $(BIN)/bake show $(MODEL)

test: setup ## Run every test that this machine can run
	$(STEP) $(BIN)/python -m pytest -n auto

check: setup ## Format, lint, strict types, import rules and the fast tests
	$(STEP) $(BIN)/ruff format --check
	$(STEP) $(BIN)/ruff check
	$(STEP) $(BIN)/mypy
	$(STEP) $(BIN)/mypy --python-version 3.10 $(IN_IMAGE)
	$(STEP) $(BIN)/lint-imports
	$(STEP) $(BIN)/python -m pytest -q -n auto -m "not docker and not tools and not slow and not verl"

format: setup ## Format the code, and mend what the linter can
	$(STEP) $(BIN)/ruff format
	$(STEP) $(BIN)/ruff check --fix

bench: setup ## Measure bake against cp, openssl and sha256sum (minutes, 12 GB of disk below build/)
	$(STEP) $(BIN)/python tests/bench/start.py
	$(STEP) $(BIN)/python tests/bench/matrix.py
	$(STEP) $(BIN)/python tests/bench/build.py
	$(STEP) $(BIN)/python tests/bench/verify.py
	$(STEP) $(BIN)/python tests/bench/entrypoint.py

bench-docker: setup ## Measure bake against docker buildx build, in a daemon that nobody else uses
	$(STEP) $(BIN)/python tests/bench/docker.py

bench-registry: setup ## Measure a push against curl and skopeo, into docker-registry (.ci/engine up)
	$(STEP) $(BIN)/python tests/bench/registry.py

clean: ## Remove what make made: .venv, caches, the demo's image (other images in dist/ stay)
	rm -rf .venv build $(IMAGE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find bake tests -type d -name __pycache__ -prune -exec rm -rf {} +
	@rmdir dist 2>/dev/null || true

# The stamp is a copy of pyproject.toml: touching the file, or checking out a branch and back, installs nothing.
setup: $(INSTALLED)
	@:

$(INSTALLED): pyproject.toml
	@$(if $(PYTHON),"$(PYTHON)",false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		printf 'error: bake needs Python 3.11 or newer, found: %s\n' "$$("$(or $(PYTHON),python3)" --version 2>/dev/null || echo none)" >&2; \
		printf 'hint: make PYTHON=/path/to/python3.11 …\n' >&2; exit 1; }
	@cmp -s pyproject.toml $@ || { rm -f $@; \
		printf 'setting up .venv with %s\n' "$$("$(PYTHON)" --version)"; \
		$(BIN)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear .venv || { \
			printf 'error: %s cannot make a virtual environment\n' "$(PYTHON)" >&2; \
			printf 'hint: on Debian and Ubuntu: apt-get install python3-venv\n' >&2; exit 1; }; \
		$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]' || { \
			printf 'error: pip could not install bake and its tools into .venv\n' >&2; exit 1; }; }
	@cp pyproject.toml $@
