"""Mistakes of three kinds of field in one inventory are told in one round."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.inventory import InventoryRefused, load

CHANGES = {
    "machine.guests[0].id": ("id=105", "id=5"),
    "machine.driver.flavour": ('flavour="open"', 'flavour="opn"'),
    "machine.guests[0].services[0].port": ("port=8000", "port=80000"),
}


@pytest.mark.parametrize("left_out", [None, *CHANGES])
def test_id_flavour_and_port_are_told_together(repo_root: Path, tmp_path: Path, left_out: str | None) -> None:
    text = (repo_root / "inventories" / "kpro5.py").read_text()
    for field, (old, new) in CHANGES.items():
        assert old in text
        text = text if field == left_out else text.replace(old, new)
    (tmp_path / "box.py").write_text(text)
    with pytest.raises(InventoryRefused) as refused:
        load(str(tmp_path / "box.py"), names=False)
    assert {reason.split(": ")[0] for reason in refused.value.reasons} == set(CHANGES) - {left_out}
