"""MCP's own conformance suite against the service, in both eras. What it expects a server to have is in
tests/conformance/catalog.c, which only build/huskd-conformance has; what may fail, and why, in tests/conformance/baseline.yml."""

import os
import subprocess

import pytest

from service import NODE, NODE_PACKAGES, PROGRAMS, ROOT

SUITE = NODE_PACKAGES / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"


@pytest.fixture(scope="module")
def conformance(harness):
    service = harness.service()
    service.program = "huskd-conformance"
    yield service.start()
    harness.end(service)


def run_suite(service, folder, *arguments):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        [NODE, SUITE, "server", "--url", f"{service.url}/mcp", "-o", folder, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


# Exit status 0: everything passed but what the baseline names, and all of that failed.
@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_required(conformance, folder, revision):
    baseline = ROOT / "tests" / "conformance" / "baseline.yml"
    result = run_suite(conformance, folder, "--requirements", revision, "--expected-failures", baseline)
    assert "tools-call-with-progress" in result.stdout
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


# Beyond what is required: these are about things that Husk has.
@pytest.mark.parametrize(
    "scenario, revision",
    [
        ("http-header-validation", "2026-07-28"),
        ("json-schema-2020-12", "2026-07-28"),
        ("json-schema-2020-12", "2025-11-25"),
        ("server-session-lifecycle", "2025-11-25"),
    ],
)
def test_pending(conformance, folder, scenario, revision):
    result = run_suite(conformance, folder, "--scenario", scenario, "--spec-version", revision)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_everything_older(conformance, folder, revision):
    baseline = ROOT / "tests" / "conformance" / "baseline.yml"
    result = run_suite(conformance, folder, "--suite", "active", "--spec-version", revision, "--expected-failures", baseline)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


def test_the_product_has_no_fixtures(service):
    assert b"test_simple_text" in (PROGRAMS / "huskd-conformance").read_bytes()
    assert b"test_simple_text" not in (PROGRAMS / "huskd").read_bytes()
