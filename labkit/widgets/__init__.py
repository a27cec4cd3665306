"""Pictures drawn from the trace: each a widget for JupyterLab, and a still picture of the same."""

from labkit.widgets.cluster_view import ClusterView

__all__ = ["ClusterView"]
