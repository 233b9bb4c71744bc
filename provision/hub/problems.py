"""What can stand against a model from the hub: what was seen, why it matters, what to do. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(eq=False)
class Problem(Exception):
    """``kind`` is a stable word; ``seen``, ``why`` and ``next`` are read by people. Never holds a token."""

    kind: str
    seen: str
    why: str
    next: str

    def __str__(self) -> str:
        return f"{self.seen}; {self.why}. Next: {self.next}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def gated(repo: str, endpoint: str, token: bool, waiting: bool) -> Problem:
    page = f"{endpoint}/{repo}"
    if not token:
        return Problem(
            "gated",
            f"{repo} is gated, and no token was given",
            "its files are handed out only to accounts that accepted its terms",
            f"accept them at {page}, make a token that may read, put it into a file of mode 600 and name it: "
            "Model(token_file=…) or Machine(hub=Hub(token_file=…)), or set HF_TOKEN",
        )
    if waiting:
        return Problem(
            "waiting",
            f"{repo} is gated, and the request of the token's account still waits for its authors",
            "until they grant it no file is handed out",
            f"look at {page}; run again when it is granted, or name another model until then",
        )
    return Problem(
        "not-allowed",
        f"{repo} is gated, and the account of the token given is not on its list",
        "its files are handed out only to accounts that were granted access",
        f"ask for access at {page} with that account; a fine-grained token must also include this repository",
    )


def wrong_token(endpoint: str) -> Problem:
    return Problem(
        "token",
        f"{endpoint} does not know the token given",
        "a wrong token is refused even where none would be needed",
        f"make a new one at {endpoint}/settings/tokens and put it into the token file, without quotes; for a public "
        "model leave it out",
    )


def no_repository(repo: str, endpoint: str, token: bool) -> Problem:
    more = "the account of the token cannot see it" if token else "it is private, and no token was given"
    return Problem(
        "no-repository",
        f"{endpoint} has no model {repo}, or {more}",
        "nothing can be fetched",
        f"compare the name with {endpoint}/{repo}" + ("" if token else ", or name a token file"),
    )


def no_revision(repo: str, revision: str, endpoint: str, head: str | None) -> Problem:
    now = f"; its main is at {head} now" if head else ""
    return Problem(
        "no-revision",
        f"{repo} has no commit {revision} any more{now}",
        "it was pushed away or mistyped, and what took its place is not what was tested",
        f"look at {endpoint}/{repo}/commits/main, choose a commit and write it as revision; where the old files are "
        "still at hand, Model(folder=…) copies them",
    )


def other_revision(repo: str, revision: str, answered: str) -> Problem:
    return Problem(
        "other-revision",
        f"asked for commit {revision} of {repo}, the hub answered for {answered}",
        "files of another commit are not what was tested",
        "check the endpoint: a mirror must serve commits, not only the newest state",
    )


def renamed(repo: str, now: str) -> Problem:
    return Problem(
        "renamed",
        f"{repo} is called {now} now",
        "a name that was left can be taken by somebody else",
        f"write repo={now!r} if that is who you trust; the commit stays the same",
    )


def unreachable(endpoint: str, who: str, error: str) -> Problem:
    return Problem(
        "unreachable",
        f"{endpoint} cannot be reached from {who}: {error}",
        "the files are fetched by the machine itself",
        "open the way there (https_proxy for root on the machine; certificates: apt-get install ca-certificates), name "
        " a mirror with Machine(hub=Hub(endpoint=…)), or give the files with Model(folder=…)",
    )


def broken_off(repo: str, path: str, error: str, got: int, size: int) -> Problem:
    return Problem(
        "cut",
        f"{repo}: {path} stopped coming after {got} of {size} bytes: {error}",
        "the hub did not answer any more",
        "run again: what arrived is kept, and it goes on from there",
    )


def corrupted(repo: str, path: str, wanted: str, found: str) -> Problem:
    return Problem(
        "corrupted",
        f"{repo}: {path} arrived with hash {found}, the hub says {wanted}",
        "it came twice and was wrong twice, so that something on the way changes it; nothing was put in place",
        "look for a proxy or mirror that alters files, then run again",
    )


def no_space(directory: str, needed: int, free: int, what: str = "bytes") -> Problem:
    return Problem(
        "no-space",
        f"{needed} {what} are needed for {directory}, and {free} are free",
        "a full disk stops what else writes there",
        f"free {needed - free} {what}, or put the models elsewhere with Machine(models=…)",
    )


def no_model(repo: str, files: int, patterns: tuple[str, ...] | None, role: str) -> Problem:
    given = f"files={patterns!r} leaves no" if patterns else "it has no"
    return Problem(
        "no-model",
        f"{repo} is no {role} as it would be fetched: {given} weights and config.json among {files} files",
        "an engine could not start with it",
        "correct repo, revision or files; an adapter or a data set is no model",
    )


def too_large(repo: str, path: str, size: int) -> Problem:
    return Problem(
        "too-large",
        f"{repo}: {path} has {size} bytes",
        "the hub serves single files by plain HTTP only up to 50 GB",
        "fetch it elsewhere with the hub's own program (hf download) and give it with Model(folder=…)",
    )


def odd_name(repo: str, path: str) -> Problem:
    return Problem(
        "odd-name",
        f"{repo} holds a file named {path!r}",
        "a name that leads out of its folder or is kpro's own is never written",
        "leave it out with files=(…), or choose another revision",
    )


def foreign(directory: str) -> Problem:
    return Problem(
        "foreign",
        f"{directory} exists already and has no manifest of ours",
        "what somebody else put there is not overwritten",
        f"move it away, then run again: mv {directory} {directory}.old",
    )


def no_hashes(repo: str, endpoint: str, path: str) -> Problem:
    return Problem(
        "no-hashes",
        f"{endpoint} lists {path} of {repo} without its size or hash",
        "what comes from there could not be verified",
        "name another mirror, or the hub itself, with Machine(hub=Hub(endpoint=…))",
    )


def no_folder(path: str) -> Problem:
    return Problem(
        "no-folder",
        f"there is no folder {path} on the machine",
        "the model is to be copied from there",
        "correct Model(path=…): it names a folder of the machine that the model is put on, not of the controller",
    )


def changed(path: str) -> Problem:
    return Problem(
        "changed",
        f"{path} changed while it was copied",
        "what was copied is neither the old file nor the new one; it was not put in place",
        "wait until nothing writes there any more, then run again",
    )


def busy(folder: str) -> Problem:
    return Problem(
        "busy",
        f"another fetch works in {folder}",
        "two at once would write the same files",
        f"wait for it to end, then run again; see it with: fuser -v {folder}",
    )


def disk(directory: str, error: OSError) -> Problem:
    return Problem(
        "disk",
        f"{error.filename or directory}: {error.strerror or error}",
        "what arrived cannot be written; it is kept as far as it got",
        "make room or repair the disk, then run again: it goes on from there",
    )


def old_python(version: str) -> Problem:
    return Problem(
        "python",
        f"python3 on the machine is {version}",
        "huggingface_hub needs Python 3.11 or later with ssl",
        "give the files with Model(folder=…), or fetch on a machine with a later Debian",
    )
