"""A certificate as text, as JSON and as a page in Markdown. Ids and times are left out, so that two pages compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

from lakesweep.certify.promise import Finding, PromiseVerdict
from lakesweep.certify.suite import Certificate, Fitness

__all__ = ["certificate_json", "certificate_markdown", "finding_line", "summary_lines"]

_SIGNS = {
    PromiseVerdict.KEPT: "kept",
    PromiseVerdict.BROKEN: "BROKEN",
    PromiseVerdict.NOT_OFFERED: "not offered",
    PromiseVerdict.NOT_DECIDED: "not decided",
}
_FITNESS = {
    Fitness.FIT: "Every promise that a collector needs is kept.",
    Fitness.UNFIT: "A promise that a collector needs is not kept: do not collect on this server.",
    Fitness.NOT_KNOWN: "A promise that a collector needs could not be tried.",
}


def finding_line(finding: Finding) -> str:
    """One finding for people, with its meaning where it is not kept."""
    mark = "*" if finding.is_needed else " "
    line = f"{_SIGNS[finding.verdict]:<12}{mark} {finding.subject}: {finding.name}"
    if finding.verdict is PromiseVerdict.KEPT:
        return line
    return f"{line}\n{'':14}{finding.seen}\n{'':14}{finding.meaning}"


def summary_lines(certificate: Certificate) -> Iterator[str]:
    """The last lines for people: the sum, and what is left behind."""
    yield f"{_counted(certificate)} (* needed by a collector). {_FITNESS[certificate.fitness]}"
    for left in certificate.left_behind:
        yield f"left behind: {left}"


def certificate_json(certificate: Certificate) -> dict[str, object]:
    """The certificate for programs."""
    profile = certificate.profile
    return {
        "schema": "lakesweep.certificate/1",
        "server": {
            "url": certificate.url,
            "version": profile.version,
            "blockstore_type": profile.blockstore_type,
            "is_embedded": profile.is_embedded,
        },
        "rounds": certificate.rounds,
        "seed": certificate.seed,
        "fitness": certificate.fitness,
        "promises": [asdict(finding) for finding in certificate.findings],
        "left_behind": list(certificate.left_behind),
    }


def certificate_markdown(certificate: Certificate) -> str:
    """The certificate as a page."""
    profile = certificate.profile
    kind = "the embedded lake" if profile.is_embedded else "lakeFS"
    lines = [
        f"# Certificate of {kind}, {profile.version}",
        "",
        f"Written by `lakesweep certify`: data in {profile.blockstore_type}, {certificate.rounds} rounds of each race, "
        f"seed {certificate.seed}.",
        "",
        f"**{_FITNESS[certificate.fitness]}** {_counted(certificate)}. Those with a star are needed.",
    ]
    for subject, group in groupby(certificate.findings, key=lambda finding: finding.subject):
        lines += ["", f"## {subject.capitalize()}", ""]
        lines += ["| promise | verdict | what was done | what was seen | for a collector |"]
        lines += ["| --- | --- | --- | --- | --- |"]
        for finding in group:
            star = " \\*" if finding.is_needed else ""
            verdict = (
                finding.verdict
                if finding.verdict is PromiseVerdict.KEPT
                else f"**{finding.verdict}**"
            )
            cells = (f"{finding.name}{star}", verdict, finding.done, finding.seen, finding.meaning)
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    for left in certificate.left_behind:
        lines += ["", f"Left behind: {left}."]
    return "\n".join(lines) + "\n"


def _counted(certificate: Certificate) -> str:
    counts = Counter(finding.verdict for finding in certificate.findings)
    told = ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in PromiseVerdict if counts[verdict]
    )
    return f"{len(certificate.findings)} promises: {told}"
