"Sphinx's configuration for the site, which tools/make_site.py lays out and builds."

import configparser
import json
import re
from pathlib import Path

HERE = Path(__file__).parent
INI = configparser.ConfigParser(delimiters=["="])
INI.read(HERE / "settings.ini", encoding="utf-8")
CFG, ROOMS = INI["DEFAULT"], json.loads((HERE / "rooms.json").read_text(encoding="utf-8"))

project, author, release, language = CFG["lib_name"], CFG["author"], CFG["version"], "en"
project_copyright = f"{CFG['copyright']}, Apache-2.0"
extensions = [
    "myst_nb",
    "autoapi.extension",
    "sphinx.ext.linkcode",
    "sphinx_codeautolink",
    "sphinx_copybutton",
]
exclude_patterns = ["README.md", "extra"]
suppress_warnings = [
    "docutils",
    "myst.header",
    "codeautolink",
    "autoapi.python_import_resolution",
    "ref.python",
]

default_role = "code"  # of docstrings
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = "Show imports", "Hide imports"
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

autoapi_dirs, autoapi_root = [CFG["lib_path"]], "api"
autoapi_options = ["members", "undoc-members", "show-module-summary"]
autoapi_ignore = ["*/_modidx.py"]
autoapi_add_toctree_entry = False

html_theme, html_title, html_extra_path = "furo", project, ["extra"]
html_baseurl = f"https://{CFG['user']}.github.io/{CFG['repo']}/"
html_copy_source = False  # the notebooks are in the repository


def linkcode_resolve(domain, info):
    "A name of the API leads to the notebook that writes its module; the path is relative to the module's page."
    page = ROOMS.get(info["module"], "").removesuffix(".ipynb")
    return page and "../" * (info["module"].count(".") + 2) + page + ".html"


def escaped(app, what, name, obj, options, lines):
    "Docstrings are plain sentences with code in backticks: no other mark is markup."
    lines[:] = [re.sub(r"([*|]|_\b)", r"\\\1", line) if "`" not in line else line for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escaped)
