"""The kernel's side of the JupyterLab plug-in, for a panel beside the notebook; no training."""
