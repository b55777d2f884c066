"""Sites and public suffixes against the library that reads the list in its own way."""

from __future__ import annotations

import publicsuffixlist

from lycosa.base.urls.sites import BUNDLED_LIST, Sites


def test_the_list_means_what_it_means_when_the_library_encodes_its_rules() -> None:
    lines = BUNDLED_LIST.read_text("utf-8").splitlines()
    everything, registries = (
        publicsuffixlist.PublicSuffixList(lines),
        publicsuffixlist.PublicSuffixList(lines, only_icann=True),
    )
    rules = {
        line.split()[0].lstrip("!").replace("*", "any")
        for line in lines
        if line.strip() and not line.startswith("//")
    }
    encoded = {publicsuffixlist.encode_idn(rule) for rule in rules}
    sites = Sites()
    assert len(encoded - rules) > 100, "rules that are not ASCII"
    for name in [
        f"{more}{rule}" for rule in sorted(rules | encoded) for more in ("", "a.", "b.a.")
    ]:
        assert sites.public_suffixes(name) == (
            registries.publicsuffix(name),
            everything.publicsuffix(name),
        ), name
        assert sites.site_of(name) == (everything.privatesuffix(name) or name), name
