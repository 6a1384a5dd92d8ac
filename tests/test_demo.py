import re

import numpy as np
import pandas as pd

from cornerwave import demo


def test_the_demo_shows_that_a_coalition_gains_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    demo.run(tmp_path)
    lines = {
        cells[0]: [float(cell) for cell in cells[1:]]
        for line in capsys.readouterr().out.splitlines()
        if len(cells := [cell.strip() for cell in re.split("[│┃|]", line)[1:-1]]) == 4
        and re.fullmatch(r"0\.\d+", cells[1])
    }
    best = lines["internal team"]
    together, independent = lines["all four together"], lines["all four, independent noise"]
    assert best[0] == together[0] == 0.2
    assert independent[0] < 0.2
    for ours, mine, theirs in zip(together[1:], best[1:], independent[1:], strict=True):
        assert abs(ours - mine) < 0.005
        assert theirs < ours - 0.01
    # what the noise left, measured: not the copy, which is drawn together
    for promised, *measured in lines.values():
        assert np.abs(np.array(measured) - promised).max() < 0.01
    shown, source = (pd.read_parquet(tmp_path / f"{n}.parquet") for n in ("public", "people"))
    assert (shown.std() / source.std() - 1).abs().max() < 0.02
    assert {path.name for path in tmp_path.glob("*.parquet")} == {
        "internal-team.parquet",
        "partner.parquet",
        "people.parquet",
        "public.parquet",
        "university.parquet",
    }
