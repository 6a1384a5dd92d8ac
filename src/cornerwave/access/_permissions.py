"""Who may have what of a vault."""

import hmac
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from cornerwave.access._grants import (
    ANYBODY,
    ANYBODY_KNOWN,
    APPROVED,
    DECLINED,
    LIVE,
    LIVE_TOKENS,
    MOST_DAYS,
    MOST_OPEN,
    OPEN,
    RESERVED,
    SECRET_BYTES,
    STATES,
    Foreseen,
    Grant,
    Holders,
    Recipient,
    Request,
    Token,
    Waiting,
    mac_of,
    request_about,
    token_parts,
    token_text,
)
from cornerwave.access._owners import APPROVER, OWNER, PERSON, check_may
from cornerwave.access._permitted import (
    check_recipient,
    end,
    end_grants,
    is_recipient,
    new_id,
    open_request,
    put_grant,
    recipients,
)
from cornerwave.choices import names_of
from cornerwave.columns import Finish
from cornerwave.errors import (
    AccessDenied,
    LevelError,
    NoSuchDataset,
    NoSuchRecipient,
    TooManyRequests,
    VaultError,
)
from cornerwave.ledger import (
    Access,
    Page,
    Record,
    Records,
    Terms,
    check_name,
    now,
    short,
    written,
)
from cornerwave.levels import LINEAR, Level, Privacy, asked_for
from cornerwave.spec import CopySpec
from cornerwave.vault import (
    Dataset,
    Vault,
    below_in,
    needed,
    propose,
)


