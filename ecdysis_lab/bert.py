"""Forward pass of a small BERT encoder in NumPy.

It stands here for the packaged MiniLM: importing torch and transformers takes about 10 s of CPU, more than
embedding a round's cards does. Other models go through sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

HEADS = 12  # all-MiniLM-L6-v2; the checkpoint's tensors do not tell


def bert(ids: np.ndarray, mask: np.ndarray, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """Forward pass of a post-norm BERT encoder with 12 heads, mean-pooled to unit vectors.

    Parameters
    ----------
    ids : token ids, shape (b, t), padded with 0.
    mask : True for real tokens, shape (b, t).
    weights : tensors by their names in the checkpoint.

    Returns
    -------
    Array of shape (b, d), float32.
    """
    import numpy as np

    part = "embeddings."
    names = [f"{part}{kind}_embeddings.weight" for kind in ("word", "position", "token_type")]
    word, position, kind = (weights[name] for name in names)
    x = _norm(word[ids] + position[: ids.shape[1]] + kind[0], weights, f"{part}LayerNorm")  # (b, t, d)
    bias = np.where(mask, 0.0, -1e9).astype(np.float32)[:, None, None, :]  # (b, 1, 1, t)
    layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
    for layer in range(layers):
        name = f"encoder.layer.{layer}."
        x = _norm(
            x + _attention(x, bias, weights, f"{name}attention."),
            weights,
            f"{name}attention.output.LayerNorm",
        )
        hidden = _gelu(_linear(x, weights, f"{name}intermediate.dense"))
        x = _norm(x + _linear(hidden, weights, f"{name}output.dense"), weights, f"{name}output.LayerNorm")
    pooled = (x * mask[:, :, None]).sum(axis=1)
    return np.asarray(pooled / np.linalg.norm(pooled, axis=1, keepdims=True))


def _attention(x: np.ndarray, bias: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    import numpy as np

    b, t, d = x.shape
    query, key, value = (
        _linear(x, weights, f"{name}self.{part}").reshape(b, t, HEADS, d // HEADS).transpose(0, 2, 1, 3)
        for part in ("query", "key", "value")
    )  # each (b, heads, t, d / heads)
    scores = (query / np.float32(np.sqrt(d // HEADS))) @ key.transpose(0, 1, 3, 2)
    scores += bias
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed = (scores @ value) / scores.sum(axis=-1, keepdims=True)
    return _linear(mixed.transpose(0, 2, 1, 3).reshape(b, t, d), weights, f"{name}output.dense")


def _linear(x: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    # One flat product: a batched one runs many small ones, several times slower.
    out: np.ndarray = x.reshape(-1, x.shape[-1]) @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return out.reshape(*x.shape[:-1], -1)


def _norm(x: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    import numpy as np

    x = x - x.mean(axis=-1, keepdims=True)
    scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-12))
    out: np.ndarray = x * scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return out


def _gelu(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    half = x * x.dtype.type(0.70710678)
    erf(half, out=half)
    half += 1
    half *= x
    half *= x.dtype.type(0.5)
    return half
