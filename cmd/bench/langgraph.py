"""The peer of the durable loop: three nodes that go round, each step checkpointed by
LangGraph into SQLite. Prints the seconds that it took.

    python langgraph.py DATABASE ITERATIONS
"""

import sys
import time
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    iteration: int
    a: dict
    b: dict
    c: dict


def main() -> None:
    database, iterations = sys.argv[1], int(sys.argv[2])
    graph = StateGraph(State)
    graph.add_node("a_", lambda s: {"a": {"n": 0}})
    graph.add_node("b_", lambda s: {"b": {"n": 1}})
    graph.add_node("c_", lambda s: {"c": {"n": 2}, "iteration": s["iteration"] + 1})
    graph.add_edge(START, "a_")
    graph.add_edge("a_", "b_")
    graph.add_edge("b_", "c_")
    graph.add_conditional_edges("c_", lambda s: "a_" if s["iteration"] < iterations else END, ["a_", END])
    with SqliteSaver.from_conn_string(database) as saver:
        # As durable as the other side: what is committed is on the disk.
        saver.setup()
        saver.conn.execute("PRAGMA synchronous=FULL")
        app = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "bench"}, "recursion_limit": 3 * iterations + 10}
        start = time.perf_counter()
        end = app.invoke({"iteration": 0}, config, durability="sync")
        spent = time.perf_counter() - start
    assert end["iteration"] == iterations, end
    print(spent)


main()
