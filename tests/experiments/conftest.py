import pytest

from cornerwave.experiments.requests import asked
from cornerwave.experiments.setting import QUICK, Setting
from cornerwave.experiments.tables import people


@pytest.fixture(scope="session")
def setting():
    """Twelve copies of 20,000 people."""
    return Setting(people().head(20_000), 1, QUICK)


@pytest.fixture(scope="session")
def requests(setting):
    return asked(setting)
