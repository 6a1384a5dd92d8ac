"""Recipients read their copies with the real Delta Sharing client, in its own environment."""

import datetime
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.server.certificates import certified
from tests.server.conftest import serving

CLIENT = Path(__file__).parents[2] / ".client" / "bin" / "python"
pytestmark = pytest.mark.skipif(not CLIENT.exists(), reason="`make test` makes the client's place")

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import delta_sharing
all_found = []
for profile in sys.argv[1:]:
    found = {}
    for table in delta_sharing.SharingClient(profile).list_all_tables():
        url = f"{profile}#{table.share}.{table.schema}.{table.name}"
        for delta in (False, True):
            for limit in (None, 10):
                frame = delta_sharing.load_as_pandas(url, limit=limit, use_delta_format=delta)
                found[f"{table.name} {delta} {limit}"] = [
                    len(frame), {str(c): str(t) for c, t in frame.dtypes.items()},
                    json.loads(frame.head(3).astype(str).to_json(orient="values")),
                ]
    all_found.append(found)
print(json.dumps(all_found))
"""


def read(*profiles, **environment):
    """What the client finds with each of some profiles."""
    done = subprocess.run(
        [CLIENT, "-c", SCRIPT, *map(str, profiles)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture
def secure(served):
    """The same service over https, and the certificate of its authority."""
    authority, certificate, key = certified(served.folder)
    more = {"ssl_certfile": certificate, "ssl_keyfile": key, "lifespan": "off"}
    with serving(served.app, **more) as url:
        yield replace(served, url=url, folder=served.folder / "vault"), authority


def test_every_copy_is_listed_and_loaded_in_both_formats_over_http_and_https(served, secure):
    https, authority = secure
    # requests takes the one, the Rust part of the client the other
    trusted = {"REQUESTS_CA_BUNDLE": str(authority), "SSL_CERT_FILE": str(authority)}
    found, over_https = read(served.profile("ann"), https.profile("ann"), **trusted)
    assert over_https == found
    assert {key.split(" ")[0] for key in found} == {"wages", "odd_table", "open"}
    for key, (rows, _, _) in found.items():
        assert rows == (10 if key.endswith("10") else 3000)
    vault = served.sharing.vault
    path = (
        vault.dataset("odd table").release(to="ann", noise=1.0).write(served.folder / "o.parquet")
    )
    copy = pq.read_table(path)
    for delta in (False, True):
        _, types, first = found[f"odd_table {delta} None"]
        assert list(types) == copy.column_names
        names = list(types)
        for row, values in enumerate(first):
            cells = dict(zip(names, values, strict=True))
            assert float(cells["wage"]) == pytest.approx(copy["wage"][row].as_py(), rel=1e-9)
            assert cells["city"] == copy["city"][row].as_py()
            assert int(float(cells["visits"])) == copy["visits"][row].as_py()
            assert int(cells["tag"]) == copy["tag"][row].as_py()
            assert cells["hour"].startswith(str(copy["hour"][row].as_py())[:8])
            seen = datetime.datetime.fromisoformat(cells["seen"]).replace(tzinfo=None)
            assert abs((seen - copy["seen"][row].as_py()).total_seconds()) < 1e-3
    holders = {held.recipient for held in vault.dataset("wages").holdings}
    assert holders == {"ann"}


@pytest.mark.slow
def test_a_server_of_an_unknown_authority_is_refused(secure):
    with pytest.raises(AssertionError, match="CERTIFICATE_VERIFY_FAILED"):
        read(secure[0].profile("ann"))
