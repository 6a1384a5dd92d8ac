"""The command: write, check with the vault and with the public key alone, and what is refused."""

import pytest

from cornerwave import cli
from tests.dossier.conftest import World


@pytest.fixture
def command(world: World, monkeypatch, capsys):
    """Run a command in the vault; return its exit code, what it printed and its messages."""
    monkeypatch.setenv("CORNERWAVE_VAULT", str(world.vault.path))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> tuple[int | str | None, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["dossier", *map(str, words)])
        return ended.value.code, *capsys.readouterr()

    return run


def test_a_dossier_is_written_and_checked_by_both_sides(command, tmp_path, monkeypatch):
    page, key = tmp_path / "people.html", tmp_path / "vault.pem"
    assert command("people", "--for", "partner", "--out", page)[0] == 0
    assert command("--public-key", key)[0] == 0
    assert key.read_text().startswith("-----BEGIN PUBLIC KEY-----")
    code, out, _ = command("--check", page)
    assert (code, out[:16]) == (0, "Nothing differs:")
    monkeypatch.setenv("CORNERWAVE_VAULT", str(tmp_path / "nowhere"))
    code, out, err = command("--check", page, "--public-key", key)
    assert (code, out[:16]) == (0, "Nothing differs:")
    assert "nothing was measured again" in err
    page.write_text(page.read_text().replace("Who has it?", "Who had it?"))
    code, out, err = command("--check", page, "--public-key", key)
    assert (code, err.splitlines()[-1]) == (1, "1 line differs")
    assert out.startswith("DIFFERS page: was changed")


def test_coalitions_are_named_by_a_list(command, tmp_path):
    page = tmp_path / "people.html"
    assert command("people", "--coalition", "institute, partner", "--out", page)[0] == 0
    assert "institute + partner" in page.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a dataset, or give --check FILE"),
        (["people"], "name the file to write with --out"),
        (["people", "--out", "x.html", "--public-key", "x.pem"], "by itself"),
        (["people", "--check", "x.html"], "leave out the rest"),
        (["people", "--out", "x.pdf"], "must end in .html or .json"),
        (["people", "--out", "x.html", "--for", "eve"], "'eve' holds no copy"),
        (["nobody", "--out", "x.html"], "no dataset 'nobody'"),
        (["--check", "gone.html"], "there is no file gone.html"),
        (["--check", "gone.html", "--public-key", "gone.pem"], "gone.pem cannot be read"),
        (["--check", "x", "--public-key", "y", "--source", "z"], "no --public-key"),
        (["--public-key", "x.pem", "--out", "x.html"], "name a dataset"),
    ],
)
def test_what_is_refused_in_one_line(command, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert not list(tmp_path.iterdir())
