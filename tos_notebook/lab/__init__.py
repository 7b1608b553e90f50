"""The kernel's side of the JupyterLab plugin, for a panel next to the notebook; no training."""
