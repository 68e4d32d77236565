"""One query in Flink SQL, in a process and an environment of its own; see ``flink_sql``.

Run by the Python of an environment that has ``apache-flink``: it needs an old PyArrow. It prints
the seconds that the job took, by JSON; the time Flink takes to start is not among them.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

TABLE = """
CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), x DOUBLE, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""
SINK = """
CREATE TABLE answer_{number} (first_id BIGINT, last_id BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
"""


def main() -> None:
    """Read the job from standard input: source, warm_up, and the SQL and sink of each query."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    job = json.load(sys.stdin)
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.get_config().set("parallelism.default", "1")  # without a partition a pattern has one task
    env.execute_sql(TABLE.format(name="s", path=job["source"]))
    env.execute_sql(TABLE.format(name="warm_up", path=job["warm_up"]))
    seconds = []
    for number, (sql, sink) in enumerate(job["queries"]):
        env.execute_sql(SINK.format(number=2 * number, path=f"{sink}-warm-up"))
        env.execute_sql(SINK.format(number=2 * number + 1, path=sink))
        warm_up = sql.replace("FROM s ", "FROM warm_up ")
        env.execute_sql(f"INSERT INTO answer_{2 * number} {warm_up}").wait()
        started = perf_counter()
        env.execute_sql(f"INSERT INTO answer_{2 * number + 1} {sql}").wait()
        seconds.append(perf_counter() - started)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
