"""What a run may be made of, and what is said of what it may not."""

import pytest
import torch
from torch import nn

from mvcs.errors import UsageError
from mvcs.train.state.parts import Parts


def test_several_optimizers_in_one_place_are_told_where_they_go() -> None:
    model = nn.Linear(2, 2)
    both = [torch.optim.SGD([model.weight]), torch.optim.AdamW([model.bias])]
    with pytest.raises(UsageError, match="the optimizer is a 'list'") as caught:
        Parts({"model": model, "optimizer": both}, use_rng=False)
    assert "extra={'second': ...}" in str(caught.value.hint)
    parts = Parts({"model": model, "optimizer": both[0]}, {"second": both[1]}, use_rng=False)
    assert parts.extra == {"second": both[1]}


@pytest.mark.parametrize("part", [[], [1], "sgd", 3])
def test_what_has_no_state_is_refused_with_what_to_do(part: object) -> None:
    with pytest.raises(UsageError) as caught:
        Parts({"optimizer": part}, use_rng=False)
    assert "wrap it in a class" in str(caught.value.hint)
