"""The report: its sections, its numbers against direct ones, and what others may not see."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.columns import Finish
from cornerwave.document import Document, Fold, Histograms, Panel, Picture
from cornerwave.documents import page as as_page
from cornerwave.errors import OutputExists
from cornerwave.ledger import Ledger
from cornerwave.levels import Level
from cornerwave.miner import Copy
from cornerwave.report import write_report
from cornerwave.report._comparison import (
    FEW,
    Copies,
    Original,
    copies_of,
    look,
    look_behind,
    shown_of,
)
from cornerwave.report._report import external_document, owner_document
from cornerwave.spec import CopySpec
from cornerwave.vault import Dataset, Vault
from tests.audit.test_command import command
from tests.conftest import ledger_lines

ROWS = 3000
RECIPIENTS = ("Quokka Ltd", "Zyzzyva GmbH", "Wombat & Sons")
SECTIONS = (
    "Released levels",
    "Distribution of each column",
    "What coalitions can recover",
    "Statistics estimated from the copies",
    "Outliers that the noise does not hide",
    "Notes",
)


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    age = rng.integers(18, 90, ROWS)
    wage = np.round(300 + 25.5 * age + rng.normal(0, 400, ROWS), 2)
    wage[:3] = 87_654.32
    city = np.array(["Ulm", "Bonn", "Jena"])[rng.choice(3, ROWS, p=[0.6, 0.3, 0.1])].astype(object)
    city[0] = "Hermitville"
    return pa.table(
        {
            "id": [f"person-{row}" for row in range(ROWS)],
            "age": age,
            "height": pa.array(rng.normal(170, 9, ROWS), mask=rng.random(ROWS) < 0.1),
            "wage": wage,
            "gain": rng.lognormal(3, 2, ROWS),
            "score": rng.gamma(2, 3, ROWS),
            "born": pa.array(rng.integers(0, 9000, ROWS).astype("int32")).cast(pa.date32()),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, ROWS)],
            "city": pa.array(city),
            "secretly": rng.random(ROWS) * 1e6,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    papq.write_table(table(), folder / "people.parquet")
    vault = Vault.create(folder / "vault")
    vault.register(
        "people",
        folder / "people.parquet",
        key="id",
        keep=["secretly"],
        transform={"gain": "log1p", "score": "rank"},
        hide_missing=["height"],
        few_rows=True,
    )
    dataset = vault.dataset("people")
    for recipient, privacy in zip(RECIPIENTS, (0.2, 0.5, 0.5), strict=True):
        dataset.release(to=recipient, privacy=privacy).to_arrow()
    return folder


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return Vault.open(folder / "vault").dataset("people")


@pytest.fixture(scope="module")
def copies(dataset: Dataset) -> Copies:
    return copies_of(dataset)


@pytest.fixture(scope="module")
def original(dataset: Dataset, copies: Copies) -> Original:
    return look_behind(dataset, copies)


@pytest.fixture(scope="module")
def pages(folder: Path, dataset: Dataset) -> tuple[str, str]:
    """The owner's page and the one for others."""
    before = ledger_lines(folder / "vault" / "ledger.db")
    owner = write_report(dataset, folder / "owner.html")
    external = write_report(dataset, folder / "external.html", external=True)
    assert ledger_lines(folder / "vault" / "ledger.db") == before
    return owner.read_text(encoding="utf-8"), external.read_text(encoding="utf-8")


def test_the_owners_page_has_every_section(pages: tuple[str, str]) -> None:
    for section in SECTIONS:
        assert f"<h2>{section}" in pages[0]
    for words in (
        "Quokka Ltd",
        "Wombat &amp; Sons",
        "log(1 + gain)",
        "Linear regression of",
        "Ulm",
    ):
        assert words in pages[0]
    for table_of in ("Means", "Standard deviations", "Correlations", "Category frequencies"):
        assert f"<h3>{table_of}</h3>" in pages[0]
    assert "nan" not in re.sub(r"<[^>]*>", " ", pages[0]).lower().split()


