"""Asks the hub what a commit of a repository holds, through huggingface_hub. Raises Problem in operators' words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from provision.hub import problems
from provision.hub.select import HubFile, Listing

SECONDS = 20.0
"""For one answer."""
CARD_BYTES = 1 << 20


def ask(
    repo: str,
    revision: str,
    *,
    endpoint: str,
    token: str | None,
    who: str,
    card: bool = False,
    seconds: float = SECONDS,
) -> Listing:
    """The files of the commit, and that they are handed out to this token. ``who`` names this machine in messages.

    ``card``: the README.md too. Raises Problem.
    """
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint, token=token or False)
    with told(repo, revision, endpoint, token is not None, who):
        info = api.model_info(repo, revision=revision, files_metadata=True, timeout=seconds)
    if info.id and info.id != repo:
        raise problems.renamed(repo, info.id)
    if info.sha != revision:
        raise problems.other_revision(repo, revision, str(info.sha))
    for sibling in info.siblings or ():
        if sibling.size is None or not (sibling.lfs or sibling.blob_id):
            raise problems.no_hashes(repo, endpoint, sibling.rfilename)
    files = tuple(_file(sibling) for sibling in info.siblings or ())
    if files:
        # A gated repository lists its files to everybody; whether it hands them out, the largest one says.
        largest = max(files, key=lambda file: file.size)
        with told(repo, revision, endpoint, token is not None, who):
            _head(repo, revision, largest.path, endpoint, token, seconds)
    text = None
    if card and any(file.path == "README.md" and file.size <= CARD_BYTES for file in files):
        with told(repo, revision, endpoint, token is not None, who):
            text = _text(repo, revision, "README.md", endpoint, token, seconds)
    return Listing(repo, revision, files, text)


def head_of(repo: str, endpoint: str, token: str | None, revision: str | None = None) -> str | None:
    """The commit that a branch (None: the default one) points to now; None where the hub does not say."""
    from huggingface_hub import HfApi

    try:
        info = HfApi(endpoint=endpoint, token=token or False).model_info(repo, revision=revision, timeout=5)
    except Exception:  # noqa: BLE001 - a hint in a message; whatever keeps it from coming is told elsewhere
        return None
    return info.sha if info.sha and re.fullmatch(r"[0-9a-f]{40}", info.sha) else None


def _file(sibling: Any) -> HubFile:
    sha256 = sibling.lfs.sha256 if sibling.lfs else None
    return HubFile(sibling.rfilename, int(sibling.size), sha256, None if sha256 else sibling.blob_id)


def _head(repo: str, revision: str, path: str, endpoint: str, token: str | None, seconds: float) -> None:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(repo, path, revision=revision, endpoint=endpoint)
    found = get_hf_file_metadata(url, token=token or False, timeout=seconds, endpoint=endpoint)
    if found.commit_hash != revision:
        raise problems.other_revision(repo, revision, str(found.commit_hash))


def _text(repo: str, revision: str, path: str, endpoint: str, token: str | None, seconds: float) -> str:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    url = hf_hub_url(repo, path, revision=revision, endpoint=endpoint)
    answer = get_session().get(url, headers=build_hf_headers(token=token or False), timeout=seconds)
    hf_raise_for_status(answer)
    return answer.text


class Cut(Exception):
    """The connection broke, or the hub is out of order for a moment: worth another try."""


@contextmanager
def told(
    repo: str, revision: str, endpoint: str, token: bool, who: str, *, patient: bool = False
) -> Iterator[None]:
    """Turns what huggingface_hub raises into a Problem; ``patient``: what may pass by itself into Cut."""
    import httpx2
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError as error:
        raise problems.gated(repo, endpoint, token, "awaiting a review" in str(error)) from None
    except errors.RepositoryNotFoundError:
        raise problems.no_repository(repo, endpoint, token) from None
    except errors.RevisionNotFoundError:
        raise problems.no_revision(repo, revision, endpoint, head_of(repo, endpoint, None)) from None
    except errors.HfHubHTTPError as error:
        if patient and error.response.status_code in (408, 429, 500, 502, 503, 504):
            raise Cut(f"it answers {error.response.status_code}") from None
        raise _http(repo, endpoint, token, who, error) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        text = str(error) or type(error).__name__
        if patient and isinstance(error, httpx2.TransportError):
            raise Cut(text) from None
        raise problems.unreachable(endpoint, who, text) from None


def _http(repo: str, endpoint: str, token: bool, who: str, error: Any) -> problems.Problem:
    status = error.response.status_code
    if status == 401:
        return problems.wrong_token(endpoint) if token else problems.no_repository(repo, endpoint, token)
    if status == 403:
        return problems.gated(repo, endpoint, token, False)
    return problems.unreachable(endpoint, who, f"it answers {status}")
