"""Files that are fetched: a login page in their place, one without an end, a connection that breaks."""

from collections.abc import Iterator

import pytest

from mtrag_nb.core.files import data_dir, read_json
from mtrag_nb.core.types import DataError
from mtrag_nb.data import official
from study import fetch_released
from tests.support.servers import Asked, serving

SUM = "0" * 40  # of no file


def page(asked: Asked) -> object:
    "A page, without its length; at /endless without an end, and 500 twice before it at /busy."
    if asked.path.endswith("/busy") and asked.n < 2:
        return 500, "", {}
    return iter(
        [b"<html>Sign in</html>" * 100]
        * (10_000 if asked.path.endswith("/endless") else 1)
    )


@pytest.fixture
def url() -> Iterator[str]:
    with serving(page) as server:
        yield server.url


def test_a_login_page_is_not_the_file(url, tmp_path):
    with pytest.raises(DataError, match="does not have the checksum"):
        official.fetch_file(f"{url}/login", tmp_path / "file", SUM)
    assert not list(tmp_path.iterdir())


def test_a_file_without_an_end_is_not_read_for_ever(url, tmp_path, monkeypatch):
    monkeypatch.setattr(official, "_MOST", 100_000)
    with pytest.raises(DataError, match="has more than 100,000 bytes"):
        official.fetch_file(f"{url}/endless", tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_a_server_that_fails_is_asked_again(url, tmp_path):
    assert (
        official.fetch_file(f"{url}/busy", tmp_path / "file", tries=3).stat().st_size
        == 2_000
    )


def test_released_runs_are_fetched_where_they_are_not_there(tmp_path):
    listed = read_json(data_dir("paper") / "released.json", kind=list)
    assert {f["licence"] for f in listed} == {"MIT", "Apache-2.0"}
    assert all(len(f["git"]) == len(f["commit"]) == 40 for f in listed)
    nowhere, lines = "http://127.0.0.1:9", []
    for f in listed[1:]:
        (tmp_path / "released" / f["file"]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "released" / f["file"]).touch()
    with pytest.raises(DataError, match="could not be fetched"):
        fetch_released(tmp_path, nowhere, seen=lines.append)
    (tmp_path / "released" / listed[0]["file"]).touch()
    assert fetch_released(tmp_path) == []
    (tmp_path / "released" / "ibm" / "RAG.json").unlink()
    assert fetch_released(tmp_path, nowhere, lines.append) == []
    assert lines[-1].startswith("ibm/RAG.json is left out")
