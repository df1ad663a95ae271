"Packaging shim: every value is read from settings.ini, which nbdev reads too."
from configparser import ConfigParser
from pathlib import Path

import setuptools

here = Path(__file__).parent
ini = ConfigParser(delimiters=["="])
ini.read(here / "settings.ini", encoding="utf-8")
cfg = ini["DEFAULT"]
# The sample travels inside the wheel as mtrag_nb/sample, so that an installed package finds it without a clone.
sample = [str(p.relative_to(here / "data" / "sample")) for p in (here / "data" / "sample").rglob("*") if p.is_file()]

setuptools.setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    author=cfg["author"],
    author_email=cfg["author_email"],
    url=cfg["git_url"],
    license="Apache-2.0",
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    packages=[cfg["lib_path"], cfg["lib_path"] + ".sample"],
    package_dir={cfg["lib_path"] + ".sample": "data/sample"},
    package_data={cfg["lib_path"] + ".sample": sample},
    python_requires=">=" + cfg["min_python"],
    install_requires=cfg["requirements"].split(),
    extras_require={"dev": cfg["dev_requirements"].split()},
    entry_points={
        "console_scripts": cfg["console_scripts"].split(),
        "nbdev": [f"{cfg['lib_path']}={cfg['lib_path']}._modidx:d"],
    },
    zip_safe=False,
)
