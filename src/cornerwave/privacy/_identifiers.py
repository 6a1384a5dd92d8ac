"""Whether a column is called like an identifier: id, recid, persnum, household_id, obsno."""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


THINGS = _words("""
    account acct ad case cell child class client clinic cluster community comp company cow customer
    cust dist district dog emp employee fam family farm firm hh hosp hospital house household ind
    indiv individual int interview litter member mom mother mouse obs order pair participant pat
    patient pers person pig player plot prof prov provider pt pupil rat rec record resp respond
    respondent sch school site stu student sub subj subject teacher team tree twin unit user usubj
    visitor woman worker
""")
"""What tables have several rows of, as names of columns begin."""
ALONE = _words("""
    id ids uid uuid guid pid nr idcode ivid hid stratum cow dog family firm household individual
    litter mom mouse participant patient person pig plot pupil rat respondent student subject tree
    usubjid
""")
"""Words that name a thing by themselves."""
GIVEN = ("id", "ident", "num", "no", "nr", "number", "code")
"""How names of numbers that were given out end."""

_THING = re.compile(rf"({'|'.join(sorted(THINGS, key=len, reverse=True))})s?")


def names_a_thing(name: str) -> bool:
    """Whether a column is called like an identifier of people or things.

    >>> [names_a_thing(n) for n in ("recid", "persnum", "Subject", "schoolNR", "Ketchup.hid")]
    [True, True, True, True, True]
    >>> [names_a_thing(n) for n in ("paid", "valid", "number", "num_children", "hit", "weight")]
    [False, False, False, False, False, False]
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = [word for word in re.split(r"[\W\d_]+", apart.lower()) if word]
    if not words:
        return False
    if words[-1] in ALONE or words[0] in ("id", "ids"):
        return True
    whole = "".join(words)
    for end in GIVEN:
        start = whole.removesuffix(end)
        if start != whole and _THING.fullmatch(start):
            return True
    # a word before the thing, as in mother_person_no
    return len(words) > 1 and any(
        (rest := words[-1].removesuffix(end)) != words[-1] and bool(_THING.fullmatch(rest))
        for end in GIVEN
    )
