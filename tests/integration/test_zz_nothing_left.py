"""The last test: after everything above, the host is as it was before."""


def test_nothing_is_left(harness):
    harness.end_all()
    assert harness.leaks() == []
