"""What in a guest stands against a service: a port that is taken, a unit changed by hand. Pure."""

from __future__ import annotations

from checks.snapshot import Snapshot
from provision.host import view
from provision.migrate.standing import DROP_IN
from provision.plan import Refusal
from provision.spec import Guest
from provision.stack import former
from provision.stack.desired import DesiredService


def drop_ins(desired: DesiredService, inside: Snapshot | None, refusals: list[Refusal], where: str) -> None:
    """A drop-in made by hand can take the gate away or open the port to the world, and the unit's file stays equal.
    Of a migration's own one provision.migrate.standing tells."""
    folder = f"{desired.unit_path}.d"
    found = (inside.data("dir", folder) or b"").decode(errors="replace").split() if inside is not None else []
    names = [name for name in found if name != DROP_IN]
    if names:
        refusals.append(
            Refusal(
                where,
                f"{desired.service.unit} is changed by hand in {folder}: {', '.join(names)}",
                "what runs is then not what the inventory says and the gate has seen",
                f"put it into the inventory and remove it in the guest: systemctl revert {desired.service.unit}",
            )
        )


def taken_port(
    guest: Guest,
    desired: DesiredService,
    host: Snapshot,
    inside: Snapshot | None,
    refusals: list[Refusal],
    where: str,
) -> None:
    """A port that something else listens on is refused before the container is touched."""
    if inside is not None:
        _, state = inside.command(f"unit-{desired.name}")
        if "ActiveState=active" in state.split() or "ActiveState=activating" in state.split():
            return
        taken = desired.service.port in view.listeners(inside)
    else:
        taken = guest.network == "host" and desired.service.port in view.listeners(host)
    if taken:
        left = former.on_port(inside, desired.service.port, desired.service.unit)
        refusals.append(
            Refusal(
                f"{where}.port",
                f"something listens on port {desired.service.port} already, where {desired.service.unit} is to listen",
                "it could not bind it, and who answers there is not this service",
                f"{left.unit}, which kpro set up before, is what listens; if it is not wanted any more, in the guest: "
                f"{left.removal}"
                if left
                else f"find it with: ss -ltnp 'sport = :{desired.service.port}'",
            )
        )
