"""The figures of the benchmarks: the pages show what the file has, and the file keeps what was measured."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def benchmarks() -> Any:
    """The modules of the folder `benchmarks` that measure nothing, by name."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    found = {name: importlib.import_module(name) for name in ("all", "pages", "results", "tables")}
    yield found
    sys.path.remove(str(ROOT / "benchmarks"))
    for name in found:  # other packages may have these names
        del sys.modules[name]


HEAD = {"date": "2026-01-02", "commit": "abc", "clean": True, "machine": {"lanes": 8}, "versions": {"pin": "4"}, "builds": {}}


def made(results: Any, name: str, *rows: Any, **head: Any) -> dict[str, Any]:
    """Return made-up results of a benchmark."""
    entry = {"date": "2026-01-02", "commit": "abc", "clean": True, "quick": False, "seconds": 1.0, "rows": list(rows)}
    return {"head": HEAD | head, "benchmarks": {name: entry}}


# the pages


def test_pages_show_what_the_file_has(benchmarks: Any) -> None:
    pages, of = benchmarks["pages"], benchmarks["tables"].Results(benchmarks["results"].read(ROOT / "benchmarks" / "results.json"))
    for page in pages.PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert pages.written(text, of) == text, f"{page}: write it by python benchmarks/pages.py"


