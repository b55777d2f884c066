"""The process of the HTTP interface with the page: ``python -m lycosa.page.process FD``."""

from __future__ import annotations

from lycosa.api.process import run_api
from lycosa.page.mount import add_page

if __name__ == "__main__":
    run_api(add_page)
