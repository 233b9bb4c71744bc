"""The wrapper runs in a real shell against doubles that give LXC's and Proxmox VE's own texts."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.guest.states import (
    NOT_ENTERED,
    Backend,
    GuestState,
    Seen,
    enter_script,
    probe_script,
    read_answer,
)
from tests.unit.guest.doubles import Doubles

NONCE = "c0ffee"
ENTER = '"-n t1 --clear-env -v "*) shift 12; exec "$@";;'
NO_SUCH_ID = "Configuration file 'nodes/pve/lxc/101.conf' does not exist"


def look(script: str, doubles: Doubles, system: bool = True) -> tuple[Seen | None, int, str]:
    """Run a wrapper; PATH is the doubles, and the system's own folders unless those have LXC of their own."""
    tools = doubles.folder / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("ls", "tr", "sed", "timeout", "mkdir", "flock", "sh", "env", "cat", "sleep"):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(f"/usr/bin/{name}")
    script = script.replace(":/usr/sbin:/sbin", "")
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, env={"PATH": f"{doubles.folder}:{tools}"}, check=False
    )
    return read_answer(NONCE, done.returncode, done.stderr), done.returncode, done.stdout.decode()


@pytest.fixture
def lxc(doubles: Doubles, tmp_path: Path) -> Path:
    """LXC's folder of containers, with a container t1."""
    (tmp_path / "lxc/t1").mkdir(parents=True)
    (tmp_path / "lxc/t1/config").touch()
    doubles.answer("lxc-config", f"lxc.lxcpath) echo {tmp_path}/lxc;;")
    doubles.answer("lxc-info", "'-n t1 -s -H') echo RUNNING;;")
    doubles.answer("lxc-attach", ENTER)
    return tmp_path / "lxc"


def enter(command: str = "echo in", backend: Backend = "lxc", ident: str = "t1") -> str:
    return enter_script(backend, ident, command, NONCE, busy=False)


def test_a_running_container_is_entered_with_one_look(doubles: Doubles, lxc: Path) -> None:
    assert look(enter(), doubles) == (None, 0, "in\n")
    assert [line.split()[0] for line in doubles.asked] == ["lxc-config", "lxc-info", "lxc-attach"]


def test_the_exit_status_of_the_command_comes_back(doubles: Doubles, lxc: Path) -> None:
    assert look(enter("exit 7"), doubles)[:2] == (None, 7)


def test_a_command_that_exits_like_the_wrapper_is_not_mistaken_for_it(doubles: Doubles, lxc: Path) -> None:
    forged = f"echo kpro-guest:000000:absent:x >&2; exit {NOT_ENTERED}"
    assert look(enter(forged), doubles)[:2] == (None, NOT_ENTERED)


@pytest.mark.parametrize("state", ["STARTING", "STOPPING", "ABORTING", "FREEZING", "FROZEN", "THAWED", ""])
def test_every_state_but_running_and_stopped_is_unknown_and_is_named(
    doubles: Doubles, lxc: Path, state: str
) -> None:
    doubles.answer("lxc-info", f"'-n t1 -s -H') echo {state};;")
    assert look(enter(), doubles)[0] == Seen(GuestState.UNKNOWN, f"lxc-info says {state}".strip())


def test_a_stopped_container_is_stopped_and_nothing_is_entered(doubles: Doubles, lxc: Path) -> None:
    doubles.answer("lxc-info", "'-n t1 -s -H') echo STOPPED;;")
    seen, status, _ = look(enter(), doubles)
    assert (seen and seen.state, status) == (GuestState.STOPPED, NOT_ENTERED)
    assert not any(line.startswith("lxc-attach") for line in doubles.asked)


def test_without_a_configuration_file_a_container_is_absent(doubles: Doubles, lxc: Path) -> None:
    (lxc / "t1/config").unlink()
    seen, _, _ = look(enter(), doubles)
    assert seen == Seen(GuestState.ABSENT, f"there is no {lxc}/t1/config")


def test_a_configuration_that_cannot_be_looked_at_is_unknown_and_not_absent(
    doubles: Doubles, lxc: Path
) -> None:
    doubles.answer("ls", f"*{lxc}/t1/config) echo 'ls: cannot access: Permission denied' >&2; exit 2;;")
    seen, _, _ = look(enter(), doubles)
    assert seen
    assert seen.state is GuestState.UNKNOWN
    assert "Permission denied" in seen.text


def test_lxc_info_that_fails_is_unknown_with_its_text(doubles: Doubles, lxc: Path) -> None:
    doubles.answer("lxc-info", "'-n t1 -s -H') echo 'Insufficent privileges to control t1' >&2; exit 1;;")
    seen, _, _ = look(enter(), doubles)
    assert seen == Seen(GuestState.UNKNOWN, "lxc-info fails (exit 1): Insufficent privileges to control t1")


def test_lxc_config_that_fails_is_unknown(doubles: Doubles, lxc: Path) -> None:
    doubles.answer("lxc-config", "lxc.lxcpath) echo broken >&2; exit 1;;")
    assert look(enter(), doubles)[0] == Seen(GuestState.UNKNOWN, "lxc-config fails: broken")


