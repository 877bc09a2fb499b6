"""A stock room, as small as a benchmark can be: things lie on shelf 1, and a task says where one of them has to go."""

from __future__ import annotations

from ecdysis_lab.benchmarks.solo import run_solo
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.scene import Slip, changed, on
from ecdysis_lab.records import Oracle, Task

SHELF = {"lamp": 4, "kettle": 7, "clock": 2, "ladder": 9, "vase": 5, "drum": 3}
CODE = {thing: f"{thing[:2].upper()}-{10 * n}" for n, thing in enumerate(SHELF, 1)}  # lamp is LA-10


def tool(name: str, kind: str, about: str, **arguments: str) -> dict:
    properties = {key: {"type": type_} for key, type_ in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"name": name, "description": about, "parameters": schema, "kind": kind}


class StockRoom:
    def __init__(self) -> None:
        self.shelf = dict.fromkeys(CODE.values(), 1)

    def call(self, call: Call) -> tuple[str, bool]:
        given = call.arguments
        if call.name == "look_up" and given.get("thing") in CODE:
            return CODE[given["thing"]], False
        if call.name in ("where", "move") and given.get("code") in self.shelf:
            if call.name == "move":
                self.shelf[given["code"]] = given.get("shelf")
            return f"shelf {self.shelf[given['code']]}", False
        return f"Error: {call.name} knows nothing like {list(given.values())}", True

    def read(self, tool: str, arguments: dict) -> str | None:
        text, error = self.call(Call(tool, arguments))
        return None if error else text


class Toy:
    name, version, about = "tests.toy_benchmark:make", "1", "keeping a stock room"
    policy = system_prompt = "Move what the task names to the shelf it names, and nothing else."
    tools = [
        tool("look_up", "read", "Code of a thing.", thing="string"),
        tool("where", "read", "Shelf of a code.", code="string"),
        tool("move", "write", "Move a thing to a shelf.", code="string", shelf="integer"),
    ]
    user, opening, human, slips = "none", "", "", "tests.toy_benchmark:SLIPS"

    def tasks(self, split, n=None, seed=0):
        texts = {thing: f"Bring the {thing} to shelf {shelf}." for thing, shelf in SHELF.items()}
        made = [
            Task(t, self.name, "train" if i < 4 else "test", text)
            for i, (t, text) in enumerate(texts.items())
        ]
        return [t for t in made if split in (t.split, "all")][:n]

    def run(self, task, trial, agent, user, limits):
        wanted = dict.fromkeys(CODE.values(), 1) | {CODE[task.id]: SHELF[task.id]}
        return run_solo(self, task, trial, agent, limits,
                        lambda room, messages: (float(room.shelf == wanted), {"shelves": room.shelf == wanted}))  # fmt: skip

    def environment(self, task_id):
        return StockRoom()

    def effect(self, call):
        return "write" if call.name == "move" else "read"

    def facts(self, task_id, seen=()):
        return {CODE[task_id]: "code"}

    def oracle(self, task_id):
        look, code = Call("look_up", {"thing": task_id}), CODE[task_id]
        move = Call("move", {"code": code, "shelf": SHELF[task_id]})
        return Oracle((look, Call("where", {"code": code}), move, "It is moved."))


SLIPS = (
    Slip("lower_code", "call", on("where")(lambda scene, call: changed(call, code=call.arguments["code"].lower())),
         r"code.{0,80}(upper|capital)", form=True, share=0.7),
    Slip("next_shelf", "call", on("move")(lambda scene, call: changed(call, shelf=call.arguments["shelf"] + 1)),
         r"shelf.{0,80}exact", share=0.3),
)  # fmt: skip


def make() -> Toy:
    return Toy()
