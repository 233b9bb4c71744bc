"""Numbers that the parser of vLLM takes and the configuration that it makes of them refuses. Pure.

``EngineArgs`` hands ``--max-model-len`` to ``ModelConfig.max_model_len``, and so on: the limits of those fields were
read from the released wheels with the keys of JSON options. SGLang's table has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from checks.flags.read import Reading
from checks.flags.table import Table
from checks.flags.values import BadValue, bounds, convert

RECORDS = ("ModelConfig", "CacheConfig", "ParallelConfig", "SchedulerConfig")
"""The records that ``EngineArgs.create_engine_config`` fills from options of the same names."""


def outside(table: Table, reading: Reading) -> Iterator[tuple[str, str, str]]:
    """Of each number outside of its field's limits: what was seen, what to give instead, where that is written."""
    for given in reading.given:
        if given.path or given.option.object or len(given.values) != 1:
            continue
        key = given.option.name.removeprefix("--").replace("-", "_")
        for record in RECORDS:
            entry: Any = table.objects.get(record, {}).get(key)
            if not isinstance(entry, dict):
                continue
            try:
                value = convert(given.option, given.values[0])
            except BadValue:
                continue
            for text in bounds(value, entry):
                yield (
                    f"{given.spelled} is {value} and must be {text}",
                    f"give {given.spelled} a number that is {text}",
                    f"{record}.{key}, {table.version}",
                )
