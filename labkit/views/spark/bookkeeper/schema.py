"""The columns of a query: all of them, or those that the user's schema names."""

from pyspark.sql.types import StructType

from labkit.views.spark.bookkeeper.columns import ENTRY_COLUMNS, MAY_BE_NULL, MESSAGE_COLUMNS
from labkit.views.spark.bookkeeper.options import OptionError, Options


def columns_of(options: Options) -> dict[str, str]:
    """All columns of the query: name -> type."""
    return MESSAGE_COLUMNS if options.topic else ENTRY_COLUMNS


def check_schema(schema: StructType, options: Options) -> None:
    """Check a user's schema: it selects columns, and can neither add others nor change their types.

    Raises `OptionError`.
    """
    columns = columns_of(options)
    if not schema.fields:
        raise OptionError(f"schema: it names no column; there are {', '.join(columns)}")
    for field in schema.fields:
        kind = columns.get(field.name)
        if kind is None:
            raise OptionError(
                f"schema: there is no column '{field.name}'; there are {', '.join(columns)}"
            )
        given = field.dataType.simpleString()
        if given != kind and (given, kind) != ("timestamp", "timestamp_ltz"):
            raise OptionError(f"schema: column '{field.name}' has the type {kind}")
        # Spark trusts "not null", and answers `is null` without a look at the rows.
        if options.topic and not field.nullable and field.name in MAY_BE_NULL:
            raise OptionError(f"schema: column '{field.name}' may be null; omit 'not null'")
