"Packaging shim: what pyproject.toml calls dynamic is read from settings.ini."

import re
from configparser import ConfigParser
from pathlib import Path

import setuptools

here = Path(__file__).parent
ini = ConfigParser(delimiters=["="])
ini.read(here / "settings.ini", encoding="utf-8")
cfg = ini["DEFAULT"]
# What the package reads besides other people's files travels in the wheel as mtrag_nb/_data (mtrag_nb.core.files.data_dir finds it there).
data = [
    str(p.relative_to(here / "data"))
    for name in ("sample", "recorded", "talks", "measured", "board", "paper", "page", "prompts", "refusals", "licence", "schema", "attribution")
    for p in (here / "data" / name).rglob("*")
    if p.is_file()
]
lib, lib_data = cfg["lib_path"], cfg["lib_path"] + "._data"
listed = {
    name: cfg[f"{name}_requirements"].split()
    for name in ("gpu", "eval", "lab", "document", "api", "test", "dev")
}
documents, run = listed.pop("document"), cfg["run_requirements"].split()
extras = {
    **{name: more + run for name, more in listed.items() if name != "eval"},
    "run": run,
    "eval": listed["eval"],
    "documents": documents,
    "api": listed["api"] + documents + run,
    "test": listed["test"] + documents + run,
}
extras["dev"] = sorted({r for names in extras.values() for r in names})
extras |= {name: cfg[f"{name}_requirements"].split() + run for name in ("clients", "ray")}  # not in dev
# On the package index README's links and pictures lead to the repository.
page = (here / "README.md").read_text(encoding="utf-8")
page = re.sub(r'(src|srcset)="(?!http)', rf'\1="{cfg["git_url"]}/raw/main/', page)
page = re.sub(r'href="(?!http)', f'href="{cfg["git_url"]}/blob/main/', page)
page = re.sub(r"\]\((?!http)", f"]({cfg['git_url']}/blob/main/", page)

setuptools.setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    license="Apache-2.0",
    long_description=page,
    long_description_content_type="text/markdown",
    packages=[*setuptools.find_packages(include=[lib, lib + ".*"]), lib_data],
    package_dir={lib_data: "data"},
    package_data={lib: ["py.typed"], lib_data: data},
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    entry_points={
        "console_scripts": cfg["console_scripts"].split(),
        "nbdev": [f"{lib}={lib}._modidx:d"],
    },
    zip_safe=False,
)
