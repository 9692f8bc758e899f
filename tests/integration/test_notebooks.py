"""Notebooks run through Husk and through a notebook client, and must show the same: streams, results of every type
byte for byte, errors. The client (nbclient) is attached to the kernel of a second sandbox.

notebooks/*.py are in the percent format: a line `# %%` begins a cell, and says what the cell must show, so that both
sides cannot be wrong alike: stdout, stderr, the types of each result (text/plain only where there is nothing else) and
error:NAME."""

import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

from attached import connection

NOTEBOOKS = sorted(Path(__file__).with_name("notebooks").glob("*.py"))

# What may differ between two runs of the same code, and is therefore replaced in both. Nothing else may.
DIFFERENCES = [
    # The second kernel has run a few cells more.
    (r"(?<=In)\s?\[\d+\]", "[n]"),
    # Where an object lies in memory.
    (r"0x[0-9a-f]{6,}", "0xADDRESS"),
    # %time and %timeit.
    (r"CPU times: .*|Wall time: .*", "TIMES"),
    (r"[\d.]+ [mµn]?s ± [\d.]+ [mµn]?s per loop", "TIMES per loop"),
    (r"The slowest run took [\d.]+ times longer.*\n", ""),
    # Progress bars: how often they are drawn, how long it took and how fast it went.
    (r"(\r[^\r\n]*it/s\])+", "\rBAR"),
    # Widgets have random ids.
    (r"\b[0-9a-f]{32}\b", "ID"),
    # When an SVG was drawn.
    (r"<dc:date>.*</dc:date>", "<dc:date/>"),
]

# IPython prints these to stderr and publishes no error, so a notebook does not show one. Husk tells it all the same:
# it is in the reply.
PRINTED_ERRORS = ("UsageError", "ExceptionGroup")


# --- one form for both sides ---


def normal(value):
    """A text, or anything made of texts, with everything replaced that may differ."""
    if isinstance(value, str):
        for pattern, replacement in DIFFERENCES:
            value = re.sub(pattern, replacement, value)
        return value
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    return value


def shown(stdout, stderr, results, error):
    return normal({"stdout": stdout, "stderr": stderr, "results": results, "error": error})


def shown_by_husk(answer):
    results = {}
    for entry in answer["results"]:
        result = results.setdefault(entry["output"], {"main": False, "data": {}, "metadata": {}})
        result["main"] |= entry.get("main", False)
        result["data"][entry["type"]] = entry["data"]
        if entry.get("metadata"):
            result["metadata"][entry["type"]] = entry["metadata"]
    error = answer["error"] and [answer["error"], answer["error_value"], answer["traceback"]]
    if error and answer["traceback"] is None and answer["error"] in PRINTED_ERRORS:
        error = None
    return shown(answer["stdout"], answer["stderr"], [results[number] for number in sorted(results)], error)


def shown_by_notebook(outputs):
    streams, results, error = {"stdout": "", "stderr": ""}, [], None
    for output in outputs:
        if output.output_type == "stream":
            streams[output.name] += output.text
        elif output.output_type == "error":
            error = [output.ename, output.evalue, "\n".join(output.traceback)]
        else:
            metadata = {key: value for key, value in output.metadata.items() if key in output.data and value}
            main = output.output_type == "execute_result"
            results.append({"main": main, "data": dict(output.data), "metadata": metadata})
    return shown(streams["stdout"], streams["stderr"], results, error)


def kinds(cell):
    """What a cell shows, in the words of the notebooks' headings."""
    found = [name for name in ("stdout", "stderr") if cell[name]]
    for result in cell["results"]:
        types = sorted(re.sub(r"(vegalite)\.v\d.*", r"\1", each) for each in result["data"] if each != "text/plain")
        found.append("+".join(types) or "text/plain")
    return found + ([f"error:{cell['error'][0]}"] if cell["error"] else [])


# --- the two ways to run it ---


class RunningKernel(AsyncKernelManager):
    """A kernel that somebody else has started and will end."""

    has_kernel = True

    async def _async_is_alive(self):
        return True

    is_alive = _async_is_alive


def cells(path):
    """(heading, code) of each cell."""
    parts = re.split(r"^# %%(.*)\n", path.read_text(), flags=re.MULTILINE)
    assert parts.pop(0) == ""
    return list(zip(parts[::2], parts[1::2], strict=True))


def run_as_notebook(sandbox, codes):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
    manager = RunningKernel()
    manager.load_connection_info(connection(sandbox))
    client = NotebookClient(notebook, km=manager, allow_errors=True, timeout=60)
    shown = []
    with client.setup_kernel():
        try:
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
                # At once, as a later cell may update a display of this one: an answer that was given stays as it is.
                shown.append(shown_by_notebook(cell.outputs))
        finally:
            client.kc.stop_channels()
    return shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(create, path):
    headings, codes = zip(*cells(path), strict=True)
    husk = create()
    by_husk = [shown_by_husk(husk.execute(code)) for code in codes]
    by_notebook = run_as_notebook(create(), codes)
    wrong = []
    for heading, code, ours, theirs in zip(headings, codes, by_husk, by_notebook, strict=True):
        if sorted(kinds(theirs)) != sorted(heading.split()):
            wrong.append(f"{code}must show {heading or ' nothing'}, not {kinds(theirs)}: {theirs}")
        if ours != theirs:
            wrong.append(f"{code}shows  {ours}\nand not {theirs}")
    assert not wrong, "\n\n".join(wrong)
