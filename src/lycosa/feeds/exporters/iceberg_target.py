"""Exports to an Apache Iceberg table: Parquet files that are added to it (``add_files``).

A commit of the table has the files and, as one of its properties, the position. The catalogue
refuses a commit whose table has changed since it was read, so of two exporters one is refused, and
finds the position moved. What a killed exporter wrote and did not commit belongs to no snapshot;
Iceberg's removal of orphan files deletes it.

The catalogue is one of those in ``.pyiceberg.yaml`` or ``PYICEBERG_CATALOG__...``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError, ValidationError
from pyiceberg.table import Table, TableProperties

from lycosa.feeds.export_port import (
    Batch,
    ExportRow,
    ExportTable,
    Overtaken,
    TargetAway,
    TargetError,
)
from lycosa.feeds.exporters.row_tables import arrow_schema, arrow_table


class IcebergTarget:
    """A table as an ``Exporter``; ``address`` is ``[CATALOGUE/]NAMESPACE.TABLE``."""

    batch = Batch(rows=100_000, bytes=64_000_000, seconds=300.0)

    def __init__(self, address: str, table: ExportTable, crawl: str) -> None:
        catalogue, _, named = address.rpartition("/")
        if "." not in named:
            raise TargetError(f"{address!r} is not of the form [CATALOGUE/]NAMESPACE.TABLE")
        self._catalogue, self._named, self._rows = catalogue or "default", named, table
        self._property = f"lycosa.position.{crawl}.{table.name}"
        self._source: Catalog | None = None
        self._table: Table | None = None

    @property
    def name(self) -> str:
        return f"the Iceberg table {self._named} of the catalogue {self._catalogue}"

    def open(self) -> str:
        """See ``Exporter``."""
        self.close()
        with self._translated():
            self._source = load_catalog(self._catalogue)
            self._table = self._opened(self._source)
        self._add_columns(self._table)
        return self._stored()

    def _opened(self, catalogue: Catalog) -> Table:
        try:
            return catalogue.load_table(self._named)
        except NoSuchTableError:
            catalogue.create_namespace_if_not_exists(self._named.rpartition(".")[0])
            return catalogue.create_table_if_not_exists(
                self._named, schema=arrow_schema(self._rows)
            )

    def _add_columns(self, table: Table) -> None:
        """Columns of a later version of an extractor; none is ever dropped."""
        with self._translated():
            if set(self._rows.names) - set(table.schema().column_names):
                with table.update_schema() as update:
                    update.union_by_name(arrow_schema(self._rows))

    def _stored(self) -> str:
        assert self._table is not None, "the table is not open"
        return str(self._table.properties.get(self._property, ""))

    def write(self, rows: Sequence[ExportRow], before: str, after: str) -> None:
        """See ``Exporter``: one commit of the table."""
        table = self._table
        assert table is not None, "the table is not open"
        with self._translated():
            table.refresh()
            if self._stored() != before:
                raise Overtaken
            path = f"{table.location()}/data/lycosa-{uuid.uuid4()}.parquet"
            with table.io.new_output(path).create() as file:
                pq.write_table(arrow_table(self._rows, rows), file, compression="zstd")
            try:
                with _without_retries(table).transaction() as transaction:
                    transaction.set_properties({self._property: after})
                    # The name is new, so the files of the table need not be searched for it.
                    transaction.add_files([path], check_duplicate_files=False)
            except CommitFailedException:
                # Another exporter, or a compaction: the position says which when it is read again.
                table.io.delete(path)
                raise Overtaken from None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (ConnectionError, TimeoutError, RESTError) as error:
            raise TargetAway(f"{self.name}: {error}") from error
        except (ValueError, ValidationError) as error:
            raise TargetError(f"{self.name}: {error}") from error

    def close(self) -> None:
        """See ``Exporter``."""
        if self._source is not None:
            self._source.close()  # the catalogue of a database has connections
        self._source = self._table = None


def _without_retries(table: Table) -> Table:
    """The same table; its commit fails at the first conflict.

    PyIceberg repeats a commit of appended files on what another writer has made of the table, which
    is right for rows that only one writer has. Here another exporter may have committed the same.
    """
    properties = {**table.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
