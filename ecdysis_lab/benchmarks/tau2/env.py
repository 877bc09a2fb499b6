"""Fresh τ² environments without rebuilding the database.

A domain's database is parsed once per process. Each environment gets a shallow view of it whose rows are copied
when a tool first fetches them by id, so a fresh environment costs under a millisecond instead of about 0.3 s. Its hash
covers the rows that differ from the pristine database: equal databases have equal differences and the other
way round, so every comparison the official evaluator makes has the same result (tested against it).

Telecom's databases, the operator's and that of the user's phone, are small and lists: they are copied as a whole.

τ² tools write only to rows they fetched by id and iterate only to read; ``tests/test_tau2.py`` proves that the
shared rows stay pristine over all gold plans.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, partial
from typing import Any

from ecdysis_lab.benchmarks.deadline import TooLong, within

COLLECTIONS = {"airline": ("flights", "users", "reservations"), "retail": ("products", "users", "orders")}


class CopyOnAccess(dict):  # type: ignore[type-arg]
    """Rows by id; the first ``[id]`` or ``get(id)`` replaces the shared row by a copy of its own."""

    def __init__(self, rows: dict[str, Any]) -> None:
        super().__init__(rows)
        self.pristine = rows
        self.own: set[str] = set()
        self.only_read = False

    def __getitem__(self, key: str) -> Any:
        row = super().__getitem__(key)
        if not self.only_read and key in self.pristine and key not in self.own:
            row = deepcopy(row)
            self.own.add(key)
            super().__setitem__(key, row)
        return row

    def get(self, key: str, default: Any = None) -> Any:
        """As ``dict.get``, with the same copy on access."""
        return self[key] if key in self else default  # noqa: SIM401 - dict.get would not copy

    def difference(self) -> dict[str, Any]:
        """Rows that differ from the pristine ones; None marks a removed row."""
        gone: dict[str, Any] = {key: None for key in self.pristine if key not in self}
        touched = [k for k in self if k in self.own or k not in self.pristine or self._replaced(k)]
        rows = {k: _dump(super(CopyOnAccess, self).__getitem__(k)) for k in touched}
        old = {k: _dump(self.pristine[k]) for k in touched if k in self.pristine}
        return gone | {k: v for k, v in rows.items() if k not in old or _text(v) != _text(old[k])}

    def _replaced(self, key: str) -> bool:
        return super().__getitem__(key) is not self.pristine[key]


@contextmanager
def only_read(db: Any) -> Iterator[None]:
    """No copies on access: for calls of tools that write nothing."""
    collections = [v for v in vars(db).values() if isinstance(v, CopyOnAccess)]
    for collection in collections:
        collection.only_read = True
    try:
        yield
    finally:
        for collection in collections:
            collection.only_read = False


def _dump(row: Any) -> Any:
    return row.model_dump() if hasattr(row, "model_dump") else row


def _text(value: Any) -> str:
    """The JSON text that the official hash covers: 2 and 2.0 are equal in Python, and different in it."""
    return json.dumps(value, sort_keys=True, default=str)


def difference_hash(db: Any, collections: tuple[str, ...]) -> str:
    """SHA-256 of how a database differs from the pristine one; equal iff the databases are equal."""
    changed = {name: getattr(db, name).difference() for name in collections}
    return hashlib.sha256(_text(changed).encode()).hexdigest()


@cache
def _pristine(domain: str) -> tuple[Any, Any, str]:
    """(database, environment module, policy) of a domain, loaded once."""
    module = importlib.import_module(f"tau2.domains.{domain}.environment")
    environment = module.get_environment()
    return environment.tools.db, module, environment.policy


def fresh_environment(domain: str, solo_mode: bool = False) -> Any:
    """A τ² ``Environment`` in the domain's initial state.

    Parameters
    ----------
    domain : ``"airline"``, ``"retail"`` or ``"telecom"``.
    solo_mode : must be False; there is no solo mode here (the evaluator passes the argument).
    """
    if solo_mode:
        raise ValueError(f"{domain} has no solo mode")
    database, module, policy = _pristine(domain)
    if domain == "telecom":
        return _with_phone(module, policy)
    names = COLLECTIONS[domain]
    db = type(database).model_construct(**{name: CopyOnAccess(getattr(database, name)) for name in names})
    toolkit = next(v for k, v in vars(module).items() if k.lower() == f"{domain}tools")(db)
    toolkit.get_db_hash = partial(difference_hash, db, names)
    toolkit.use_tool = partial(_use_tool, toolkit, toolkit.use_tool)
    return module.Environment(domain_name=domain, policy=policy, tools=toolkit)


@cache
def _frozen_telecom() -> bytes:
    """Both databases of telecom and the details of a VPN, pickled."""
    environment = _pristine("telecom")[1].get_environment()
    phone = environment.user_tools
    return pickle.dumps((environment.tools.db, phone.db, phone.default_vpn_details))


def _with_phone(module: Any, policy: str) -> Any:
    """Telecom: the agent has the operator's tools, the user those of his phone."""
    db, phone_db, vpn = pickle.loads(_frozen_telecom())
    toolkit, phone = module.TelecomTools(db), module.TelecomUserTools(phone_db)
    toolkit.use_tool = partial(_use_tool, toolkit, toolkit.use_tool)
    toolkit._apply_one_time_charge = partial(_charged, toolkit, toolkit._apply_one_time_charge)
    phone.default_vpn_details = vpn  # the class's own would be broken for every later trial
    return module.TelecomEnvironment("telecom", policy, toolkit, phone)


def _charged(toolkit: Any, charge: Callable[..., None], /, customer_id: str, *what: Any) -> None:
    """A charge, whose new bill gets the same id whenever it is repeated: τ² draws one, and cannot score what it reads.

    A trial is scored by making its calls again, and must get the answers that it got.
    """
    customer, before = toolkit.get_customer_by_id(customer_id), len(toolkit.db.bills)
    charge(customer_id, *what)
    for bill in toolkit.db.bills[before:]:
        mark = hashlib.sha256(f"{customer_id} {len(customer.bill_ids)}".encode()).hexdigest()[:8]
        bill.bill_id = customer.bill_ids[-1] = f"B{mark}"


_stopped: dict[
    str, str
] = {}  # computations that took too long: the evaluator repeats every call, and so do models


def _use_tool(toolkit: Any, use: Callable[..., Any], /, tool_name: str, **arguments: Any) -> Any:
    """The one way to a tool (orchestrator, evaluator, reads, replays), with a time limit."""
    computes = toolkit.has_tool(tool_name) and toolkit.tool_type(tool_name).value not in ("read", "write")
    key = f"{tool_name} {_text(arguments)}" if computes else ""
    if key in _stopped:
        raise TooLong(_stopped[key])
    try:
        return within(lambda: use(tool_name, **arguments), tool_name, computes)
    except TooLong as late:
        if computes:
            _stopped[key] = str(late)
        raise


def registered(domain: str) -> str:
    """Name under which the official evaluator finds :func:`fresh_environment`; registers it when first asked."""
    from tau2.registry import registry

    name = f"ecdysis_lab/{domain}"
    if name not in registry.get_domains():
        registry.register_domain(partial(fresh_environment, domain), name)
    return name