def test_pages_stand_alone(pages: tuple[str, str]) -> None:
    for page in pages:
        HTMLParser().feed(page)
        assert "prefers-color-scheme: dark" in page
        assert not re.search(r"(src|style)=|href=\"(?!#)|url\(|@import|<script|<link", page)


def test_no_page_shows_a_cell(pages: tuple[str, str]) -> None:
    """Cells of six digits: shorter ones may equal a figure by chance."""
    source = table()
    for page in pages:
        assert "person-" not in page
        assert "Hermitville" not in page
        assert not re.search("87,?654", page)
        for name in ("secretly", "gain"):
            cells = [cell for cell in source.column(name).to_pylist() if cell > 5000]
            assert not any(f"{cell:.2f}" in page or f"{cell:,.2f}" in page for cell in cells)


def test_others_see_nothing_of_the_original(
    pages: tuple[str, str], dataset: Dataset, original: Original
) -> None:
    owner, external = pages
    assert not any(name.split()[0] in external for name in RECIPIENTS)
    assert not any(holding.since in external for holding in dataset.holdings)
    for words in ('data-label="original"', ">original</th>", "Outliers", "no copy"):
        assert words in owner
        assert words not in external
    assert len(_rows(owner, "Means")) == 5
    for title in ("Means", "Standard deviations", "Correlations"):
        for (_, figure, *copies), told in zip(
            _rows(owner, title), _rows(external, title), strict=True
        ):
            # the original's figure has one digit more than any estimate of it
            assert told[1:] == copies
            assert not any(figure in cell for cell in told)


def test_others_see_what_the_files_of_the_copies_tell(
    tmp_path: Path, dataset: Dataset, pages: tuple[str, str]
) -> None:
    """The page for others can be drawn by anyone who holds the copies."""
    places = []
    for recipient, privacy in zip(RECIPIENTS[:2], (0.2, 0.5), strict=True):
        place = tmp_path / f"{privacy}.parquet"
        release = dataset.release(to=recipient, privacy=privacy)
        finish = Finish(spread=release.spec.finish.spread)  # neither rounded nor clipped
        plain = replace(release, spec=replace(release.spec, finish=finish))
        places.append(plain.write(place))
    found = look([Copy.open(place) for place in places], shown_of(dataset))
    assert as_page(external_document("people", found)) == pages[1]


def _rows(page: str, title: str) -> list[list[str]]:
    body = page.split(f"<h3>{title}</h3>")[1].split("</table>")[0]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("<tr>")[2:]]


def test_histograms_and_shares_are_those_of_the_copies(dataset: Dataset, copies: Copies) -> None:
    copy = dataset.release(to=RECIPIENTS[0], privacy=0.2).to_arrow()
    axis = copies.axes["wage"][1]
    wage = copy.column("wage").to_numpy()
    expected = np.histogram(wage[wage < axis.edges[-1]], axis.edges)[0]
    assert copies.tallies[0].numbers["wage"].tolist() == expected.tolist()
    place = copies.labels["city"].to_pylist().index("Ulm")
    counted = copy.column("city").to_pylist().count("Ulm")
    assert copies.tallies[0].labels["city"][place] == counted


def test_the_originals_figures_are_exact(original: Original, copies: Copies) -> None:
    source = table()
    wage = source.column("wage").to_numpy()
    found = original.answers.results
    assert found["Means"]["wage"].value == pytest.approx(wage.mean())
    assert found["Standard deviations"]["wage"].value == pytest.approx(wage.std(ddof=1))
    logs = np.log1p(source.column("gain").to_numpy())
    assert found["Means"]["log(1 + gain)"].value == pytest.approx(logs.mean())
    axis = copies.axes["age"][1]
    counts = np.histogram(source.column("age").to_numpy(), axis.edges)[0]
    assert original.tally.numbers["age"].tolist() == counts.tolist()
    assert original.exposed.columns[:, original.columns.index("wage")].tolist() == [3, 3]


