"""The HTTP interface with the page: ``python -m lycosa.service.page.page_process FD``."""

from __future__ import annotations

from lycosa.service.api.api_process import run_api
from lycosa.service.page.mount import add_page

if __name__ == "__main__":
    run_api(add_page)
