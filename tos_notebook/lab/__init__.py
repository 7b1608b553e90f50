"""The kernel's side of the JupyterLab plug-in: its runs, for a panel beside the notebook."""
