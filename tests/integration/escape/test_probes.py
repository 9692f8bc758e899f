"""Every probe of every table, from every place it names."""

import pytest

import table_calls
import table_files
import table_processes
import table_sockets
from probe import refused

TABLES = table_calls.TABLES | table_sockets.TABLES | table_files.TABLES | table_processes.TABLES
PROBES = [
    pytest.param(table, probe, place, id=f"{name}: {probe.name}, {place}")
    for name, table in TABLES.items()
    for probe in table
    for place in probe.places
]


@pytest.mark.parametrize("table, probe, place", PROBES)
def test_probe(inside, table, probe, place):
    found = inside.outcome(table, probe, place)
    assert refused(probe, found), f"{probe.code()}: {found} instead of {probe.refusal}"


def test_probes_are_told_apart():
    """The results of a table are kept by name."""
    for name, table in TABLES.items():
        assert len({probe.name for probe in table}) == len(table), name


def test_the_sandbox_is_well_afterwards(inside):
    assert inside.sandbox.works()