def test_on_a_host_without_lxc_a_container_is_absent(doubles: Doubles) -> None:
    seen, _, _ = look(enter(ident="kprotest-no-such"), doubles)
    assert seen == Seen(GuestState.ABSENT, "there is no /var/lib/lxc/kprotest-no-such/config")


@pytest.fixture
def pct(doubles: Doubles) -> Doubles:
    doubles.answer("pct", '"status 101") echo "status: running";;', '"exec 101 -- "*) shift 3; exec "$@";;')
    return doubles


def test_a_running_proxmox_container_is_entered_with_a_clean_environment(pct: Doubles) -> None:
    script = enter("echo $PATH $LANG $HOME", "pct", "101")
    assert look(script, pct)[2].split()[1:] == ["C.UTF-8", "/root"]


def test_a_stopped_proxmox_container_is_stopped(pct: Doubles) -> None:
    pct.answer("pct", '"status 101") echo "status: stopped";;')
    seen, _, _ = look(enter("true", "pct", "101"), pct)
    assert seen == Seen(GuestState.STOPPED, "pct status says stopped")


def test_warnings_around_the_status_do_not_hide_it(pct: Doubles) -> None:
    pct.answer("pct", '"status 101") echo "perl: warning: locale" >&2; echo "status: stopped";;')
    seen, _, _ = look(enter("true", "pct", "101"), pct)
    assert seen
    assert seen.state is GuestState.STOPPED


def test_a_proxmox_container_is_absent_only_by_pct_s_own_words(pct: Doubles) -> None:
    pct.answer("pct", f'"status 101") echo "{NO_SUCH_ID}" >&2; exit 2;;')
    seen, _, _ = look(enter("true", "pct", "101"), pct)
    assert seen == Seen(GuestState.ABSENT, NO_SUCH_ID)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("ipcc_send_rec[1] failed: Connection refused", 2),
        ("ipcc_send_rec[1] failed: Connection refused", 111),
        (NO_SUCH_ID, 255),
        (NO_SUCH_ID.replace("101", "1012"), 2),
        ("", 2),
    ],
)
def test_any_other_failure_of_pct_is_unknown_with_its_text(pct: Doubles, text: str, status: int) -> None:
    pct.answer("pct", f'"status 101") echo "{text}" >&2; exit {status};;')
    seen, _, _ = look(enter("true", "pct", "101"), pct)
    assert seen == Seen(GuestState.UNKNOWN, f"pct status fails (exit {status}): {text}".strip())


def test_a_status_that_pct_never_gives_is_unknown(pct: Doubles) -> None:
    pct.answer("pct", '"status 101") echo "status: paused";;')
    assert look(enter("true", "pct", "101"), pct)[0] == Seen(GuestState.UNKNOWN, "pct status says 'paused'")


def test_a_host_without_pct_is_unknown_because_it_is_the_wrong_host(doubles: Doubles) -> None:
    seen, _, _ = look(enter("true", "pct", "101"), doubles)
    assert seen
    assert seen.state is GuestState.UNKNOWN
    assert "no Proxmox VE host" in seen.text


def test_a_probe_enters_nothing(doubles: Doubles, lxc: Path) -> None:
    assert look(probe_script("lxc", "t1", NONCE), doubles) == (None, 0, "")
    assert not any(line.startswith("lxc-attach") for line in doubles.asked)


def busy(script: str, folder: Path) -> str:
    return script.replace("/run/kpro", str(folder / "run"))


def test_a_changing_command_holds_the_busy_lock_until_it_ended(
    doubles: Doubles, lxc: Path, tmp_path: Path
) -> None:
    taken = f"flock -x -n {tmp_path}/run/busy true; echo $?"
    script = busy(enter_script("lxc", "t1", taken, NONCE, busy=True), tmp_path)
    assert look(script, doubles)[2] == "1\n"
    assert subprocess.run(["flock", "-x", "-n", tmp_path / "run/busy", "true"], check=False).returncode == 0


def test_what_a_changing_command_leaves_running_does_not_keep_the_busy_lock(
    doubles: Doubles, lxc: Path, tmp_path: Path
) -> None:
    command = "sleep 3 </dev/null >/dev/null 2>&1 & exit 5"
    script = busy(enter_script("lxc", "t1", command, NONCE, busy=True), tmp_path)
    assert look(script, doubles)[1] == 5
    assert subprocess.run(["flock", "-x", "-n", tmp_path / "run/busy", "true"], check=False).returncode == 0


def test_while_planning_no_lock_is_taken_and_nothing_is_written(
    doubles: Doubles, lxc: Path, tmp_path: Path
) -> None:
    look(busy(enter(), tmp_path), doubles)
    assert not (tmp_path / "run").exists()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_reaches_the_command_as_it_is(text: str) -> None:
    script = enter_script("pct", "101", f"printf %s {shlex.quote(text)}", NONCE, busy=False)
    inside = script.split("exec pct exec 101 -- ", 1)[1]
    done = subprocess.run(["/bin/sh", "-c", f"exec {inside}"], capture_output=True, check=True)
    assert done.stdout == text.encode()


@given(st.text())
def test_an_answer_without_the_nonce_is_no_answer(text: str) -> None:
    assert read_answer(NONCE, NOT_ENTERED, text.encode("utf-8", "replace")) is None
