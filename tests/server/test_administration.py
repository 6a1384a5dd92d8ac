"""The owner's work over REST."""

import json

import pytest
import typer.testing

from cornerwave import cli
from cornerwave.access import OWNER
from cornerwave.errors import VaultError

OWN = "/v1/owner"
COPY = "/v1/datasets/wages/copy"


@pytest.fixture
def owner(served):
    served.tokens["owner"] = served.sharing.new_token(OWNER, days=1)
    with served.client("owner") as client:
        yield client


def test_from_a_new_recipient_to_his_copy_and_back(served, owner):
    assert owner.post(f"{OWN}/recipients", json={"name": "lab/1"}).status_code == 201
    granted = {"dataset": "wages", "recipient": "lab/1", "privacy": 0.6, "until": "2099-01-01"}
    assert owner.post(f"{OWN}/grants", json=granted).json()["until"].startswith("2099-01-01")
    made = owner.post(f"{OWN}/tokens", json={"recipient": "lab/1", "days": 3}).json()
    profile = json.loads(made["profile"])
    assert profile["bearerToken"] == made["token"]
    assert profile["endpoint"] == f"{served.url}/delta-sharing/"
    served.tokens["lab"] = made["token"]
    with served.client("lab") as lab:
        assert lab.get(COPY).status_code == 200
        asked = {"dataset": "wages", "privacy": 0.3, "reason": "more"}
        assert lab.post("/v1/requests", json=asked).status_code == 201
        [open_] = owner.get(f"{OWN}/requests").json()
        alone = {"members": ["lab/1"], "before": 0.6, "after": 0.3}
        assert open_["coalitions"] == [alone]
        answered = {"id": open_["id"], "approve": True, "privacy": 0.4}
        assert owner.post(f"{OWN}/requests", json=answered).json()["state"] == "approved"
        assert lab.get("/v1/datasets/wages").json()["privacy"] == pytest.approx(0.4)
        which = {"dataset": "wages", "recipient": "lab/1"}
        assert owner.delete(f"{OWN}/grants", params=which).status_code == 204
        assert lab.get(COPY).status_code == 404
        which = {"recipient": "lab/1", "id": made["id"]}
        assert owner.delete(f"{OWN}/tokens", params=which).status_code == 204
        assert lab.get("/v1/datasets").status_code == 401
    [token] = owner.get(f"{OWN}/tokens", params={"recipient": "lab/1"}).json()
    assert token["revoked"]
    assert made["token"] not in repr(token)
    [wages] = [each for each in owner.get(f"{OWN}/datasets").json() if each["name"] == "wages"]
    assert wages["holders"] == ["lab/1"]  # the ledger stays
    assert owner.delete(f"{OWN}/recipients", params={"name": "lab/1"}).status_code == 204
    assert "lab/1" not in owner.get(f"{OWN}/recipients").json()
    lines = owner.get(f"{OWN}/log").json()
    assert any(line["what"].startswith("copy of wages") for line in lines)
    assert not any(secret in repr(lines) for secret in served.tokens.values())


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("recipients", {"name": "ann"}, "already"),
        ("recipients", {"name": OWNER}, "a meaning of its own"),
        ("grants", {"dataset": "wages", "recipient": "ann"}, "privacy"),
        ("grants", {"dataset": "wages", "recipient": "ann", "privacy": 7}, "privacy"),
        ("grants", {"dataset": "none", "recipient": "ann", "privacy": 0.5}, "no dataset"),
        ("grants", {"dataset": "wages", "recipient": "zoe", "privacy": 0.5}, "no recipient"),
        ("tokens", {"recipient": "zoe", "days": 3}, "no recipient"),
        ("requests", {"id": "x", "approve": True}, "no open request"),
    ],
)
def test_what_cannot_be_done_says_why(owner, path, body, words):
    refused = owner.post(f"{OWN}/{path}", json=body)
    assert refused.status_code in (400, 404)
    assert words in refused.json()["message"]


def test_the_owners_token_is_one_of_two_and_fetches_nothing(served, owner):
    assert owner.get(COPY).status_code == 401
    assert owner.get("/delta-sharing/shares").status_code == 401
    for _ in range(2):
        served.sharing.new_token(OWNER, days=1)
    assert owner.get(f"{OWN}/recipients").status_code == 401
    with pytest.raises(VaultError, match="at most"):
        served.sharing.new_token(OWNER, days=1000)


def test_the_command_makes_a_token_of_the_owner_or_of_a_recipient(served):
    vault = ["--vault", str(served.folder / "vault")]
    run = typer.testing.CliRunner().invoke
    text = run(cli.app, ["token", "--owner", "--days", "2", *vault]).output.split()[-1]
    assert served.sharing.bearer(text).recipient == OWNER
    text = run(cli.app, ["token", "eve", "--days", "2", *vault]).output.split()[-1]
    assert served.sharing.bearer(text).recipient == "eve"
    for wrong in (["token"], ["token", "eve", "--owner"]):
        assert isinstance(run(cli.app, [*wrong, *vault]).exception, VaultError)
