"""Whether what was printed is what a page shows, as far as the page promises."""

from __future__ import annotations

import re

NUMBER = re.compile(r"\d[\d,]*\.?\d*")
ACCURACY = 0.1
SHARE = 0.5
"""By how much filters, MACs, their share and bytes may differ elsewhere."""
COUNTED = ("conv", "network", "folder", "On disk")
"""How lines begin whose whole numbers depend on which filters stay."""


def differences(shown: str, printed: str) -> list[str]:
    """Lines of ``shown`` that ``printed`` does not have, within the promise."""
    missing, remaining = [], printed.splitlines()
    for line in filter(None, shown.splitlines()):
        place = next((i for i, other in enumerate(remaining) if close(line, other)), None)
        if place is None:
            missing.append(line)
        else:
            remaining = remaining[place + 1 :]  # in this order
    return missing


def close(shown: str, printed: str) -> bool:
    """Whether two lines say the same: the words, and numbers as far as they are promised."""
    words = [" ".join(NUMBER.sub("#", line).replace("%", " %").split()) for line in (shown, printed)]
    if words[0] != words[1]:
        return False
    vague = shown.strip().startswith(COUNTED)
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(_close(a.rstrip(".,"), b.rstrip(".,"), vague) for a, b in pairs)


def _close(shown: str, printed: str, vague: bool) -> bool:
    a, b = float(shown.replace(",", "")), float(printed.replace(",", ""))
    if "." in shown:
        return abs(a - b) <= (ACCURACY if a <= 1 else SHARE * a)
    if vague or "," in shown:
        return abs(a - b) <= max(SHARE * a, 8)
    return a == b