def test_the_originals_regression_is_least_squares(original: Original, copies: Copies) -> None:
    source = table()
    names = copies.asked.numbers
    assert names[-1] == "born"
    values = {n: source.column(n).cast(pa.int32()).to_numpy() for n in ("born",)}
    values |= {n: source.column(n).to_numpy() for n in ("age", "height", "wage", "gain")}
    values["gain"] = np.log1p(values["gain"])
    sex = (np.array(source.column("sex").to_pylist()) == "m").astype(float)
    X = np.column_stack([np.ones(ROWS), *(values[n] for n in names[:-1]), sex]).astype(float)
    there = ~np.isnan(X).any(axis=1)
    expected = np.linalg.lstsq(X[there], values["born"][there].astype(float), rcond=None)[0]
    *found, _ = original.answers.results[copies.asked.regression].values()
    # the miner takes an indicator's variance as p (1 - p), without n / (n - 1)
    assert [each.value for each in found] == pytest.approx(expected, rel=2 / ROWS)


def test_estimates_cover_the_original(original: Original, copies: Copies) -> None:
    """Six standard errors: once in 10^9 by chance, for columns that nothing biases."""
    truth = original.answers.results["Means"]
    for answers in copies.answers:
        means = answers.results["Means"]
        assert list(means) == list(truth)
        for name in ("age", "wage", "log(1 + gain)", "born"):
            assert abs(means[name].value - truth[name].value) < 6 * means[name].standard_error


def test_dates_look_like_dates(pages: tuple[str, str]) -> None:
    for page, first in zip(pages, (2, 1), strict=True):
        for title, pattern in (
            ("Means", r"\d{4}-\d\d-\d\d ±\N{NO-BREAK SPACE}[\d.]+ days"),
            ("Standard deviations", r"[\d,]+ ±\N{NO-BREAK SPACE}\d+ days"),
        ):
            [line] = [row for row in _rows(page, title) if row[0] == "born"]
            assert all(re.fullmatch(pattern, cell) for cell in line[first:]), line
        drawn = page.split("<h3>born</h3>")[1].split("</details>")[0]
        assert re.search(r"<span>\d{4}-\d\d-\d\d</span>", drawn)


def test_long_reports_fold_and_print_whole(pages: tuple[str, str]) -> None:
    for page in pages:
        assert "<details><summary>" in page
        assert "<details open><summary>" in page
        [printed] = re.findall("@media print {(.*)</style>", page, re.S)
        assert "details::details-content { content-visibility: visible;" in printed


def test_categories_say_how_many_cells_hold_their_value(
    pages: tuple[str, str], dataset: Dataset
) -> None:
    """Within six standard errors of a count in the copy itself, beside the original."""
    truth = np.array(table().column("city").to_pylist(), dtype=object)
    copy = dataset.release(to=RECIPIENTS[0], privacy=0.2).to_arrow()
    counted = int((np.array(copy.column("city").to_pylist(), dtype=object) == truth).sum())
    for page in pages:
        drawn = page.split("<h3>city</h3>")[1].split("</details>")[0]
        said = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) at privacy", drawn)]
        assert abs(said[0] - counted) < 6 * np.sqrt(ROWS) / 2
        assert said[1] < said[0]


def test_what_biases_is_noted(pages: tuple[str, str]) -> None:
    for page in pages:
        assert "missing values were filled in" in page
        assert "not shown (constant, kept, derived, key or unit columns): id, secretly" in page


def test_coalitions_gain_nothing_and_independent_noise_would(original: Original) -> None:
    by_members = {tuple(name for name, _ in c.members): c for c in original.coalitions}
    assert len(by_members) == 7  # three alone, three pairs, and all
    pair = next(c for members, c in by_members.items() if set(members) == set(RECIPIENTS[1:]))
    assert pair.joint_privacy == 0.5
    # numbers alone would keep 1 / (1 + 2 / v) of two copies at noise v, had it been independent
    noise = [level.noise for _, level in pair.members]
    assert pair.independent_privacy < 1 / (1 + sum(1 / v for v in noise))
    assert pair.independent_privacy < pair.joint_privacy - 0.1


