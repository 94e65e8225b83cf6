"""Goals: whether a metric is better high or low, by the words of its name."""

import re
from typing import Literal

Goal = Literal["min", "max"]

# What a word is not certain to say in every field it is used in (score, distance, time) stands in neither.
_UP = re.compile(
    r"accuracy|acc|auc|auroc|auprc|bleu|chrf|dice|f1|iou|map|mcc|meteor|miou|mrr|ndcg|pearson|precision|psnr|r2"
    r"|recall|rewards?|rougel?|spearman|ssim"
)
_DOWN = re.compile(
    r"cer|crps|eer|err|errors?|excess|fid|loss(es)?|lpips|mae|mape|mse|nll|perplexity|ppl|rmse|wer"
)
# What turns a word round, as in neg_mean_squared_error and 1-accuracy.
_TURNS = re.compile(r"neg|negative|minus|inv|inverse")


def goal_of(name: str) -> Goal | None:
    """Return whether a metric is better high or low; None where its name says neither, or both.

    Only whole words count: they end where anything but a letter or digit stands, or at a capital after a
    small letter; digits at the end of a word may be left away, as in `acc5`.
    """
    words = _words(name)
    up, down, turned = (any(map(kind.fullmatch, words)) for kind in (_UP, _DOWN, _TURNS))
    if up == down or turned or re.match(r"1\W", name):
        return None
    return "max" if up else "min"


def _words(name: str) -> list[str]:
    parts = re.findall(r"[^\W_]+", name)
    parts += [word for part in parts for word in re.findall(r"[A-Z]*[^A-Z]+|[A-Z]+", part)]
    words = [part.lower() for part in parts]
    return words + [bare for word in words if (bare := word.rstrip("0123456789")) != word]
