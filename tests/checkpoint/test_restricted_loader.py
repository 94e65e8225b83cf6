"""Which versions of torch are given files that may be anybody's."""

import pytest
import torch

from mvcs.checkpoint.torch_files.torch_file import is_safe


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("2.4.0", False),
        ("2.5.1+cu121", False),
        ("2.6.0", False),
        ("2.9.1", False),
        ("2.9.1+cpu", False),
        ("2.10.0a0+git1234567", False),
        ("2.10.0rc2", False),
        ("2.10.0.dev20251101+cu130", False),
        ("2.10", True),
        ("2.10.0", True),
        ("2.10.0+rocm6.4", True),
        ("2.11.0a0+git1234567", True),
        ("2.13.0+cpu", True),
        ("3.0.0", True),
        ("", False),
        ("git", False),
        ("2", False),
        ("²·10", False),
    ],
)
def test_versions(version, safe):
    assert is_safe(version) is safe


def test_the_torch_of_the_tests_reads_files():
    assert is_safe(str(torch.__version__))


def test_an_old_torch_is_not_given_a_file(tmp_path, monkeypatch, kept):
    torch.save({"x": torch.zeros(3)}, tmp_path / "a.pt")
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was loaded"))
    assert "a.pt' is not read with torch 2.9.1" in kept(tmp_path / "a.pt")
