"""AgentBench's rules of scoring, on values and on its own hashes."""

from __future__ import annotations

import pytest

from ecdysis_lab.benchmarks.agentbench.scoring import kind_of, official_hash, same_answer, table_hash


@pytest.mark.parametrize(
    ("answers", "label", "same"),
    [
        (["Women +60kg Bronze"], ["Women +60kg Bronze"], True),
        (["women +60kg bronze"], ["Women +60kg Bronze"], False),  # case counts
        (["5.004"], ["5"], True),
        (["5.02"], ["5"], False),
        (["1,234"], ["1234"], True),
        (["12 %"], ["12%"], True),
        ([], ["0"], False),
        ([None], ["none"], True),
        ([""], ["0"], True),
        (["b", "a"], ["a", "b"], True),
        (["a", "a", "b"], ["a", "b"], True),  # sets of texts
        (["1", "1", "2"], ["1", "2"], False),  # each number once
        (["2", "1"], ["1.0", "2.0"], True),
        (["1"], ["1", "2"], False),
        ("['a', 'b']", ["a", "b"], True),
        ("[(3,)]", ["3"], True),
        ("[north, south]", ["north", "south"], True),
        ("['a, b', north,]", ["a b", "north"], True),  # not Python's; a quoted comma is text
        ("[O'Brien, Smith]", ["OBrien Smith"], True),  # the quote is never closed
        (["'quoted'"], ["quoted"], True),
        (["3 wins"], ["3"], False),
        (["a"], ["a", "a"], True),
    ],
)
def test_answers(answers: object, label: object, same: bool) -> None:
    assert same_answer(answers, label) is same


def test_a_text_nested_without_end_is_an_answer_like_any_other() -> None:
    assert not same_answer("[" * 20_000 + "]", ["a"])


def test_the_hash_does_not_depend_on_the_order_of_rows_and_sees_every_cell() -> None:
    rows = [("a", "1"), ("b", None), ("c", "")]
    assert table_hash(rows) == table_hash(rows[::-1])
    assert table_hash(rows) != table_hash([("a", "1"), ("b", ""), ("c", "")])  # CONCAT_WS leaves NULL out
    assert table_hash([]) == "None"


def test_the_hash_ends_where_mysql_cuts_it() -> None:
    """170 hashes of 5 digits and a comma fit into 1,024 characters and a bit."""
    from hashlib import md5

    rows = [(str(n),) for n in range(300)]
    last = max(rows, key=lambda row: md5(row[0].encode()).hexdigest()[:5])
    assert table_hash(rows) == table_hash([row for row in rows if row != last])
    assert table_hash(rows[:100]) != table_hash(rows[:99])


def test_the_kind_and_the_hash_of_a_record() -> None:
    assert kind_of({"type": ["INSERT"]}) == "INSERT"
    assert kind_of({"type": ["aggregation-MAX"]}) == "SELECT"
    assert official_hash({"answer_md5": "[('ab12',)]"}) == "ab12"
    for bad in ({}, {"answer_md5": "ab12"}, {"answer_md5": "[]"}):
        with pytest.raises(ValueError, match="holds no hash"):
            official_hash(bad)
