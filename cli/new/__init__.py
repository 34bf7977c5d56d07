"""``jobcommon new``: a package of its own for a framework, from the templates beside this module."""

from jobcommon.cli.new.chart import chart_files
from jobcommon.cli.new.package import Package, write

__all__ = ["Package", "chart_files", "write"]
