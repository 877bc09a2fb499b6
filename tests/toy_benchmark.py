"""A stock room, as small as a benchmark can be: things lie on shelves, and a list says what is to be moved where."""

from __future__ import annotations

from ecdysis_lab.benchmarks.solo import run_solo
from ecdysis_lab.hooks import Call
from ecdysis_lab.models.sim.scene import Slip, changed, on
from ecdysis_lab.records import Oracle, Task

THINGS = {
    "lamp": "LA-10",
    "kettle": "KE-22",
    "clock": "CL-31",
    "ladder": "LD-47",
    "vase": "VA-58",
    "drum": "DR-63",
}
SHELVES = {"lamp": 4, "kettle": 7, "clock": 2, "ladder": 9, "vase": 5, "drum": 3}  # where each has to go


def tool(name: str, kind: str, about: str, **arguments: str) -> dict:
    properties = {key: {"type": kind_} for key, kind_ in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"name": name, "description": about, "parameters": parameters, "kind": kind}


class StockRoom:
    def __init__(self) -> None:
        self.shelf = dict.fromkeys(THINGS.values(), 1)

    def call(self, call: Call) -> tuple[str, bool]:
        given = call.arguments
        if call.name == "look_up" and given.get("thing") in THINGS:
            return THINGS[given["thing"]], False
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
    policy = system_prompt = "Move what the list names to the shelf it names, and nothing else."
    tools = [
        tool("look_up", "read", "Code of a thing.", thing="string"),
        tool("where", "read", "Shelf of a code.", code="string"),
        tool("move", "write", "Move a thing to a shelf.", code="string", shelf="integer"),
    ]
    user, opening, human, slips = "none", "", "", "tests.toy_benchmark:SLIPS"

    def tasks(self, split: str, n: int | None = None, seed: int = 0) -> list[Task]:
        made = [Task(thing, self.name, "train" if i < 4 else "test", f"Bring the {thing} to shelf {SHELVES[thing]}.")
                for i, thing in enumerate(THINGS)]  # fmt: skip
        return [t for t in made if split in (t.split, "all")][:n]

    def run(self, task, trial, agent, user, limits):
        return run_solo(self, task, trial, agent, limits, lambda room, messages: self.score(room, task.id))

    def score(self, room: StockRoom, thing: str) -> tuple[float, dict[str, bool]]:
        right = room.shelf == dict.fromkeys(THINGS.values(), 1) | {THINGS[thing]: SHELVES[thing]}
        return float(right), {"shelves": right}

    def environment(self, task_id: str) -> StockRoom:
        return StockRoom()

    def effect(self, call: Call) -> str:
        return "write" if call.name == "move" else "read"

    def facts(self, task_id: str, seen=()) -> dict[str, str]:
        return {THINGS[task_id]: "code"}

    def oracle(self, task_id: str) -> Oracle:
        code = THINGS[task_id]
        move = Call("move", {"code": code, "shelf": SHELVES[task_id]})
        return Oracle(
            (Call("look_up", {"thing": task_id}), Call("where", {"code": code}), move, "It is moved.")
        )


SLIPS = (
    Slip("lower_code", "call", on("where")(lambda scene, call: changed(call, code=call.arguments["code"].lower())),
         r"code.{0,80}(upper|capital)", form=True, share=0.7),
    Slip("next_shelf", "call", on("move")(lambda scene, call: changed(call, shelf=call.arguments["shelf"] + 1)),
         r"shelf.{0,80}exact", share=0.3),
)  # fmt: skip


def make() -> Toy:
    return Toy()