def test_every_table_stands_on_a_page_and_every_page_with_one_is_listed(benchmarks: Any) -> None:
    found = {path: re.findall(r"^<!-- table: (\S+) -->$", path.read_text(encoding="utf-8"), re.M) for path in ROOT.glob("docs/**/*.md")}
    found[ROOT / "README.md"] = re.findall(r"^<!-- table: (\S+) -->$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert {path.relative_to(ROOT).as_posix() for path, names in found.items() if names} == set(benchmarks["pages"].PAGES)
    assert sorted(name for names in found.values() for name in names) == sorted(benchmarks["tables"].TABLES)


def test_the_file_has_every_benchmark_in_one_structure(benchmarks: Any) -> None:
    facts = benchmarks["results"].read(ROOT / "benchmarks" / "results.json")
    assert set(facts["benchmarks"]) == set(benchmarks["all"].BENCHMARKS)
    assert {"date", "commit", "clean", "machine", "versions", "builds"} == set(facts["head"])
    for name, entry in facts["benchmarks"].items():
        assert {"date", "commit", "clean", "quick", "rows"} <= set(entry), name
        for row in entry["rows"]:
            assert set(row) <= {"model", "what", "catena", "peers", "ratios", "figures"}
            for peer, times in row.get("ratios", {}).items():
                assert abs(times - row["peers"][peer] / row["catena"]) < 1e-9 * times


def test_a_table_without_figures_is_refused(benchmarks: Any) -> None:
    pages, results, tables = (benchmarks[name] for name in ("pages", "results", "tables"))
    text = "<!-- table: {} -->\nold\n<!-- end -->"
    for name, words in (("dynamic", "there is no table dynamic"), ("dynamics", "has no benchmark dynamics; run python benchmarks/all.py")):
        with pytest.raises(SystemExit, match=words):
            pages.written(text.format(name), tables.Results(made(results, "loops")))
    failed = made(results, "dynamics")
    failed["benchmarks"]["dynamics"]["failed"] = "no memory"
    with pytest.raises(SystemExit, match="benchmark dynamics failed, and gives no table: no memory"):
        pages.written(text.format("dynamics"), tables.Results(failed))


# the file


def test_what_is_not_measured_again_keeps_its_commit_machine_and_versions(benchmarks: Any) -> None:
    results = benchmarks["results"]
    before, now = made(results, "loops"), made(results, "dynamics", machine={"lanes": 4}, commit="def")
    now["benchmarks"]["dynamics"]["commit"] = "def"
    found = results.merged(before, now)
    assert found["head"] == now["head"]
    assert [(name, one["commit"], one.get("machine")) for name, one in found["benchmarks"].items()] == [
        ("loops", "abc", {"lanes": 8}), ("dynamics", "def", None),
    ]  # fmt: skip
    again = results.merged(found, made(results, "ladder", machine={"lanes": 2}))
    assert [one.get("machine") for one in again["benchmarks"].values()] == [{"lanes": 8}, {"lanes": 4}, None]
    assert all("versions" not in one for one in again["benchmarks"].values())  # they are those of the head


def test_a_file_is_there_as_it_was_or_as_it_is_to_be(benchmarks: Any, tmp_path: Path) -> None:
    results, path = benchmarks["results"], tmp_path / "results.json"
    first = made(results, "loops", results.row("four-bar", "batch", 1.0, {"Pinocchio": 3.0}, error=1e-12))
    results.write(path, first)
    assert results.read(path) == first
    assert first["benchmarks"]["loops"]["rows"][0]["ratios"] == {"Pinocchio": 3.0}
    with pytest.raises(ValueError, match="JSON compliant"):
        results.write(path, made(results, "loops", results.row("four-bar", "batch", float("nan"))))
    assert results.read(path) == first
    assert [other.name for other in tmp_path.iterdir()] == ["results.json"]
    with pytest.raises(ValueError, match="rows that do not differ"):
        results.entry("loops", 2 * first["benchmarks"]["loops"]["rows"], quick=False)
    for text, words in (("{", "not JSON"), ("[]", "not a file of benchmarks")):
        path.write_text(text)
        with pytest.raises(SystemExit, match=words):
            results.read(path)
    with pytest.raises(SystemExit, match="no such file"):
        results.read(tmp_path / "none.json")


GOOD = """
import results
options = results.parser("").parse_args()
results.report("good", [results.row("arm", "step", 2.0, {"MuJoCo": 8.0})], options)
"""


def test_a_benchmark_that_fails_is_recorded_and_the_others_go_on(benchmarks: Any, tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    every, results, file = benchmarks["all"], benchmarks["results"], tmp_path / "results.json"
    scripts = {"bad": "raise SystemExit('no memory')", "good": GOOD}
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    chosen = {name: every.Benchmark((str(tmp_path / f"{name}.py"),)) for name in scripts}
    monkeypatch.setattr(every, "BENCHMARKS", chosen | {"absent": every.Benchmark(("none.py",), ("no_such_package",))})
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "benchmarks"), prepend=":")
    results.write(file, made(results, "loops"))

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["all.py", "--quick", "--json", str(file), *arguments])
        with pytest.raises(SystemExit) as ended:
            every.main()
        return ended.value.code

    assert run() == 1
    found = results.read(file)["benchmarks"]
    assert set(found) == {"loops", "bad", "good"}
    assert (found["bad"]["failed"], found["bad"]["rows"]) == ("no memory", [])
    assert found["good"]["rows"][0]["ratios"] == {"MuJoCo": 4.0}
    assert "failed" not in found["good"]
    assert "absent is left out: no_such_package not installed" in capfd.readouterr().out
    before = json.loads(file.read_text())
    before["benchmarks"]["good"]["rows"][0]["catena"] = 1.0
    results.write(tmp_path / "old.json", before)
    assert run("--only", "good", "--compare", str(tmp_path / "old.json"), "--fail-above", "1.5") == 1
    printed = capfd.readouterr()
    assert re.search(r"good: arm, step +1\D+2\D+2\.00 +slower", printed.out)
    assert "slower by more than 1.5: good: arm, step" in printed.err


def test_what_peers_changed_by_is_noise(benchmarks: Any) -> None:
    results = benchmarks["results"]

    def measured(own: float, peer: float, **head: Any) -> dict[str, Any]:
        return made(results, "steps", results.row("arm", "step", own, {"MuJoCo": peer}), results.row("arm", "alone", own), **head)

    def verdicts(before: Any, now: Any) -> list[str]:
        return [one.verdict for one in results.compared(before, now, ["steps", "absent"])[0]]

    before = measured(1.0, 4.0)
    assert verdicts(before, measured(1.3, 5.2)) == ["", "slower"]  # the machine was slower; without a peer nobody can tell
    assert verdicts(before, measured(1.3, 4.0)) == ["slower", "slower"]
    assert verdicts(before, measured(0.7, 4.0)) == ["faster", "faster"]
    assert results.compared(before, measured(1.0, 4.0), ["steps"])[1] == []
    assert results.compared(before, measured(1.0, 4.0, versions={"pin": "5"}), ["steps"])[1] == ["pin 4, now 5"]
