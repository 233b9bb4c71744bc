"""How names, ports and addresses may be written, for any text that somebody could write."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from provision.forms import AbsolutePath, BdfText, Name, Port
from provision.spec import Engine, Fleet, Gpu, Guest, Machine, Model, Service, Ssh

NAME: TypeAdapter[str] = TypeAdapter(Name)
PORT: TypeAdapter[int] = TypeAdapter(Port)
BDF: TypeAdapter[str] = TypeAdapter(BdfText)
PATH: TypeAdapter[str] = TypeAdapter(AbsolutePath)

names = st.from_regex(r"\A[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")


def accepted(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


@given(names)
def test_a_name_of_a_host_is_a_name(text: str) -> None:
    assert NAME.validate_python(text) == text


@given(st.text())
def test_what_is_no_host_label_is_no_name(text: str) -> None:
    allowed = set(string.ascii_lowercase + string.digits + "-")
    right = 0 < len(text) <= 63 and set(text) <= allowed and text[0] != "-" and text[-1] != "-"
    assert accepted(NAME, text) == right


@given(st.integers())
def test_a_port_is_a_number_from_1_to_65535(number: int) -> None:
    assert accepted(PORT, number) == (1 <= number <= 65535)


@given(st.one_of(st.booleans(), st.floats(), st.text(), st.none()))
def test_nothing_but_a_whole_number_is_a_port(value: Any) -> None:
    assert not accepted(PORT, value)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7), st.booleans())
def test_every_spelling_of_an_address_is_one_address(
    domain: int, bus: int, slot: int, function: int, upper: bool
) -> None:
    kernel = f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
    spellings = [kernel, f"{domain:08x}:{bus:02x}:{slot:02x}.{function}", f" {kernel}\n"]
    if domain == 0:
        spellings += [f"{bus:02x}:{slot:02x}.{function}", f"{bus:x}:{slot:x}.{function}"]
    if function == 0:
        spellings.append(f"{domain:04x}:{bus:02x}:{slot:02x}")
    for text in spellings:
        assert BDF.validate_python(text.upper() if upper else text) == kernel


@given(st.text(alphabet="0123456789abcdefg:. ", max_size=14))
def test_an_address_is_read_into_the_kernel_s_form_or_refused(text: str) -> None:
    if accepted(BDF, text):
        kernel = BDF.validate_python(text)
        assert BDF.validate_python(kernel) == kernel
        assert int(kernel.split(":")[2][:2], 16) <= 0x1F


@given(st.text(max_size=20))
def test_a_path_with_white_space_commas_or_steps_up_is_refused(text: str) -> None:
    path = "/" + text
    wrong = any(char.isspace() or char == "," or not char.isprintable() for char in path)
    wrong |= bool({".", ".."} & set(path.split("/")))
    assert accepted(PATH, path) == (not wrong)
    assert not accepted(PATH, text) or text.startswith("/")


@given(names)
def test_a_guest_is_reached_through_the_machine_that_carries_it(name: str) -> None:
    guest = Guest(name="llm", backend="lxc", id="llm")
    there = Machine(name=name, ssh=Ssh(host=name), guests=(guest,))
    here = Machine(name=name, guests=(guest,))
    assert there.guest_host_name(guest) == f"@guest/{name}/llm"
    assert here.guest_host_name(guest) == "@guest/@local/llm"
    assert [host for group in there.pyinfra_groups() for host, _ in group] == [name, f"@guest/{name}/llm"]


def test_data_of_a_host_says_how_to_connect_and_nothing_that_is_not_set() -> None:
    machine = Machine(name="a", ssh=Ssh(host="b", port=2222, user="root", known_hosts="/k"))
    ((name, data),) = machine.pyinfra_groups()[0]
    assert name == "a"
    assert data == {
        "machine": machine,
        "ssh_hostname": "b",
        "ssh_port": 2222,
        "ssh_user": "root",
        "ssh_known_hosts_file": "/k",
        "ssh_strict_host_key_checking": "yes",
    }
    assert Machine(name="a").pyinfra_groups()[0] == [("@local", {"machine": Machine(name="a")})]


def test_a_spec_cannot_be_changed_after_it_was_judged() -> None:
    gpu = Gpu(bdf="42:00.0", model="RTX A6000")
    with pytest.raises(ValidationError):
        gpu.bdf = "61:00.0"  # type: ignore[misc]


def test_a_changed_copy_is_judged_like_any_spec() -> None:
    ssh = Ssh(host="a", port=22)
    assert ssh.model_copy(update={"host": "b"}) == Ssh(host="b", port=22)
    assert ssh.model_copy() == ssh
    for wrong in ({"prt": 22}, {"port": "22"}, {"host": ""}):
        with pytest.raises(ValidationError):
            ssh.model_copy(update=wrong)


def test_a_fleet_holds_at_least_one_machine() -> None:
    with pytest.raises(ValidationError):
        Fleet(machines=())
    assert list(Fleet(machines=(Machine(name="a"),))) == [Machine(name="a")]


def _service(**other: Any) -> Service:
    return Service(
        name="qwen",
        engine=Engine(kind="vllm", version="0.20.1"),
        model=Model(repo="a/b", revision="1" * 40),
        **other,
    )


@given(st.integers(1, 65535))
def test_a_candidate_answers_on_a_port_that_exists_and_is_not_the_service_s(port: int) -> None:
    trial = _service(port=port).candidate_port
    assert 1 <= trial <= 65535
    assert trial != port


def test_a_trial_keeps_the_model_and_stays_on_loopback() -> None:
    candidate = {"engine": {"kind": "sglang", "version": "0.5.11"}, "profile": "sglang-mtp", "flags": ["--x"]}
    service = _service(listen="0.0.0.0", api_key_file="/key", candidate=candidate)
    trial = service.trial()
    assert trial is not None
    assert (trial.listen, trial.port, trial.profile, trial.flags) == (
        "127.0.0.1",
        18000,
        "sglang-mtp",
        ("--x",),
    )
    assert trial.model == service.model
    assert trial.unit == "kpro-qwen-candidate.service"
    assert trial.candidate is None
    assert _service().trial() is None
    longest = service.model_copy(update={"name": "a" * 53}).trial()
    assert longest is not None
    with pytest.raises(ValidationError, match="at most 53"):
        service.model_copy(update={"name": "a" * 54})
