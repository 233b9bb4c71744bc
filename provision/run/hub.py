"""What a run has asked the hub about: each model once, and only where files are to be fetched."""

from __future__ import annotations

from provision.hub import controller
from provision.hub.problems import Problem
from provision.hub.select import Listing
from provision.plan import Plan
from provision.stack.fetching import KIND, Fetch, Key


class Asked:
    """``answers`` are read by the planner; a plan in sync, or without models from the hub, asks nothing."""

    def __init__(self) -> None:
        self.answers: dict[Key, Listing | Problem] = {}

    def ask(self, plan: Plan) -> bool:
        """Is there an answer now that the plan was made without?"""
        new: dict[Key, Fetch] = {
            item.payload.key: item.payload
            for item in plan.items
            if item.kind == KIND
            and item.payload.model.origin == "hub"
            and item.payload.key not in self.answers
        }
        for key, wanted in new.items():
            self.answers[key] = controller.answer(wanted.model, wanted.role, wanted.hub)
        return bool(new)
