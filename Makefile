# Two commands: `make demo` and `make test`. Each makes the virtual environment by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP := $(VENV)/.installed
CONSTRAINTS ?= constraints.txt
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo test pytest check coverage transformers networks slow notebooks docs tables bench clean

demo: $(STAMP)  ## learn five tasks of handwritten digits in about two minutes and write a report
	@rm -rf runs/demo
	$(BIN)/lockgate run --dataset digits --method ccgn-episodic --options.buffer 200 --runtime.threads 1 --out runs/demo

test: $(STAMP) check pytest  ## all checks: format, lint, types, imports, tests; what was skipped and why is said last

pytest: $(STAMP)  ## the tests alone
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(STAMP)
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports

coverage: $(STAMP)  ## which lines the tests run, workers and the processes they start included; build/coverage has pages
	@rm -rf build/coverage && mkdir -p build/coverage
	COVERAGE_FILE=$(CURDIR)/build/coverage/data $(BIN)/coverage run -m pytest -n 2 --dist worksteal --durations 40
	$(BIN)/coverage combine --quiet --data-file build/coverage/data
	$(BIN)/coverage html --quiet --data-file build/coverage/data --directory build/coverage
	$(BIN)/coverage report --data-file build/coverage/data --skip-covered --sort=miss

transformers: $(STAMP)  # 126 MB: its networks are tried where it is here
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e ".[transformers]"

networks: transformers  ## thirteen networks of transformers, random weights: past answers bit-equal, controls fail
	$(BIN)/python -m pytest tests/backbones

slow: $(STAMP)  ## long trainings, and the notebooks executed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e ".[notebooks]"
	$(BIN)/python -m pytest -m slow

notebooks: $(STAMP)  ## execute the notebooks, and keep what they show
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e ".[notebooks]"
	$(BIN)/python tools/run_notebooks.py notebooks/*.ipynb

docs: $(STAMP)  ## the site, in build/site; fetches nothing, and warnings are errors
	$(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html; for its search: $(BIN)/python -m http.server --directory build/site"

tables: $(STAMP)  ## REPRODUCTION.md, the table and the figure of the README, from results/; runs nothing
	@rm -rf runs/tables
	$(BIN)/lockgate reproduce all --no-run --results results --root runs/tables --readme README.md
	cp runs/tables/REPRODUCTION.md REPRODUCTION.md
	cp runs/tables/over-tasks.svg docs/over_tasks.svg

bench: $(STAMP)  ## timings as ratios, written to docs/performance.md; RUNS="a b": run folders to time inference of
	$(BIN)/python benchmarks/write.py $(RUNS)

$(STAMP): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