class Sharing:
    """Who may have what of a vault."""

    def __init__(self, vault: Vault, *, clock: Callable[[], datetime] = now) -> None:
        """`clock` gives the time by which grants and tokens end."""
        self.vault, self.clock = vault, clock
        self._records = vault.records
        self._secret = vault.secret("tokens")

    @contextmanager
    def _doing(self, what: str, *, role: str = OWNER) -> Iterator[Records]:
        """Give the records for what an owner of this role may do, within one transaction.

        The ledger states it under the name that the vault is used under.
        """
        with self._records.together() as records:
            check_may(records, self.vault.who, role)
            yield records
            records.note(what)

    # --- recipients ---------------------------------------------------------------------

    def add(
        self,
        name: str,
        *,
        note: str = "",
        purpose: str = "",
        contract: str = "",
        until: str | datetime | None = None,
    ) -> None:
        """Add a recipient: what for, by which contract, and until when they may have anything.

        Raises VaultError if the name is taken or easily confused.
        """
        check_name(name, what="a recipient's name")
        if name.casefold() in RESERVED:
            raise VaultError(f"{name!r} is a reserved name; choose another one")
        terms = Terms.of(purpose=purpose, contract=contract, until=until)
        terms.check_ahead(self.clock(), "what a recipient may have")
        made = Recipient(name, written(self.clock()), note, terms).record()
        with self._doing(f"added the recipient {name}{_noted(terms)}") as records:
            if any(each.id.casefold() == name.casefold() for each in records.find(PERSON)):
                raise VaultError(f"{name!r} is the name of an owner; choose another one")
            for there in records.find("recipient", of=name.casefold()):
                if there.id == name and not there.content["removed"]:
                    raise VaultError(f"recipient {name!r} exists already")
                if there.id != name:
                    raise VaultError(f"{name!r} is easily confused with {there.id!r}")
            records.put(made)

    def change(self, name: str, terms: Terms, *, note: str | None = None) -> None:
        """Give a recipient other terms, and another note if there is one. Raises NoSuchRecipient.

        An end that has passed ends at once what they may fetch.
        """
        with self._doing(f"changed the recipient {name}{_noted(terms)}") as records:
            check_recipient(records, name)
            [kept] = records.find("recipient", id=name)
            known = Recipient.of(kept)
            changed = replace(known, terms=terms, note=known.note if note is None else note)
            records.put(changed.record())

    def recipient(self, name: str) -> Recipient:
        """Return a recipient with the terms they have, also one who was removed."""
        known = self._records.find("recipient", id=name)
        if not known:
            check_recipient(self._records, name)
        return Recipient.of(known[0])

    def recipients(self) -> list[str]:
        """Return the names of all recipients."""
        return recipients(self._records)

    def recipient_page(self, number: int = 1, *, part: str = "") -> Page[Recipient]:
        """Return a page of the recipients by name; `part` is a part of their names, in any case."""
        found = self._records.page(
            "recipient", about=[""], part=part.casefold(), by_name=True, number=number
        )
        return found.of(Recipient.of)

    def is_recipient(self, name: str) -> bool:
        """Whether there is a recipient of this name, who was not removed."""
        return is_recipient(self._records, name)

    def check_known(self, name: str) -> None:
        """Raise NoSuchRecipient unless this is or was a recipient, or means anybody."""
        if name not in (ANYBODY, ANYBODY_KNOWN) and not self._records.find("recipient", id=name):
            check_recipient(self._records, name)

    def remove(self, name: str) -> None:
        """Remove a recipient: grants and tokens end; the ledger keeps what they hold."""
        at = written(self.clock())
        with self._doing(f"removed the recipient {name}") as records:
            check_recipient(records, name)
            [kept] = records.find("recipient", id=name)
            records.put(replace(Recipient.of(kept), removed=at).record())
            for kind in ("grant", "token"):
                for each in records.find(kind, of=name):
                    if each.content["revoked"] is None:  # else it keeps the time when it ended
                        end(records, each, at)

    # --- grants ---------------------------------------------------------------------------

    def grant(
        self,
        dataset: str,
        recipient: str,
        *,
        privacy: float | None = None,
        noise: float | None = None,
        purpose: str = "",
        contract: str = "",
        until: str | datetime | None = None,
        round: Iterable[str] = (),
        clip: Mapping[str, tuple[Any, Any]] | None = None,
        against: str = LINEAR,
    ) -> Grant:
        """Permit a recipient a dataset at exactly one of `privacy` and `noise`.

        `purpose` and `contract` state why, `until` ends it; the ledger states them with each copy.
        With `against` "bayes" the level of a privacy is chosen as by `Dataset.release`.

        It replaces what they were granted of this dataset before. ANYBODY makes a public level.

        Raises ApprovalNeeded if it waits for a second person (`Approvals`).
        """
        finish = Finish(frozenset(names_of(round)), clip or {})
        asked = asked_for(privacy=privacy, noise=noise, against=against)
        known = self.vault.dataset(dataset)
        terms = Terms.of(purpose=purpose, contract=contract, until=until)
        made = self._new_grant(known, recipient, asked, terms)
        finish.check(known.frozen.schema)
        made = replace(made, spec=replace(made.spec, finish=finish.counted(known.frozen.schema)))
        [put] = self._put_grants([made], [known], "grant", _terms(dataset, made, [known]))
        return put

    def grant_linked(
        self,
        name: str,
        recipient: str,
        *,
        privacy: float | None = None,
        noise: float | None = None,
        purpose: str = "",
        contract: str = "",
        until: str | datetime | None = None,
        against: str = LINEAR,
    ) -> list[Grant]:
        """Permit a recipient all of some linked tables at one level, as `grant` does for one."""
        linked = self.vault.linked(name)
        level = linked.level_of(asked_for(privacy=privacy, noise=noise, against=against))
        tables = list(linked.tables.values())
        terms = Terms.of(purpose=purpose, contract=contract, until=until)
        made = [self._new_grant(each, recipient, level, terms) for each in tables]
        return self._put_grants(made, tables, "grant", _terms(name, made[0], tables))

    def _put_grants(
        self,
        made: Sequence[Grant],
        datasets: Sequence[Dataset],
        verb: str,
        terms: str,
        *,
        answer: Request | None = None,
    ) -> list[Grant]:
        """Write grants, and the request that they answer; below the option's privacy, propose them.

        Raises ApprovalNeeded for what waits.
        """
        hides = min(d.privacy_of(g.spec.level) for d, g in zip(datasets, made, strict=True))
        with self._records.together() as records:
            check_may(records, self.vault.who, OWNER if answer is None else APPROVER)
            if answer is not None:
                open_request(records, answer.id)  # someone else may have answered meanwhile
            below = below_in(records)
            if below is None or hides >= below:
                records.note(f"{verb.removesuffix('e')}ed {terms}")
                put = [put_grant(records, each, written(self.clock())) for each in made]
                if answer is not None:
                    records.put(answer.record())
                return put
            waits = propose(
                records,
                self.vault.who,
                f"{verb} {terms}",
                datasets=[each.dataset for each in made],
                grants=[asdict(each.record()) for each in made],
                request=answer.id if answer else "",
                answer=answer.answer if answer else "",
            )
        raise needed(waits)

    def _new_grant(
        self, known: Dataset, recipient: str, asked: Level | Privacy, terms: Terms
    ) -> Grant:
        """Return a grant that is not written yet. Raises NoSuchRecipient, LevelError."""
        if recipient not in (ANYBODY, ANYBODY_KNOWN):
            check_recipient(self._records, recipient)
        terms.check_ahead(self.clock(), "a grant")
        return Grant(new_id(), known.id, recipient, CopySpec(known.level_of(asked)), "", terms)

    def revoke(self, dataset: str, recipient: str) -> None:
        """End what a recipient may fetch of a dataset, or of all linked tables of a name, at once.

        Raises NoSuchRecipient.
        """
        vault = self.vault
        linked = vault.linked(dataset).tables.values() if vault.has_linked(dataset) else ()
        ids = [each.id for each in linked] or [vault.dataset(dataset).id]
        with self._doing(f"revoked {dataset} from {recipient}") as records:
            ended = [end_grants(records, id, recipient, written(self.clock())) for id in ids]
            if not any(ended):
                raise NoSuchRecipient(f"{recipient!r} may fetch nothing of {dataset!r}")

    def grants(
        self, *, dataset: str | None = None, recipient: str | Sequence[str] | None = None
    ) -> list[Grant]:
        """Return grants, ended ones too, the oldest first; `dataset` is an id."""
        about = None if dataset is None else [dataset]
        return list(map(Grant.of, self._records.find("grant", of=recipient, about=about)))

    def grant_page(
        self, number: int = 1, *, dataset: str | None = None, recipient: str | None = None
    ) -> Page[Grant]:
        """Return a page of these grants, the newest first."""
        about = None if dataset is None else [dataset]
        found = self._records.page("grant", of=recipient, about=about, number=number)
        return found.of(Grant.of)

    def permitted(self, recipient: str | None) -> dict[str, Grant]:
        """Return what someone may fetch of each dataset, by its id: the least noisy level.

        `recipient` is None for those without a token, who may have what is public. What is
        granted to anybody is held by those who fetch it.
        """
        at = self.clock()
        known = recipient is not None and self._may_fetch(recipient, at)
        names = [recipient, ANYBODY_KNOWN, ANYBODY] if recipient and known else [ANYBODY]
        granted = map(Grant.of, self._records.find("grant", of=names))
        live = [each for each in granted if each.state(at) == LIVE]
        best: dict[str, Grant] = {}
        for each in sorted(live, key=lambda each: each.spec.level, reverse=True):
            best[each.dataset] = replace(each, recipient=recipient or ANYBODY)
        return best

    def permitted_by(self, grant: str, recipient: str, token: str) -> Grant | None:
        """Return a grant if it still permits something to a recipient with this token."""
        at = self.clock()
        grants = [Grant.of(each) for each in self._records.find("grant", id=grant)]
        tokens = [Token.of(each) for each in self._records.find("token", id=token)] if token else []
        if not grants or (token and not tokens):
            return None
        states = {each.state(at) for each in grants} | {each.state(at) for each in tokens}
        if states != {LIVE} or not self._may_fetch(recipient, at):
            return None
        return replace(grants[0], recipient=recipient)

    def _may_fetch(self, recipient: str, at: datetime) -> bool:
        """Whether what a recipient may have has not ended for all datasets."""
        known = self._records.find("recipient", id=recipient)
        return not known or not Recipient.of(known[0]).terms.has_ended(at)

    # --- tokens ---------------------------------------------------------------------------

    def new_token(self, recipient: str, *, days: float) -> str:
        """Return a new token for a recipient, which is never shown again.

        Of more than LIVE_TOKENS live ones the oldest ends. Raises VaultError for a term that
        is not between 0 and MOST_DAYS days.
        """
        if not 0 < days <= MOST_DAYS:
            raise VaultError(f"a token lasts more than 0 and at most {MOST_DAYS} days")
        id, secret, at = new_id(), secrets.token_bytes(SECRET_BYTES), self.clock()
        content = {
            "mac": mac_of(self._secret, id, secret),
            "expires": written(at + timedelta(days=days)),
            "revoked": None,
        }
        with self._doing(f"made the token {id} for {recipient}") as records:
            check_recipient(records, recipient)
            known = records.find("token", of=recipient)
            live = [each for each in known if Token.of(each).state(at) == LIVE]
            for old in live[: len(live) - LIVE_TOKENS + 1]:
                end(records, old, written(at))
            records.put(Record("token", id, recipient, written(at), content))
        return token_text(id, secret)

    def tokens(self, recipient: str | Sequence[str]) -> list[Token]:
        """Return the tokens of a recipient, or of several, the oldest first."""
        return [Token.of(each) for each in self._records.find("token", of=recipient)]

    def end_token(self, recipient: str, token: str) -> None:
        """End a token, given by its id, at once. Raises VaultError if there is none."""
        with self._doing(f"ended the token {token} of {recipient}") as records:
            known = [each for each in records.find("token", id=token) if each.of == recipient]
            if not known:
                raise VaultError(f"{recipient!r} has no such token")
            end(records, known[0], written(self.clock()))

    def last_used(self, tokens: Iterable[Token]) -> dict[str, str]:
        """Return when tokens, by their ids, were used last, those that were used."""
        holders = {each.holder: each.id for each in tokens}
        used = self._records.last_accesses(holders)
        return {holders[holder]: at for holder, at in used.items()}

    def bearer(self, text: str) -> Token:
        """Return the live token that a text is. Raises AccessDenied, without a reason."""
        id, secret = token_parts(text)
        known = self._records.find("token", id=id) if id else []
        mac = known[0].content["mac"] if known else "-"
        fits = hmac.compare_digest(mac, mac_of(self._secret, id, secret))
        is_live = known and Token.of(known[0]).state(self.clock()) == LIVE
        if not fits or not is_live or not self._may_fetch(known[0].of, self.clock()):
            raise AccessDenied("this token is unknown, has expired or was revoked")
        if known[0].of in RESERVED:  # earlier versions had tokens of the owner, who fetches nothing
            raise AccessDenied("this token is unknown, has expired or was revoked")
        return Token.of(known[0])

    # --- requests -------------------------------------------------------------------------

    def ask(self, recipient: str, dataset: str, *, privacy: float, reason: str = "") -> Request:
        """Record that a recipient asks for a dataset at a privacy, whether or not it is there.

        It may be the name of linked tables, or of one of them: either is a request for all of them.
        Raises TooManyRequests if as many as MOST_OPEN wait for an answer.
        """
        share, name = Privacy(privacy).share, short(dataset)
        # by the heads, which take as long whether it is there or not; the vault's own has no name
        heads = self.vault.heads()
        of_tables = [head for name, head in heads.items() if name.rpartition(".")[0] == dataset]
        known = heads.get(dataset, *of_tables[:1]) if dataset else ""
        id = (known or "").partition(":")[0]
        made = Request(new_id(), id, name, recipient, share, short(reason), written(self.clock()))
        with self._records.together() as records:
            check_recipient(records, recipient)
            earlier = map(Request.of, records.find("request", of=recipient))
            if sum(each.state == OPEN for each in earlier) >= MOST_OPEN:
                raise TooManyRequests(f"{MOST_OPEN} of your requests wait for an answer already")
            records.put(made.record())
        return made

    def requests(
        self,
        *,
        dataset: str | None = None,
        recipient: str | None = None,
        state: str | None = None,
    ) -> list[Request]:
        """Return requests, the oldest first; `dataset` is an id."""
        if dataset is None:
            every = map(Request.of, self._records.find("request", of=recipient))
            return [each for each in every if state in (None, each.state)]
        about = _request_abouts([dataset], state)
        return list(map(Request.of, self._records.find("request", of=recipient, about=about)))

    def open_requests(self) -> dict[str, int]:
        """Return how many requests wait for an answer, by the id of their dataset."""
        found = self._records.tally("request").items()
        parts = [(*about.partition(" ")[::2], count) for about, count in found]
        return {dataset: count for state, dataset, count in parts if state == OPEN}

    def request_page(
        self,
        number: int = 1,
        *,
        datasets: Collection[str] | None = None,
        recipient: str | None = None,
        state: str | Sequence[str] | None = None,
    ) -> Page[Request]:
        """Return a page of these requests, the newest first; `datasets` are ids."""
        about = None if datasets is None else _request_abouts(datasets, state)
        found = self._records.page("request", of=recipient, about=about, number=number)
        return found.of(Request.of)

    def answer(
        self,
        request: str,
        *,
        privacy: float | None = None,
        contract: str = "",
        until: str | datetime | None = None,
        decline: bool = False,
        words: str = "",
    ) -> Request:
        """Approve an open request, at another privacy if one is given, or decline it.

        `request` is its id. Rounding, clipping and the end of what the recipient was granted
        before stay, unless there is another end; its purpose is what they asked for. Raises
        VaultError if it was answered already, ApprovalNeeded if it waits for a second person.
        """
        asked = self.open_request(request)
        done = replace(asked, state=DECLINED if decline else APPROVED, answer=short(words))
        about = f"the request {asked.id} of {asked.recipient} for {asked.name}"
        if decline:
            with self._doing(f"declined {about}", role=APPROVER) as records:
                open_request(records, request)  # someone else may have answered meanwhile
                records.put(done.record())
            return done
        terms_asked = Terms.of(purpose=asked.reason, contract=contract, until=until)
        datasets, grants = self.requested(asked), self._approval(asked, privacy, terms_asked)
        terms = f"{about} at privacy {asked.privacy if privacy is None else privacy:g}"
        self._put_grants(grants, datasets, "approve", terms, answer=done)
        return done

    def _approval(self, asked: Request, privacy: float | None, terms: Terms) -> list[Grant]:
        level = _level_asked(asked, self.requested(asked), privacy)
        made = []
        for each in self.requested(asked):
            grant = self._new_grant(each, asked.recipient, level, terms)
            for old in self.grants(dataset=each.id, recipient=asked.recipient):
                if old.state(self.clock()) == LIVE:
                    spec = replace(grant.spec, finish=old.spec.finish)
                    grant = replace(grant, spec=spec, terms=grant.terms.beside(old.terms))
            made.append(grant)
        return made

    def open_request(self, request: str) -> Request:
        """Return a request that waits for an answer, given by its id. Raises VaultError."""
        return open_request(self._records, request)

    def requested(self, request: Request) -> list[Dataset]:
        """Return the dataset that a request is for, or all tables that it is linked with.

        Raises NoSuchDataset.
        """
        if not request.dataset:
            raise NoSuchDataset(f"there was no dataset {request.name!r} when they asked for it")
        states = self.vault.states([request.dataset])
        if not states:
            raise NoSuchDataset(f"dataset {request.name!r} is not registered any more")
        dataset = self.vault.dataset(states[request.dataset].name)
        if dataset.frozen.family is None:
            return [dataset]
        return list(self.vault.linked(dataset.name.rpartition(".")[0]).tables.values())

    def foreseen(self, request: Request, *, privacy: float | None = None) -> list[Foreseen]:
        """Return what stays hidden from coalitions now, and if a request were approved.

        First the recipient alone, then with each holder, then all together. Raises LevelError for
        a privacy that no copy reaches.
        """
        return self._foreseen(request, Holders.of(self.requested(request)), privacy)

    def _foreseen(self, asked: Request, holders: Holders, privacy: float | None) -> list[Foreseen]:
        level = _level_asked(asked, holders.datasets, privacy)
        return list(holders.foreseen(asked.recipient, level))

    def waiting(
        self,
        *,
        datasets: Collection[str] | None = None,
        answered: bool = False,
        privacy: float | None = None,
    ) -> list[Waiting]:
        """Return open requests with what approving them would change; `answered` ones too if asked.

        `datasets` are ids. With `privacy`, what approving them at that privacy would change.
        """
        every = self.requests(state=None if answered else OPEN)
        wanted = [each for each in every if datasets is None or each.dataset in datasets]
        return self._all_waiting(wanted, privacy)

    def waiting_page(self, number: int = 1, *, datasets: Collection[str]) -> Page[Waiting]:
        """Return a page of open requests with what approving them would change, newest first."""
        found = self.request_page(number, datasets=datasets, state=OPEN)
        return Page(self._all_waiting(found.items, None), found.number, found.total)

    def _all_waiting(self, every: Sequence[Request], privacy: float | None) -> list[Waiting]:
        """Return requests with what approving each would change; each dataset is read once."""
        holders: dict[str, Holders] = {}

        def waiting(asked: Request) -> Waiting:
            if asked.state != OPEN:
                return Waiting(asked)
            try:
                if asked.dataset not in holders:
                    holders[asked.dataset] = Holders.of(self.requested(asked))
                coalitions = self._foreseen(asked, holders[asked.dataset], privacy)
                return Waiting(asked, tuple(coalitions))
            except (LevelError, NoSuchDataset) as error:
                return Waiting(asked, refusal=str(error))

        return [waiting(each) for each in every]

    # --- the rest -------------------------------------------------------------------------

    def log(self, lines: Iterable[Access]) -> None:
        """Append to the access log."""
        self._records.log(lines)

    def accesses(self, most: int | None = None, *, who: str = "") -> list[Access]:
        """Return the access log, the newest first; `who` is a part of a name, in any case."""
        if not who:
            return self._records.accesses(most=most)
        names = [name for name in self._records.visitors() if who.casefold() in name.casefold()]
        lines = (line for name in names for line in self._records.accesses(who=name, most=most))
        return sorted(lines, key=lambda line: line.at, reverse=True)[:most]


def _level_asked(asked: Request, datasets: Iterable[Dataset], privacy: float | None) -> Level:
    """Return the least level at which all that is asked for has the privacy."""
    share = Privacy(asked.privacy if privacy is None else privacy)
    return max(each.level_of(share) for each in datasets)


def _terms(name: str, made: Grant, datasets: Iterable[Dataset]) -> str:
    """Return what a grant permits of some datasets, in words."""
    hides = min(each.privacy_of(made.spec.level) for each in datasets)
    return f"{name} to {made.recipient} at privacy {hides:g}{_noted(made.terms)}"


def _request_abouts(datasets: Iterable[str], state: str | Sequence[str] | None) -> list[str]:
    """Return by what requests for some datasets, of some states or of any, are looked up."""
    states = STATES if state is None else [state] if isinstance(state, str) else state
    return [request_about(each, dataset) for dataset in datasets for each in states]


def _noted(terms: Terms) -> str:
    """Return terms in words, to be added to what an owner did."""
    return f", {terms.in_words}" if terms else ""
