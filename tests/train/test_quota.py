"""A run in a store that is full goes on, and says so."""

from pathlib import Path

import torch

import mvcs
from mvcs.train import Checkpointer


def test_a_run_goes_on_where_commits_are_refused(tmp_path: Path) -> None:
    repo = mvcs.Repository.init(tmp_path)
    repo.config_set("store.max_bytes", "100kB")
    repo = mvcs.Repository.open(tmp_path)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    with Checkpointer(repo, model, optimizer, every=1) as ckpt:
        for step in range(ckpt.resume(), 20):
            optimizer.zero_grad()
            model(torch.randn(4, 64)).sum().backward()
            optimizer.step()
            ckpt.after_step(step)
            steps += 1
    assert steps == 20
    with mvcs.Repository.open(tmp_path) as again:
        assert 0 < len(list(again.log())) < 20
        assert again.fsck().ok
    told = (tmp_path / ".mvcs/failures.log").read_text().splitlines()
    assert "store.max_bytes" in told[0]
    assert len(told) == len(set(told))  # the last step is tried twice, and told once