def test_what_independent_noise_would_reveal_is_for_the_owner_alone(
    pages: tuple[str, str],
) -> None:
    """It depends on the table, beyond what the copies state."""
    owners, others = pages
    assert "independent noise" in owners
    assert "independent noise" not in others


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["people", "--out", "mine.html"], "exists"),
        (["people", "--out", "older.html"], "exists"),
        (["people", "--out", "owner.txt"], "must end in .html"),
        (["people", "--out", "nowhere/owner.html"], "no directory"),
        (["nobody", "--out", "x.html"], "nobody"),
        (["fresh", "--out", "x.html"], "release a copy first"),
        (["people", "--out", "x.html", "--source", "changed.parquet"], "not the registered table"),
    ],
)
def test_refusals_are_one_line_and_leave_nothing(
    folder: Path, pages: tuple[str, str], arguments: list[str], words: str
) -> None:
    if arguments[0] == "fresh":
        Vault.open(folder / "vault").register(
            "fresh", pa.table({"x": [1.0, 2.0, 4.0]}), few_rows=True
        )
    (folder / "mine.html").write_text("mine")
    (folder / "older.html").write_text(pages[0].replace("the variance", "it"), encoding="utf-8")
    changed = table().slice(1)
    papq.write_table(changed, folder / "changed.parquet")
    before = {path.name for path in folder.iterdir()}
    lines = ledger_lines(folder / "vault" / "ledger.db")
    done = command("report", *arguments, "--vault", "vault", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert {path.name for path in folder.iterdir()} == before
    assert ledger_lines(folder / "vault" / "ledger.db") == lines


def test_the_same_page_again_is_no_mistake(dataset: Dataset, tmp_path: Path) -> None:
    place = write_report(dataset, tmp_path / "owner.html")
    page = place.read_bytes()
    assert write_report(dataset, place).read_bytes() == page
    place.write_bytes(page + b" ")
    with pytest.raises(OutputExists):
        write_report(dataset, place)


def test_the_command_writes_and_replaces_when_forced(folder: Path, pages: tuple[str, str]) -> None:
    arguments = ("report", "people", "--vault", "vault", "--out", "external.html")
    done = command(*arguments, "--external", "--force", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "for others" in done.stderr
    assert (folder / "external.html").read_text(encoding="utf-8") == pages[1]


@pytest.mark.parametrize(
    "columns",
    [
        {"x": np.arange(40.0)},
        {"c": ["a", "b"] * 20},
        {"c": list("abcdefghijklmno")},
        {"x": np.arange(40.0), "same": np.full(40, 739_184.25), "c": ["a", None, "b", "b"] * 10},
    ],
    ids=["a number", "a category", "rare values alone", "constant and missing"],
)
@pytest.mark.filterwarnings("ignore::cornerwave.errors.SingularCovariance")
def test_small_tables_have_pages(tmp_path: Path, vault: Vault, columns: dict[str, object]) -> None:
    dataset = vault.register("small", pa.table(columns), few_rows=True, keep_order=True)
    dataset.release(to="one", noise=50.0).to_arrow()
    for external in (False, True):
        place = write_report(dataset, tmp_path / f"{external}.html", external=external)
        page = place.read_text(encoding="utf-8")
        assert not re.search("739,?184", re.sub("<[^>]*>", " ", page))
        assert ("categories retained" in page) == ("c" in columns)


def _bars(page: str, title: str) -> list[str]:
    cells = re.findall(f'data-label="{title}">(<svg.*?)</td>', page)
    return [re.search(r"<span>(.*)</span>", cell)[1] for cell in cells]


def test_pooled_values_count_as_others(tmp_path: Path, vault: Vault) -> None:
    city = ["Ulm"] * 60 + ["Bonn"] * 30 + [f"village {i}" for i in range(10)]
    source = pa.table({"x": np.arange(100.0), "city": city})
    dataset = vault.register("towns", source, min_count=5, few_rows=True, keep_order=True)
    dataset.release(to="one", privacy=0.1).to_arrow()
    page = write_report(dataset, tmp_path / "towns.html").read_text(encoding="utf-8")
    assert "village" not in page
    assert _bars(page, "original") == ["60.0%", "30.0%", "10.0%"]
    assert "city=" not in page  # no regression on labels that the original has not


def panels_of(document: Document) -> Iterator[Panel]:
    """The histograms of a report."""
    folds = [part for section in document.sections for part in section.parts]
    for part in [part for fold in folds if isinstance(fold, Fold) for part in fold.parts]:
        if isinstance(part, Picture) and isinstance(part.drawing, Histograms):
            yield from part.drawing.panels


def test_no_bin_is_drawn_for_a_few_rows(dataset: Dataset, copies: Copies) -> None:
    """Each stretch of one height holds at least FEW rows, or none; bins by themselves do not."""
    original = look_behind(dataset, copies)
    drawn = [
        *panels_of(external_document("people", copies)),
        *panels_of(owner_document("people", copies, original)),
    ]
    assert len(drawn) == (2 + 3) * len(copies.axes)
    for panel in drawn:
        ends = np.flatnonzero(np.append(np.diff(panel.shares) != 0, True)) + 1
        parts = np.split(np.array(panel.shares), ends[:-1])
        held = [part.sum() * copies.rows for part in parts]
        assert [rows for rows in held if 0 < rows < FEW - 1e-6] == []
    bins = np.concatenate([bins for t in copies.tallies for bins in t.numbers.values()])
    assert ((bins > 0) & (bins < FEW)).any()


def test_no_few_rows_are_left_under_other(tmp_path: Path, vault: Vault) -> None:
    """Two rows are missing: the rarest value that is frequent enough joins them."""
    city = ["Ulm"] * 60 + ["Bonn"] * 30 + ["Jena"] * 8 + [None] * 2
    dataset = vault.register(
        "towns", pa.table({"x": np.arange(100.0), "city": city}), few_rows=True, keep_order=True
    )
    dataset.release(to="one", noise=1 / 999).to_arrow()
    page = write_report(dataset, tmp_path / "towns.html").read_text(encoding="utf-8")
    assert _bars(page, "original") == ["60.0%", "30.0%", "10.0%"]


def test_a_table_is_read_twice_however_much_is_asked(
    folder: Path, dataset: Dataset, tmp_path: Path
) -> None:
    """Once to make the copies again, which checks it, and once to compare them with it."""
    source, passes = dataset.source, []

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        passes.append(columns)
        return source.open(columns)

    counted = Vault.open(folder / "vault").dataset("people", source=replace(source, open=read))
    write_report(counted, tmp_path / "counted.html")
    assert len(passes) == 2
    write_report(dataset, tmp_path / "report.html")
    assert (tmp_path / "counted.html").read_text() == (tmp_path / "report.html").read_text()
    assert not (folder / "vault" / "work").exists()


@pytest.mark.slow
def test_of_very_many_recipients_who_hold_the_same_share_a_line(tmp_path, monkeypatch) -> None:
    """The lines, and how often the ledger is read, depend on what is held, not on how many hold."""
    papq.write_table(table(), tmp_path / "people.parquet")
    vault = Vault.create(tmp_path / "vault")
    dataset = vault.register(
        "people", tmp_path / "people.parquet", key="id", keep=["secretly"], few_rows=True
    )
    specs = [CopySpec(Level.of(privacy=p).on_lattice(), format="csv") for p in (0.3, 0.5, 0.7)]
    read, holdings = [], Ledger.holdings
    monkeypatch.setattr(Ledger, "holdings", lambda *a: read.append(a) or holdings(*a))
    counted = []
    for many in (6, 60, 600):
        dataset.hold([(f"r{n:03}", specs[n % 3]) for n in range(many)])
        read.clear()
        original = look_behind(dataset, copies_of(dataset))
        counted.append((len(read), len(original.coalitions), sum(original.alike.values())))
    assert counted[0] == (2, 6 + 15 + 1, 6)  # each alone
    assert counted[1:] == [(2, 3 + 66 + 1, 60), (2, 3 + 66 + 1, 600)]
    assert original.alike == {"r000": 200, "r001": 200, "r002": 200}
    shares = [each.best_privacy for each in original.coalitions[:3]]
    assert shares == [dataset.coalition([name]).best_privacy for name in original.alike]
    assert original.coalitions[-1] == dataset.coalition([f"r{n:03}" for n in range(600)])
    text = write_report(dataset, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "r001, or any of 199 who hold the same" in text
    assert "r054, r057 and 180 more" in text
