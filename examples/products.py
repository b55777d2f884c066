"""Collects products of a shop into a CSV file, with several worker processes.

    python examples/products.py https://shop.example/ products.csv

A page of a product is one whose URL has ``/product/`` in it; name and price come from its microdata
(``itemprop``). Run it again to resume, also after a crash: the folder ``products`` keeps the crawl,
and the file is made from all pages that are stored, each URL once, newest last.
"""

from __future__ import annotations

import asyncio
import csv
import re
import sys
from pathlib import Path

import lycosa

FIELD = re.compile(r'itemprop="(name|price)"[^>]*?(?:content="([^"]*)"|>([^<]*)<)')


def shop_only(found: lycosa.Discovered) -> lycosa.Refusal | None:
    """A rule: leave the basket and the search alone."""
    if "/basket" in found.url or "?q=" in found.url:
        return lycosa.Refusal(lycosa.Reason.USER_RULE, "shop_only", found.url)
    return None


def product_of(page: lycosa.Page) -> dict[str, str]:
    """Name and price of a page, as far as it has them."""
    return {name: content or text for name, content, text in FIELD.findall(page.body_text)}


async def collect(seed: str, folder: str, config: lycosa.Config) -> dict[str, dict[str, str]]:
    """All products by URL. The crawl runs meanwhile."""
    products = {}
    crawl = lycosa.Crawl([seed], folder, config, rules=[shop_only])
    async for page in crawl.pages():
        if page.status == 200 and "/product/" in page.url:
            products[page.url] = product_of(page)
    return products


def main(seed: str, file: str, **values: object) -> None:
    """Crawl from the seed, and write the file."""
    config = lycosa.settings({"agent.contact": "you@example.org", "workers": 2, **values})
    products = asyncio.run(collect(seed, "products", config))
    with Path(file).open("w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, ["url", "name", "price"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({"url": url, **fields} for url, fields in sorted(products.items()))
    print(len(products), "products in", file)


if __name__ == "__main__":
    main(*sys.argv[1:3])
