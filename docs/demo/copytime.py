"""Measures one copy of the demo's training state: its bytes, and the median of 50 copies in milliseconds."""

from statistics import median
from time import perf_counter

import torch
from gpt import CONTEXT, GPT

torch.set_num_threads(1)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
model(*torch.zeros(2, 1, CONTEXT, dtype=torch.int64)).backward()
optimizer.step()
moments = [value for state in optimizer.state.values() for value in state.values()]
tensors = [*(weight.detach() for weight in model.parameters()), *moments]
copies = [torch.empty_like(tensor) for tensor in tensors]
times = []
for _ in range(50):
    began = perf_counter()
    for target, source in zip(copies, tensors, strict=True):
        target.copy_(source)
    times.append(1e3 * (perf_counter() - began))
print(f"{sum(tensor.nbytes for tensor in tensors)} {median(times):.3f}")
