"""Takes the pictures of the page in docs/: `make screenshots`. `screenshots.py UNSPOKEN`."""

from __future__ import annotations

import sys
from pathlib import Path

from browser import ROOT, ask, chromium, draw, page_service, prepare


def main() -> None:
    """A picture of the page on a wide screen with all answers, and one of the three parties on a phone."""
    binary = Path(sys.argv[1]).resolve()
    with page_service(binary, *prepare(binary)) as url, chromium() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 800}, reduced_motion="reduce")
        page.goto(url)
        page.locator("#status", has_text="Connected").wait_for()
        cards = {kind: page.locator(f"article[data-kind={kind}]") for kind in ("digits", "classify", "retrieve")}
        draw(page, cards["digits"])
        for card in cards.values():
            print(ask(card).replace("\n", " "))
        page.screenshot(path=ROOT / "docs" / "page.png", full_page=True)
        phone = browser.new_page(viewport={"width": 360, "height": 740}, device_scale_factor=2, reduced_motion="reduce")
        phone.goto(url)
        phone.locator("#status", has_text="Connected").wait_for()
        card = phone.locator("article[data-kind=digits]")
        draw(phone, card)
        print(ask(card).replace("\n", " "))
        phone.locator("#parties").evaluate("parties => parties.scrollIntoView()")
        phone.screenshot(path=ROOT / "docs" / "page-phone.png")


if __name__ == "__main__":
    main()
